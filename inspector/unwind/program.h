// SPDX-License-Identifier: MIT
// A function's call frame instructions, run: the rule from each address on.
#pragma once

#include "unwind/frames.h"

// Takes the rule from an address on. The addresses ascend.
typedef void as_unwind_take_rule(void *context, uint64_t address, uint64_t rule);

// The program of one function; its rows end where it is damaged. `work` is lowered by what was read, and 0 ends it.
void as_program_run(const struct as_unwind_image *image, const struct as_cie *cie, const struct as_fde *fde,
                    uint64_t *work, as_unwind_take_rule *take, void *context);
