// SPDX-License-Identifier: MIT
// Finds every glibc malloc of a target: asks the sources, the cheapest first, until two agree, and lets none speak whom
// the target's memory does not bear out.
#include "libc/allocators.h"
#include "libc/kept_answers.h"
#include "libc/memory_evidence.h"
#include "target/procfs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LIBCS = 64, MAX_RANGES = 16 };

// Where nothing says which memory is whose: a libc's data is small, and a core may be of any size.
#define MAX_UNNAMED_RANGE ((uint64_t)16 << 20)
#define MAX_UNNAMED_IN_ALL ((uint64_t)512 << 20)

struct finding {
    struct as_target *target;
    struct as_modules modules;
    uint32_t allowed;
    struct as_malloc *out;
    char version[16]; // of the first libc.so.6: libc_malloc_debug.so is of the same build, and has no banner
};

static bool is_allowed(const struct finding *finding, enum as_layout_source source)
{
    return finding->allowed >> source & 1;
}

// Moves an answer from the object's addresses to the target's.
static void relocate(struct as_answer *answer, uint64_t base)
{
    answer->main_arena += base;
    if (answer->mp != AS_UNKNOWN)
        answer->mp += base;
}

// Fills in from memory what the object's file did not show, and chooses the layout by all that is known.
static void complete(struct finding *finding, const struct as_module *module, const struct as_banner *text,
                     struct as_answer *answer)
{
    struct as_target *t = finding->target;
    uint32_t hints[AS_LIVE_HINTS];
    if (answer->source != AS_LAYOUT_DWARF) {
        uint32_t live = as_live_state_rows(t, answer->main_arena) & answer->state_rows;
        answer->state_rows = live ? live : answer->state_rows;
        bool has_tcache = answer->has_tcache;
        live = answer->mp == AS_UNKNOWN
                   ? 0
                   : as_live_par_rows(t, answer->mp, answer->main_arena, answer->state_rows, &has_tcache);
        if (answer->par_rows == 0) {
            answer->par_rows = live;
            answer->has_tcache = has_tcache;
        } else if (live & answer->par_rows) {
            answer->par_rows &= live;
        }
        uint64_t start;
        uint64_t end;
        for (unsigned i = 0; module && answer->mp == AS_UNKNOWN && i < MAX_RANGES &&
                             as_module_writable(&finding->modules, module, i, &start, &end);
             i++)
            as_scan_par(t, start, end, answer);
    }
    // It is compiled without, and what happens to follow its mp_ must not pass for the fields.
    if (module && as_module_is_malloc_debug(module))
        answer->has_tcache = false;
    // A first layout says where to search for the rest.
    as_object_compose(text, NULL, 0, answer);
    size_t count = as_live_hints(t, answer, hints);
    as_object_compose(text, hints, count, answer);
}

// Where malloc's code is in the target.
static void find_code(const struct as_elf *elf, uint64_t base, struct as_kept_answers *kept, struct as_libc *libc)
{
    as_kept_code(kept, elf, libc);
    if (libc->malloc_end == 0)
        return;
    libc->malloc_start += base;
    libc->malloc_end += base;
    libc->code_start += base;
    libc->code_end += base;
}

static void describe_module(struct finding *finding, const struct as_module *module, const struct as_answer *answer,
                            struct as_kept_answers *kept, struct as_libc *libc)
{
    struct as_target *t = finding->target;
    struct as_state_copy copy;
    libc->layout = answer->layout;
    libc->source = answer->source;
    libc->path = module ? t->mappings.items[module->first_mapping].path : 0;
    libc->base = module ? module->base : AS_UNKNOWN;
    libc->main_arena = answer->main_arena;
    libc->mp = answer->mp;
    libc->tls_tcache = AS_UNKNOWN;
    libc->tls_thread_arena = AS_UNKNOWN;
    if (module)
        memcpy(libc->build_id, module->elf.build_id, sizeof libc->build_id);
    if (module)
        find_code(&module->elf, module->base, kept, libc);
    libc->started = as_state_read(t, libc->main_arena, &libc->layout.state, &copy) &&
                    (!as_state_is_initial(&copy, &libc->layout.state) ||
                     as_state_u64(&copy, libc->layout.state.next) != libc->main_arena);
}

static void describe_tls(struct finding *finding, const struct as_module *module, const struct as_answer *answer,
                         struct as_libc *libc)
{
    uint64_t block = as_tls_block_offset(&module->elf, finding->target, module->base);
    if (block == AS_UNKNOWN)
        return;
    if (answer->tcache != AS_UNKNOWN)
        libc->tls_tcache = block + answer->tcache;
    if (answer->thread_arena != AS_UNKNOWN)
        libc->tls_thread_arena = block + answer->thread_arena;
}

static const struct as_answer scan_answer = {.source = AS_LAYOUT_SCAN,
                                             .main_arena = AS_UNKNOWN,
                                             .mp = AS_UNKNOWN,
                                             .tcache = AS_UNKNOWN,
                                             .thread_arena = AS_UNKNOWN,
                                             .has_tcache = true};

