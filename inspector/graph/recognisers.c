// SPDX-License-Identifier: MIT
#include "graph/recognisers.h"
#include "graph/candidate_check.h"
#include "graph/glibc.h"
#include "graph/gobject.h"
#include "graph/hotspot_chunks.h"
#include "graph/llvm.h"
#include "graph/loader.h"
#include "graph/openssl.h"
#include "graph/qt.h"
#include "graph/redis.h"

const struct as_recogniser as_recognisers[] = {
    {"candidates", as_claims_find},
    {"redis", as_redis_find},
    {"llvm", as_llvm_find},
    {"gobject", as_gobject_find},
    {"openssl", as_openssl_find},
    {"qt", as_qt_find},
    {"hotspot", as_hotspot_chunks_find},
    {"ld.so", as_loader_find},
    {"glibc", as_glibc_find}, // last: it leaves alone what has a name
    {0},
};
