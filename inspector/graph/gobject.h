// SPDX-License-Identifier: MIT
// The objects of glib's type system (GObject, GTK, GStreamer): the name of each object's class.
//
// An object leads to its class, the class to its type, the type to its data, and the data back to the class. The data say how large an
// object is, and how much of its own lies before it in the same chunk. The type's name is that of its number in the list of all
// quarks, which is found by the names of all types together.
#pragma once

#include "graph/edges.h"
#include "graph/patterns.h"
#include "graph/vtables.h"

// Finds them. Objects have their class among the vtables then, what describes classes a shape. To be called once the edges are settled,
// while the target stands still. What there is no memory for is not found.
void as_gobject_prove(struct as_patterns *patterns, const struct as_edges *e, struct as_vtables *v,
                      struct as_target *t);
