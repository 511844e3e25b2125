// SPDX-License-Identifier: MIT
// What HotSpot, the virtual machine of OpenJDK, publishes of itself for tools: a table of its own variables and structures, which
// libjvm.so exports for the serviceability agent, and the counters of jvmstat, which are also the file hsperfdata. Internal to
// runtimes/.
#pragma once

#include "runtimes/elf_object.h"

// Variables (their values), and fields of structures (their offsets).
enum as_hotspot_field {
    AS_HOTSPOT_collected_heap,
    AS_HOTSPOT_heap_reserved,
    AS_HOTSPOT_region_start,
    AS_HOTSPOT_region_words,
    AS_HOTSPOT_code_heaps,
    AS_HOTSPOT_code_memory,
    AS_HOTSPOT_code_map,
    AS_HOTSPOT_array_length,
    AS_HOTSPOT_array_data,
    AS_HOTSPOT_low_boundary,
    AS_HOTSPOT_high_boundary,
    AS_HOTSPOT_low,
    AS_HOTSPOT_high,
    AS_HOTSPOT_counters_start,
    AS_HOTSPOT_counters_end,
    AS_HOTSPOT_release,
    AS_HOTSPOT_FIELDS,
};

enum { AS_HOTSPOT_RELEASE = 64 };

// Nothing has to be freed.
struct as_hotspot {
    struct as_target *target;
    uint64_t start; // address of libjvm.so, and its file
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint64_t fields[AS_HOTSPOT_FIELDS]; // offsets; values of variables, once they have been read
    uint64_t places[AS_HOTSPOT_FIELDS]; // addresses of variables; 0: this is an offset
    bool known[AS_HOTSPOT_FIELDS];
    char release[AS_HOTSPOT_RELEASE]; // "17.0.15+6"; "": not known
};

// Reads the table: what never changes. Opens libjvm.so, so that it must be called before the target is stopped. False: none is mapped,
// or it has no table that makes sense.
bool as_hotspot_open(struct as_hotspot *h, struct as_target *t);
// Reads the variables; opens nothing. False: the libjvm.so that was opened is not mapped any more.
bool as_hotspot_read(struct as_hotspot *h);

enum { AS_HOTSPOT_SPACES = 16, AS_HOTSPOT_SPACE_NAME = 32 };

// A space of the collector; of a generation that has only one, the generation.
struct as_hotspot_space {
    char name[AS_HOTSPOT_SPACE_NAME];
    uint64_t used, committed; // bytes; AS_UNKNOWN: not counted
};

// Bytes, as the JVM counts them, AS_UNKNOWN where it does not. What it counts at each collection only may lag.
struct as_hotspot_counters {
    uint64_t heap_used, heap_committed;           // the sums over all generations
    uint64_t metaspace_used, metaspace_committed; // classes included
    char collector[AS_HOTSPOT_RELEASE];           // "GarbageFirst"; "": not known
    struct as_hotspot_space spaces[AS_HOTSPOT_SPACES];
    size_t space_count;
};

// Reads the counters. False: there are none (-XX:-UsePerfData), or they make no sense.
bool as_hotspot_count(struct as_hotspot *h, struct as_hotspot_counters *out, struct as_error *err);
