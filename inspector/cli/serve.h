// SPDX-License-Identifier: MIT
// `arenadump serve`: commands one after the other, for the one process that has started it (docs/architecture.md, "The server").
#pragma once

enum { AS_SERVE_PROTOCOL = 1 };

// Serves the socket that is standard input, until its other end is closed. Returns the exit code, an as_code: AS_USAGE where
// standard input is no such socket, AS_BAD_INPUT after a message that is no request.
int as_serve(void);
