// SPDX-License-Identifier: MIT
// The objects of glib's type system (GObject, GTK, GStreamer): the name of each object's class.
//
// An object leads to its class, the class to its type, the type to its data, and the data back to the class. The data say how large an
// object is, and how much of its own lies before it in the same chunk. The type's name is that of its number in the list of all
// quarks, which is found by the names of all types together.
#pragma once

#include "graph/recogniser.h"

// Finds them. Objects have their class among the vtables then, what describes classes a shape.
bool as_gobject_find(const struct as_recogniser_input *in);
