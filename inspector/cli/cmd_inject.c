// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/look.h"
#include "cli/text.h"
#include "inject/inject.h"

#include <limits.h>
#include <stdio.h>

static const char *how_name(uint32_t how)
{
    return how == AS_INJECT_LOADED ? "loaded" : "woken";
}

static void print_json(const struct as_target *t, const struct as_inject_result *r)
{
    struct as_json j = {.out = stdout, .empty = true};
    as_json_object(&j, NULL);
    as_json_string(&j, "schema", "arenascope.inject/1");
    as_json_number(&j, "pid", (uint64_t)t->pid);
    as_json_string(&j, "how", how_name(r->how));
    as_json_number(&j, "thread", (uint64_t)r->tid);
    as_json_text(&j, "where", r->where, sizeof r->where);
    as_json_number(&j, "looks", r->looks);
    as_json_milliseconds(&j, "search_ms", r->search_ns);
    as_json_milliseconds(&j, "away_ms", r->away_ns);
    as_json_object_end(&j);
    putchar('\n');
}

bool as_cmd_inject(const struct as_options *o, struct as_error *err)
{
    struct as_look look;
    char library[PATH_MAX];
    struct as_inject_result result;
    struct as_inject_options how = {.library = library, .force = o->force};
    bool ok = as_look_open(&look, o->target, err) && as_inject_library(library, sizeof library, err) &&
              as_inject(look.target, &how, &result, err);
    if (ok && o->json)
        print_json(look.target, &result);
    else if (ok)
        printf("the agent is in process %d: %s by thread %d, %s\n", look.target->pid, how_name(result.how), result.tid,
               result.where);
    as_look_close(&look);
    return ok;
}
