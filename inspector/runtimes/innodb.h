// SPDX-License-Identifier: MIT
// What InnoDB, the storage engine of MariaDB, has mapped for itself: its buffer pool, and the buffers of its log (innodb.c).
#pragma once

#include "runtimes/finder.h"

// Finds both, if a program called mariadbd is mapped: a record of each. Of what was not found there is no record, and its bytes stay in
// other_anon (other releases have other structures).
bool as_innodb_find(const struct as_finder_input *in);
