// SPDX-License-Identifier: MIT
// Holds objects in V8's heap and a buffer beside it. For each line of its input it prints what V8 says of its spaces, as JSON.
"use strict";
const readline = require("readline");
const v8 = require("v8");

globalThis.kept = [];
for (let i = 0; i < 300000; i++) {
    globalThis.kept.push({ number: i, text: "text " + i, list: [i, i + 1] });
}
globalThis.large = new Array(200000).fill(1.5);
globalThis.buffer = Buffer.alloc(50 << 20, 1);
readline.createInterface({ input: process.stdin }).on("line", () => {
    console.log(JSON.stringify({ heap: v8.getHeapStatistics(), spaces: v8.getHeapSpaceStatistics() }));
});
