// SPDX-License-Identifier: MIT
// Who allocated it: the calls of the profile, in the order of a walk, and what they are called.
import { takeBlock, json } from "./data.js";

export const calls = { count: 0, end: [] }; // columns, by the numbers of calls; `end`: the number behind all that a call calls

export async function takeCalls() {
  Object.assign(calls, await takeBlock("calls"));
  calls.count = calls.depth.length;
  const text = new TextDecoder().decode(calls.text).split("\n");
  calls.names = text.slice(0, json.calls.nameCount);
  const behind = json.calls.nameCount + json.calls.moduleCount;
  calls.modules = text.slice(json.calls.nameCount, behind);
  calls.languages = text.slice(behind);
  calls.forOthers = new Set(json.calls.forOthers);
  connect(calls);
  // The same calls below the threads that made them.
  calls.threads = { count: calls.thread_depth.length, depth: calls.thread_depth, name: calls.thread_name, module: calls.thread_module };
  for (const [measure] of json.calls.measures) calls.threads[measure] = calls[`thread_${measure}`];
  connect(calls.threads);
}

function connect(tree) {
  tree.end = new Uint32Array(tree.count).fill(tree.count);
  tree.caller = new Int32Array(tree.count).fill(-1);
  const open = [];
  for (let call = 0; call < tree.count; call++) {
    while (open.length > tree.depth[call]) tree.end[open.pop()] = call;
    tree.caller[call] = open.at(-1) ?? -1;
    open.push(call);
  }
}

// Which calls a spec names: "call:3" with all that it calls, "function:2" wherever it is called. Null: none.
export function callsOf(spec) {
  const [what, value] = spec.split(":");
  const wanted = new Uint8Array(calls.count);
  let any = false;
  for (let call = 0; call < calls.count; call++) {
    const meant = what === "call" ? call === Number(value) : what === "function" && calls.name[call] === Number(value);
    if (meant) wanted.fill(1, call, calls.end[call]);
    any ||= meant;
  }
  return any ? wanted : null;
}

// A call in words: who called, and what was called to allocate. What allocates for others is passed over, and a function that calls
// itself stands once.
export function callName(call) {
  const outwards = (from) => {
    let at = calls.caller[from];
    while (at >= 0 && calls.name[at] === calls.name[from]) at = calls.caller[at];
    return at;
  };
  let called = call;
  let caller = outwards(call);
  if (calls.forOthers.has(calls.name[call])) {
    while (caller >= 0 && calls.forOthers.has(calls.name[caller])) [called, caller] = [caller, outwards(caller)];
  }
  return `${caller >= 0 ? `${calls.names[calls.name[caller]]} → ` : ""}${calls.names[calls.name[called]]}`;
}

// What lights up what, in words; null: it is no call.
export function callWords(spec) {
  const [what, value] = spec.split(":");
  if (what === "call" && Number(value) < calls.count) return `allocated by ${callName(Number(value))}`;
  return what === "function" && calls.names?.[value] ? `allocated by ${calls.names[value]}` : null;
}
