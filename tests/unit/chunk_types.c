// SPDX-License-Identifier: MIT
// The type of every chunk in use, one line each: ADDRESS SIZE EVIDENCE TYPE, with tabs between. Commands show sums alone.
//     chunk_types PID|CORE [--mode MODE]
#include "cli/graph_command.h"

#include <inttypes.h>
#include <stdio.h>

static void print_types(const struct as_graph *g)
{
    char text[AS_GRAPH_NAME];
    for (struct as_used_cursor c = as_used_begin(&g->index); as_used_next(&c);) {
        uint32_t type = as_graph_type(g, c.chunk.node);
        const char *name = as_graph_type_name(g, type, text, sizeof text);
        const char *evidence = as_evidence_name(as_graph_type_evidence(g, type));
        printf("0x%" PRIx64 "\t%" PRIu64 "\t%s\t%s\n", c.chunk.address + AS_HEADER, c.chunk.size,
               evidence ? evidence : "", name ? name : "");
    }
}

int main(int count, char **arguments)
{
    struct as_error err;
    struct as_options o = {0};
    struct as_graph_snapshot lookup = {0};
    bool ok = as_options_read(&o, count, arguments, 0, &err) && as_graph_snapshot_open(&lookup, &o, &err) &&
              as_graph_snapshot_take(&lookup, &o, &err) && as_graph_find_types(&lookup.graph, NULL, &err);
    if (ok)
        print_types(&lookup.graph);
    else
        fprintf(stderr, "chunk_types: %s\n", err.text);
    as_graph_snapshot_close(&lookup);
    return ok ? 0 : (int)err.code;
}
