import { useMemo, useState } from 'preact/hooks';
import { type Cell, HeatMap } from '../heat/map';
import { number, time } from '../lib/format';
import { Table } from '../parts/table';
import { timesOf } from './align';
import { bucketsOf } from './buckets';
import { seriesOf } from './run';
import type { Span } from './state';
import type { Outcome } from './types';

/** belowPx is the height of the sums and times below the map. */
const belowPx = 64;

/** Histograms shows the buckets of histograms over time. */
export function Histograms({ outcomes, span }: { outcomes: Outcome[]; span: Span }) {
  const [cursor, setCursor] = useState<Cell | null>(null);
  const { times, grid, rows, rowSums, colSums } = useMemo(() => {
    const steps = timesOf(span);
    const b = bucketsOf(outcomes.flatMap((o) => seriesOf(o.result)), span, steps.length);
    const byRow = b.rows.map((_, r) => steps.reduce((sum, _t, c) => sum + b.grid.values[c * b.rows.length + r], 0));
    const byColumn = steps.map((_, c) => b.rows.reduce((sum, _r, r) => sum + b.grid.values[c * b.rows.length + r], 0));
    return { times: [...steps, span.end + span.step], ...b, rowSums: byRow, colSums: byColumn };
  }, [outcomes, span]);
  if (!rows.length) {
    return <p class="quiet">The result has no histograms. Try native histograms, or an expression such as <code>sum by (le) (rate(app_request_duration_seconds_bucket[5m]))</code>.</p>;
  }
  const mapPx = Math.min(440, Math.max(160, rows.length * 22));
  const every = Math.ceil(rows.length / (mapPx / 20));
  // The edge between two rows has the upper bound of the lower one.
  const edges = rows.slice(1).map((row, r) => ({ top: (r + 1) / rows.length, text: number(row.high) })).filter((_, r) => r % every === 0);
  const at = cursor && { c: Math.min(cursor.c, grid.cols - 1), r: Math.min(cursor.r, rows.length - 1) };
  return (
    <>
      <div class="withlabels">
      <div class="prefixes buckets" style={{ height: `${mapPx}px` }} aria-hidden="true">
        {edges.map((e) => <span key={e.text} style={{ top: `${e.top * 100}%` }}>{e.text}</span>)}
      </div>
      <HeatMap label={`Heat map of ${rows.length} buckets. Arrow keys move over cells. The table below has the same buckets.`} grid={grid} times={times}
        rowSums={rowSums} colSums={colSums} brightness={1} height={mapPx + belowPx} cursor={at} move={setCursor} pin={setCursor} />
      </div>
      <p class="readout mono" aria-live="polite">
        {at ? `${time(times[at.c] * 1000)}  ${rows[at.r].text}  ${number(grid.values[at.c * grid.rows + at.r])}` : 'Move over the map to read cells.'}
      </p>
      <Table caption={at ? `Buckets at ${time(times[at.c] * 1000)}` : 'Buckets, all steps added up'} rows={rows.map((row, r) => ({ ...row, r }))} columns={[
        { title: 'Bucket', value: (b) => b.high, show: (b) => b.text },
        { title: 'Count', value: (b) => (at ? grid.values[at.c * grid.rows + b.r] : rowSums[b.r]), show: (b) => number(at ? grid.values[at.c * grid.rows + b.r] : rowSums[b.r]), numeric: true },
      ]} />
    </>
  );
}
