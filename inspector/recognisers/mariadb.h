// SPDX-License-Identifier: MIT
// What MariaDB's my_malloc returns.
#pragma once

#include "graph/recogniser.h"

// By its size alone; what is in it may say more.
void as_mariadb_prove(struct as_proof *p, const struct as_claim *candidate);
