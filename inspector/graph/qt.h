// SPDX-License-Identifier: MIT
// The containers of Qt 5 and 6: QString, QHash, and of Qt 5 QByteArray, QVector and QMap. QMap of Qt 6 is a std::map, and QObject and what
// its d-pointer leads to have vtables. A program that has not mapped Qt's library pays nothing.
//
// QList of Qt 5, and arrays of Qt 6 that are no text, have no name: a few small numbers before pointers prove nothing.
#pragma once

#include "graph/edges.h"
#include "graph/patterns.h"

// Finds them, and gives the chunks a shape. To be called once the edges are settled, while the target stands still. What there is no memory
// for has no shape.
void as_qt_prove(struct as_patterns *patterns, const struct as_edges *e, struct as_target *t);
