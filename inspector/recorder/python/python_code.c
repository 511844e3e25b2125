// SPDX-License-Identifier: MIT
// What a code object is recognised by: its names and its table of lines, by their contents. Its address says nothing: the next one may be
// made where one has died. To read all of that for each frame of each allocation would take too long. So it is remembered by the
// address, until the code object dies (python_watch.c).
#include "recorder/hot_path.h"
#include "recorder/python/python.h"

#include <string.h>

enum {
    MOST_TEXT = 1 << 12,  // characters of a name
    MOST_LINES = 1 << 20, // bytes of a table of lines
};

// --- Objects -------------------------------------------------------------------------------------------------

bool as_python_is_object(uintptr_t object, uintptr_t size, uintptr_t type)
{
    return object % sizeof(uintptr_t) == 0 && as_inner_readable(object, size) &&
           as_inner_word(object + AS_PYTHON_TYPE) == type;
}

bool as_python_text(uintptr_t object, struct as_python_text *text)
{
    if (!as_python_is_object(object, AS_PYTHON_STATE + sizeof(uint32_t), as_python.text_type))
        return false;
    uint32_t state = as_inner_half(object + AS_PYTHON_STATE) >> 2; // whether it is interned
    text->length = as_inner_word(object + AS_PYTHON_SIZE);
    text->kind = state & 7;
    text->ascii = state & 16;
    text->at = object + (text->ascii ? as_python.layout.ascii : as_python.layout.other);
    bool compact = state & 8;
    return compact && (text->kind == 1 || text->kind == 2 || text->kind == 4) && text->length <= MOST_TEXT &&
           as_inner_readable(text->at, text->length * text->kind + 1);
}

bool as_python_bytes(uintptr_t object, struct as_python_text *bytes)
{
    if (!as_python_is_object(object, AS_PYTHON_BYTES, as_python.bytes_type))
        return false;
    *bytes = (struct as_python_text){object + AS_PYTHON_BYTES, as_inner_word(object + AS_PYTHON_SIZE), 1, false};
    return bytes->length <= MOST_LINES && as_inner_readable(bytes->at, bytes->length + 1);
}

// --- What is remembered -----------------------------------------------------------------------------------------------

struct as_inner_known as_python_codes[AS_PYTHON_KNOWN];
_Atomic uint64_t as_python_deaths;

// A thread that is in a function keeps its code alive, and nobody else writes about it: what one writes is forgotten when it dies.
static void remember(uintptr_t code, uint64_t identity)
{
    struct as_inner_known *known = as_python_known_at(code);
    atomic_store_explicit(&known->identity, identity, memory_order_relaxed);
    atomic_store_explicit(&known->check, code ^ identity, memory_order_relaxed);
}

// It dies; or so it seems: of another address at the same place nothing is forgotten.
void as_python_code_dies(uintptr_t code)
{
    struct as_inner_known *known = as_python_known_at(code);
    if ((atomic_load_explicit(&known->check, memory_order_relaxed) ^
         atomic_load_explicit(&known->identity, memory_order_relaxed)) == code)
        atomic_store_explicit(&known->check, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&as_python_deaths, 1, memory_order_relaxed);
}

void as_python_forget_codes(void)
{
    memset(as_python_codes, 0, sizeof as_python_codes);
}

// --- What it is recognised by -----------------------------------------------------------------------------------------

static bool hash_text(uintptr_t object, uint64_t *hash)
{
    struct as_python_text text;
    if (!as_python_text(object, &text))
        return false;
    *hash = as_inner_hash(text.kind, text.at, text.length * text.kind);
    return true;
}

bool as_python_identify(uintptr_t code, bool keep, uint64_t *identity)
{
    const struct as_python_layout *l = &as_python.layout;
    struct as_python_text lines;
    uint64_t name, file;
    // What a code object that dies has named is freed already.
    if (!as_python_is_object(code, l->bytecode, as_python.code_type) || as_inner_half(code) == 0 ||
        !hash_text(as_inner_word(code + l->name), &name) || !hash_text(as_inner_word(code + l->file), &file) ||
        !as_python_bytes(as_inner_word(code + l->lines), &lines))
        return false;
    *identity = as_recorder_mix_in(as_recorder_mix_in(file, as_inner_half(code + l->first_line)), name);
    *identity = as_inner_hash(*identity, lines.at, lines.length);
    if (keep)
        remember(code, *identity);
    return true;
}
