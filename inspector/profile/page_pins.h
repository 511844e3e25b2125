// SPDX-License-Identifier: MIT
// Which pages the sites of a profile keep: where the walk's chunks, their sites and the page records meet.
#pragma once

#include "malloc/chunk.h"
#include "model/store.h"

struct as_site_keeping {
    const as_boundary_vec *boundaries; // as in as_stopped_reader, with AS_GAP_FREE
    const uint32_t *id_of;             // for each boundary where a chunk in use begins: its context
    uint64_t ids;                      // above all contexts
    const uint64_t *id_of_site;        // of each site of the store: its context; others have no site
    uint32_t page_size;
    uint32_t page_rate; // one page in so many is watched
    uint64_t large;     // chunks of at least so many bytes are recorded wherever they begin
};

// Fills in the store's profile_pins and profile_places. AS_NO_MEMORY.
bool as_page_pins_make(const struct as_site_keeping *k, struct as_store *s, struct as_error *err);
