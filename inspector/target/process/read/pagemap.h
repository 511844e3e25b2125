// SPDX-License-Identifier: MIT
// What the kernel tells of each page of a live process.
#pragma once

#include "target/process/read/live_process.h"

// The kernel's interface (Documentation/admin-guide/mm/pagemap.rst), which older headers lack.
struct as_scan_region {
    uint64_t start, end, categories;
};
struct as_scan_arg {
    uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
enum {
    AS_SCAN_FILE = 1 << 2,
    AS_SCAN_PRESENT = 1 << 3,
    AS_SCAN_SWAPPED = 1 << 4,
    AS_SCAN_ZERO = 1 << 5,
    AS_SCAN_HUGE = 1 << 6,
    AS_SCAN_GUARD = 1 << 8 // Linux 6.15
};
#define AS_PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define AS_PAGEMAP_SWAPPED (UINT64_C(1) << 62)
#define AS_PAGEMAP_GUARD (UINT64_C(1) << 58) // Linux 6.15
#define AS_PAGEMAP_EXCLUSIVE (UINT64_C(1) << 56)
#define AS_PAGEMAP_FRAME ((UINT64_C(1) << 55) - 1)

// As ioctl(PAGEMAP_SCAN).
int as_process_scan_pagemap(const struct as_process *p, struct as_scan_arg *arg);
// Reads the pagemap entries of up to AS_ENTRIES pages of [address, end); returns how many were read, 0 with errno.
enum { AS_ENTRIES = 4096 };
size_t as_process_read_entries(const struct as_process *p, uint64_t address, uint64_t end, uint64_t *entries);
// The first page of [start, end) that PAGEMAP_SCAN knows to be present or swapped; `end`: none; AS_UNKNOWN: it cannot be asked.
uint64_t as_process_scan_first(struct as_process *p, uint64_t start, uint64_t end);
