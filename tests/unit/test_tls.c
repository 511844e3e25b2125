// SPDX-License-Identifier: MIT
// Blocks of thread-local variables on made memory: static ones, and those of a dtv; damaged structures give no block that is not one.
#include "graph/tls.h"
#include "support/mock.h"

enum { THREADS = 5, MODULES = 3, WORD = 8, MAP_BYTES = 1200, TLS_WORDS = 100, BYTES = 0x100, ENTRY = 16 };
static const uint64_t MAPS = UINT64_C(0x10000000000), THREAD = UINT64_C(0x20000000000), BETWEEN = 0x10000;
static const uint64_t ON_DEMAND = UINT64_C(0x30000000000);

struct made {
    struct mock *mock;
    struct as_modules modules;
    struct as_tls tls;
};

static uint64_t pointer_of(size_t thread)
{
    return THREAD + thread * BETWEEN + 0x8000;
}

static uint64_t dtv_of(size_t thread)
{
    return pointer_of(thread) + 0x1010;
}

static uint64_t map_of(size_t module)
{
    return MAPS + module * 0x1000 + 0x500;
}

// The third module was loaded later: its block is where each thread's dtv says.
static struct made make(void)
{
    struct made made = {.mock = mock_new(4096)};
    struct mock *m = made.mock;
    m->target.arch = AS_ARCH_X86_64;
    mock_map(m, MAPS, 0x10000, "");
    mock_map(m, THREAD, THREADS * BETWEEN, "");
    mock_map(m, ON_DEMAND, 0x10000, "");
    made.modules.target = &m->target;
    m->target.threads.count = 0;
    for (size_t i = 0; i < THREADS; i++) {
        struct as_thread *thread = as_vec_add(&m->target.threads, NULL);
        CHECK(thread);
        thread->tp = pointer_of(i);
        mock_poke(m, pointer_of(i) + WORD, dtv_of(i));
        mock_poke(m, dtv_of(i) - ENTRY, 16);
        for (size_t k = 0; k + 1 < MODULES; k++)
            mock_poke(m, dtv_of(i) + (k + 1) * ENTRY, pointer_of(i) - (k + 1) * BYTES);
        mock_poke(m, dtv_of(i) + (uint64_t)MODULES * ENTRY, ON_DEMAND + i * 0x1000);
    }
    for (size_t i = 0; i < MODULES; i++) {
        struct as_module *module = as_vec_add(&made.modules.list, NULL);
        CHECK(module);
        module->link_map = map_of(i);
        module->base = (i + 1) << 32;
        module->elf.tls_start = 0x1230;
        module->elf.tls_size = BYTES;
        module->elf.tls_align = WORD;
        uint64_t words = map_of(i) + (uint64_t)TLS_WORDS * WORD;
        uint64_t offset = i + 1 < MODULES ? (i + 1) * BYTES : 0;
        uint64_t values[] = {module->base + 0x1230, 0x80, BYTES, WORD, 0, offset, i + 1};
        for (size_t k = 0; k < sizeof values / sizeof *values; k++)
            mock_poke(m, words + k * WORD, values[k]);
    }
    return made;
}

static void forget(struct made *made)
{
    as_tls_free(&made->tls);
    as_vec_free(&made->modules.list);
    mock_free(made->mock);
}

static bool is_right(const struct as_tls_block *b)
{
    for (size_t i = 0; i < THREADS; i++)
        if (b->size == BYTES && b->start == (b->module + 1 < MODULES ? pointer_of(i) - (b->module + UINT64_C(1)) * BYTES
                                                                     : ON_DEMAND + i * 0x1000))
            return true;
    return false;
}

