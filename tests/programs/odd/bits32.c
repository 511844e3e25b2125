// SPDX-License-Identifier: MIT
// A 32-bit program that needs no 32-bit libc (-m32 -nostdlib -static): it says "ready" and waits.
static long call(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(second), "d"(third) : "memory");
    return result;
}

void _start(void)
{
    static const char ready[] = "ready\n";
    call(4, 1, (long)ready, sizeof ready - 1); // write
    for (;;)
        call(29, 0, 0, 0); // pause
}
