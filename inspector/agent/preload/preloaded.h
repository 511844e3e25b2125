// SPDX-License-Identifier: MIT
// What the environment asks of a preloaded library alone: a profile, dumps at a condition, a wait at exit(). Most of the code lies with the
// recorder's (cold.ld): an injected library comes without it.
#pragma once

// `asked` reads a variable; NULL: nothing is asked for. What is wrong with one stands in the log.
void as_preloaded_start(const char *(*asked)(const char *variable), unsigned flags);
