// SPDX-License-Identifier: MIT
// The verdict: what holds a process's memory, each cause in a sentence. docs/findings.md lists the causes. Terminal, page, JSON and
// metrics have it from here.
//
// Each cause is one rule, a row of the table in verdict.c, which reads the facts of a snapshot and nothing else. A rule states only what was
// counted or computed; where a number holds under an assumption, `estimate` says which.
#pragma once

#include "base/error.h"
#include "model/view.h"

#include <stdbool.h>
#include <stdint.h>

// In which order findings stand; within one rank the largest comes first.
enum as_rank {
    AS_RANK_PREMISE, // changes how everything else is to be read
    AS_RANK_ROW,     // explains rows of the ledger: no row has two such findings
    AS_RANK_PART,    // of rows that other findings explain
    AS_RANK_BESIDE,  // not in Rss
};

// What brings the bytes back.
enum as_trim_kind { AS_TRIM_NONE, AS_TRIM_PLAIN, AS_TRIM_DEEP };

// What a sentence tells besides: evidence and next steps depend on it.
enum as_tells {
    AS_TELLS_SIZE = 1, // the size of the chunks that hold most
    AS_TELLS_TYPE = 2, // the type of the chunks that hold most
    AS_TELLS_LEAK = 4, // a suspicion of a leak
};

// A type's name has at most so many columns in a sentence, which a hostile name may fill with four bytes each.
enum { AS_NAME_COLUMNS = 1000, AS_NAME = 4 * AS_NAME_COLUMNS + 8, AS_SENTENCE = AS_NAME + 600 };

struct as_finding {
    const char *rule;
    enum as_rank rank;
    enum as_trim_kind trim;
    unsigned tells;     // bits of as_tells
    uint64_t bytes;     // that it explains; AS_UNKNOWN
    double share;       // of Rss, or of the known rows; less than 0: not known, or not in Rss
    uint64_t rows;      // a bit for each row of the ledger whose bytes these are
    const char *lights; // what to light up on the page's map: "row:…", "idle"; NULL: nothing
    char estimate[80];  // why `bytes` may be off; "": they are not
    char sentence[AS_SENTENCE];
};

enum { AS_MOST_FINDINGS = 24, AS_MOST_CAVEATS = 3, AS_LEAD = 256 };
struct as_verdict {
    char lead[AS_LEAD];
    char caveats[AS_MOST_CAVEATS][AS_LEAD];
    struct as_finding findings[AS_MOST_FINDINGS]; // the first is the one to say aloud with the lead
    uint32_t caveat_count, finding_count;
    uint64_t least; // bytes: what a process holds for a cause of no other weight is worth no finding below it
};

// Applies every rule. NULL (AS_NO_MEMORY): no room for it. The caller frees it.
struct as_verdict *as_verdict_make(const struct as_view *v, struct as_error *err);

// Why an arena is idle: no thread allocates from it, or threads do and it holds next to nothing but free memory. A main arena is
// never idle.
enum as_idle { AS_NOT_IDLE, AS_NO_THREAD, AS_NEARLY_EMPTY };
enum as_idle as_arena_idle(const struct as_arena_record *a);
