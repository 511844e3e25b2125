// SPDX-License-Identifier: MIT
// The agent's library as a file, byte for byte, among arenadump's constants (library.c). Without AGENT it is empty.
#ifdef __CET__
#include <cet.h>
#endif
    .section .rodata
    .global as_agent_file, as_agent_file_size
    .hidden as_agent_file, as_agent_file_size
    .balign 8
as_agent_file_size:
    .quad 1f - as_agent_file
as_agent_file:
#ifdef AGENT
    .incbin AGENT
#endif
1:
    .section .note.GNU-stack, "", %progbits
