// SPDX-License-Identifier: MIT
// The names of Ruby's classes. Releases keep a class's name at different places: up to 3.1 as an instance variable without a name
// that a program could use, from 3.2 on in a word of the class itself. The place is found, not known: it is where most classes have a
// string that is the name of a constant. It is believed if by it the class that all classes have is called Class, and String's
// and Object's are found, too.
#include "runtimes/ruby_classes.h"

#include <string.h>

enum {
    OLD_ALIGN = 16384, // pages of releases up to 3.1
    NAME = 256,
    WORDS = 20,       // of a class's slot
    FIRST_WORD = 3,   // behind flags, class and superclass
    EXTENSION_AT = 3, // word of a class up to 3.1: the address of what does not fit into the slot
    TABLES = 8,       // words of the extension that may be the table of instance variables
    TABLE_WORDS = 7,  // of struct st_table
    TABLE_COUNT = 2,  // words of it
    TABLE_BOUND = 5,
    TABLE_ENTRIES = 6,
    MOST_ENTRIES = 256,
    ENTRY_WORDS = 3, // hash, key, record
    PLACES = 256,
    MOST_CLASSES = 512, // that vote
    NOT_EMBEDDED = 1 << 13,
    LENGTH_SHIFT = 14, // of an embedded string's length in its flags, up to 3.1
    LENGTH_MASK = 31,
};

static bool is_old(const struct as_ruby_classes *c)
{
    return c->layout->align == OLD_ALIGN;
}

// Reads a string object's text of at most size - 1 bytes. False: there is no string, or it is longer, or empty.
static bool read_text(struct as_ruby_classes *c, uint64_t string, char *text, size_t size)
{
    uint64_t words[4]; // flags, class, then length or text
    if (string % sizeof(uint64_t) != 0 || !as_ruby_in_pages(c->store, string) ||
        !as_target_read(c->target, string, words, sizeof words) || as_ruby_type_of(words[0]) != AS_RUBY_T_STRING)
        return false;
    bool embedded = !(words[0] & NOT_EMBEDDED);
    uint64_t length = is_old(c) && embedded ? words[0] >> LENGTH_SHIFT & LENGTH_MASK : words[2];
    uint64_t at = !embedded ? words[3] : string + (is_old(c) ? 2 : 3) * sizeof(uint64_t);
    if (length == 0 || length >= size || !as_target_read(c->target, at, text, length))
        return false;
    text[length] = 0;
    return strlen(text) == length;
}

