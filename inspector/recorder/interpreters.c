// SPDX-License-Identifier: MIT
#include "recorder/interpreters.h"
#include "recorder/hot_path.h"

bool as_interpreters_find(void)
{
    bool python = as_python_find(), ruby = as_cruby_find();
    if (as_recorder.head) {
        as_recorder.head->unknown_python = as_python.unknown;
        as_recorder.head->unknown_ruby = as_cruby.unknown;
    }
    return python && ruby;
}

uint64_t as_interpreters_name(struct as_inner_walk *walk, const struct as_inner_frame *frame)
{
    uint64_t key = as_recorder_mix_in(walk->language, frame->key);
    struct as_inner_known *known = &as_recorder.names[key & as_recorder.names_mask];
    uint64_t name = atomic_load_explicit(&known->identity, memory_order_relaxed);
    if ((atomic_load_explicit(&known->check, memory_order_relaxed) ^ name) == key && name != 0)
        return name;
    name = walk->language == AS_PROFILE_PYTHON ? as_python_name(walk, frame) : as_cruby_name(walk, frame);
    atomic_store_explicit(&known->identity, name, memory_order_relaxed);
    atomic_store_explicit(&known->check, key ^ name, memory_order_relaxed);
    return name;
}
