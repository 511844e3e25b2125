// SPDX-License-Identifier: MIT
// What ld.so has allocated: the threads' dtvs, their blocks of thread-local variables, and the link_maps of modules.
#pragma once

#include "graph/recogniser.h"

// Gives the chunks a shape.
bool as_loader_find(const struct as_recogniser_input *in);
