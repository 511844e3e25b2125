// SPDX-License-Identifier: MIT
// Growable arrays in memory of our own (mmap, mremap), never from malloc: the same code runs inside a process
// whose heap it walks, where an allocation would change what is being measured, or deadlock.
#pragma once

#include "base/each.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

// Declares a vector type: `AS_VEC(struct as_thread) threads;`. All zero is an empty vector.
#define AS_VEC(T)                                                                                                      \
    struct {                                                                                                           \
        T *items;                                                                                                      \
        size_t count;                                                                                                  \
        size_t capacity;                                                                                               \
    }

// Makes room for `more` further items. New room is zeroed. False (AS_NO_MEMORY) leaves the vector as it was.
#define as_vec_reserve(vec, more, err)                                                                                 \
    as_vec_grow((void **)&(vec)->items, &(vec)->capacity, (vec)->count, (more), sizeof *(vec)->items, (err))

// Appends one zeroed item and yields its address, or NULL when memory ran out.
#define as_vec_add(vec, err) (as_vec_reserve(vec, 1, err) ? &(vec)->items[(vec)->count++] : NULL)

// Appends an item, the last argument, which is computed behind the new room. False (AS_NO_MEMORY): memory ran out.
#define as_vec_push(vec, err, ...)                                                                                     \
    (as_vec_reserve(vec, 1, err) && ((vec)->items[(vec)->count] = (__VA_ARGS__), (vec)->count++, true))

// Returns the vector's memory to the kernel and makes it empty.
#define as_vec_free(vec)                                                                                               \
    (as_vec_release((void **)&(vec)->items, &(vec)->capacity, sizeof *(vec)->items), (void)((vec)->count = 0))

// The same for vectors that are fields of a record.
#define AS_FREE_VECS(record, ...) AS_EACH(AS_FREE_VEC, , record, __VA_ARGS__)
#define AS_FREE_VEC(to, record, field) as_vec_free(&(record)->field)

// Each item of a vector, or of an array, in turn: `AS_FOR_EACH(const struct as_thread, thread, &threads) ...`. The vector is not to be
// changed meanwhile. `condition`: the loop ends where it does not hold.
#define AS_FOR_EACH(T, item, vec) AS_FOR_ITEMS(T, item, (vec)->items, (vec)->count)
#define AS_FOR_EACH_WHILE(condition, T, item, vec) AS_FOR_ITEMS_WHILE(condition, T, item, (vec)->items, (vec)->count)
#define AS_FOR_ITEMS(T, item, first, count) AS_FOR_ITEMS_WHILE(true, T, item, first, count)
// NOLINTBEGIN(bugprone-macro-parentheses): what is declared has none
#define AS_FOR_ITEMS_WHILE(condition, T, item, first, count)                                                           \
    for (T *item = (first), *item##_end = item ? item + (count) : item; item < item##_end && (condition); item++)
// NOLINTEND(bugprone-macro-parentheses)

// The binary search: the first index of [low, high) for which a condition is false that holds for all before it and for none behind it;
// `high` where it holds for all, `low` where there is none. The condition is an expression of `index`, which the search declares.
#define AS_PARTITION_POINT(low, high, index, condition)                                                                \
    __extension__({                                                                                                    \
        size_t from_ = (low), to_ = (high);                                                                            \
        while (from_ < to_) {                                                                                          \
            size_t index = from_ + (to_ - from_) / 2;                                                                  \
            if (condition)                                                                                             \
                from_ = (index) + 1;                                                                                   \
            else                                                                                                       \
                to_ = index;                                                                                           \
        }                                                                                                              \
        from_;                                                                                                         \
    })

bool as_vec_grow(void **items, size_t *capacity, size_t count, size_t more, size_t item_size, struct as_error *err);
void as_vec_release(void **items, size_t *capacity, size_t item_size);

// NUL-separated strings, referred to by their offset; offset 0 is the empty string.
struct as_strings {
    char *items;
    size_t count;
    size_t capacity;
};

// Appends a copy of the string (at most `max` bytes of it) and returns its offset; 0 (the empty string) when memory ran out.
uint32_t as_strings_add(struct as_strings *strings, const char *text, size_t max);

// The string at an offset that as_strings_add returned.
const char *as_strings_at(const struct as_strings *strings, uint32_t offset);
