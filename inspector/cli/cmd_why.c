// SPDX-License-Identifier: MIT
// Why a chunk is still there: the way to it from a root.
#include "cli/cli.h"
#include "cli/graph_command.h"
#include "findings/humanize.h"
#include "graph/graph.h"
#include "graph/leaks.h"

#include <inttypes.h>
#include <stdio.h>

// Why nothing leads to a chunk: as leaks and owners say it.
enum lost { REACHED, LOST, LOST_WITH_OTHERS, LOST_IN_A_CYCLE, GARBAGE };
static const char *const lost_names[] = {[LOST] = "lost",
                                         [LOST_WITH_OTHERS] = "lost_with_others",
                                         [LOST_IN_A_CYCLE] = "lost_in_a_cycle",
                                         [GARBAGE] = "garbage"};
static const char *const lost_words[] = {[REACHED] = "",
                                         [LOST] = "lost: nothing points to it",
                                         [LOST_WITH_OTHERS] = "lost with others: only lost chunks point to it",
                                         [LOST_IN_A_CYCLE] =
                                             "lost in a cycle: only chunks that point to each other lead to it",
                                         [GARBAGE] = "not lost: garbage not yet collected, or held in an unknown way"};

struct question {
    struct as_graph *graph;
    uint64_t address;
    struct as_way path;
    enum lost lost;
};

// The way is searched for at the instant of the snapshot, as the words on it are read once more.
static bool read_with_path(void *context, struct as_target *t, const struct as_malloc *m, const struct as_store *s,
                           as_boundary_vec *boundaries, struct as_error *err)
{
    struct question *q = context;
    as_way_free(&q->path);
    return as_graph_read(q->graph, t, m, s, boundaries, err) && as_way_find(&q->path, q->graph, t, q->address, err);
}

static void begin_path(void *context)
{
    struct question *q = context;
    as_graph_begin(q->graph);
}

static bool find_lost(struct question *q, struct as_error *err)
{
    struct as_leaks leaks = {0};
    if (q->path.steps.count == 0 || q->path.root != AS_NO_NODE)
        return true;
    bool ok = as_leaks_find(&leaks, q->graph, err);
    uint8_t leak = ok ? leaks.of_node[q->path.steps.items[0].node] : 0;
    q->lost = leak & AS_LEAK_IN_CYCLE                  ? LOST_IN_A_CYCLE
              : as_leak_kind(leak) == AS_LEAK_DIRECT   ? LOST
              : as_leak_kind(leak) == AS_LEAK_INDIRECT ? LOST_WITH_OTHERS
                                                       : GARBAGE;
    as_leaks_free(&leaks);
    return ok;
}

// The member of a step's chunk that leads to the next; NULL: not known.
static const char *member_of(struct as_graph_snapshot *snapshot, const struct as_step *step, char text[AS_GRAPH_NAME])
{
    return step->offset == AS_UNKNOWN
               ? NULL
               : as_typing_member(&snapshot->graph.typing, step->node, step->offset, text, AS_GRAPH_NAME);
}

// The member of the variable that the root's word is: ".entries[].value"; NULL: not known.
static const char *root_member(struct as_graph_snapshot *snapshot, uint32_t i, char text[AS_GRAPH_NAME])
{
    const struct as_root *root = &snapshot->graph.roots.list.items[i];
    const struct as_root_source *source = &snapshot->graph.roots.sources.items[root->source];
    uint64_t start;
    uint32_t type = source->kind == AS_ROOT_GLOBAL && source->module != UINT32_MAX
                        ? as_typing_variable(&snapshot->graph.typing, source->module, root->address, &start)
                        : 0;
    return type == 0 ? NULL : as_typing_part(&snapshot->graph.typing, type, root->address - start, text, AS_GRAPH_NAME);
}

