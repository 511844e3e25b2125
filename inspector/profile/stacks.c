// SPDX-License-Identifier: MIT
#include "profile/stacks.h"

#define FRAME_KEY (UINT64_C(1) << 63) // no address and no module's index has this bit

static uint32_t frame_record(struct as_profile_stacks *s, uint64_t frame, struct as_error *err)
{
    uint64_t module = frame >> 48;
    bool interpreted = module == AS_PROFILE_PYTHON || module == AS_PROFILE_RUBY;
    uint32_t known = as_number_map_get(&s->frames, frame | FRAME_KEY);
    if (known)
        return known - 1;
    struct as_profile_frame_record *record = as_vec_add(&s->store->profile_frames, err);
    uint32_t index = (uint32_t)(s->store->profile_frames.count - 1);
    if (!record || !as_number_map_put(&s->frames, frame | FRAME_KEY, index + 1, err))
        return UINT32_MAX;
    record->module = module < s->module_count ? s->module_of[module] : UINT32_MAX;
    record->offset = interpreted ? 0 : frame & ((UINT64_C(1) << 48) - 1);
    record->line = 0;
    if (!interpreted || !s->line)
        return index;
    uint32_t line = s->line(s->reader, frame, err);
    s->store->profile_frames.items[index].line = line;
    return line ? index : UINT32_MAX;
}

static uint32_t stack_record(struct as_profile_stacks *s, uint32_t caller, uint32_t frame, struct as_error *err)
{
    uint64_t key = ((uint64_t)caller + 1) << 32 | (frame + UINT64_C(1)); // of the outermost frame: 0
    uint32_t known = as_number_map_get(&s->stacks, key);
    if (known)
        return known - 1;
    struct as_profile_stack_record *record = as_vec_add(&s->store->profile_stacks, err);
    uint32_t index = (uint32_t)(s->store->profile_stacks.count - 1);
    if (!record || !as_number_map_put(&s->stacks, key, index + 1, err))
        return UINT32_MAX;
    *record = (struct as_profile_stack_record){.frame = frame, .caller = caller};
    return index;
}

uint32_t as_profile_stacks_add(struct as_profile_stacks *s, uint32_t caller, uint64_t frame, struct as_error *err)
{
    uint32_t record = frame_record(s, frame, err);
    return record == UINT32_MAX ? UINT32_MAX : stack_record(s, caller, record, err);
}

// 0: it is not written yet, or it is no frame.
static uint64_t frame_at(const struct as_profile_tree *tree, uint64_t stack)
{
    uint32_t word = tree->stacks[stack];
    return word != 0 && word < tree->frame_count ? tree->frames[word] : 0;
}

void as_profile_stacks_measure(const struct as_profile_tree *tree, struct as_profile_stack_state *states)
{
    for (uint64_t i = 1; i < tree->stack_count; i++) {
        uint32_t caller = as_profile_caller(tree->stacks, (uint32_t)i);
        if (frame_at(tree, i) == 0 || caller >= i)
            continue;
        uint32_t depth = caller ? states[caller].depth : 0;
        if (depth < AS_PROFILE_DEPTH && (depth > 0 || !caller))
            states[i].depth = depth + 1;
    }
}

uint32_t as_profile_stacks_add_known(struct as_profile_stacks *s, const struct as_profile_tree *tree,
                                     struct as_profile_stack_state *states, uint32_t stack, struct as_error *err)
{
    uint32_t fresh[AS_PROFILE_DEPTH], count = 0, at = stack;
    for (; at && states[at].record == 0; at = as_profile_caller(tree->stacks, at))
        fresh[count++] = at;
    uint32_t record = at ? states[at].record - 1 : UINT32_MAX;
    while (count-- > 0) {
        if ((record = as_profile_stacks_add(s, record, frame_at(tree, fresh[count]), err)) == UINT32_MAX)
            return UINT32_MAX;
        states[fresh[count]].record = record + 1;
    }
    return record;
}

void as_profile_stacks_free(struct as_profile_stacks *s)
{
    as_number_map_free(&s->frames);
    as_number_map_free(&s->stacks);
}

void as_profile_build_id_text(const uint8_t *id, uint32_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (uint32_t i = 0; i < size && i < AS_PROFILE_BUILD_ID; i++) {
        *out++ = digits[id[i] >> 4];
        *out++ = digits[id[i] & 15];
    }
    *out = '\0';
}
