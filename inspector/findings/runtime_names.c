// SPDX-License-Identifier: MIT
#include "findings/runtime_names.h"

#include <stddef.h>
#include <string.h>

int as_row_of_malloc(const struct as_view *v)
{
    int row = v->meta->malloc_kind == AS_MALLOC_GO ? AS_ROW_managed : AS_ROW_other_malloc;
    uint64_t located = as_row_value(&v->totals->ledger, row);
    return located == 0 || located == AS_UNKNOWN ? AS_ROW_other_anon : row;
}

const struct as_not_glibc *as_not_glibc_words(const struct as_view *v)
{
    static const struct as_not_glibc other = {
        "The malloc of this process is not glibc's",
        "Its memory is in the rows that are not malloc's; the arenas below are glibc's."};
    static const struct as_not_glibc located = {
        "The malloc of this process is not glibc's",
        "Its memory is in the row \"other malloc\"; the arenas below are glibc's."};
    static const struct as_not_glibc go = {"The malloc of this process is not glibc's",
                                           "Go's heap is in the row \"managed memory\"; the arenas below are glibc's."};
    static const struct as_not_glibc unknown = {
        "It is unknown which malloc this process uses",
        "Memory outside of glibc's arenas is in the rows that are not malloc's."};
    if (v->meta->malloc_kind == AS_MALLOC_GLIBC)
        return NULL;
    if (v->meta->malloc_kind == AS_MALLOC_UNKNOWN)
        return &unknown;
    int row = as_row_of_malloc(v);
    return row == AS_ROW_other_anon ? &other : row == AS_ROW_managed ? &go : &located;
}

const char *as_row_meaning(int row, const struct as_view *v)
{
    bool other = v->meta->malloc_kind != AS_MALLOC_GLIBC && row == AS_ROW_other_anon && as_row_of_malloc(v) == row;
    return other ? "another malloc's, own mmap, GC" : as_row_words[row].meaning;
}

static const struct {
    const char *runtime, *part;
} runtime_names[] = {
#define AS_RUNTIME_NAMES(kind, runtime, part) [kind] = {runtime, part},
#include "model/enums.def"
};

const char *as_runtime_name(uint32_t kind)
{
    return kind < sizeof(runtime_names) / sizeof(runtime_names[0]) ? runtime_names[kind].runtime : NULL;
}

const char *as_runtime_title(const char *name)
{
    static const char *const titles[][2] = {
        {"cpython", "Python"}, {"ruby", "Ruby"},         {"jvm", "Java"},          {"v8", "V8"},
        {"go", "Go"},          {"jemalloc", "jemalloc"}, {"mimalloc", "mimalloc"}, {"tcmalloc", "tcmalloc"},
        {"musl", "musl"},      {"zend", "PHP"},          {"innodb", "InnoDB"},     {"partitionalloc", "PartitionAlloc"},
    };
    for (size_t i = 0; name && i < sizeof titles / sizeof *titles; i++)
        if (strcmp(name, titles[i][0]) == 0)
            return titles[i][1];
    return NULL;
}

const char *as_runtime_part_name(uint32_t kind)
{
    return kind < sizeof(runtime_names) / sizeof(runtime_names[0]) ? runtime_names[kind].part : NULL;
}
