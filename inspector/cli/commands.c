// SPDX-License-Identifier: MIT
#include "cli/commands.h"
#include "cli/cli.h"
#include "cli/memory_limit.h"
#include "cli/nearest.h"
#include "config.h"
#include "debuginfo/demangle.h"
#include "dump/format.h"
#include "findings/humanize.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct command {
    const char *name;
    bool (*run)(const struct as_options *o, struct as_error *err);
    uint32_t takes;   // as_option_bits
    const char *line; // of the help of all
    const char *help;
};

static const struct command commands[] = {
    {"summary", as_cmd_summary, AS_OPTION_JSON | AS_OPTION_OBJECTS | AS_OPTION_GRAPH | AS_SERVED,
     "where the memory is, and what would bring it back",
     "arenadump summary TARGET [--json] [--objects] [--graph]\n"
     "  Prints where the memory is and what would bring it back: a table, or JSON\n"
     "  (arenascope.summary/1: arenascope schema summary). --objects: also the objects\n"
     "  of Python or Ruby by type, for which all their memory is read. --graph: the\n"
     "  JSON has who holds the chunks, of which types they are, and how many are lost.\n"},
    {"dump", as_cmd_dump, AS_OPTION_OUTPUT | AS_OPTION_CHUNKS | AS_OPTION_OBJECTS | AS_OPTION_GRAPH | AS_SERVED,
     "write the state of every page to a file",
     "arenadump dump TARGET -o FILE [--chunks] [--objects] [--graph]\n"
     "  Writes the state of every page to FILE (mode 0600), for another day or another\n"
     "  machine; never the contents of the heap. -o -: to standard output. --chunks:\n"
     "  also the size and the state of every chunk, which png needs for heaps (4 bytes\n"
     "  for each chunk). --objects: also how many objects of each type Python or Ruby\n"
     "  has. --graph: also who holds the chunks, of which types they are, and which\n"
     "  are lost: names and sums; all memory is read for it. TARGET is a process or a\n"
     "  core.\n"},
    {"check", as_cmd_check, AS_OPTION_MANY, "check that a dump is whole and sound",
     "arenadump check DUMP...\n"
     "  Checks that each file is a dump, whole and sound: exit code 0. Prints nothing.\n"},
    {"png", as_cmd_png, AS_OPTION_OUTPUT | AS_OPTION_PALETTE | AS_OPTION_SCALE, "draw every heap and every arena",
     "arenadump png TARGET -o DIR [--palette phusion|safe] [--scale N]\n"
     "  Draws every heap (one pixel for 16 bytes) and every arena (one cell for each\n"
     "  page). --palette safe: colours for any kind of colour vision. --scale: pixels\n"
     "  for one page of an arena, 1 to 16 (the default: 4).\n"},
    {"chunks", as_cmd_chunks, 0, "a line for each chunk: address, size, state",
     "arenadump chunks TARGET\n"
     "  Prints one line for each chunk: address of its header (malloc returned 0x10\n"
     "  more), size in bytes (header included), and state: in_use, tcache, fastbin,\n"
     "  binned, top, metadata or unknown, followed by \"mmapped\" if the chunk has a\n"
     "  mapping of its own. A dump must have been taken with --chunks.\n"},
    {"leaks", as_cmd_leaks, AS_OPTION_JSON, "the chunks in use that nothing points to any more",
     "arenadump leaks TARGET [--json]\n"
     "  Finds the chunks in use that nothing points to any more: by type, with an\n"
     "  example of each. TARGET is a process or a core; all memory of it is read.\n"},
    {"types", as_cmd_types, AS_OPTION_JSON, "what the chunks in use are",
     "arenadump types TARGET [--json]\n"
     "  Finds out what the chunks in use are: how many of each type, and their bytes.\n"
     "  TARGET is a process or a core; all memory of it is read.\n"},
    {"owners", as_cmd_owners, AS_OPTION_JSON, "who holds the chunks in use",
     "arenadump owners TARGET [--json]\n"
     "  Finds who holds the chunks in use: variables, stacks, other memory; and what\n"
     "  would be free without each. TARGET is a process or a core.\n"},
    {"why", as_cmd_why, AS_OPTION_JSON | AS_OPTION_ADDRESS, "the way to a chunk from what holds it",
     "arenadump why TARGET ADDRESS [--json]\n"
     "  Finds out why the chunk at ADDRESS is still held: the shortest way to it from\n"
     "  a variable, a stack or other memory. TARGET is a process or a core.\n"},
    {"sites", as_cmd_sites, AS_OPTION_JSON, "the call stacks that allocated what is in use",
     "arenadump sites TARGET [--json]\n"
     "  Prints the call stacks that allocated what is in use, as a recorder in the\n"
     "  process has noted them (arenascope run --profile, arenadump profile). Frames\n"
     "  are objects and offsets.\n"},
    {"profile", as_cmd_profile,
     AS_OPTION_OUTPUT | AS_OPTION_CHUNKS | AS_OPTION_OBJECTS | AS_OPTION_GRAPH | AS_OPTION_INJECT | AS_OPTION_PROFILE,
     "note for a while who allocates in a process",
     "arenadump profile PID -o FILE [--for TIME] [--until-eof] [--exact]\n"
     "                 [--rates RATES] [--chunks] [--objects] [--graph] [--force]\n"
     "                 [--timeout TIME] [--entry]\n"
     "arenadump profile PID --stop\n"
     "  Notes for a while who allocates in a running process, through the agent, which\n"
     "  is injected first if necessary (the process keeps a thread: inject --help).\n"
     "  The profile ends when Ctrl-C is pressed; --for 60s: after that time at the\n"
     "  latest.\n"
     "  Then the command writes a dump to FILE, from which the command sites prints\n"
     "  the call stacks, and takes the recorder out again.\n"
     "  --exact: every chunk. --rates pages=8,bytes=64K,memory=1G: see\n"
     "  docs/profile.md.\n"
     "  --until-eof: the profile also ends with standard input; no dump is written\n"
     "  then. --entry: patches the entry of malloc and its kin (x86-64), so that calls\n"
     "  through copied pointers are seen. --stop: ends any profile in the process.\n"
     "  --chunks, --objects, --graph: as for dump; --graph: what grew by type, too.\n"
     "  --force, --timeout: as for inject.\n"},
    {"trace", as_cmd_trace, AS_OPTION_JSON | AS_OPTION_EVENTS, "what the trace of a process says",
     "arenadump trace FILE [--json | --events]\n"
     "  Prints what the trace of a process says (arenascope run --trace FILE):\n"
     "  the most that was in use, when, and by which stacks; what was left at its end;\n"
     "  and what a thread freed again before its next allocation. --events: a line for\n"
     "  each malloc and free, in the order of their times: nanoseconds, thread,\n"
     "  function, address, size, number of the stack, alignment.\n"},
    {"trim", as_cmd_trim, AS_OPTION_JSON | AS_OPTION_INJECT | AS_OPTION_TRIM, "return free memory to the kernel",
     "arenadump trim PID [--forecast] [--deep] [--max-hold TIME] [--arena ADDRESS]\n"
     "               [--watch TIME] [--force] [--timeout TIME] [--json]\n"
     "  Returns what malloc_trim(0) would return, through the agent, which is injected\n"
     "  first if necessary (the process keeps a thread: inject --help). --deep: also\n"
     "  the tops of thread arenas, which malloc_trim never returns.\n"
     "  --max-hold 5ms: limit for how long an arena is locked at a time.\n"
     "  --forecast: only print what would come back; nothing is loaded or changed.\n"
     "  --watch 60s: wait, and print how much is resident again. --force, --timeout:\n"
     "  as for inject.\n"},
    {"policy", as_cmd_policy, AS_OPTION_JSON | AS_OPTION_POLICY | AS_SERVED,
     "what the policy of the agent in a process has done",
     "arenadump policy PID [--timeout TIME] [--json]\n"
     "  Prints what the policy of the agent in a process has done so far: checks,\n"
     "  trims and what they returned. Nothing is loaded, nothing changes. --timeout:\n"
     "  how long to wait for each answer of the agent (the default: 10s).\n"},
    {"inject", as_cmd_inject, AS_OPTION_JSON | AS_OPTION_INJECT, "load the agent into a running process",
     "arenadump inject PID [--force] [--timeout TIME] [--json]\n"
     "  Loads the agent (libarenascope.so) into a running process, unless it is there,\n"
     "  and waits for its answer. Refuses, with the reason, if the process might be\n"
     "  harmed (exit code 4 or 5). The process keeps a thread of the agent: the kernel\n"
     "  refuses it what only a process with one thread may do, unshare(CLONE_NEWUSER)\n"
     "  and setns (EINVAL), and malloc takes its locks. --force: inject even if each\n"
     "  thread is under a seccomp filter, which may kill the process, or with few\n"
     "  mappings left.\n"
     "  --timeout: how long to search for a thread that can load the agent safely, and\n"
     "  to wait for dlopen (the default: 10s).\n"
     "  The agent's library is a part of arenadump, and is written to no disk; the\n"
     "  environment variable ARENASCOPE_LIBRARY names a file in its place.\n"},
    {"agent", as_cmd_agent, AS_OPTION_OUTPUT | AS_OPTION_ALONE, "write the agent's library, for LD_PRELOAD",
     "arenadump agent -o FILE\n"
     "  Writes the agent's library, which is a part of arenadump, to FILE, for a\n"
     "  program that is to start with it: LD_PRELOAD=/path/libarenascope.so PROGRAM\n"
     "  (docs/agent.md). The file's name must begin with libarenascope.so; - is\n"
     "  standard output.\n"},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static const char hazards[] = "docs/hazards.md: all that can happen to a running target.\n";

static void print_help(FILE *to)
{
    fprintf(to, "Where did the memory of a process on glibc go, and what will bring it back?\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(to, "  arenadump %-8s %s\n", commands[i].name, commands[i].line);
    fprintf(to,
            "\narenadump help COMMAND prints what it takes, arenadump --version what this build\n"
            "can do. It all begins with: arenadump summary PID\n"
            "\nTARGET is a process id, a core file, or a dump made by arenadump dump. dump,\n"
            "types, leaks, owners and why refuse a dump (exit code 2): it has no contents of\n"
            "memory. TIME is a number with us, ms or s (5ms, 0.5s), at most an hour.\n"
            "\nEvery command:\n"
            "  --mode MODE           freeze: stop the target while it is read. clone: stop it\n"
            "                        only while a copy-on-write clone is made, and read\n"
            "                        the clone. live: stop nothing; the answer may be torn.\n"
            "                        auto (the default): freeze if that takes no longer than\n"
            "                        --max-pause and nothing is swapped out, else clone\n"
            "                        if limits of memory leave room for a clone, else live.\n"
            "  --max-pause TIME      limit for how long the target is stopped: 5ms, 0.5s (the\n"
            "                        default: auto breaks off a freeze after 50ms).\n"
            "  --force               stop a target even where a thread's sleep may begin anew\n"
            "                        for it, or inject, under a seccomp filter.\n"
            "  --layout-source LIST  sources for the layout of glibc's malloc: some of dwarf,\n"
            "                        symtab,relocation,decode,scan (the default: all).\n"
            "  --max-memory SIZE     limit for arenadump's own memory: 512M, 2G. A\n"
            "                        snapshot that needs more fails with exit code 9. Debug\n"
            "                        information is not read then.\n"
            "  --help                this text, or that of one command\n"
            "%s"
            "\nExit codes: 0 done, 1 a bug in arenadump, 2 usage, 3 no such target, 4 not\n"
            "permitted, or not now (the time was up, no answer of the agent), 5 a target that\n"
            "is not supported or has no profile, 6 bad input (not a core or dump, truncated,\n"
            "damaged), 7 the target ended, 8 output could not be written, 9 out of memory,\n"
            "10 the target does not use glibc's malloc and the command needs it, 12 the\n"
            "answer is there, but the larger part could not be searched.\n",
            hazards);
}

// Tests' programs have none.
extern const char as_commit[] __attribute__((weak));

static void print_commit(void)
{
    size_t length = as_commit ? strlen(as_commit) : 0;
    bool changed = length > 0 && as_commit[length - 1] == '+';
    if (length > 0)
        printf(" (commit %.*s%s)", (int)length - changed, as_commit, changed ? ", with changes" : "");
}

static void print_version(void)
{
#ifdef HAVE_LIBDW
    const char *libdw = "yes";
#else
    const char *libdw = "no (layouts come from symbols, relocations or a scan)";
#endif
#ifdef HAVE_LIBPNG
    const char *libpng = "yes";
#else
    const char *libpng = "no (no png command)";
#endif
    const char *libiberty = as_demangle ? "yes" : "no (names of C++ and Rust are shown mangled)";
    printf("arenadump %s", AS_VERSION);
    print_commit();
    printf("\ndump format %d.%d\nlibdw %s\nlibpng %s\nlibiberty %s\n", AS_DUMP_MAJOR, AS_DUMP_MINOR, libdw, libpng,
           libiberty);
}

// Where the limit, and not the machine, had no memory: says so. False, as the failure is.
static bool name_limit(struct as_error *err)
{
    char text[sizeof err->text];
    if (err->code != AS_NO_MEMORY)
        return false;
    snprintf(text, sizeof text, "%s", err->text);
    return as_fail(err, AS_NO_MEMORY, "%s; --max-memory is the limit: allow more", text);
}

// A limit lasts as long as the process, and what reads all memory of a target takes much of ours, which the end of a program
// returns at once.
static bool may_serve(const struct command *command, const struct as_options *o, struct as_error *err)
{
    if (!(command->takes & AS_SERVED))
        return as_fail(err, AS_USAGE, "%s is not served: start arenadump for it", command->name);
    return (o->max_memory == 0 && !o->graph && !o->objects) ||
           as_fail(err, AS_USAGE, "%s with --max-memory, --graph or --objects is not served: start arenadump for it",
                   command->name);
}

static const struct command *command_of(const char *word)
{
    size_t i = 0;
    while (i < COMMAND_COUNT && strcmp(word, commands[i].name) != 0)
        i++;
    return i < COMMAND_COUNT ? &commands[i] : NULL;
}

// "summary, dump or check"
static const char *all_names(char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < COMMAND_COUNT && used < size; i++) {
        const char *before = i == 0 ? "" : i + 1 < COMMAND_COUNT ? ", " : " or ";
        used += (size_t)snprintf(text + used, size - used, "%s%s", before, commands[i].name);
    }
    return text;
}

// A word that is no command: one that was mistyped, the target alone, or neither.
static bool unknown_command(const char *word, struct as_error *err)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    const char *near = as_nearest(word, names, COMMAND_COUNT);
    if (near)
        return as_fail(err, AS_USAGE, "unknown command '%s': did you mean %s? (arenadump help %s)", word, near, near);
    if (*word && (word[strspn(word, "0123456789")] == '\0' || access(word, F_OK) == 0))
        return as_fail(err, AS_USAGE, "unknown command '%s'. Did you mean: arenadump summary %s", word, word);
    char all[200];
    return as_fail(err, AS_USAGE, "unknown command '%s': use %s (--help)", word, all_names(all, sizeof all));
}