// An answer from memory alone, in the module's own writable ranges.
static bool scan_module(struct finding *finding, const struct as_module *module, struct as_answer *answer)
{
    uint64_t start;
    uint64_t end;
    for (unsigned i = 0; i < MAX_RANGES && as_module_writable(&finding->modules, module, i, &start, &end); i++) {
        *answer = scan_answer;
        if (as_scan_main_arena(finding->target, start, end, answer))
            return true;
    }
    return false;
}

// By what they cost. DWARF knows most, but to unpack it takes longer than to inspect a whole heap of 100 MB.
static const enum as_layout_source sources[] = {AS_LAYOUT_SYMTAB, AS_LAYOUT_RELOCATION, AS_LAYOUT_DECODE,
                                                AS_LAYOUT_DWARF, AS_LAYOUT_SCAN};

// Asks one source, and has the target's memory bear out what it says. False when it says nothing.
static bool ask_source(struct finding *finding, const struct as_module *module, struct as_object *object,
                       struct as_kept_answers *kept, enum as_layout_source source, struct as_libc *libc)
{
    struct as_answer answer;
    char why[200];
    if (source == AS_LAYOUT_SCAN) {
        if (!scan_module(finding, module, &answer))
            return false;
    } else {
        if (!as_kept_ask(kept, object, source, &answer))
            return false;
        relocate(&answer, module->base);
    }
    *libc = (struct as_libc){0};
    complete(finding, module, as_kept_banner(kept, object), &answer);
    describe_module(finding, module, &answer, kept, libc);
    describe_tls(finding, module, &answer, libc);
    memcpy(libc->version, object->text.version, sizeof libc->version);
    libc->proven = as_libc_prove(finding->target, libc, why, sizeof why);
    return true;
}

// The first answer that memory bears out, when a second source, which takes another way to it, finds malloc at the same
// place; else DWARF's word weighs most. What no memory bears out is the first source's answer; AS_LAYOUT_NONE: there is none.
static struct as_libc ask_all(struct finding *finding, const struct as_module *module, struct as_object *object,
                              struct as_kept_answers *kept)
{
    struct as_libc best = {0};
    bool agreed = false;
    for (size_t i = 0; i < sizeof sources / sizeof *sources && !agreed; i++) {
        struct as_libc libc;
        if (!is_allowed(finding, sources[i]) || (best.proven && sources[i] == AS_LAYOUT_SCAN) ||
            !ask_source(finding, module, object, kept, sources[i], &libc))
            continue;
        agreed = best.proven && libc.proven && libc.main_arena == best.main_arena && libc.mp == best.mp &&
                 sources[i] != AS_LAYOUT_DWARF;
        if (best.source == AS_LAYOUT_NONE || (libc.proven && (!best.proven || sources[i] == AS_LAYOUT_DWARF)))
            best = libc;
    }
    return best;
}

// Searches for a malloc in one module. Adds a libc when there is one, proven or not.
static bool resolve_module(struct finding *finding, struct as_module *module, struct as_error *err)
{
    struct as_target *t = finding->target;
    // The target may live in a container that has debug files of its own. Ours come first: they are ours.
    AS_CLEANUP_FD int ours = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    AS_CLEANUP_FD int its = t->ops->open_root ? t->ops->open_root(t) : -1;
    const int roots[] = {ours, its, -1};
    struct as_object object;
    if (!as_module_open(&finding->modules, module))
        return true;
    const char *path = as_mapping_path(t, &t->mappings.items[module->first_mapping]);
    if (!as_object_open(&object, &module->elf, roots, path, err)) {
        as_module_close(module);
        return false;
    }
    struct as_kept_answers *kept = as_answers_of(&object);
    if (as_module_is_malloc_debug(module)) {
        as_kept_banner(kept, &object);
        snprintf(object.text.version, sizeof object.text.version, "%s", finding->version);
    }
    struct as_libc best = ask_all(finding, module, &object, kept);
    if (object.left_out[0] && !finding->out->left_out[0])
        snprintf(finding->out->left_out, sizeof finding->out->left_out, "debug information of %.40s was left out: %s",
                 as_module_name(&finding->modules, module), object.left_out);
    as_object_close(&object);
    as_module_close(module);
    if (best.source == AS_LAYOUT_NONE)
        return true;
    return as_vec_push(&finding->out->libcs, err, best);
}

// The next range of writable memory, from mapping *i on: mappings that follow each other, as far as they are small.
static bool next_writable(const struct as_target *t, size_t *i, uint64_t *start, uint64_t *end)
{
    bool open = false;
    for (; *i < t->mappings.count; ++*i) {
        const struct as_mapping *m = &t->mappings.items[*i];
        bool fits = (m->prot & AS_PROT_WRITE) && m->kind != AS_MAP_SPECIAL && m->end - m->start <= MAX_UNNAMED_RANGE &&
                    (!open || m->end - *start <= MAX_UNNAMED_RANGE);
        if (open && (!fits || m->start != *end))
            return true;
        if (!fits)
            continue;
        *start = open ? *start : m->start;
        *end = m->end;
        open = true;
    }
    return open;
}

