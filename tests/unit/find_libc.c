// SPDX-License-Identifier: MIT
// What each layout source finds, one line of JSON for each: in an ELF file (no process needed, so any architecture's), in
// a process, or in a core. tests/inspector/test_libc.py holds the lines against each other.
//     find_libc file FILE ROOT       ROOT: where debug files are searched for, "" is our own root
//     find_libc target PID|CORE
#include "support/file_libc.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// How many system calls of this process have read something, files and memory: what a lookup costs, on any machine. -1: the kernel
// does not count them.
static long reads(void)
{
    char text[512];
    int fd = open("/proc/self/io", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length < 0 ? 0 : length] = '\0';
    const char *line = strstr(text, "syscr: ");
    return line ? strtol(line + strlen("syscr: "), NULL, 10) : -1;
}

static void print_libc(const struct as_libc *libc, const char *path)
{
    const struct as_layout *l = &libc->layout;
    const struct as_state_layout *s = &l->state;
    const struct as_par_layout *p = &l->par;
    const struct as_heap_layout *h = &l->heap;
    printf("{\"path\": \"%s\", \"source\": \"%s\", \"version\": \"%s\", \"build_id\": \"%s\", \"versions\": \"%s\", "
           "\"layout_source\": \"%s\", \"proven\": %d, \"started\": %d, ",
           path, as_layout_source_name(libc->source), libc->version, libc->build_id, l->versions, l->source,
           libc->proven, libc->started);
    printf("\"base\": %" PRIu64 ", \"main_arena\": %" PRIu64 ", \"mp\": %" PRIu64 ", \"tls\": [%" PRId64 ", %" PRId64
           "], ",
           libc->base, libc->main_arena, libc->mp, (int64_t)libc->tls_tcache, (int64_t)libc->tls_thread_arena);
    printf("\"malloc_code\": [%" PRIu64 ", %" PRIu64 "], \"code\": [%" PRIu64 ", %" PRIu64 "], ", libc->malloc_start,
           libc->malloc_end, libc->code_start, libc->code_end);
    printf("\"state\": [%d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d], ", s->size, s->mutex, s->flags,
           s->have_fastchunks, s->fastbins, s->fastbin_count, s->top, s->bins, s->binmap, s->next, s->next_free,
           s->attached_threads, s->system_mem, s->max_system_mem);
    printf("\"par\": [%d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d, %d], ", p->size, p->trim_threshold,
           p->top_pad, p->mmap_threshold, p->arena_test, p->arena_max, p->thp_pagesize, p->hp_pagesize, p->n_mmaps,
           p->n_mmaps_max, p->no_dyn_threshold, p->mmapped_mem, p->sbrk_base, p->tcache_bins, p->tcache_max_bytes,
           p->tcache_count);
    printf("\"heap\": [%d, %d, %d, %d, %d, %d, %d, %d, %d]}", h->heap_info_size, h->heap_pagesize, h->tcache_size,
           h->tcache_bins, h->tcache_count_size, h->tcache_entries, h->tcache_counts_down, h->safe_linking,
           h->mmap_extra);
}

static int from_file(const char *path, const char *root)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (enum as_layout_source source = AS_LAYOUT_DWARF; source < AS_LAYOUT_SCAN; source++) {
        struct as_libc libc;
        struct as_error err;
        if (as_libc_from_file(fd, 1u << source, root, &libc, &err)) {
            print_libc(&libc, path);
            putchar('\n');
        }
    }
    close(fd);
    return 0;
}

static int from_target(const char *name)
{
    struct as_error err;
    char *end;
    pid_t pid = (pid_t)strtol(name, &end, 10);
    struct as_target *t = *end ? as_target_open_core(name, &err) : as_target_open_process(pid, &err);
    if (!t) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        return (int)err.code;
    }
    // First everything that is allowed by default, then each source alone, 0 being the default.
    for (unsigned source = 0; source <= AS_LAYOUT_SCAN; source++) {
        struct as_malloc malloc;
        long before = reads();
        if (!as_malloc_find(t, source ? 1u << source : AS_LAYOUT_ANY, &malloc, &err)) {
            fprintf(stderr, "%s: %s\n", name, err.text);
            as_target_close(t);
            return (int)err.code;
        }
        long after = reads();
        printf("{\"allowed\": \"%s\", \"kind\": \"%s\", \"detail\": \"%s\", \"reads\": %ld, \"libcs\": [",
               source ? as_layout_source_name((enum as_layout_source)source) : "any", as_malloc_kind_name(malloc.kind),
               malloc.detail, before < 0 ? -1 : after - before);
        for (size_t i = 0; i < malloc.libcs.count; i++) {
            fputs(i ? ", " : "", stdout);
            print_libc(&malloc.libcs.items[i], as_strings_at(&t->strings, malloc.libcs.items[i].path));
        }
        puts("]}");
        as_malloc_free(&malloc);
    }
    as_target_close(t);
    return 0;
}

int main(int count, char **arguments)
{
    if (count == 4 && strcmp(arguments[1], "file") == 0)
        return from_file(arguments[2], arguments[3]);
    if (count == 3 && strcmp(arguments[1], "target") == 0)
        return from_target(arguments[2]);
    fprintf(stderr, "find_libc file FILE ROOT | find_libc target PID|CORE\n");
    return AS_USAGE;
}
