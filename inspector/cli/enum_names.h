// SPDX-License-Identifier: MIT
// The words that stand for the format's numbers in JSON and tables. NULL where there is none (an unknown architecture, say).
#pragma once

#include "libc/libc.h"
#include "model/view.h"

#include <stdint.h>

const char *as_target_kind_name(uint32_t kind); // as_target_kind
const char *as_arch_name(uint32_t arch);        // as_arch
const char *as_mode_name(uint32_t mode);        // as_mode
const char *as_source_name(uint32_t source);    // as_layout_source; NULL for AS_LAYOUT_NONE
const char *as_warning_name(uint32_t code);     // as_warning
const char *as_class_kind_name(uint32_t kind);  // as_class_kind
const char *as_chunk_name(uint32_t kind);       // as_chunk_class