static void put_json(struct as_graph_snapshot *snapshot, const struct question *q, const struct as_owners *owners)
{
    const struct as_way *p = &q->path;
    struct as_json j = as_json_begin("arenascope.why/1");
    char text[AS_GRAPH_NAME];
    as_graph_put_head(&j, snapshot);
    as_json_address(&j, "address", q->address);
    as_json_bool(&j, "reached", p->root != AS_NO_NODE);
    bool reached = p->root != AS_NO_NODE;
    uint64_t word = reached ? snapshot->graph.roots.list.items[p->root].address : 0;
    as_graph_put_owner(&j, snapshot, owners, reached ? as_owner_of(owners, p->root) : AS_NO_OWNER);
    as_json_address(&j, "word", word != 0 ? word : AS_UNKNOWN);
    as_json_string(&j, "unreached", lost_names[q->lost]);
    as_json_string(&j, "member", reached ? root_member(snapshot, p->root, text) : NULL);
    as_json_number(&j, "leads_to", reached ? p->leads_to : AS_UNKNOWN);
    as_json_array(&j, "path");
    for (size_t i = 0; i < p->steps.count; i++) {
        const struct as_step *step = &p->steps.items[i];
        bool last = i + 1 == p->steps.count;
        as_json_object(&j, NULL);
        as_json_address(&j, "address", step->address);
        as_json_number(&j, "size", step->size);
        as_graph_put_type(&j, snapshot, as_graph_type(&snapshot->graph, step->node));
        as_json_number(&j, "offset", last ? AS_UNKNOWN : step->offset);
        as_json_string(&j, "member", last ? NULL : member_of(snapshot, step, text));
        as_json_number(&j, "leads_to", last ? AS_UNKNOWN : step->leads_to);
        as_json_object_end(&j);
    }
    as_json_array_end(&j);
    as_json_object_end(&j);
}

enum { TYPE_COLUMNS = 70, MEMBER_COLUMNS = 160 };

// ", Cache::entries[].value,"; nothing for a member that is not known.
static const char *member_text(const char *member, char text[AS_GRAPH_NAME])
{
    char safe[AS_GRAPH_NAME];
    if (!member || !*member)
        return "";
    snprintf(text, AS_GRAPH_NAME, ", %.4000s,",
             as_safe_text(member, AS_GRAPH_NAME, MEMBER_COLUMNS, true, safe, sizeof safe));
    return text;
}

static void print_text(struct as_graph_snapshot *snapshot, const struct question *q, const struct as_owners *owners)
{
    const struct as_way *p = &q->path;
    char text[AS_GRAPH_NAME], member[AS_GRAPH_NAME];
    as_graph_print_head(snapshot);
    printf("\n%s\n", p->root == AS_NO_NODE ? lost_words[q->lost]
                                           : as_graph_owner_text(snapshot, owners, as_owner_of(owners, p->root), text));
    if (p->root != AS_NO_NODE && snapshot->graph.roots.list.items[p->root].address != 0)
        printf("  the word at 0x%" PRIx64 "%s points to\n", snapshot->graph.roots.list.items[p->root].address,
               member_text(root_member(snapshot, p->root, member), text));
    for (size_t i = 0; i < p->steps.count; i++) {
        const struct as_step *step = &p->steps.items[i];
        printf("0x%" PRIx64 "  %s  %s\n", step->address, as_size_text(step->size).text,
               as_graph_type_text(snapshot, as_graph_type(&snapshot->graph, step->node), TYPE_COLUMNS, text));
        if (i + 1 < p->steps.count && step->offset != AS_UNKNOWN)
            printf("  at +%" PRIu64 "%s it points to +%" PRIu64 " of\n", step->offset,
                   member_text(member_of(snapshot, step, member), text), step->leads_to);
    }
}

bool as_cmd_why(const struct as_options *o, struct as_error *err)
{
    struct as_graph_snapshot snapshot;
    struct as_owners owners = {0};
    struct question q = {.graph = &snapshot.graph, .address = o->address};
    bool ok = as_graph_snapshot_open(&snapshot, o, err);
    snapshot.reader = (struct as_stopped_reader){read_with_path, &q, begin_path};
    ok = ok && as_graph_snapshot_take(&snapshot, o, err) && as_graph_find_all_types(&snapshot.graph, err) &&
         as_owners_find(&owners, &snapshot.graph.roots, err) && find_lost(&q, err);
    if (ok && q.path.steps.count == 0)
        ok = as_fail(err, AS_USAGE,
                     "at 0x%llx is no chunk in use: arenadump chunks lists all chunks; add 0x10 to an address of its, "
                     "which is that of the chunk's header",
                     (unsigned long long)o->address);
    if (ok && o->json)
        put_json(&snapshot, &q, &owners);
    else if (ok)
        print_text(&snapshot, &q, &owners);
    as_way_free(&q.path);
    as_owners_free(&owners);
    as_graph_snapshot_close(&snapshot);
    return ok;
}
