// SPDX-License-Identifier: MIT
// Spans, which no two heaps share, and the sums that hold bins against the walk. (The walk itself is tested on real heaps:
// tests/inspector/test_truth.py, tests/hostile/test_hostile_heap.py.)
#include "malloc/heaps.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

static void test_spans(void)
{
    as_span_vec spans = {0};
    struct as_error err;
    CHECK(!as_span_from(&spans, 0) && as_span_is_clear(&spans, 0, 1));
    CHECK(!as_span_is_clear(&spans, 5, 5) && !as_span_is_clear(&spans, 6, 5));
    // Neither first nor last, so that each has to be moved into its place.
    CHECK(as_span_add(&spans, 300, 400, &err) && as_span_add(&spans, 100, 200, &err) &&
          as_span_add(&spans, 200, 250, &err));
    CHECK(spans.count == 3 && spans.items[0].start == 100 && spans.items[1].start == 200 &&
          spans.items[2].start == 300);
    CHECK(as_span_from(&spans, 0)->start == 100 && as_span_from(&spans, 199)->start == 100);
    CHECK(as_span_from(&spans, 200)->start == 200 && as_span_from(&spans, 250)->start == 300);
    CHECK(!as_span_from(&spans, 400));
    CHECK(as_span_is_clear(&spans, 250, 300) && as_span_is_clear(&spans, 0, 100) &&
          as_span_is_clear(&spans, 400, UINT64_MAX));
    CHECK(!as_span_is_clear(&spans, 249, 300) && !as_span_is_clear(&spans, 250, 301) &&
          !as_span_is_clear(&spans, 0, UINT64_MAX) && !as_span_is_clear(&spans, 320, 330));
    as_span_cut(&spans, 100, 150);
    CHECK(spans.items[0].end == 150 && as_span_is_clear(&spans, 150, 200));
    as_span_cut(&spans, 100, 180); // never longer again
    as_span_cut(&spans, 120, 130); // begins nowhere
    CHECK(spans.items[0].end == 150);
    as_vec_free(&spans);
}

// A ring of `count` nodes at these addresses, in the order given.
static struct as_bin_sums ring(const uint64_t *nodes, size_t count)
{
    struct as_bin_sums sums = {0};
    for (size_t i = 0; i < count; i++)
        as_bin_sums_add(&sums, nodes[i], nodes[(i + 1) % count], nodes[(i + count - 1) % count]);
    return sums;
}

static bool agree(struct as_bin_sums sums)
{
    return sums.nodes == sums.forward && sums.nodes == sums.back;
}

static void test_links(void)
{
    const uint64_t nodes[] = {0x7f0000000080, 0x555500001000, 0x555500002010, 0x555500000020};
    CHECK(agree(ring(nodes, 1)) && agree(ring(nodes, 4)));
    struct as_bin_sums sums = ring(nodes, 4);
    as_bin_sums_add(&sums, 0x555500005000, 0x555500005010, 0x555500005000); // a chunk that no list holds
    CHECK(!agree(sums));
    sums = ring(nodes, 4);
    sums.nodes -= as_scramble(nodes[2]); // a list holds what the walk did not find
    CHECK(!agree(sums));
    // Two links that are wrong by as much as each other, which plain sums would not show.
    sums = ring(nodes, 4);
    sums.forward +=
        as_scramble(nodes[1] + 16) - as_scramble(nodes[1]) + as_scramble(nodes[2] - 16) - as_scramble(nodes[2]);
    CHECK(!agree(sums));
}

int main(void)
{
    test_spans();
    test_links();
    return 0;
}
