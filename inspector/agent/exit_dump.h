// SPDX-License-Identifier: MIT
// The wait at exit() for a dump that a signal has asked for.
#pragma once

// From now on exit() waits, for at most half a minute, until each dump is written that was asked for before. Nothing if it was called
// before.
void as_exit_dump_on(void);
