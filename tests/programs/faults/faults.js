// SPDX-License-Identifier: MIT
// WebAssembly's loads outside of its memory: each is a SIGSEGV, which V8's trap handler makes a RuntimeError. Ends when stdin does.
"use strict";

// (module (memory 1) (func (export "f") (param i32) (result i32) local.get 0 i32.load))
const code = new Uint8Array([
  0, 97, 115, 109, 1, 0, 0, 0, 1, 6, 1, 96, 1, 127, 1, 127, 3, 2, 1, 0, 5, 3, 1, 0, 1, 7, 5, 1, 1, 102, 0, 0, 10, 9, 1, 7,
  0, 32, 0, 40, 2, 0, 11,
]);
const load = new WebAssembly.Instance(new WebAssembly.Module(code)).exports.f;
let ended = false;

function round() {
  for (let i = 0; i < 200; i++) {
    try {
      load(0x7fffff00);
      process.exit(3);
    } catch (error) {
      if (!(error instanceof WebAssembly.RuntimeError)) process.exit(4);
    }
  }
  if (!ended) return setImmediate(round);
  console.log("ended well");
}

process.stdin.on("end", () => (ended = true)).resume();
console.log("ready");
round();
