// SPDX-License-Identifier: MIT
// The containers of Qt 5 and 6: QString, QHash, and of Qt 5 QByteArray, QVector and QMap. QMap of Qt 6 is a std::map, and QObject and what
// its d-pointer leads to have vtables. A program that has not mapped Qt's library pays nothing.
//
// QList of Qt 5, and arrays of Qt 6 that are no text, have no name: a few small numbers before pointers prove nothing.
#pragma once

#include "graph/recogniser.h"

// Finds them, and gives the chunks a shape.
bool as_qt_find(const struct as_recogniser_input *in);
