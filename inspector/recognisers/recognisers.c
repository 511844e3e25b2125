// SPDX-License-Identifier: MIT
#include "recognisers/recognisers.h"
#include "recognisers/glibc.h"
#include "recognisers/libraries.h"
#include "recognisers/redis.h"

#define KIND(kind) (UINT32_C(1) << AS_CLAIM_##kind)

const struct as_recogniser as_recognisers[] = {
    {.name = "no library", .kinds = KIND(END) | KIND(SIZED), .prove = as_sized_prove},
    {.name = "zlib", .kinds = KIND(DEFLATE) | KIND(INFLATE), .prove = as_zlib_prove},
    {.name = "Rust", .kinds = KIND(SWISS), .prove = as_swiss_prove},
    {.name = "glib", .kinds = KIND(GLIB), .prove = as_glib_prove},
    {.name = "PHP", .kinds = KIND(PHP_TABLE) | KIND(PHP_STRING), .prove = as_php_prove},
    {.name = "MariaDB", .kinds = KIND(MARIADB), .prove = as_mariadb_prove},
    {.name = "redis", .find = as_redis_find},
    {.name = "LLVM", .find = as_llvm_find},
    {.name = "GObject", .find = as_gobject_find},
    {.name = "OpenSSL", .find = as_openssl_find},
    {.name = "Qt", .find = as_qt_find},
    {.name = "CPython", .find = as_cpython_tables_find},
    {.name = "HotSpot", .find = as_hotspot_chunks_find},
    {.name = "ld.so", .find = as_loader_find},
    // Its find comes last: it leaves alone what has a name.
    {.name = "glibc", .kinds = KIND(FILE) | KIND(DIR) | KIND(ADDRINFO), .prove = as_glibc_prove, .find = as_glibc_find},
    {.name = NULL},
};