static bool print_help_of(const struct command *command)
{
    const bool touches_none = command->run == as_cmd_trace || command->run == as_cmd_agent;
    printf("%s%s", command->help, touches_none ? "" : hazards);
    return true;
}

// `help`, `help COMMAND`, --help, -h.
static bool help(int argc, char **argv, struct as_error *err)
{
    const struct command *command = argc > 2 ? command_of(argv[2]) : NULL;
    if (command)
        return print_help_of(command);
    if (argc > 2)
        return unknown_command(argv[2], err);
    print_help(stdout);
    return true;
}

static bool run_command(const struct command *command, int argc, char **argv, bool served, struct as_error *err)
{
    struct as_options options;
    if (!as_options_read(&options, argc, argv, command->takes, err))
        return false;
    if (options.help)
        return print_help_of(command);
    if (served && !may_serve(command, &options, err))
        return false;
    if (options.max_memory == 0)
        return command->run(&options, err);
    // libdw crashes where it gets no memory.
    options.allowed_sources &= ~(UINT32_C(1) << AS_LAYOUT_DWARF);
    if (options.allowed_sources == 0)
        return as_fail(err, AS_USAGE, "with --max-memory no debug information is read: allow another --layout-source");
    return as_memory_limit(options.max_memory, err) && (command->run(&options, err) || name_limit(err));
}

static bool run(int argc, char **argv, bool served, struct as_error *err)
{
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
        return help(argc, argv, err);
    if (strcmp(word, "--version") == 0) {
        print_version();
        return true;
    }
    const struct command *command = command_of(word);
    return command ? run_command(command, argc - 1, argv + 1, served, err) : unknown_command(word, err);
}

int as_command_run(int argc, char **argv, bool served)
{
    struct as_error err = {0};
    if (argc < 2) {
        print_help(stderr);
        return AS_USAGE;
    }
    bool ok = run(argc, argv, served, &err);
    // A full disk behind stdout shows only now.
    if ((fflush(stdout) != 0 || ferror(stdout)) && ok)
        ok = as_fail(&err, AS_IO, "cannot write to standard output: %s", strerror(errno));
    if (ok)
        return AS_OK;
    char text[4 * sizeof err.text]; // a target chose part of it, perhaps
    fprintf(stderr, "arenadump: %s\n", as_safe_text(err.text, sizeof err.text, SIZE_MAX, false, text, sizeof text));
    return err.code;
}
