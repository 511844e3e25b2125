// SPDX-License-Identifier: MIT
// How many control frames are those of the last walk: for each number of frames, wherever the first other one is, and up to where they are
// inspected. What is below the frames cannot be read.
#include "recorder/ruby/ruby.h"
#include "support/check.h"

#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 19, WORDS = 8 }; // frames, and of each

static uintptr_t end; // of the VM's stack

static uintptr_t frame_at(size_t i)
{
    return end - (i + 1) * as_cruby.layout.frame_size;
}

static uintptr_t *instruction_at(size_t i)
{
    return (uintptr_t *)(frame_at(i) + AS_CRUBY_FRAME_PC);
}

static void test_all(struct as_cruby_last *last, size_t count)
{
    last->end = end;
    last->count = count;
    for (size_t i = 0; i < MOST; i++)
        *instruction_at(i) = last->pcs[i] = 1000 + i;
    for (size_t other = 0; other <= count; other++) { // count: none
        if (other < count)
            *instruction_at(other) ^= UINT64_C(1) << (other * 3);
        for (size_t until = 0; until <= MOST; until++) {
            size_t wanted = other < until ? other : until;
            wanted = wanted < count ? wanted : count;
            for (size_t same = 0; same <= wanted; same++)
                CHECK_EQUAL(as_cruby_count_same(last, end - until * as_cruby.layout.frame_size, same), wanted);
            CHECK_EQUAL(as_cruby_count_same(last, end - until * as_cruby.layout.frame_size, count + 1), wanted);
        }
        if (other < count)
            *instruction_at(other) = last->pcs[other];
    }
}

int main(void)
{
    static struct as_cruby_last last;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (sizeof(uintptr_t) * WORDS * MOST / page + 1) * page;
    char *memory = mmap(NULL, page + room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory + page, room, PROT_READ | PROT_WRITE) == 0);
    for (size_t words = WORDS - 1; words <= WORDS; words++) { // as in the releases of Ruby
        as_cruby.layout.frame_size = (uint16_t)(words * sizeof(uintptr_t));
        end = (uintptr_t)memory + page + MOST * as_cruby.layout.frame_size;
        for (size_t count = 0; count <= MOST; count++)
            test_all(&last, count);
    }
    return 0;
}
