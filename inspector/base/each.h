// SPDX-License-Identifier: MIT
// One macro for several fields of a record: AS_EACH(put, to, record, a, b) is put(to, record, a), put(to, record, b). At most 12.
#pragma once

#define AS_EACH(put, to, record, ...)                                                                                  \
    AS_EACH_PICK(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, )(put, to, record, __VA_ARGS__)
#define AS_EACH_PICK(a, b, c, d, e, f, g, h, i, k, l, m, count, ...) AS_EACH_##count
#define AS_EACH_1(put, to, record, field) put(to, record, field)
#define AS_EACH_2(put, to, record, field, ...) put(to, record, field), AS_EACH_1(put, to, record, __VA_ARGS__)
#define AS_EACH_3(put, to, record, field, ...) put(to, record, field), AS_EACH_2(put, to, record, __VA_ARGS__)
#define AS_EACH_4(put, to, record, field, ...) put(to, record, field), AS_EACH_3(put, to, record, __VA_ARGS__)
#define AS_EACH_5(put, to, record, field, ...) put(to, record, field), AS_EACH_4(put, to, record, __VA_ARGS__)
#define AS_EACH_6(put, to, record, field, ...) put(to, record, field), AS_EACH_5(put, to, record, __VA_ARGS__)
#define AS_EACH_7(put, to, record, field, ...) put(to, record, field), AS_EACH_6(put, to, record, __VA_ARGS__)
#define AS_EACH_8(put, to, record, field, ...) put(to, record, field), AS_EACH_7(put, to, record, __VA_ARGS__)
#define AS_EACH_9(put, to, record, field, ...) put(to, record, field), AS_EACH_8(put, to, record, __VA_ARGS__)
#define AS_EACH_10(put, to, record, field, ...) put(to, record, field), AS_EACH_9(put, to, record, __VA_ARGS__)
#define AS_EACH_11(put, to, record, field, ...) put(to, record, field), AS_EACH_10(put, to, record, __VA_ARGS__)
#define AS_EACH_12(put, to, record, field, ...) put(to, record, field), AS_EACH_11(put, to, record, __VA_ARGS__)
