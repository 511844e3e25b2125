// SPDX-License-Identifier: MIT
// Between what the finders found and the records of the store. Internal to snapshot/.
#pragma once

#include "malloc/heaps.h"
#include "model/store.h"

// Copies one of the target's strings into the store's; its offset there.
uint32_t as_records_string(struct as_store *s, const struct as_target *t, uint32_t offset);

// Makes the records of mappings, mallocs, arenas and threads. False when our memory ran out.
bool as_records_copy(struct as_store *s, const struct as_heaps *h, struct as_error *err);
