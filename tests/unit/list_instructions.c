// SPDX-License-Identifier: MIT
// For tests/agent/test_instructions.py: reads lines of hexadecimal bytes, one instruction each, and prints how many of them it takes that to
// have; 0: it is not known.
#include "inject/entry/instruction.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        uint8_t code[15] = {0}; // what follows does not count
        size_t length = strspn(line, "0123456789abcdef") / 2;
        for (size_t i = 0; i < length && i < sizeof code; i++) {
            const char digits[3] = {line[2 * i], line[2 * i + 1], '\0'};
            code[i] = (uint8_t)strtoul(digits, NULL, 16);
        }
        struct as_instruction i;
        printf("%u\n", as_instruction_read(code, sizeof code, &i) ? i.length : 0);
    }
    return 0;
}
