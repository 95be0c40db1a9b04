import { csv, download } from '../lib/download';
import { sampleOf } from '../lib/format';
import { seriesOf } from './run';
import type { Outcome, Series } from './types';

/** exportJSON downloads the results as the server sent them, with errors and warnings. */
export function exportJSON(outcomes: Outcome[]): void {
  download('query.json', 'application/json', JSON.stringify(outcomes.map(jsonOf), null, 1));
}

export function jsonOf(o: Outcome): Record<string, unknown> {
  return {
    query: o.expr, ...(o.error && { error: o.error.message }),
    ...(o.warnings.length > 0 && { warnings: o.warnings }), ...(o.infos.length > 0 && { infos: o.infos }), ...o.result,
  };
}

/** exportCSV downloads one line for each sample, with a column for each label. */
export function exportCSV(outcomes: Outcome[]): void {
  download('query.csv', 'text/csv', csv(csvRows(outcomes)));
}

/** ownColumns are the columns other than labels. The last two are for histograms only. */
const ownColumns = ['query', 'time', 'value', 'count', 'sum'];

/** csvRows has a header and a line for each sample. A label with the name of another column gets the prefix label_. */
export function csvRows(outcomes: Outcome[]): (string | number)[][] {
  const all = outcomes.flatMap((o) => seriesOf(o.result).map((s) => ({ expr: o.expr, s })));
  const names = [...new Set(all.flatMap(({ s }) => Object.keys(s.metric)))].sort();
  const hasHistograms = all.some(({ s }) => s.histogram || s.histograms);
  const titles = names.map((n) => (ownColumns.includes(n) ? `label_${n}` : n));
  const rows: (string | number)[][] = [['query', ...titles, 'time', 'value', ...(hasHistograms ? ['count', 'sum'] : [])]];
  for (const { expr, s } of all) {
    const labels = names.map((n) => s.metric[n] ?? '');
    for (const { at, cells } of points(s)) {
      rows.push([expr, ...labels, new Date(at * 1000).toISOString(), ...(hasHistograms ? cells : cells.slice(0, 1))]);
    }
  }
  return rows;
}

/** points are the samples of a series in their order. Their cells are value, count and sum. */
function points(s: Series): { at: number; cells: (string | number)[] }[] {
  const values = s.value ? [s.value] : s.values ?? [];
  const histograms = s.histogram ? [s.histogram] : s.histograms ?? [];
  return [
    ...values.map(([at, text]) => ({ at, cells: [valueOf(text), '', ''] })),
    ...histograms.map(([at, h]) => ({ at, cells: ['', sampleOf(h.count), sampleOf(h.sum)] })),
  ].sort((a, b) => a.at - b.at);
}

/** valueOf keeps the text of a string literal, which is no number. */
function valueOf(text: string): string | number {
  const value = sampleOf(text);
  return Number.isNaN(value) ? text : value;
}
