// SPDX-License-Identifier: MIT
// Words in the room that an array has behind its end and does not use: most are left over. Nobody can tell, as some programs begin an
// array's use at its end. So they are weak, as stacks are: they hold what nothing else holds, and own nothing else.
#pragma once

#include "graph/graph.h"

// Takes out the edges from unused room to chunks that roots reach without any of these: owners, dominators and ways are found without
// them. What is reached, and what is lost, stays the same. To be called after types are found. False: AS_NO_MEMORY.
bool as_graph_leave_unused(struct as_graph *g, struct as_error *err);
