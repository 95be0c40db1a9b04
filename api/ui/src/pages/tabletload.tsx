import { useMemo } from 'preact/hooks';
import { perSecond } from '../lib/rates';
import { route, setParam } from '../lib/route';
import { dark } from '../lib/theme';
import { Chart, type Line } from '../query/chart';
import { colour } from '../query/colours';
import { Legend, useHidden } from '../query/legend';

/** LoadSeries has a count for each column. */
export interface LoadSeries {
  cellsWritten: number[];
  rowsWritten: number[];
  bytesWritten: number[];
  rowsRead: number[];
  bytesRead: number[];
  readSeconds: number[];
  errors: number[];
}

interface LoadedTablet {
  start: string;
  series?: LoadSeries;
}

/** linesMax bounds the tablets that a graph draws. */
const linesMax = 10;

const kinds: [keyof LoadSeries, string][] = [
  ['cellsWritten', 'Samples written'], ['rowsWritten', 'Rows written'], ['bytesWritten', 'Bytes written'],
  ['rowsRead', 'Rows read'], ['bytesRead', 'Bytes read'], ['readSeconds', 'Time of reads, seconds'], ['errors', 'Errors'],
];

const ranges: [string, string][] = [['', '1 h'], ['21600', '6 h'], ['86400', '1 d'], ['604800', '7 d']];

/** rangeSeconds is the time that the page shows. */
export const rangeSeconds = () => Number(ranges.find(([s]) => s === (route.value.params.get('range') ?? ''))?.[0]) || 3600;

/** TabletLoad draws the load of the hottest tablets by time. */
export function TabletLoad({ tablets, timesMs, endMs }: { tablets: LoadedTablet[]; timesMs: number[]; endMs: number }) {
  const kind = kinds.find(([k]) => k === route.value.params.get('load')) ?? kinds[0];
  const isDark = dark();
  // The present column is not complete, so its rate would be too low.
  const columns = timesMs.length - 1 - (timesMs.length > 2 && timesMs[timesMs.length - 1] > endMs ? 1 : 0);
  const times = useMemo(() => timesMs.slice(0, Math.max(0, columns)).map((ms) => ms / 1000), [timesMs, columns]);
  const rows = useMemo(() => {
    const sum = (t: LoadedTablet) => t.series![kind[0]].reduce((s, n) => s + n, 0);
    const hottest = tablets.filter((t) => t.series).map((t) => ({ t, sum: sum(t) })).sort((a, b) => b.sum - a.sum).slice(0, linesMax);
    return hottest.map(({ t }) => ({ label: `from ${t.start || 'the first key'}`, values: perSecond(t.series![kind[0]].slice(0, columns), timesMs) }));
  }, [tablets, timesMs, columns, kind]);
  const { hidden, toggle } = useHidden(useMemo(() => rows.map((r) => r.label), [rows]));
  const lines: Line[] = useMemo(() => rows.map((r, n) => ({ ...r, colour: colour(n, isDark), shown: !hidden.has(r.label) })), [rows, hidden, isDark]);
  return (
    <>
      <h2>Load of the tablets of data</h2>
      <div class="bar">
        <label>Load
          <select value={kind[0]} onChange={(e) => setParam('load', e.currentTarget.value === kinds[0][0] ? '' : e.currentTarget.value)}>
            {kinds.map(([k, title]) => <option key={k} value={k}>{title}</option>)}
          </select>
        </label>
        <label>Time
          <select value={ranges.find(([s]) => s === route.value.params.get('range'))?.[0] ?? ''} onChange={(e) => setParam('range', e.currentTarget.value)}>
            {ranges.map(([s, title]) => <option key={s} value={s}>{title}</option>)}
          </select>
        </label>
        <span class="quiet">a second{tablets.length > lines.length && `, the ${lines.length} hottest of ${tablets.length} tablets`}</span>
      </div>
      {lines.length === 0
        ? <p class="quiet">The server counts no load by key.</p>
        : <><Chart label={`${kind[1]} a second by tablet. The table below has the sums.`} times={times} lines={lines} stacked={false} height={240} /><Legend lines={lines} toggle={toggle} /></>}
    </>
  );
}
