// SPDX-License-Identifier: MIT
// What the page carries: a few facts as JSON, and columns of numbers, deflated, in script elements that are not scripts.

export const json = JSON.parse(document.getElementById("json").textContent);

const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, u8: BigUint64Array, i4: Int32Array, f8: Float64Array };

// The columns of a block, by name. Each block is taken once: its text is then dropped.
export async function takeBlock(name) {
  const element = document.getElementById(`block-${name}`);
  const squeezed = new Blob([decoded(element.textContent)]).stream();
  element.remove();
  const opened = new Response(squeezed.pipeThrough(new DecompressionStream("deflate")));
  const data = new Uint8Array(await opened.arrayBuffer());
  const columns = {};
  let offset = 0;
  for (const [column, type, count] of json.blocks[name]) {
    const values = new TYPES[type](count);
    const bytes = new Uint8Array(values.buffer);
    const width = values.BYTES_PER_ELEMENT;
    for (let plane = 0; plane < width; plane++, offset += count) {
      if (width === 1) bytes.set(data.subarray(offset, offset + count));
      else for (let i = 0, at = plane; i < count; i++, at += width) bytes[at] = data[offset + i];
    }
    columns[column] = values;
  }
  return columns;
}

function decoded(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

// The last index whose value is not above `wanted`; -1 where all are.
export function lastNotAbove(values, wanted, count = values.length) {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= wanted) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