static bool is_constant(const char *name)
{
    bool begins = true;
    for (const unsigned char *at = (const unsigned char *)name; *at; at++) {
        bool upper = (*at >= 'A' && *at <= 'Z') || *at >= 0x80;
        bool other = (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || *at == '_';
        if (begins ? !upper : !upper && !other && *at != ':')
            return false;
        begins = false;
        if (*at == ':') {
            begins = at[1] == ':';
            at += begins;
            if (!begins)
                return false;
        }
    }
    return !begins;
}

struct vote {
    struct as_ruby_name_place places[PLACES];
    size_t count;
};

static void vote_for(struct vote *v, uint32_t word, uint64_t key)
{
    size_t i = 0;
    while (i < v->count && (v->places[i].word != word || v->places[i].key != key))
        i++;
    if (i == v->count && v->count < PLACES)
        v->places[v->count++] = (struct as_ruby_name_place){word, key, 0};
    if (i < v->count)
        v->places[i].votes++;
}

struct variable_entries {
    uint64_t words[MOST_ENTRIES * ENTRY_WORDS];
    uint64_t count;
};

// Reads the entries of a table of instance variables. False: there is none.
static bool read_table(struct as_ruby_classes *c, uint64_t address, struct variable_entries *e)
{
    uint64_t table[TABLE_WORDS];
    if (address == 0 || address % sizeof(uint64_t) != 0 || !as_target_read(c->target, address, table, sizeof table) ||
        table[TABLE_COUNT] == 0 || table[TABLE_BOUND] < table[TABLE_COUNT] || table[TABLE_BOUND] > UINT32_MAX)
        return false;
    e->count = table[TABLE_BOUND] < MOST_ENTRIES ? table[TABLE_BOUND] : MOST_ENTRIES;
    return table[TABLE_ENTRIES] % sizeof(uint64_t) == 0 &&
           as_target_read(c->target, table[TABLE_ENTRIES], e->words, e->count * ENTRY_WORDS * sizeof *e->words);
}

// Reads the words of a class that may lead to its name; how many: 0 if they cannot be read.
static size_t read_words(struct as_ruby_classes *c, uint64_t class, uint64_t *words)
{
    if (!is_old(c))
        return as_target_read(c->target, class, words, WORDS * sizeof *words) ? WORDS : 0;
    uint64_t extension;
    return as_target_read_u64(c->target, class + EXTENSION_AT * sizeof(uint64_t), &extension) && extension != 0 &&
                   extension % sizeof(uint64_t) == 0 &&
                   as_target_read(c->target, extension, words, TABLES * sizeof *words)
               ? TABLES
               : 0;
}

static void vote_of_class(struct as_ruby_classes *c, struct vote *v, uint64_t class)
{
    uint64_t words[WORDS];
    char name[NAME];
    struct variable_entries table;
    size_t count = read_words(c, class, words);
    for (size_t i = is_old(c) ? 0 : FIRST_WORD; i < count; i++) {
        if (!is_old(c)) {
            if (read_text(c, words[i], name, sizeof name) && is_constant(name))
                vote_for(v, (uint32_t)i, 0);
            continue;
        }
        if (!read_table(c, words[i], &table))
            continue;
        for (uint64_t k = 0; k < table.count; k++)
            if (read_text(c, table.words[k * ENTRY_WORDS + 2], name, sizeof name) && is_constant(name))
                vote_for(v, (uint32_t)i, table.words[k * ENTRY_WORDS + 1]);
    }
}

bool as_ruby_class_name(struct as_ruby_classes *c, const struct as_ruby_name_place *place, uint64_t class, char *name,
                        size_t size)
{
    uint64_t words[WORDS];
    struct variable_entries table;
    if (read_words(c, class, words) <= place->word)
        return false;
    if (!is_old(c))
        return read_text(c, words[place->word], name, size);
    if (!read_table(c, words[place->word], &table))
        return false;
    for (uint64_t k = 0; k < table.count; k++)
        if (table.words[k * ENTRY_WORDS + 1] == place->key)
            return read_text(c, table.words[k * ENTRY_WORDS + 2], name, size);
    return false;
}

// Is the class of most objects of a type called so by what a place says?
static bool is_called(struct as_ruby_classes *c, const struct as_ruby_name_place *place, uint32_t type,
                      const char *wanted)
{
    const struct as_ruby_pair *most = NULL;
    char name[NAME];
    AS_FOR_EACH(const struct as_ruby_pair, pair, &c->pairs)
        if (pair->type == type && pair->kind == AS_CLASS_NAMED && (!most || pair->count > most->count))
            most = pair;
    return most && as_ruby_class_name(c, place, most->class, name, sizeof name) && strcmp(name, wanted) == 0;
}

bool as_ruby_find_names(struct as_ruby_classes *c, struct as_ruby_name_place *place)
{
    struct vote v = {.count = 0};
    for (size_t i = 0; i < c->pairs.count && i < MOST_CLASSES; i++)
        if (c->pairs.items[i].kind == AS_CLASS_NAMED)
            vote_of_class(c, &v, c->pairs.items[i].class);
    *place = (struct as_ruby_name_place){0};
    for (size_t i = 0; i < v.count; i++)
        if (v.places[i].votes > place->votes)
            *place = v.places[i];
    return place->votes > 0 && is_called(c, place, AS_RUBY_T_CLASS, "Class") &&
           is_called(c, place, AS_RUBY_T_STRING, "String") && is_called(c, place, AS_RUBY_T_ARRAY, "Array");
}
