// SPDX-License-Identifier: MIT
#include "cli/baseline.h"
#include "cli/open_target.h"

// Perhaps more than once: a freeze that took too long is given up for a clone.
static bool count(void *context, struct as_target *t, const struct as_malloc *m, const struct as_store *s,
                  as_boundary_vec *boundaries, struct as_error *err)
{
    struct as_profile_baseline *out = context;
    (void)t, (void)m, (void)s;
    out->sizes.count = 0;
    return as_profile_count_sizes(boundaries, &out->sizes, err);
}

bool as_baseline_take(const struct as_options *o, struct as_profile_baseline *out, struct as_error *err)
{
    struct as_snapshot snapshot;
    const struct as_stopped_reader reader = {.read = count, .context = out};
    const struct as_snapshot_options how = {.chunk_fd = -1,
                                            .reader = &reader,
                                            .allowed_sources = o->allowed_sources,
                                            .mode = o->mode,
                                            .force = o->force,
                                            .max_pause_ns = o->max_pause_ns};
    *out = (struct as_profile_baseline){0};
    bool ok = as_snapshot_open_process(&snapshot, "profile", o->target, err) &&
              as_snapshot_make(snapshot.target, &how, &snapshot.store, err);
    snapshot.view = as_store_view(&snapshot.store);
    ok = ok && as_snapshot_needs_glibc(&snapshot, o, err);
    out->time_ns = snapshot.store.meta.time_ns;
    out->exact = snapshot.store.meta.flags & AS_META_EXACT;
    as_snapshot_close(&snapshot);
    if (!ok)
        as_vec_free(&out->sizes);
    return ok;
}
