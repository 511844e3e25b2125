// SPDX-License-Identifier: MIT
// arenadump: the small program for a bare machine.
#include "cli/cli.h"
#include "cli/text.h"
#include "config.h"
#include "dump/format.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    bool (*run)(const struct as_options *o, struct as_error *err);
    uint32_t takes; // as_option_bits
    const char *help;
};

static const struct command commands[] = {
    {"summary", as_cmd_summary, AS_OPTION_JSON,
     "arenadump summary TARGET [--json]\n"
     "  Where the memory went, and what would bring it back: a table, or JSON\n"
     "  (arenascope.summary/1, docs/summary.schema.json).\n"},
    {"dump", as_cmd_dump, AS_OPTION_OUTPUT | AS_OPTION_CHUNKS,
     "arenadump dump TARGET -o FILE [--chunks]\n"
     "  Writes all that is known of every page to FILE (mode 0600), for another day or\n"
     "  another machine. No heap contents. --chunks: every chunk's size and state too,\n"
     "  which png needs (4 bytes a chunk).\n"},
    {"png", as_cmd_png, AS_OPTION_OUTPUT | AS_OPTION_PALETTE | AS_OPTION_SCALE,
     "arenadump png TARGET -o DIR [--palette phusion|safe] [--scale N]\n"
     "  Draws every heap, a pixel for 16 bytes, and every arena, a cell for a page.\n"
     "  --palette safe: colours that any eye tells apart. --scale: pixels that a page\n"
     "  takes in the overviews, 1 to 16; 4 unless told.\n"},
    {"chunks", as_cmd_chunks, 0,
     "arenadump chunks TARGET\n"
     "  One line a chunk: address, size in bytes (header included), and what it is:\n"
     "  in_use, tcache, fastbin, binned, top, metadata or unknown, and \"mmapped\" behind\n"
     "  it where it has a mapping of its own.\n"},
    {"trim", as_cmd_trim, AS_OPTION_JSON | AS_OPTION_INJECT | AS_OPTION_TRIM,
     "arenadump trim PID [--forecast] [--deep] [--max-hold TIME] [--arena ADDRESS]\n"
     "               [--watch TIME] [--force] [--timeout TIME] [--json]\n"
     "  Gives memory back, through the agent (injected where it is not there): what\n"
     "  malloc_trim(0) would. --deep: also what that never returns, the tops of thread\n"
     "  arenas. --max-hold 5ms: no arena is locked for longer at a time. --forecast:\n"
     "  only says what would come back; nothing is loaded, and nothing changes.\n"
     "  --watch 60s: how much of it was needed again. --force, --timeout: as inject.\n"},
    {"inject", as_cmd_inject, AS_OPTION_JSON | AS_OPTION_INJECT,
     "arenadump inject PID [--force] [--timeout TIME] [--json]\n"
     "  Loads the agent (libarenascope.so) into a process that runs, if it is not there,\n"
     "  and has it answer. Refused, with the reason, where that might harm (exit 4, 5).\n"
     "  --force: also under a seccomp filter, which may kill the process for it.\n"
     "  --timeout: for how long a thread that can do it is looked for, and\n"
     "  waited for in dlopen; 10s unless told.\n"},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void print_help(void)
{
    printf("Where did the memory of a process on glibc go, and what will bring it back?\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("%s", commands[i].help);
    printf("\nTARGET is a process id, a core file, or a dump made by arenadump dump.\n"
           "\nEvery command:\n"
           "  --mode MODE            freeze: the target stands still while it is read.\n"
           "                         snapshot: it clones itself, copy-on-write, and runs on;\n"
           "                         the clone is read. live: nothing stops, and the answer\n"
           "                         may be torn. auto (unless told): freeze where that takes\n"
           "                         no longer than --max-pause and nothing is swapped out,\n"
           "                         else snapshot.\n"
           "  --max-pause TIME       5ms, 0.5s; 50ms unless told.\n"
           "  --layout-source LIST   how glibc's structures may be found, of dwarf, symtab,\n"
           "                         relocation, decode, scan; all unless told.\n"
           "  --help                 arenadump --version: what this build can do\n"
           "\nExit codes: 0 done, 1 a bug of arenadump's, 2 usage, 3 no such target, 4 not\n"
           "permitted, 5 a target that is not supported, 6 bad input (not a core or dump,\n"
           "truncated, damaged), 7 the target went away, 8 output could not be written,\n"
           "9 out of memory, 10 no malloc of glibc where the command needs one.\n");
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
    printf("arenadump %s\ndump format %d.%d\nlibdw %s\nlibpng %s\n", AS_VERSION, AS_DUMP_MAJOR, AS_DUMP_MINOR, libdw,
           libpng);
}

static bool run(int argc, char **argv, struct as_error *err)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help();
        return true;
    }
    if (strcmp(word, "--version") == 0) {
        print_version();
        return true;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const struct command *command = &commands[i];
        if (strcmp(word, command->name) != 0)
            continue;
        struct as_options options;
        if (!as_options_read(&options, argc - 1, argv + 1, command->takes, err))
            return false;
        if (options.help) {
            printf("%s", command->help);
            return true;
        }
        return command->run(&options, err);
    }
    if (*word)
        return as_fail(err, AS_USAGE,
                       "there is no command '%s': it is summary, dump, png, chunks, trim or inject (--help)", word);
    return as_fail(err, AS_USAGE, "give a command: summary, dump, png, chunks, trim or inject (--help)");
}

int main(int argc, char **argv)
{
    struct as_error err = {0};
    signal(SIGXFSZ, SIG_IGN); // a limit on the size of files (ulimit -f) is an error like a full disk
    bool ok = run(argc, argv, &err);
    // A full disk behind stdout shows only now.
    if ((fflush(stdout) != 0 || ferror(stdout)) && ok)
        ok = as_fail(&err, AS_IO, "cannot write to standard output: %s", strerror(errno));
    if (ok)
        return AS_OK;
    char text[4 * sizeof err.text]; // a target chose part of it, perhaps
    fprintf(stderr, "arenadump: %s\n", as_safe_text(err.text, sizeof err.text, SIZE_MAX, false, text, sizeof text));
    return err.code;
}
