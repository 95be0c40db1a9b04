import type { Grid } from '../heat/levels';
import type { KeyMap } from './types';

/** gridOf decodes the values of a map. */
export function gridOf(map: KeyMap): Grid {
  const [cols, rows] = map.values.shape;
  const { data } = map.values;
  const values = typeof data === 'string' ? floats(data) : Float32Array.from(data);
  if (values.length !== cols * rows) throw new Error(`The map has ${values.length} values instead of ${cols} × ${rows}.`);
  return { cols, rows, values };
}

/** floats decodes base64 of little-endian float32. Every browser's machine has this byte order. */
function floats(base64: string): Float32Array {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  return new Float32Array((native ? native.call(Uint8Array, base64) : Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))).buffer);
}

/** keyBytes decodes base64url into a string with one character for each byte, so that < compares keys as the store does. */
export function keyBytes(base64url: string): string {
  return atob(base64url.replaceAll('-', '+').replaceAll('_', '/'));
}

/** rowAt finds the row that holds a key. Starts are sorted and decoded. */
export function rowAt(starts: string[], key: string): number {
  let low = 0;
  let high = starts.length;
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (starts[middle] <= key) low = middle;
    else high = middle;
  }
  return low;
}

/** columnAt finds the column that holds a time. */
export function columnAt(times: number[], at: number): number {
  const found = times.findLastIndex((t) => t <= at);
  return Math.max(0, Math.min(times.length - 2, found));
}