// A core that names no files and holds no ELF headers (qemu's are such): all writable memory is inspected.
static bool scan_unnamed(struct finding *finding, struct as_error *err)
{
    static const struct as_banner no_text = {0};
    struct as_target *t = finding->target;
    uint64_t scanned = 0;
    uint64_t start = 0;
    uint64_t end = 0;
    for (size_t i = 0; scanned < MAX_UNNAMED_IN_ALL && next_writable(t, &i, &start, &end); scanned += end - start) {
        struct as_answer answer = scan_answer;
        struct as_libc libc = {0};
        if (!as_scan_main_arena(t, start, end, &answer))
            continue;
        as_scan_par(t, start, end, &answer);
        complete(finding, NULL, &no_text, &answer);
        describe_module(finding, NULL, &answer, NULL, &libc);
        libc.proven = as_libc_prove(t, &libc, NULL, 0);
        struct as_libc *slot = libc.proven ? as_vec_add(&finding->out->libcs, err) : NULL;
        if (slot)
            *slot = libc;
        else if (libc.proven)
            return false;
    }
    return true;
}

// Default first: the libc of the main namespace, then those of others, libc_malloc_debug.so, and a static program's.
static uint64_t rank(const struct finding *finding, const struct as_module *module)
{
    // Without ld.so's list: what is loaded later is mapped lower.
    uint64_t place = finding->modules.ordered ? module->order : UINT32_MAX - (module->start >> 32);
    return (uint64_t)as_module_is_malloc_debug(module) << 40 | place;
}

// The modules that may be libcs, by rank; those of equal rank in the order of their addresses, from above.
static size_t list_libcs(struct finding *finding, struct as_module *found[MAX_LIBCS])
{
    size_t count = 0;
    for (size_t i = finding->modules.list.count; i-- > 0 && count < MAX_LIBCS;) {
        struct as_module *module = &finding->modules.list.items[i];
        if (!as_module_may_be_libc(&finding->modules, module))
            continue;
        size_t place = count++;
        for (; place > 0 && rank(finding, found[place - 1]) > rank(finding, module); place--)
            found[place] = found[place - 1];
        found[place] = module;
    }
    return count;
}

bool as_malloc_find(struct as_target *t, uint32_t allowed_sources, struct as_malloc *out, struct as_error *err)
{
    *out = (struct as_malloc){0};
    struct finding finding = {.target = t, .allowed = allowed_sources, .out = out};
    bool done = as_modules_find(&finding.modules, t, err);
    if (!done)
        return false;
    struct as_module *libcs[MAX_LIBCS];
    size_t libc_count = list_libcs(&finding, libcs);
    for (size_t i = 0; done && i < libc_count; i++) {
        done = resolve_module(&finding, libcs[i], err);
        if (done && out->libcs.count && finding.version[0] == '\0')
            memcpy(finding.version, out->libcs.items[0].version, sizeof finding.version);
    }
    // No libc by name, or none that can be read (a core far from its files): any object's data may hold an arena.
    bool any_proven = false;
    for (size_t i = 0; i < out->libcs.count; i++)
        any_proven = any_proven || out->libcs.items[i].proven;
    for (size_t i = 0; done && !any_proven && is_allowed(&finding, AS_LAYOUT_SCAN) && i < finding.modules.list.count;
         i++) {
        struct as_module *other = &finding.modules.list.items[i];
        if (as_module_may_be_libc(&finding.modules, other))
            continue;
        uint32_t allowed = finding.allowed;
        finding.allowed = 1u << AS_LAYOUT_SCAN;
        done = resolve_module(&finding, other, err);
        finding.allowed = allowed;
        any_proven = done && out->libcs.count && out->libcs.items[out->libcs.count - 1].proven;
    }
    if (done && !any_proven && is_allowed(&finding, AS_LAYOUT_SCAN) && t->kind == AS_TARGET_CORE)
        done = scan_unnamed(&finding, err);
    // Among those that were left out there may be a libc.
    out->objects = finding.modules.cut && out->libcs.count == 0 ? 0 : finding.modules.list.count;
    if (done)
        as_allocator_decide(&finding.modules, out);
    else
        as_malloc_free(out);
    as_modules_free(&finding.modules);
    return done;
}

void as_malloc_free(struct as_malloc *m)
{
    as_vec_free(&m->libcs);
}

const char *as_layout_source_name(enum as_layout_source source)
{
    switch (source) {
    case AS_LAYOUT_DWARF:
        return "dwarf";
    case AS_LAYOUT_SYMTAB:
        return "symtab";
    case AS_LAYOUT_RELOCATION:
        return "relocation";
    case AS_LAYOUT_DECODE:
        return "decode";
    case AS_LAYOUT_SCAN:
        return "scan";
    case AS_LAYOUT_NONE:
        break;
    }
    return "none";
}
