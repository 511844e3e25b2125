// SPDX-License-Identifier: MIT
// Reads of pages that are swapped out, where the room for them runs out: before the first of them, and between two.
#include "support/mock.h"

enum { PAGE = 4096, PAGES = 256, GONE_FROM = 64, GONE_TO = 192, TOGETHER = 16 };
#define START UINT64_C(0x100000000000)
#define GONE (START + GONE_FROM * PAGE)

static int questions;      // how often it was asked for room
static uint64_t asked_for; // the first time
static int answers;        // so many times there is some
static uint64_t sent_back;

static bool has_room(struct as_target *t, uint64_t bytes, char *why, size_t size)
{
    (void)t;
    asked_for = questions == 0 ? bytes : asked_for;
    CHECK(bytes == 0 || questions == 0, "all of it is asked for once");
    snprintf(why, size, "none is left");
    return ++questions <= answers;
}

static void page_out(struct as_target *t, const struct as_range *ranges, size_t count)
{
    (void)t;
    for (size_t i = 0; i < count; i++)
        sent_back += ranges[i].end - ranges[i].start;
}

static struct as_target_ops ops;
static uint8_t bytes[PAGES * PAGE];

static struct mock *make(int room_for, bool stopped)
{
    struct as_error err;
    struct mock *m = mock_new(PAGE);
    mock_map(m, START, sizeof bytes, "");
    memset((void *)(uintptr_t)START, 7, sizeof bytes);
    mock_pages(m, GONE, START + GONE_TO * PAGE, AS_RES_SWAPPED);
    ops = *m->target.ops;
    ops.residency.page_out = page_out;
    ops.residency.has_room = has_room;
    m->target.ops = &ops;
    m->target.counts.swap = (GONE_TO - GONE_FROM) * PAGE;
    m->target.stop.active = stopped;
    CHECK(as_target_read_residency_map(&m->target, &err), "%s", err.text);
    as_target_ask_anew(&m->target);
    questions = 0;
    sent_back = 0;
    answers = room_for;
    return m;
}

static void check_reads(int room_for, bool stopped, size_t expected)
{
    struct mock *m = make(room_for, stopped);
    struct as_target *t = &m->target;
    CHECK(as_target_read(t, START, bytes, PAGE) && questions == 0, "what is in memory needs no room");
    size_t got = as_target_read_resident(t, START, bytes, sizeof bytes);
    CHECK(got == expected, "%zu", got);
    CHECK(asked_for == t->counts.swap);
    bool whole = expected == sizeof bytes;
    CHECK(sent_back == (whole ? GONE_TO * PAGE : expected) - GONE_FROM * PAGE);
    CHECK((t->residency.fetch == AS_FETCH_REFUSED) == !whole);
    if (!whole) { // it stays so, also when there is room again
        CHECK(strcmp(t->residency.no_room, "none is left") == 0);
        answers = 1000;
        bool ok[2];
        uint64_t words[2], addresses[2] = {START, GONE};
        CHECK(!as_target_read(t, GONE, bytes, 1) && !as_target_may_fetch(t));
        as_target_gather(t, addresses, 2, sizeof words[0], words, sizeof words[0], ok);
        CHECK(ok[0] && !ok[1]);
        CHECK(as_target_read(t, START + GONE_TO * PAGE, bytes, PAGE));
        questions = 0;
        as_target_ask_anew(t);
        CHECK(as_target_read(t, GONE, bytes, 1));
    }
    mock_free(m);
}

int main(void)
{
    for (int stopped = 0; stopped < 2; stopped++) {
        check_reads(1000, stopped, sizeof bytes);
        check_reads(0, stopped, GONE_FROM * PAGE);
        // The first answer is about all, and each of the others about the next few pages.
        check_reads(1, stopped, GONE_FROM * PAGE);
        check_reads(3, stopped, (GONE_FROM + 2 * TOGETHER) * PAGE);
    }
    return 0;
}
