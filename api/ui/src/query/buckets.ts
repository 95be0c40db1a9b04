import type { Grid } from '../heat/levels';
import { sample, sampleOf } from '../lib/format';
import type { Span } from './state';
import type { Series } from './types';

/** BucketGrid is a heat map of histograms: a row for each bucket, the largest values first. */
export interface BucketGrid {
  grid: Grid;
  rows: { text: string; low: number; high: number }[];
}

/** bucketsOf adds up the histograms of all series: native ones, and classic ones by their label le. */
export function bucketsOf(list: Series[], span: Span, cols: number): BucketGrid {
  const counts = new Map<string, { low: number; high: number; values: Float32Array }>();
  const row = (low: number, high: number) => {
    const key = `${low} ${high}`;
    const found = counts.get(key) ?? { low, high, values: new Float32Array(cols) };
    counts.set(key, found);
    return found.values;
  };
  const column = (t: number) => Math.round((t - span.start) / span.step);
  for (const s of list) {
    for (const [t, h] of s.histograms ?? []) {
      const c = column(t);
      if (c < 0 || c >= cols) continue;
      for (const [, low, high, count] of h.buckets ?? []) row(sampleOf(low), sampleOf(high))[c] += Number(count);
    }
  }
  for (const [low, high, values] of classic(list, column, cols)) row(low, high).set(values);
  const rows = [...counts.values()].sort((a, b) => b.high - a.high || b.low - a.low);
  const grid = { cols, rows: rows.length, values: new Float32Array(cols * rows.length) };
  rows.forEach((b, r) => b.values.forEach((v, c) => (grid.values[c * rows.length + r] = Math.max(0, v))));
  return { grid, rows: rows.map((b) => ({ low: b.low, high: b.high, text: `${text(b.low)} to ${text(b.high)}` })) };
}

function classic(list: Series[], column: (t: number) => number, cols: number): [number, number, Float32Array][] {
  const cumulative = new Map<number, Float32Array>();
  for (const s of list) {
    if (s.metric.le === undefined) continue;
    const bound = sampleOf(s.metric.le);
    if (Number.isNaN(bound)) continue;
    const sums = cumulative.get(bound) ?? new Float32Array(cols);
    cumulative.set(bound, sums);
    for (const [t, v] of s.values ?? []) {
      const c = column(t);
      const value = sampleOf(v);
      if (c >= 0 && c < cols && Number.isFinite(value)) sums[c] += value;
    }
  }
  const bounds = [...cumulative.keys()].sort((a, b) => a - b);
  return bounds.map((high, n) => {
    const below = n ? cumulative.get(bounds[n - 1])! : null;
    return [n ? bounds[n - 1] : 0, high, cumulative.get(high)!.map((v, c) => v - (below ? below[c] : 0))];
  });
}

function text(n: number): string {
  return sample(Number(n.toPrecision(4)));
}
