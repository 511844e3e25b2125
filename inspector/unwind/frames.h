// SPDX-License-Identifier: MIT
// The entries of .eh_frame: which function has which, and what its CIE says. Nothing in there is trusted.
#pragma once

#include "unwind/bytes.h"
#include "unwind/image.h"

// The DWARF numbers of the registers that rules know.
struct as_unwind_numbers {
    uint64_t sp, fp, third, ra;
};

struct as_cie {
    uint64_t offset; // in the image; UINT64_MAX: none was read
    struct as_bytes program;
    uint64_t code_align;
    int64_t data_align;
    uint64_t ra;
    uint8_t encoding; // of the addresses in its FDEs
    bool has_sizes;   // an FDE says how long its augmentation is
    bool is_signal;
};

struct as_fde {
    uint64_t start; // the first address of its code
    uint64_t end;
    struct as_bytes program;
};

const struct as_unwind_numbers *as_unwind_numbers(uint16_t machine); // NULL: no machine that is known

// A pointer in the encoding that DWARF names so. False: it cannot be read that way.
bool as_frames_pointer(const struct as_unwind_image *image, struct as_bytes *b, uint8_t encoding, uint64_t base,
                       uint64_t *value);

// The bytes of the image from an address on.
struct as_bytes as_frames_at(const struct as_unwind_image *image, uint64_t address);

// The FDE at this address; `cie` is the one that was read last, and becomes the FDE's. `next`: where the entry behind it is. False:
// there is none that can be read (a CIE, a terminator, damage); `next` is then 0 if there is nothing behind it.
bool as_frames_read(const struct as_unwind_image *image, uint64_t address, struct as_cie *cie, struct as_fde *fde,
                    uint64_t *next);

// A function's call frame instructions, run: the rule from each address on.

// Takes the rule from an address on. The addresses ascend.
typedef void as_unwind_take_rule(void *context, uint64_t address, uint64_t rule);

// The program of one function; its rows end where it is damaged. `work` is lowered by what was read, and 0 ends it.
void as_program_run(const struct as_unwind_image *image, const struct as_cie *cie, const struct as_fde *fde,
                    uint64_t *work, as_unwind_take_rule *take, void *context);
