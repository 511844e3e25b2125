// SPDX-License-Identifier: MIT
// What each word of a type is: a pointer to which type, or none; and which members lead to it.
#pragma once

#include "debuginfo/dwarf_types.h"

// What is known of a word of a type: a pointer to a type, with the flags; or one of these two.
enum {
    AS_SLOT_UNKNOWN = 0,
    AS_SLOT_LOW = 1, // its low half is a number
    AS_SLOT_HIGH = 2,
    AS_SLOT_NUMBER = 3, // it is no pointer
    AS_SLOT_TYPE = 0x00ffffff,
    AS_SLOT_POINTER = 0x40000000,
    AS_SLOT_WEAK = 0x20000000,     // it may be out of use: an element of an array, a member of a union
    AS_SLOT_NODE = 0x10000000,     // to a container's node, which is declared as its base class
    AS_SLOT_ELEMENTS = 0x08000000, // to the elements of a std::vector
    AS_SLOT_MAP = 0x04000000,      // to the pointers of a std::deque to its blocks
    AS_SLOT_TABLE = 0x02000000,    // behind the elements of a hash table of Rust's
};

// What is known of the word at that offset (bytes, a multiple of 8) of a type.
uint32_t as_dwarf_slot(struct as_dwarf_types *t, uint32_t type, uint64_t offset);
// Does an object of type `type` begin with one of type `part`, as its base class or first member?
bool as_dwarf_begins_with(struct as_dwarf_types *t, uint32_t type, uint32_t part);
// The members that lead to the word at that offset of a type: "entries[].value", appended to `text`. False: they are not known.
bool as_dwarf_path(struct as_dwarf_types *t, uint32_t type, uint64_t offset, char *text, size_t size);
