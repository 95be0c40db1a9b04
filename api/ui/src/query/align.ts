import { sampleOf } from '../lib/format';
import type { Span } from './state';
import type { Series } from './types';

/** timesOf lists the times of a span in seconds. */
export function timesOf(span: Span): number[] {
  const n = Math.floor((span.end - span.start) / span.step + 1e-9) + 1;
  return Array.from({ length: n }, (_, i) => span.start + i * span.step);
}

/** align puts the values of a series on the times of a span; null where it has none. Infinite values and NaN are null too. */
export function align(series: Series, span: Span, length: number): (number | null)[] {
  const out: (number | null)[] = new Array(length).fill(null);
  for (const [t, text] of series.values ?? []) {
    const at = Math.round((t - span.start) / span.step);
    const value = sampleOf(text);
    if (at >= 0 && at < length && Number.isFinite(value)) out[at] = value;
  }
  return out;
}

/** stack adds up the rows, so that each row lies on the rows before it. A gap counts as zero. */
export function stack(rows: (number | null)[][]): number[][] {
  const out: number[][] = [];
  for (const row of rows) {
    const below = out.at(-1);
    out.push(row.map((v, i) => (v ?? 0) + (below ? below[i] : 0)));
  }
  return out;
}

/** yMax keeps the height of a chart finite. */
const yMax = Number.MAX_VALUE / 2.5;

/** yRange is the lower and the upper end of the axis of values from low to high. */
export function yRange(low: number, high: number, stacked: boolean): [number, number] {
  if (low === null || !Number.isFinite(low) || !Number.isFinite(high)) return [0, 1];
  [low, high] = [low, high].map((y) => Math.max(-yMax, Math.min(yMax, y)));
  if (stacked) low = Math.min(0, low);
  if (low === high) return low === 0 ? [0, 1] : [Math.min(0, low * 1.1), Math.max(0, high * 1.1)];
  const pad = (high - low) * 0.05;
  return [low >= 0 && low - pad < 0 ? 0 : stacked && low === 0 ? 0 : low - pad, high + pad];
}