static void test_intact(void)
{
    struct made made = make();
    CHECK(as_tls_find(&made.tls, &made.modules, NULL));
    CHECK(made.tls.blocks.count == THREADS * MODULES && made.tls.dtvs.count == THREADS);
    for (size_t i = 0; i < made.tls.blocks.count; i++) {
        const struct as_tls_block *b = &made.tls.blocks.items[i];
        CHECK(is_right(b));
        CHECK(as_tls_at(&made.tls, b->start) == b && as_tls_at(&made.tls, b->start + BYTES - 1) == b);
        CHECK(as_tls_at(&made.tls, b->start - 1) != b && as_tls_at(&made.tls, b->start + BYTES) != b);
    }
    CHECK(!as_tls_at(&made.tls, pointer_of(0)));
    forget(&made);
}

// One word of a link_map other than ld.so has it: nothing is known of this module, and all of the others.
static void test_damaged_maps(void)
{
    static const uint64_t bad[] = {0, 1, UINT64_MAX, UINT64_C(1) << 62, 0x1230};
    for (size_t word = 0; word < 4; word++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            if (word == 1 && bad[i] <= BYTES)
                continue; // any number of bytes may be set at the start
            struct made made = make();
            mock_poke(made.mock, map_of(1) + (TLS_WORDS + word) * WORD, bad[i]);
            CHECK(as_tls_find(&made.tls, &made.modules, NULL));
            CHECK(made.tls.blocks.count == THREADS * (MODULES - 1));
            for (size_t k = 0; k < made.tls.blocks.count; k++)
                CHECK(is_right(&made.tls.blocks.items[k]) && made.tls.blocks.items[k].module != 1);
            forget(&made);
        }
}

static void test_damaged_dtvs(void)
{
    struct made made = make();
    struct mock *m = made.mock;
    mock_poke(m, dtv_of(0) - ENTRY, MODULES - 1);                        // shorter than that
    mock_poke(m, dtv_of(1) + (uint64_t)MODULES * ENTRY, UINT64_MAX);     // not made yet
    mock_poke(m, pointer_of(2) + WORD, 0);                               // no dtv at all
    mock_poke(m, dtv_of(3) + (uint64_t)MODULES * ENTRY, ON_DEMAND + 12); // no address of a block
    mock_poke(m, dtv_of(4) + ENTRY, pointer_of(4) - 2 * BYTES);          // not where the first module's block is
    CHECK(as_tls_find(&made.tls, &made.modules, NULL));
    CHECK(made.tls.blocks.count == THREADS * (MODULES - 1));
    CHECK(made.tls.dtvs.count == THREADS - 2);
    forget(&made);
}

// Only one of two blocks in one place is kept.
static void test_overlap(void)
{
    struct made made = make();
    mock_poke(made.mock, map_of(1) + (TLS_WORDS + 5) * WORD, BYTES + 0x40);
    CHECK(as_tls_find(&made.tls, &made.modules, NULL));
    CHECK(made.tls.blocks.count == THREADS * (MODULES - 1));
    forget(&made);
}

// Whatever is there, no address lies in two blocks.
static void test_noise(void)
{
    uint64_t state = 88172645463325252u;
    for (int round = 0; round < 500; round++) {
        struct made made = make();
        for (int i = 0; i < 8; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            uint64_t value = state >> 60 < 8 ? pointer_of(state >> 40 & 3) + (state >> 50 & 0xff) * WORD : state >> 50;
            size_t which = state >> 20 & 3;
            uint64_t at = which < MODULES ? map_of(which) + (TLS_WORDS + (state >> 30 & 7)) * WORD
                                          : dtv_of(state >> 25 & 3) + (state >> 30 & 7) * WORD;
            mock_poke(made.mock, at, value);
        }
        CHECK(as_tls_find(&made.tls, &made.modules, NULL));
        CHECK(made.tls.blocks.count <= THREADS * MODULES);
        for (size_t i = 1; i < made.tls.blocks.count; i++)
            CHECK(made.tls.blocks.items[i - 1].start + BYTES <= made.tls.blocks.items[i].start);
        forget(&made);
    }
}

int main(void)
{
    test_intact();
    test_damaged_maps();
    test_damaged_dtvs();
    test_overlap();
    test_noise();
    return 0;
}
