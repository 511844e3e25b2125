// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "cli/options.h"

#include "cli/enum_names.h"
#include "libc/libc.h"
#include "png/palette.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_LAYOUT_SOURCE = 256,
    OPT_MODE,
    OPT_MAX_PAUSE,
    OPT_MAX_HOLD,
    OPT_MAX_MEMORY,
    OPT_PALETTE,
    OPT_SCALE,
    OPT_JSON,
    OPT_CHUNKS,
    OPT_OBJECTS,
    OPT_GRAPH,
    OPT_EVENTS,
    OPT_FORCE,
    OPT_TIMEOUT,
    OPT_FORECAST,
    OPT_DEEP,
    OPT_ARENA,
    OPT_WATCH,
    OPT_FOR,
    OPT_EXACT,
    OPT_RATES,
    OPT_STOP,
    OPT_UNTIL_EOF,
    OPT_ENTRY
};

static const struct option long_options[] = {
    {"help", no_argument, NULL, 'h'},
    {"output", required_argument, NULL, 'o'},
    {"json", no_argument, NULL, OPT_JSON},
    {"chunks", no_argument, NULL, OPT_CHUNKS},
    {"objects", no_argument, NULL, OPT_OBJECTS},
    {"graph", no_argument, NULL, OPT_GRAPH},
    {"events", no_argument, NULL, OPT_EVENTS},
    {"palette", required_argument, NULL, OPT_PALETTE},
    {"scale", required_argument, NULL, OPT_SCALE},
    {"force", no_argument, NULL, OPT_FORCE},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"forecast", no_argument, NULL, OPT_FORECAST},
    {"deep", no_argument, NULL, OPT_DEEP},
    {"arena", required_argument, NULL, OPT_ARENA},
    {"watch", required_argument, NULL, OPT_WATCH},
    {"for", required_argument, NULL, OPT_FOR},
    {"exact", no_argument, NULL, OPT_EXACT},
    {"rates", required_argument, NULL, OPT_RATES},
    {"stop", no_argument, NULL, OPT_STOP},
    {"until-eof", no_argument, NULL, OPT_UNTIL_EOF},
    {"entry", no_argument, NULL, OPT_ENTRY},
    {"layout-source", required_argument, NULL, OPT_LAYOUT_SOURCE},
    {"mode", required_argument, NULL, OPT_MODE},
    {"max-pause", required_argument, NULL, OPT_MAX_PAUSE},
    {"max-hold", required_argument, NULL, OPT_MAX_HOLD},
    {"max-memory", required_argument, NULL, OPT_MAX_MEMORY},
    {0},
};

// Which commands' option this is, one bit for each; 0: every command's.
static uint32_t bit_of(int option)
{
    switch (option) {
    case 'o':
        return AS_OPTION_OUTPUT;
    case OPT_JSON:
        return AS_OPTION_JSON;
    case OPT_CHUNKS:
        return AS_OPTION_CHUNKS;
    case OPT_OBJECTS:
        return AS_OPTION_OBJECTS;
    case OPT_GRAPH:
        return AS_OPTION_GRAPH;
    case OPT_EVENTS:
        return AS_OPTION_EVENTS;
    case OPT_PALETTE:
        return AS_OPTION_PALETTE;
    case OPT_SCALE:
        return AS_OPTION_SCALE;
    case OPT_TIMEOUT:
        return AS_OPTION_INJECT | AS_OPTION_POLICY;
    case OPT_FORECAST:
    case OPT_DEEP:
    case OPT_ARENA:
    case OPT_WATCH:
    case OPT_MAX_HOLD:
        return AS_OPTION_TRIM;
    case OPT_FOR:
    case OPT_EXACT:
    case OPT_RATES:
    case OPT_STOP:
    case OPT_UNTIL_EOF:
    case OPT_ENTRY:
        return AS_OPTION_PROFILE;
    default:
        return 0;
    }
}

// "dwarf,symtab": a bit for each.
static bool read_sources(const char *list, uint32_t *allowed, struct as_error *err)
{
    *allowed = 0;
    while (*list) {
        size_t length = strcspn(list, ",");
        uint32_t source = AS_LAYOUT_DWARF;
        while (source <= AS_LAYOUT_SCAN &&
               (strncmp(list, as_source_name(source), length) != 0 || as_source_name(source)[length] != '\0'))
            source++;
        if (source > AS_LAYOUT_SCAN)
            return as_fail(err, AS_USAGE,
                           "--layout-source '%.*s': give a list of dwarf, symtab, relocation, decode, scan",
                           (int)length, list);
        *allowed |= 1u << source;
        list += length;
        list += *list == ',';
    }
    return *allowed != 0 || as_fail(err, AS_USAGE, "--layout-source needs at least one source");
}

static bool read_scale(const char *text, uint32_t *scale, struct as_error *err)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < 1 || value > 16)
        return as_fail(err, AS_USAGE, "--scale '%s': give 1 to 16, the pixels for one page of an overview", text);
    *scale = (uint32_t)value;
    return true;
}

static bool read_mode(const char *text, uint32_t *mode, struct as_error *err)
{
    static const struct {
        const char *name;
        uint32_t mode;
    } modes[] = {{"auto", 0}, {"freeze", AS_MODE_FREEZE}, {"clone", AS_MODE_CLONE}, {"live", AS_MODE_LIVE}};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        *mode = modes[i].mode;
        if (strcmp(text, modes[i].name) == 0)
            return true;
    }
    return as_fail(err, AS_USAGE, "--mode '%s': give auto, freeze, clone or live", text);
}

