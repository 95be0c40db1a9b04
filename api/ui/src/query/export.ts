import { csv, download } from '../lib/download';
import { seriesOf } from './run';
import type { Outcome, Series } from './types';

/** exportJSON hands the answers to the user as they came. */
export function exportJSON(outcomes: Outcome[]): void {
  const text = JSON.stringify(outcomes.map((o) => ({ query: o.expr, ...o.result })), null, 1);
  download('query.json', 'application/json', text);
}

/** exportCSV hands out one line for each sample, with a column for each label. */
export function exportCSV(outcomes: Outcome[]): void {
  download('query.csv', 'text/csv', csv(csvRows(outcomes)));
}

export function csvRows(outcomes: Outcome[]): (string | number)[][] {
  const names = [...new Set(outcomes.flatMap((o) => seriesOf(o.result).flatMap((s) => Object.keys(s.metric))))].sort();
  const rows: (string | number)[][] = [['query', ...names, 'time', 'value']];
  for (const o of outcomes) {
    for (const s of seriesOf(o.result)) {
      const labels = names.map((n) => s.metric[n] ?? '');
      for (const [at, value] of points(s)) rows.push([o.expr, ...labels, new Date(at * 1000).toISOString(), Number(value)]);
    }
  }
  return rows;
}

function points(s: Series): [number, string][] {
  if (s.value) return [s.value];
  if (s.values) return s.values;
  const histograms = s.histogram ? [s.histogram] : s.histograms ?? [];
  return histograms.map(([at, h]) => [at, h.sum]);
}
