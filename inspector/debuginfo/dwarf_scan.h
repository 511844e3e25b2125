// SPDX-License-Identifier: MIT
// How an index of debug information is filled: unit by unit (dwarf_units.c), and in each DIE by DIE.
#pragma once

#include "debuginfo/dwarf_index.h"

#ifdef HAVE_LIBDW

#include <elfutils/libdw.h>

// A struct whose declaration was not yet known: it is elsewhere in the unit.
struct as_dwarf_forward {
    const void *declaration; // a DIE
    const char *name;
    uint32_t scope;
};

struct as_dwarf_scan {
    struct as_dwarf_index *index;
    struct as_error *err;
    uint64_t base;
    const uint8_t *addresses; // of the module's .debug_addr, in a .dwo file the part of the unit
    uint64_t address_count;
    uint64_t tls_start, tls_size; // of the module
    const void *own_type;         // the DIE of the type that the unit is for; NULL: it is for none
    uint64_t signature;           // of this type
    AS_VEC(struct as_dwarf_forward) forward;
    uint32_t first_run; // of the file
    uint32_t module;
    bool failed;
    bool c; // the unit is in C
};

// All below a DIE, which lies in `scope`.
void as_dwarf_scan_children(struct as_dwarf_scan *s, Dwarf_Die *parent, uint32_t scope, unsigned depth);
// The scopes from `first` on: where those lie whose declarations were not yet known. To be called at a unit's end.
void as_dwarf_scan_settle(struct as_dwarf_scan *s, uint32_t first);

// As dwarf_formref_die, but of a type with a unit of its own. *signature, of which the unit is not known yet; else 0.
bool as_dwarf_refer(const struct as_dwarf_index *x, Dwarf_Attribute *attribute, Dwarf_Die *die, uint64_t *signature);
// Goes from a DIE that stands for a type with a unit of its own to this type. The signature of the unit, if it is not known; else 0.
uint64_t as_dwarf_own_unit(const struct as_dwarf_index *x, Dwarf_Die *die);
// The scope that a DIE is, while the index is filled, in the runs from that one on; 0: none.
uint32_t as_dwarf_scope_among(const struct as_dwarf_index *x, uint32_t first_run, const void *die);

#endif
