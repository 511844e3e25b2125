// SPDX-License-Identifier: MIT
// The functions of a profile's frames, by files of this machine: programs, libraries, their debug information, perf maps.
#pragma once

#include "cli/open_target.h"
#include "symbolize/places.h"

struct as_frame_names {
    struct as_places places;
    as_place_vec lines; // of interpreted code: of each record in the view
    const struct as_view *view;
    struct as_target *process; // that has the modules; NULL: it was not needed, or does not run any more
    bool searched;
};

// For the snapshot's profile; the perf map is that of a process which runs. Close it in either case. False: AS_NO_MEMORY.
bool as_frame_names_open(struct as_frame_names *n, const struct as_snapshot *snapshot, struct as_error *err);
// The functions of a frame, innermost first; *count 0: none is known. NULL: AS_NO_MEMORY. Valid until the next call. Their texts are
// unsafe for a terminal.
const struct as_code_place *as_frame_names_at(struct as_frame_names *n, const struct as_profile_frame_record *frame,
                                              size_t *count, struct as_error *err);
// The line of interpreted code that a frame is; NULL: it is a return address.
const struct as_profile_line_record *as_frame_names_line(const struct as_frame_names *n,
                                                         const struct as_profile_frame_record *frame);
// A text of a place; NULL: not known.
const char *as_frame_names_text(const struct as_frame_names *n, uint32_t text);
void as_frame_names_close(struct as_frame_names *n);