// "50ms", "1s", "0.5s", "200us".
static bool read_duration(const char *name, const char *text, uint64_t *ns, struct as_error *err)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    char *end;
    double value = strtod(text, &end);
    for (size_t i = 0; *text >= '0' && *text <= '9' && i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].name) != 0 || value * units[i].ns < 1 || value * units[i].ns > 3600e9)
            continue;
        *ns = (uint64_t)(value * units[i].ns);
        return true;
    }
    return as_fail(err, AS_USAGE, "--%s '%s': give a time such as 5ms, 0.5s or 200us, at most an hour", name, text);
}

// "512M", "2G": bytes.
static bool read_size(const char *name, const char *text, uint64_t *bytes, struct as_error *err)
{
    static const char units[] = "KMG";
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (*text < '0' || *text > '9' || (*end && (!unit || end[1])) || value == 0 || value > UINT64_MAX >> 10 >> shift)
        return as_fail(err, AS_USAGE, "--%s '%s': give bytes, such as 512M or 2G", name, text);
    *bytes = (uint64_t)value << shift;
    return true;
}

// As every output has it: 0x and hexadecimal digits.
static bool read_address(const char *text, uint64_t *address)
{
    char *end;
    *address = strtoull(text, &end, 16);
    return strncmp(text, "0x", 2) == 0 && text[2] != '\0' && *end == '\0' && *address != 0 && *address != UINT64_MAX;
}

static bool read_arena(const char *text, uint64_t *address, struct as_error *err)
{
    return read_address(text, address) ||
           as_fail(err, AS_USAGE,
                   "--arena '%s': give an arena's address such as 0x7f1234000030 (arenadump summary lists them)", text);
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

static bool read_value(struct as_options *o, int option, const char *value, struct as_error *err)
{
    switch (option) {
    case 'h':
        o->help = true;
        return true;
    case 'o':
        o->output = value;
        return true;
    case OPT_JSON:
        o->json = true;
        return true;
    case OPT_CHUNKS:
        o->chunks = true;
        return true;
    case OPT_OBJECTS:
        o->objects = true;
        return true;
    case OPT_GRAPH:
        o->graph = true;
        return true;
    case OPT_EVENTS:
        o->events = true;
        return true;
    case OPT_SCALE:
        return read_scale(value, &o->scale, err);
    case OPT_LAYOUT_SOURCE:
        return read_sources(value, &o->allowed_sources, err);
    case OPT_PALETTE:
        o->palette = strcmp(value, "safe") == 0 ? AS_PALETTE_SAFE : AS_PALETTE_PHUSION;
        return o->palette == AS_PALETTE_SAFE || strcmp(value, "phusion") == 0 ||
               as_fail(err, AS_USAGE, "--palette '%s': give phusion or safe", value);
    case OPT_MODE:
        return read_mode(value, &o->mode, err);
    case OPT_MAX_PAUSE:
        return read_duration("max-pause", value, &o->max_pause_ns, err);
    case OPT_MAX_HOLD:
        return read_duration("max-hold", value, &o->max_hold_ns, err);
    case OPT_MAX_MEMORY:
        return read_size("max-memory", value, &o->max_memory, err);
    case OPT_TIMEOUT:
        return read_duration("timeout", value, &o->timeout_ns, err);
    case OPT_WATCH:
        return read_duration("watch", value, &o->watch_ns, err);
    case OPT_FOR:
        return read_duration("for", value, &o->for_ns, err);
    case OPT_EXACT:
        o->exact = true;
        return true;
    case OPT_RATES:
        o->rates = value;
        return true;
    case OPT_STOP:
        o->stop = true;
        return true;
    case OPT_UNTIL_EOF:
        o->until_eof = true;
        return true;
    case OPT_ENTRY:
        o->entry = true;
        return true;
    case OPT_ARENA:
        return read_arena(value, &o->arena, err);
    case OPT_FORCE:
        o->force = true;
        return true;
    case OPT_FORECAST:
        o->forecast = true;
        return true;
    case OPT_DEEP:
        o->deep = true;
        return true;
    default:
        return as_fail(err, AS_INTERNAL, "an unhandled option: %d", option);
    }
}

bool as_options_read(struct as_options *o, int argc, char **argv, uint32_t takes, struct as_error *err)
{
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
            return as_fail(err, AS_USAGE, "%s: unknown option '%s' (arenadump %s --help lists all)", argv[0], word,
                           argv[0]);
        uint32_t bit = bit_of(option);
        if (bit && !(takes & bit))
            return as_fail(err, AS_USAGE, "%s: the option '%s' belongs to another command (arenadump --help lists all)",
                           argv[0], word);
        if (!read_value(o, option, optarg, err))
            return false;
    }
    if (o->help)
        return true;
    if (optind == argc)
        return as_fail(err, AS_USAGE, "%s: no target given: give a process id, a core file or a dump file", argv[0]);
    o->targets = &argv[optind];
    o->target_count = takes & AS_OPTION_MANY ? argc - optind : 1;
    o->target = argv[optind];
    optind += o->target_count;
    if ((takes & AS_OPTION_ADDRESS) && !read_chunk(o, argv[0], optind < argc ? argv[optind++] : NULL, err))
        return false;
    if (optind < argc)
        return as_fail(err, AS_USAGE, "%s: one target at a time; '%s' is one too many", argv[0], argv[optind]);
    if ((takes & AS_OPTION_OUTPUT) && !o->output && !o->stop)
        return as_fail(err, AS_USAGE, "%s: no output given: use -o", argv[0]);
    return true;
}
