// SPDX-License-Identifier: MIT
#include "recognisers/recognisers.h"
#include "recognisers/candidate_check.h"
#include "recognisers/glibc.h"
#include "recognisers/gobject.h"
#include "recognisers/hotspot_chunks.h"
#include "recognisers/llvm.h"
#include "recognisers/loader.h"
#include "recognisers/openssl.h"
#include "recognisers/qt.h"
#include "recognisers/redis.h"

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
