// SPDX-License-Identifier: MIT
// Ruby's own heap in a target: the pages that its objects live in, and how many of their slots are free. Up to 3.0 they are
// chunks of malloc's, from 3.1 on mappings of their own. Found from outside, with no symbols: by structure, and proven (ruby_find.c).
#pragma once

#include "base/vec.h"
#include "runtimes/finder.h"
#include "runtimes/visitor.h"

// One page of Ruby's heap ("heap page" in gc.c; not a page of the kernel's).
struct as_ruby_page {
    uint64_t address;
    uint32_t size;        // bytes that are Ruby's
    uint32_t first_slot;  // its offset in the page
    uint32_t slot_size;   // bytes of one slot; 0 for a page that is not divided yet
    uint32_t total_slots; // objects that it has room for
    uint32_t free_slots;  // of them, those that hold no object; what has died since the last sweep still counts as one
};

struct as_ruby {
    bool present;                      // a Ruby interpreter is mapped here
    bool proven;                       // `pages` are all there are: those of Ruby's own array of them
    const char *releases;              // which releases have the structures that fitted, "3.2, 3.3"; NULL: none did
    AS_VEC(struct as_ruby_page) pages; // by address
    // What lies on each of the kernel's pages of them, if that is wanted; as in store->runtime_pages.
    bool wants_kernel_pages;
    as_runtime_page_vec kernel_pages;
};

// Finds Ruby's pages, if an object has its interpreter (store->ruby_interpreter): store->ruby, and with in->pages in store->runtime_pages what lies on each of the kernel's pages of them.
// store->meta.ruby says whether there is a Ruby, and whether its pages could be proven.
bool as_ruby_find(const struct as_finder_input *in);

// Counts the objects on store->ruby's pages by type, into store->types, with a record in store->runtimes. `chunks`: addresses of all
// chunks of malloc in use, in order: those that objects point to are counted with them. AS_NO_MEMORY.
bool as_ruby_objects(struct as_target *t, struct as_store *store, const uint64_t *chunks, size_t chunk_count,
                     struct as_error *err);

// Are all of store->ruby's pages mappings of their own, proven, and so apart from malloc's chunks (3.1 and later)?
bool as_ruby_is_apart(const struct as_store *store);
// Chunks of malloc's of at least so many bytes may be Ruby's own that lead to objects and hold none.
enum { AS_RUBY_WEAK_CHUNK = 1040 };
// Tells of the objects on store->ruby's pages, if these are apart. `heaps`: all of malloc's chunks lie in there. `chunks`: addresses of
// all chunks in use as above, in order. False: AS_NO_MEMORY.
bool as_ruby_visit(struct as_target *t, const struct as_store *store, const struct as_range *heaps,
                   const uint64_t *chunks, size_t chunk_count, const struct as_object_visitor *visitor,
                   struct as_visited *visited, struct as_error *err);
