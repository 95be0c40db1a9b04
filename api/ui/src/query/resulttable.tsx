import { useMemo } from 'preact/hooks';
import { number, sampleOf, series as seriesText, time } from '../lib/format';
import { Table } from '../parts/table';
import { seriesOf } from './run';
import type { Outcome, Series } from './types';

interface Row {
  series: string;
  value: string;
  at: number;
}

/** ResultTable shows the newest value of each series, or all values if the expression gave ranges. */
export function ResultTable({ outcome }: { outcome: Outcome }) {
  const rows = useMemo(() => seriesOf(outcome.result).flatMap(rowsOf), [outcome]);
  return (
    <Table
      caption={`${outcome.name && outcome.name + ': '}${outcome.expr}`}
      rows={rows}
      param="sort"
      empty="The result is empty: no series of the expression has a sample at this time."
      columns={[
        { title: 'Series', value: (r) => r.series, show: (r) => <span class="mono">{r.series}</span> },
        { title: 'Time', value: (r) => r.at, show: (r) => <span class="mono">{time(r.at * 1000)}</span> },
        { title: 'Value', value: (r) => sampleOf(r.value), show: (r) => r.value, numeric: true },
      ]}
    />
  );
}

function rowsOf(s: Series): Row[] {
  const series = seriesText(s.metric);
  const values = s.value ? [s.value] : s.values ?? [];
  const histograms = s.histogram ? [s.histogram] : s.histograms ?? [];
  return [
    ...values.map(([at, value]) => ({ series, value, at })),
    ...histograms.map(([at, h]) => ({ series, value: `count ${number(Number(h.count))}, sum ${number(sampleOf(h.sum))}`, at })),
  ];
}
