// SPDX-License-Identifier: MIT
// The memory of a Java virtual machine (HotSpot): its heap, its compiled code, its classes. Found from outside, through the table
// that libjvm.so exports for debuggers, and held against the mappings (jvm.c).
#pragma once

#include "runtimes/finder.h"
#include "runtimes/hotspot.h"
#include "target/target.h"

// Finds each part of a HotSpot's memory: a record of each, with the regions of those that could be located. No record: no libjvm.so is mapped
// here. A heap that could not be located is a record with state AS_REGIONS_UNPROVEN, and a warning; code or metaspace that could not
// be is such a record too, whose row is other_anon. No file is opened now.
bool as_jvm_find(const struct as_finder_input *in);
