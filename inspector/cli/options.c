// SPDX-License-Identifier: MIT
#include "cli/options.h"

#include "base/amount.h"
#include "cli/enum_names.h"
#include "cli/nearest.h"
#include "libc/libc.h"
#include "png/palette.h"

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// An option: how it is called, which commands take it (0: every command does), and the field of as_options that it sets.
struct option_row {
    const char *name;
    uint32_t commands; // as_option_bits
    int letter;        // 0: none
    size_t field;
    // Reads the value of the option into the field. NULL: the option has none, and the field becomes true.
    bool (*read)(const struct option_row *row, const char *text, void *field, struct as_error *err);
};

// "dwarf,symtab": a bit for each.
static bool read_sources(const struct option_row *row, const char *list, void *field, struct as_error *err)
{
    uint32_t *allowed = field;
    *allowed = 0;
    while (*list) {
        size_t length = strcspn(list, ",");
        uint32_t source = AS_LAYOUT_DWARF;
        while (source <= AS_LAYOUT_SCAN &&
               (strncmp(list, as_source_name(source), length) != 0 || as_source_name(source)[length] != '\0'))
            source++;
        if (source > AS_LAYOUT_SCAN)
            return as_fail(err, AS_USAGE, "--%s '%.*s': give a list of dwarf, symtab, relocation, decode, scan",
                           row->name, (int)length, list);
        *allowed |= 1u << source;
        list += length;
        list += *list == ',';
    }
    return *allowed != 0 || as_fail(err, AS_USAGE, "--%s needs at least one source", row->name);
}

static bool read_scale(const struct option_row *row, const char *text, void *field, struct as_error *err)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < 1 || value > 16)
        return as_fail(err, AS_USAGE, "--%s '%s': give 1 to 16, the pixels for one page of an overview", row->name,
                       text);
    *(uint32_t *)field = (uint32_t)value;
    return true;
}

static bool read_mode(const struct option_row *row, const char *text, void *field, struct as_error *err)
{
    static const struct {
        const char *name;
        uint32_t mode;
    } modes[] = {{"auto", 0}, {"freeze", AS_MODE_FREEZE}, {"clone", AS_MODE_CLONE}, {"live", AS_MODE_LIVE}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        *(uint32_t *)field = modes[i].mode;
        if (strcmp(text, modes[i].name) == 0)
            return true;
    }
    return as_fail(err, AS_USAGE, "--%s '%s': give auto, freeze, clone or live", row->name, text);
}

// "50ms", "1s", "0.5s", "200us".
static bool read_duration(const struct option_row *row, const char *text, void *field, struct as_error *err)
{
    static const struct as_unit units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {"", 0}};
    uint64_t value;
    if (!as_amount_read(text, strlen(text), units, &value) || value == 0 || value > UINT64_C(3600000000000))
        return as_fail(err, AS_USAGE, "--%s '%s': give a time such as 5ms, 0.5s or 200us, at most an hour", row->name,
                       text);
    *(uint64_t *)field = value;
    return true;
}

// "512M", "2G": bytes.
static bool read_size(const struct option_row *row, const char *text, void *field, struct as_error *err)
{
    uint64_t value;
    if (!as_amount_read(text, strlen(text), as_size_units, &value) || value == 0 || value > UINT64_MAX >> 10)
        return as_fail(err, AS_USAGE, "--%s '%s': give bytes, such as 512M or 2G", row->name, text);
    *(uint64_t *)field = value;
    return true;
}

// As every output has it: 0x and hexadecimal digits.
static bool read_address(const char *text, uint64_t *address)
{
    char *end;
    *address = strtoull(text, &end, 16);
    return strncmp(text, "0x", 2) == 0 && text[2] != '\0' && *end == '\0' && *address != 0 && *address != UINT64_MAX;
}

static bool read_arena(const struct option_row *row, const char *text, void *field, struct as_error *err)
{
    return read_address(text, field) ||
           as_fail(err, AS_USAGE,
                   "--%s '%s': give an arena's address such as 0x7f1234000030 (arenadump summary lists them)",
                   row->name, text);
}

// The second argument of a command that takes an address.
static bool read_chunk(struct as_options *o, const char *command, const char *text, struct as_error *err)
{
    return (text && read_address(text, &o->address)) ||
           as_fail(err, AS_USAGE,
                   "%s: give the address of a chunk, such as 0x55d0c0de02a0, behind the target (arenadump leaks has "
                   "examples)",
                   command);
}

static bool read_palette(const struct option_row *row, const char *text, void *field, struct as_error *err)
{
    bool safe = strcmp(text, "safe") == 0;
    *(uint32_t *)field = safe ? AS_PALETTE_SAFE : AS_PALETTE_PHUSION;
    return safe || strcmp(text, "phusion") == 0 ||
           as_fail(err, AS_USAGE, "--%s '%s': give phusion or safe", row->name, text);
}

static bool read_text(const struct option_row *row, const char *text, void *field, struct as_error *err)
{
    (void)row, (void)err;
    *(const char **)field = text;
    return true;
}

