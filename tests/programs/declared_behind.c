// SPDX-License-Identifier: MIT
// Debug information that DWARF allows and this machine's compilers do not write: the declaration of a class, in its namespace, is behind
// the definition that refers to it. Built with -g0: there is no debug information but what is written here.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { NODES = 50 };

struct behind {
    struct behind *next;
    int64_t room[12];
};

struct behind *all_of_them;

__asm__(".pushsection .debug_abbrev,\"\",%progbits\n"
        "0:\n"
        // Number, tag, whether there are children; attributes and their forms.
        ".byte 1, 0x11, 1, 0x13, 0x0b, 0x03, 0x08, 0, 0\n"                 // compile_unit: language, name
        ".byte 2, 0x13, 1, 0x47, 0x13, 0x0b, 0x0b, 0, 0\n"                 // structure_type: specification, byte_size
        ".byte 3, 0x39, 1, 0x03, 0x08, 0, 0\n"                             // namespace: name
        ".byte 4, 0x13, 0, 0x03, 0x08, 0x3c, 0x19, 0, 0\n"                 // structure_type: name, declaration
        ".byte 5, 0x0d, 0, 0x03, 0x08, 0x49, 0x13, 0x38, 0x0b, 0, 0\n"     // member: name, type, data_member_location
        ".byte 6, 0x0f, 0, 0x0b, 0x0b, 0x49, 0x13, 0, 0\n"                 // pointer_type: byte_size, type
        ".byte 7, 0x24, 0, 0x03, 0x08, 0x3e, 0x0b, 0x0b, 0x0b, 0, 0\n"     // base_type: name, encoding, byte_size
        ".byte 8, 0x01, 1, 0x49, 0x13, 0, 0\n"                             // array_type: type
        ".byte 9, 0x21, 0, 0x2f, 0x0b, 0, 0\n"                             // subrange_type: upper_bound
        ".byte 10, 0x34, 0, 0x03, 0x08, 0x49, 0x13, 0x02, 0x18, 0, 0, 0\n" // variable: name, type, location
        ".popsection\n"
        ".pushsection .debug_info,\"\",%progbits\n"
        "1: .long 9f - 2f\n"
        "2: .short 4\n"
        ".long 0b\n"
        ".byte 8\n"
        ".byte 1, 4\n.string \"declared_behind.cc\"\n"
        "3: .byte 2\n.long 6f - 1b\n.byte 104\n" // the definition
        ".byte 5\n.string \"next\"\n.long 4f - 1b\n.byte 0\n"
        ".byte 5\n.string \"room\"\n.long 5f - 1b\n.byte 8\n"
        ".byte 0\n"
        "4: .byte 6, 8\n.long 3b - 1b\n"
        "5: .byte 8\n.long 7f - 1b\n.byte 9, 11, 0\n"
        "7: .byte 7\n.string \"long\"\n.byte 5, 8\n"
        ".byte 10\n.string \"all_of_them\"\n.long 4b - 1b\n.byte 9, 3\n.quad all_of_them\n"
        ".byte 3\n.string \"space\"\n"
        "6: .byte 4\n.string \"behind\"\n" // its declaration
        ".byte 0, 0\n"
        "9:\n"
        ".popsection\n");

int main(void)
{
    for (int i = 0; i < NODES; i++) {
        struct behind *made = calloc(1, sizeof *made);
        if (!made)
            return 1;
        made->next = all_of_them;
        all_of_them = made;
    }
    puts("ready");
    fflush(stdout);
    pause();
}
