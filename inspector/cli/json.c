// SPDX-License-Identifier: MIT
#include "cli/json.h"

#include "cli/enum_names.h"
#include "config.h"
#include "findings/humanize.h"

#include <inttypes.h>
#include <string.h>

static void member(struct as_json *j, const char *key)
{
    if (j->depth)
        fprintf(j->out, j->empty ? "\n" : ",\n");
    j->empty = false;
    fprintf(j->out, "%*s", (int)j->depth * 2, "");
    if (key)
        fprintf(j->out, "\"%s\": ", key);
}

static void open_with(struct as_json *j, const char *key, char bracket)
{
    member(j, key);
    putc(bracket, j->out);
    j->depth++;
    j->empty = true;
}

static void close_with(struct as_json *j, char bracket)
{
    j->depth--;
    if (!j->empty)
        fprintf(j->out, "\n%*s", (int)j->depth * 2, "");
    putc(bracket, j->out);
    j->empty = false;
    if (j->depth == 0)
        putc('\n', j->out);
}

void as_json_object(struct as_json *j, const char *key)
{
    open_with(j, key, '{');
}

void as_json_object_end(struct as_json *j)
{
    close_with(j, '}');
}

void as_json_array(struct as_json *j, const char *key)
{
    open_with(j, key, '[');
}

void as_json_array_end(struct as_json *j)
{
    close_with(j, ']');
}

void as_json_text(struct as_json *j, const char *key, const char *text, size_t max)
{
    if (!text) {
        as_json_null(j, key);
        return;
    }
    member(j, key);
    putc('"', j->out);
    const char *end = text + strnlen(text, max);
    while (text < end) {
        uint32_t rune;
        size_t length = as_utf8_next(text, (size_t)(end - text), &rune);
        if (rune == AS_NOT_UTF8)
            fprintf(j->out, "\\ufffd");
        else if (rune == '"' || rune == '\\')
            fprintf(j->out, "\\%c", (char)rune);
        else if (as_is_unsafe(rune)) // JSON is read in terminals, too
            fprintf(j->out, "\\u%04" PRIx32, rune);
        else
            fwrite(text, 1, length, j->out);
        text += length;
    }
    putc('"', j->out);
}

void as_json_string(struct as_json *j, const char *key, const char *text)
{
    as_json_text(j, key, text, SIZE_MAX);
}

void as_json_number(struct as_json *j, const char *key, uint64_t number)
{
    if (number == AS_UNKNOWN) {
        as_json_null(j, key);
        return;
    }
    member(j, key);
    fprintf(j->out, "%" PRIu64, number);
}

void as_json_address(struct as_json *j, const char *key, uint64_t address)
{
    if (address == AS_UNKNOWN) {
        as_json_null(j, key);
        return;
    }
    member(j, key);
    fprintf(j->out, "\"0x%" PRIx64 "\"", address);
}

void as_json_milliseconds(struct as_json *j, const char *key, uint64_t nanoseconds)
{
    if (nanoseconds == AS_UNKNOWN) {
        as_json_null(j, key);
        return;
    }
    member(j, key);
    uint64_t microseconds = nanoseconds / 1000;
    fprintf(j->out, "%" PRIu64 ".%03" PRIu64, microseconds / 1000, microseconds % 1000);
}

void as_json_share(struct as_json *j, const char *key, double share)
{
    if (share < 0) {
        as_json_null(j, key);
        return;
    }
    member(j, key);
    fprintf(j->out, "%.4f", share);
}

void as_json_time(struct as_json *j, const char *key, uint64_t nanoseconds)
{
    char time[AS_TIME_SIZE];
    as_json_string(j, key, as_format_time(nanoseconds, time) ? time : NULL);
}

void as_json_bool(struct as_json *j, const char *key, bool value)
{
    member(j, key);
    fprintf(j->out, value ? "true" : "false");
}

void as_json_null(struct as_json *j, const char *key)
{
    member(j, key);
    fprintf(j->out, "null");
}

void as_json_counts(struct as_json *j, const char *key, uint64_t count, uint64_t bytes)
{
    as_json_object(j, key);
    as_json_number(j, "count", count);
    as_json_number(j, "bytes", bytes);
    as_json_object_end(j);
}

struct as_json as_json_begin(const char *schema)
{
    struct as_json j = {.out = stdout, .empty = true};
    as_json_object(&j, NULL);
    as_json_string(&j, "schema", schema);
    return j;
}

void as_json_snapshot(struct as_json *j, const struct as_view *v)
{
    as_json_string(j, "version", AS_VERSION);
    as_json_time(j, "time", v->meta->time_ns);
    as_json_object(j, "target");
    as_json_string(j, "kind", as_target_kind_name(v->meta->target_kind));
    as_json_number(j, "pid", v->meta->pid ? v->meta->pid : AS_UNKNOWN);
    as_json_text(j, "comm", v->meta->comm, sizeof v->meta->comm);
    as_json_object_end(j);
    as_json_string(j, "mode", as_mode_name(v->meta->mode));
}
