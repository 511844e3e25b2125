// SPDX-License-Identifier: MIT
// The command line of each command: one table of options, of which each command takes some.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum as_option_bits {
    AS_OPTION_JSON = 1,
    AS_OPTION_CHUNKS = 2,
    AS_OPTION_OUTPUT = 4,
    AS_OPTION_PALETTE = 8,
    AS_OPTION_SCALE = 16,
    AS_OPTION_INJECT = 32, // --timeout
    AS_OPTION_TRIM = 64,   // --forecast, --deep, --arena, --watch, --max-hold
    AS_OPTION_OBJECTS = 128,
    AS_OPTION_ADDRESS = 256, // a second argument
    AS_OPTION_GRAPH = 512,
    AS_OPTION_PROFILE = 2048, // --for, --exact, --rates, --stop, --until-eof
    AS_OPTION_EVENTS = 4096,
    AS_OPTION_POLICY = 8192, // --timeout
    AS_OPTION_MANY = 16384,  // targets
    AS_OPTION_ALONE = 65536, // no target
    AS_SERVED = 32768,       // no option: `arenadump serve` runs this command, too
};

struct as_options {
    const char *target; // the first
    char *const *targets;
    int target_count; // 1, unless the command takes many
    const char *output;
    bool json, chunks, objects, graph, events, help;
    uint32_t mode;            // --mode, as as_mode; 0: auto
    uint64_t max_pause_ns;    // --max-pause: for how long a snapshot stops the target; 0: not given
    uint64_t max_memory;      // --max-memory: bytes that arenadump may take itself; 0: not given
    uint32_t allowed_sources; // --layout-source
    uint32_t palette;         // as_palette
    uint32_t scale;
    bool force;
    uint64_t timeout_ns; // --timeout; 0: not given
    bool forecast, deep;
    uint64_t max_hold_ns; // --max-hold: for how long a trim locks an arena; 0: not given
    uint64_t arena;       // --arena; 0: all
    uint64_t address;     // the second argument
    uint64_t watch_ns;    // --watch; 0: not
    uint64_t for_ns;      // --for; 0: until a signal comes
    const char *rates;    // --rates; NULL: not given
    bool exact, stop;
    bool entry;     // --entry: a profile has its hooks at the entries of libc's functions
    bool until_eof; // --until-eof: a profile ends with standard input, too
};

// Reads what follows the command's name. `takes` is a set of as_option_bits; --help, --layout-source, --mode, --max-pause,
// --max-memory and --force are taken everywhere. AS_USAGE names what was wrong and what would be right. With --help the rest is not
// inspected.
bool as_options_read(struct as_options *o, int argc, char **argv, uint32_t takes, struct as_error *err);
