// SPDX-License-Identifier: MIT
#include "agent/own_snapshot.h"

#include <stdio.h>
#include <time.h>

// The program's name as the kernel has it; a file's name has no slash and does not begin with a dot.
static void program_name(char name[64])
{
    int fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, name, 63) : -1;
    if (fd >= 0)
        close(fd);
    name[length > 0 ? length : 0] = '\0';
    for (char *c = name; *c; c++) {
        if (*c == '\n')
            *c = '\0';
        else if (*c == '/' || (*c == '.' && c == name) || (unsigned char)*c < ' ')
            *c = '_';
    }
}

bool as_pattern_expand(const char *pattern, uint32_t count, char *out, size_t size)
{
    size_t used = 0;
    for (const char *c = pattern; *c; c++) {
        char word[64] = {*c};
        if (*c == '%' && c[1]) {
            struct timespec now;
            switch (*++c) {
            case 'p':
                snprintf(word, sizeof word, "%d", (int)getpid());
                break;
            case 't':
                clock_gettime(CLOCK_REALTIME, &now);
                snprintf(word, sizeof word, "%lld", (long long)now.tv_sec);
                break;
            case 'n':
                snprintf(word, sizeof word, "%u", count);
                break;
            case 'e':
                program_name(word);
                break;
            case '%':
                break;
            default:
                word[1] = *c;
            }
        }
        size_t length = strlen(word);
        if (length >= size - used)
            return false;
        memcpy(out + used, word, length);
        used += length;
    }
    out[used] = '\0';
    return used > 0;
}

bool as_pattern_resolve(const char *pattern, char *out, size_t size)
{
    size_t used = 0;
    if (pattern[0] != '/') {
        long length = syscall(SYS_getcwd, out, size); // with its NUL
        if (length < 2)
            return false;
        used = (size_t)length - 1;
        // The directory's own name is no pattern.
        for (size_t i = 0; i < used; i++) {
            if (out[i] != '%')
                continue;
            if (used + 1 >= size)
                return false;
            memmove(out + i + 1, out + i, used - i);
            used++;
            i++;
        }
        if (used + 1 >= size)
            return false;
        if (out[used - 1] != '/')
            out[used++] = '/';
    }
    size_t length = strlen(pattern);
    if (length >= size - used)
        return false;
    memcpy(out + used, pattern, length + 1);
    return length > 0;
}
