import { useMemo } from 'preact/hooks';
import { get } from '../lib/api';
import { sampleOf, series as seriesText } from '../lib/format';
import { useLoad } from '../lib/load';
import { route, setParam } from '../lib/route';
import { dark } from '../lib/theme';
import { align, timesOf } from './align';
import { Chart, type Line, type Mark, noMarks } from './chart';
import { colour } from './colours';
import { Legend, useHidden } from './legend';
import { seriesOf } from './run';
import { type Span, changeState } from './state';
import type { Outcome } from './types';

/** linesMax bounds the series that a graph draws at first, so that the browser stays quick. */
const linesMax = 100;

interface ExemplarSeries {
  seriesLabels: Record<string, string>;
  exemplars: { labels: Record<string, string>; value: string; timestamp: number }[];
}

/** Graph draws the series of all expressions. */
export function Graph({ outcomes, span, stacked, zoomable = true }: {
  outcomes: Outcome[];
  span: Span;
  stacked: boolean;
  zoomable?: boolean;
}) {
  const { params } = route.value;
  const most = params.get('all') ? Infinity : linesMax;
  const exemplars = !!params.get('exemplars');
  const all = useMemo(() => outcomes.flatMap((o) => seriesOf(o.result).map((s) => ({ s, name: o.name }))), [outcomes]);
  const drawable = all.filter(({ s }) => s.values);
  const isDark = dark();
  const times = useMemo(() => timesOf(span), [span]);
  const rows = useMemo(() => drawable.slice(0, most).map(({ s, name }) => (
    { label: `${name && name + ' '}${seriesText(s.metric)}`, values: align(s, span, times.length) })), [outcomes, span, most]);
  const labels = useMemo(() => rows.map((r) => r.label), [rows]);
  const { hidden, toggle } = useHidden(labels);
  const lines: Line[] = useMemo(() => rows.map((r, n) => ({ ...r, colour: colour(n, isDark), shown: !hidden.has(r.label) })), [rows, hidden, isDark]);
  const marks = useMarks(outcomes, span, exemplars);
  const zoom = (from: number, to: number) =>
    changeState({ endMs: Math.round(to * 1000), rangeSeconds: Math.max(10, Math.round(to - from)) });
  if (!drawable.length) return <p class="quiet">{all.length ? 'These series have histograms only: see the heat map.' : 'The result is empty: no series of the expression has samples in this range.'}</p>;
  return (
    <>
      <Chart label={`Graph of ${lines.length} series. The table has the same values.`} times={times} lines={lines} marks={marks} stacked={stacked} zoom={zoomable ? zoom : undefined} />
      <div class="bar">
        <label><input type="checkbox" checked={exemplars} onChange={(e) => setParam('exemplars', e.currentTarget.checked ? '1' : '')} /> Exemplars</label>
        {exemplars && <span class="quiet">{marks.length} found</span>}
        {drawable.length > most && (
          <span>The graph shows {most} of {drawable.length} series. <button type="button" onClick={() => setParam('all', '1')}>Show all</button></span>
        )}
      </div>
      <Legend lines={lines} toggle={toggle} />
    </>
  );
}

function useMarks(outcomes: Outcome[], span: Span, wanted: boolean): Mark[] {
  const load = useLoad(async (signal) => {
    if (!wanted) return noMarks;
    const marks: Mark[] = [];
    for (const o of outcomes) {
      const response = await get<ExemplarSeries[]>('query_exemplars', { query: o.expr, start: span.start, end: span.end }, signal);
      for (const s of response.data) {
        for (const e of s.exemplars) marks.push({ at: e.timestamp, value: sampleOf(e.value), text: seriesText(e.labels) });
      }
    }
    return marks;
  }, [outcomes, span, wanted]);
  return load.data ?? noMarks;
}
