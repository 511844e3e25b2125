// SPDX-License-Identifier: MIT
// The worker thread, which does the agent's work.
#pragma once

// Starts the worker thread unless it runs. Call it only where malloc and the loader may be called. 0, or an errno.
int as_agent_worker_start(void);
// Has the worker thread check for work. Async-signal-safe. Nothing happens where no worker thread runs.
void as_agent_worker_wake(void);
// In a child of fork(), which has no worker thread.
void as_agent_worker_forget(void);