#define FIELD(name) offsetof(struct as_options, name)
static const struct option_row rows[] = {
    {"help", 0, 'h', FIELD(help), NULL},
    {"output", AS_OPTION_OUTPUT, 'o', FIELD(output), read_text},
    {"json", AS_OPTION_JSON, 0, FIELD(json), NULL},
    {"chunks", AS_OPTION_CHUNKS, 0, FIELD(chunks), NULL},
    {"objects", AS_OPTION_OBJECTS, 0, FIELD(objects), NULL},
    {"graph", AS_OPTION_GRAPH, 0, FIELD(graph), NULL},
    {"events", AS_OPTION_EVENTS, 0, FIELD(events), NULL},
    {"palette", AS_OPTION_PALETTE, 0, FIELD(palette), read_palette},
    {"scale", AS_OPTION_SCALE, 0, FIELD(scale), read_scale},
    {"force", 0, 0, FIELD(force), NULL},
    {"timeout", AS_OPTION_INJECT | AS_OPTION_POLICY, 0, FIELD(timeout_ns), read_duration},
    {"forecast", AS_OPTION_TRIM, 0, FIELD(forecast), NULL},
    {"deep", AS_OPTION_TRIM, 0, FIELD(deep), NULL},
    {"arena", AS_OPTION_TRIM, 0, FIELD(arena), read_arena},
    {"watch", AS_OPTION_TRIM, 0, FIELD(watch_ns), read_duration},
    {"max-hold", AS_OPTION_TRIM, 0, FIELD(max_hold_ns), read_duration},
    {"for", AS_OPTION_PROFILE, 0, FIELD(for_ns), read_duration},
    {"exact", AS_OPTION_PROFILE, 0, FIELD(exact), NULL},
    {"rates", AS_OPTION_PROFILE, 0, FIELD(rates), read_text},
    {"stop", AS_OPTION_PROFILE, 0, FIELD(stop), NULL},
    {"until-eof", AS_OPTION_PROFILE, 0, FIELD(until_eof), NULL},
    {"entry", AS_OPTION_PROFILE, 0, FIELD(entry), NULL},
    {"layout-source", 0, 0, FIELD(allowed_sources), read_sources},
    {"mode", 0, 0, FIELD(mode), read_mode},
    {"max-pause", 0, 0, FIELD(max_pause_ns), read_duration},
    {"max-memory", 0, 0, FIELD(max_memory), read_size},
};
enum { ROWS = sizeof rows / sizeof *rows, FIRST = 256 }; // FIRST: what getopt_long returns for the first row

// The row of what getopt_long returned.
static const struct option_row *row_of(int found)
{
    size_t i = 0;
    while (found < FIRST && rows[i].letter != found)
        i++;
    return found < FIRST ? &rows[i] : &rows[found - FIRST];
}

static bool read_value(struct as_options *o, const struct option_row *row, const char *value, struct as_error *err)
{
    void *field = (char *)o + row->field;
    if (row->read)
        return row->read(row, value, field, err);
    *(bool *)field = true;
    return true;
}

static bool unknown_option(const char *command, const char *word, uint32_t takes, struct as_error *err)
{
    const char *names[ROWS];
    size_t count = 0;
    for (size_t i = 0; i < ROWS; i++)
        if (!rows[i].commands || (takes & rows[i].commands))
            names[count++] = rows[i].name;
    char name[AS_NEAREST_LENGTH + 1]; // without what follows "="
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char *near = strncmp(name, "--", 2) == 0 ? as_nearest(name + 2, names, count) : NULL;
    if (near)
        return as_fail(err, AS_USAGE, "%s: unknown option '%s': did you mean --%s? (arenadump help %s)", command, word,
                       near, command);
    return as_fail(err, AS_USAGE, "%s: unknown option '%s' (arenadump %s --help lists all)", command, word, command);
}

bool as_options_read(struct as_options *o, int argc, char **argv, uint32_t takes, struct as_error *err)
{
    struct option long_options[ROWS + 1] = {0};
    for (int i = 0; i < ROWS; i++)
        long_options[i] =
            (struct option){rows[i].name, rows[i].read ? required_argument : no_argument, NULL, FIRST + i};
    *o = (struct as_options){.allowed_sources = AS_LAYOUT_ANY, .scale = 4};
    opterr = 0;
    optind = 0; // glibc begins anew, whatever it was in the middle of before
    for (;;) {
        int option = getopt_long(argc, argv, ":ho:", long_options, NULL);
        if (option == -1)
            break;
        // For a long option optopt says little, but the word itself is the one just passed.
        const char *word = argv[optind - 1];
        if (option == ':')
            return as_fail(err, AS_USAGE, "%s: the option '%s' needs a value", argv[0], word);
        if (option == '?')
            return unknown_option(argv[0], word, takes, err);
        const struct option_row *row = row_of(option);
        if (row->commands && !(takes & row->commands))
            return as_fail(err, AS_USAGE, "%s: the option '%s' belongs to another command (arenadump --help lists all)",
                           argv[0], word);
        if (!read_value(o, row, optarg, err))
            return false;
    }
    if (o->help)
        return true;
    if (optind == argc && !(takes & AS_OPTION_ALONE))
        return as_fail(err, AS_USAGE, "%s: no target given: give a process id, a core file or a dump file", argv[0]);
    o->targets = &argv[optind];
    o->target_count = takes & AS_OPTION_MANY ? argc - optind : takes & AS_OPTION_ALONE ? 0 : 1;
    o->target = argv[optind];
    optind += o->target_count;
    if ((takes & AS_OPTION_ADDRESS) && !read_chunk(o, argv[0], optind < argc ? argv[optind++] : NULL, err))
        return false;
    if (optind < argc)
        return as_fail(err, AS_USAGE, "%s: %s'%s' is one too many", argv[0],
                       takes & AS_OPTION_ALONE ? "" : "one target at a time; ", argv[optind]);
    if ((takes & AS_OPTION_OUTPUT) && !o->output && !o->stop)
        return as_fail(err, AS_USAGE, "%s: no output given: use -o", argv[0]);
    return true;
}
