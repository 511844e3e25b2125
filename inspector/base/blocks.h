// SPDX-License-Identifier: MIT
// Memory of vectors that arenadump serve keeps from one snapshot to the next. To map memory, to fault its pages in and to unmap it
// takes more time than a snapshot of a small process spends in most vectors.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// From now on there are blocks. They are given out from a call of as_blocks_open to the next of as_blocks_close.
void as_blocks_keep(void);

// For any thread.
void as_blocks_open(void);
void as_blocks_close(void);

// Closes them. A child that is forked next has none of their pages, so that none is copied when we write to it. But if a block is in
// use, the child has all of them, with what they hold.
void as_blocks_before_fork(void);

// The size of the block for so many bytes; 0: there is none, as they are too many, or blocks are closed.
size_t as_block_size(size_t bytes);

// A block of a size that as_block_size has returned, all zeros; NULL: all are in use.
void *as_block_take(size_t size);

bool as_is_block(const void *memory);

// Gives a block back.
void as_block_return(void *block);
