// SPDX-License-Identifier: MIT
// Has glibc make what it keeps in malloc's chunks: locales, conversions, the environment, the name service; and makes chunks that nearly
// resemble these. Prints lines "KIND ADDRESS" (0x...; somewhere in the chunk), of kind "decoy" for the latter, then "ready", and waits
// for the end of its input.
//     glibc_types LOCALE
#define _GNU_SOURCE
#include <dlfcn.h>
#include <grp.h>
#include <iconv.h>
#include <locale.h>
#include <malloc.h>
#include <netdb.h>
#include <pwd.h>
#include <regex.h>
#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

enum { MANY = 40, CATEGORIES = 13 };

extern char **environ;
static void *kept[4096];
static size_t kept_count;
static locale_t locales[3];
static iconv_t conversions[4];
static regex_t expressions[4];
static struct addrinfo *found;

static void *keep(const char *kind, const void *chunk)
{
    if (chunk)
        printf("%s\t%p\n", kind, chunk);
    kept[kept_count++] = (void *)chunk;
    return (void *)chunk;
}

static void nothing(void)
{
}

static void use_locales(const char *name)
{
    if (!setlocale(LC_ALL, name))
        abort();
    setlocale(LC_NUMERIC, "C");
    wchar_t wide[8];
    mbstowcs(wide, "abc", 8);
    locales[0] = newlocale(LC_ALL_MASK, name, 0);
    locales[1] = newlocale(LC_CTYPE_MASK, name, 0);
    locales[2] = locales[0] ? duplocale(locales[0]) : 0;
    for (int i = 0; i < 3; i++) {
        if (!locales[i])
            continue;
        keep("locale", locales[i]);
        for (int k = 0; k < CATEGORIES; k++)
            if (locales[i]->__locales[k])
                printf("locale data\t%p\n", (void *)locales[i]->__locales[k]);
    }
}

static void use_iconv(void)
{
    static const char *const names[][2] = {
        {"ISO-8859-15", "UTF-8"}, {"UTF-16", "ISO-8859-15"}, {"UTF-8", "UTF-16"}, {"CP1252", "UTF-32"}};
    for (int i = 0; i < 4; i++) {
        char in[] = "abc", out[64], *from = in, *to = out;
        size_t left = 3, room = sizeof out;
        conversions[i] = iconv_open(names[i][0], names[i][1]);
        if (conversions[i] == (iconv_t)-1)
            continue;
        iconv(conversions[i], &from, &left, &to, &room);
        // How many steps, the steps; of the first a buffer, if there are more.
        void **info = keep("iconv", conversions[i]);
        keep("steps", info[1]);
        if ((size_t)info[0] > 1)
            keep("buffer", info[2]);
        keep("object", *(void **)info[1]);
    }
}

static void use_environment(void)
{
    char name[64], value[300];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "VARIABLE_%d", i);
        memset(value, 'a', sizeof value);
        value[i * 7 + 1] = 0;
        setenv(name, value, 1);
    }
    setenv("TZ", "Europe/Berlin", 1);
    tzset();
    setenv("TZ", "XYZ-3ABC,M3.5.0,M10.5.0/3", 1);
    tzset();
    keep("environ", environ);
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "VARIABLE_", 9) == 0)
            keep("variable", *e);
}

static void use_names(void)
{
    struct passwd *person = getpwnam("root");
    if (person)
        keep("passwd", person->pw_name);
    struct group *group = getgrnam("root");
    if (group)
        keep("group", group->gr_name);
    struct hostent *host = gethostbyname("localhost");
    if (host)
        keep("host", host->h_name);
    struct servent *service = getservbyname("http", "tcp");
    if (service)
        keep("service", service->s_name);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    if (getaddrinfo("127.0.0.1", "80", &hints, &found) == 0)
        for (struct addrinfo *a = found; a; a = a->ai_next)
            keep("addrinfo", a);
    struct addrinfo *more;
    if (getaddrinfo("::1", "80", &hints, &more) == 0)
        keep("addrinfo", more);
}

static void use_expressions(void)
{
    static const char *const all[] = {"a*b", "^(abc|[a-z]+)x{2,5}$", "[[:alpha:]_][[:alnum:]_]*", "(a)(b)(c)\\1"};
    for (int i = 0; i < 4; i++) {
        regmatch_t match[2];
        if (regcomp(&expressions[i], all[i], REG_EXTENDED) != 0)
            abort();
        regexec(&expressions[i], "xabcabb", 2, match, 0);
        void **dfa = keep("regex", expressions[i].buffer);
        keep("regex nodes", dfa[0]);
        keep("regex states", dfa[8]);
    }
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void *tree;
static void *pointers[MANY];

// Each differs in one thing from what it resembles, or is held by the program, not by libc.
static void make_decoys(void)
{
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "text=%d", i);
        tsearch(keep("decoy", strdup(name)), &tree, compare);       // whose tree is none of libc's
        uint64_t *w = pointers[i] = keep("decoy", calloc(1, 1040)); // a list of functions that does not end in libc
        w[1] = 3;
        w[2] = w[6] = w[10] = 4;
        w[3] = w[7] = w[11] = 1;
        w = keep("decoy", calloc(1, 232)); // a locale_t whose categories lead elsewhere
        memcpy(w, locales[0] ? (void *)locales[0] : (void *)w, 232);
        w[i % 6] = (uint64_t)(uintptr_t)pointers[i];
        char **e = keep("decoy", calloc(8, sizeof *e)); // another environment
        e[0] = keep("decoy", strdup("NAME=value"));
        struct addrinfo *a = keep("decoy", calloc(1, sizeof *a + 16));
        a->ai_addr = (void *)(a + 1);
        a->ai_addrlen = i % 2 ? 16 : 28;
        a->ai_family = AF_INET;
        a->ai_addr->sa_family = i % 2 ? AF_INET6 : AF_INET;
        void **dfa = keep("decoy", malloc(232));
        memcpy(dfa, expressions[0].buffer, 224);
        uint64_t *room = (uint64_t *)&dfa[1];
        *room += 8 + (uint64_t)i; // more room than the nodes have
        uint64_t *info = keep("decoy", calloc(1, 64 + 48 * (i % 2)));
        if (conversions[0] != (iconv_t)-1)
            memcpy(info, conversions[0], 16);
        info[0] += 2;                                  // more steps than there are
        uint64_t *zone = keep("decoy", calloc(1, 24)); // no tzstring_l: nothing of libc's leads to it
        zone[1] = 3;
        memcpy(zone + 2, "UTC", 4);
    }
}

int main(int argc, char **argv)
{
    char byte;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    use_locales(argc > 1 ? argv[1] : "C.UTF-8");
    use_iconv();
    use_environment();
    for (int i = 0; i < 2 * MANY; i++)
        if (atexit(nothing) != 0)
            abort();
    use_names();
    use_expressions();
    make_decoys();
    puts("ready");
    fflush(stdout);
    return read(0, &byte, 1) == 0 && kept_count > 0 ? 0 : 1;
}
