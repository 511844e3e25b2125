// SPDX-License-Identifier: MIT
// The recognisers that are one file: a library's name is the file's. as_X_prove asks whether a candidate is what a word of it says;
// as_X_find finds the rest, and gives the chunks a shape (graph/recogniser.h).
#pragma once

#include "graph/recogniser.h"

void as_glib_prove(struct as_proof *p, const struct as_claim *candidate); // a word leads to the keys
void as_mariadb_prove(struct as_proof *p,
                      const struct as_claim *candidate); // by its size alone; what is in it may say more
void as_php_prove(struct as_proof *p, const struct as_claim *candidate); // a table by what was noted of it
void as_sized_prove(struct as_proof *p, const struct as_claim *candidate);
void as_swiss_prove(struct as_proof *p,
                    const struct as_claim *candidate);                    // a word leads to the control bytes in a node
void as_zlib_prove(struct as_proof *p, const struct as_claim *candidate); // the candidate is the memory of a node

bool as_cpython_tables_find(const struct as_recogniser_input *in);
bool as_gobject_find(const struct as_recogniser_input *in); // objects have their class among the vtables then
bool as_hotspot_chunks_find(const struct as_recogniser_input *in);
bool as_llvm_find(const struct as_recogniser_input *in);
bool as_loader_find(const struct as_recogniser_input *in);
bool as_openssl_find(const struct as_recogniser_input *in);
bool as_qt_find(const struct as_recogniser_input *in);
