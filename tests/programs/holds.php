<?php
// SPDX-License-Identifier: MIT
// Holds strings in PHP's own heap, large ones among them, and says how much that is by PHP's own account: used and taken, in bytes.
$kept = [];
for ($i = 0; $i < 100000; $i++) {
    $kept[] = str_repeat("x", $i % 300);
}
$large = [str_repeat("y", 5 << 20), str_repeat("z", 3 << 20)];
for ($i = 0; $i < 100000; $i += 3) {
    unset($kept[$i]);
}
$used = 0;
$taken = 0;
$line = "";
do {
    $used = memory_get_usage();
    $taken = memory_get_usage(true);
    fwrite(STDOUT, sprintf("%d %d\n", $used, $taken));
} while (fgets(STDIN));
