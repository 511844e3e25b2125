// SPDX-License-Identifier: MIT
// What InnoDB, the storage engine of MariaDB, has mapped for itself: its buffer pool, and the buffers of its log (innodb.c).
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Searches for them in a target that stands still and whose residency is known, if a program called mariadbd is mapped. Adds
// to `store` a record of each that was found, with its regions; of what was not found there is no record, and its bytes stay in
// other_anon (other releases have other structures). False (AS_NO_MEMORY): our memory ran out.
bool as_innodb_find(struct as_target *t, struct as_store *store, struct as_error *err);
