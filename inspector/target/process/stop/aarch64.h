// SPDX-License-Identifier: MIT
// What aarch64 and its kernel call things. Internal to target/ and inject/.
#pragma once

#include <stdint.h>

enum {
    AS_FRAME_POINTER = 29,
    AS_LR = 30,  // which of the x registers holds the return address
    AS_CALL = 8, // and which the number of a system call
    AS_SVC_BYTES = 4,
};
static const uint32_t AS_SVC = 0xd4000001;           // svc #0
static const uint64_t AS_PSTATE_BTYPE = 3 << 10;     // how the last branch came: none that a landing pad is wanted for
static const uint64_t AS_PSTATE_STEP = 1 << 21;      // single step
static const uint64_t AS_PSTATE_FLAGS = 15ULL << 28; // N, Z, C, V

// Sets of registers, which older headers lack (linux/elf.h).
enum {
    AS_NT_SYSTEM_CALL = 0x404,
    AS_NT_SVE = 0x405,
    AS_NT_STREAMING_SVE = 0x40b,
    AS_NT_ZA = 0x40c,
    AS_NT_GCS = 0x410,
};

// Head of NT_ARM_SVE and NT_ARM_SSVE (struct user_sve_header), and of NT_ARM_ZA.
struct as_sve_head {
    uint32_t size, max_size;
    uint16_t vector_bytes, max_vector_bytes;
    uint16_t flags, reserved;
};
enum { AS_SVE_ACTIVE = 1 }; // in its flags: Z and P registers follow; else the V registers alone
