// SPDX-License-Identifier: MIT
// Which thread uses which arena and which tcache, with no symbols: both are thread-local variables of libc (tcache and
// thread_arena), so each lies at one and the same distance from every thread's thread pointer. Every word of the static
// TLS is a candidate; the distance at which the most threads' words make sense is the answer.
#pragma once

#include "malloc/heaps.h"

// Fills in h->threads, h->other_tcaches and h->tcaches_known. AS_NO_MEMORY.
bool as_threads_find(struct as_heaps *h, struct as_error *err);
