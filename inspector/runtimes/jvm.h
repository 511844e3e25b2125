// SPDX-License-Identifier: MIT
// The memory of a Java virtual machine (HotSpot): its heap, its compiled code, its classes. Found from outside, through the table
// that libjvm.so exports for debuggers, and held against the mappings (jvm.c).
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "runtimes/hotspot.h"
#include "target/target.h"

// Adds to `store` a record for each part of a HotSpot's memory, and the regions of those that could be located. No record: no
// libjvm.so is mapped here. A heap that could not be located is a record with state AS_REGIONS_UNPROVEN, and a warning; code or
// metaspace that could not be is such a record too, whose row is other_anon. To be called of a target that stands still and whose
// residency is known. `hotspot`: as as_hotspot_open found it before the stop; no file is opened now. False (AS_NO_MEMORY): our
// memory ran out.
bool as_jvm_find(struct as_target *t, const struct as_hotspot *hotspot, struct as_store *store, struct as_error *err);
