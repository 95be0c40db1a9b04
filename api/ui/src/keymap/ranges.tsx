import { get } from '../lib/api';
import { csv, download } from '../lib/download';
import { number } from '../lib/format';
import { useLoad } from '../lib/load';
import { Bar } from '../parts/bar';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';
import type { Window } from './page';
import type { HotRange } from './types';

interface Ranges {
  unit: string;
  ranges: HotRange[];
}

/** RangeTable lists the hottest key ranges of the window. It is the map as a table. */
export function RangeTable({ metric, window, show }: { metric: string; window: Window; show: (w: Partial<Window>) => void }) {
  const load = useLoad(async (signal) => (await get<Ranges>('keyviz/ranges', {
    metric, start: window.start, end: window.end, start_key: window.startKey, end_key: window.endKey, top: 100,
  }, signal)).data, [metric, window.startKey, window.endKey, window.start, window.end]);
  if (load.error) return <ErrorBox error={load.error} />;
  if (!load.data) return <p class="quiet">Loading …</p>;
  const { unit, ranges } = load.data;
  return (
    <>
    <Table caption="Hottest key ranges" param="sort" rows={ranges} most={20} columns={[
      { title: 'Range', value: (r) => r.key, show: (r) => <>{r.labels.join(' ') || 'the first key'}<br /><code class="quiet">{r.key}</code></> },
      { title: 'Load', value: (r) => r.perSecond, show: (r) => `${number(r.perSecond || r.total)} ${unit}`, numeric: true },
      { title: 'Share', value: (r) => r.share, show: (r) => <Bar share={r.share} label={`Share of ${r.key}`} /> },
      { title: 'Map', value: (r) => r.start, show: (r) => <button type="button" onClick={() => show({ startKey: r.start, endKey: r.end })}>Zoom in</button> },
    ]} />
    <div class="bar"><button type="button" onClick={() => exportRanges(unit, ranges)}>Download CSV</button></div>
    </>
  );
}

function exportRanges(unit: string, ranges: HotRange[]): void {
  const rows = ranges.map((r) => [r.key, r.labels.join(' '), r.total, r.perSecond, r.share]);
  download('keymap.csv', 'text/csv', csv([['key', 'labels', 'total', unit, 'share'], ...rows]));
}
