import { get } from '../lib/api';
import { bytes, time, whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { hashOf, route, setParam } from '../lib/route';
import { Bar } from '../parts/bar';
import { ErrorBox } from '../parts/errorbox';
import { type Column, Table } from '../parts/table';
import { Tiles } from '../parts/tiles';
import { ActiveSeries } from './activeseries';

interface Counts {
  series: number;
  new: number;
  gone: number;
  rows: number;
}

interface Metric extends Counts {
  name: string;
  bytes?: number;
  lastReadMs?: number;
  tooLarge?: boolean;
}

interface Report {
  day: string;
  total: Counts;
  days: (Counts & { day: string })[];
  metrics: Metric[];
  labels: { name: string; values: number; new: number; gone: number; cut?: boolean }[];
  values: (Counts & { value: string })[];
  valuesCut?: boolean;
  metricsAll: number;
  metricsRead: number;
  complete: boolean;
  readsSinceMs?: number;
}

const orders: Record<string, string> = { series: 'series', new: 'new series', gone: 'gone series', rows: 'rows' };

/** Cardinality shows how many series metrics and labels have on a day, and which are new or gone. */
export function Cardinality() {
  const p = route.value.params;
  const params = {
    day: p.get('day') ?? '', metric: p.get('metric') ?? '', label: p.get('label') ?? '', by: orders[p.get('by') ?? ''] ? p.get('by')! : 'series',
    unread: p.get('unread') ?? '', days: 7, limit: Math.min(10000, Math.max(1, Number(p.get('limit')) || 20)),
  };
  const load = useLoad(async (signal) => (await get<Report>('status/cardinality', params, signal)).data, [JSON.stringify(params)]);
  const d = load.data;
  const today = new Date().toISOString().slice(0, 10);
  return (
    <>
      <h1>Cardinality</h1>
      <p>Each combination of labels is a series. A new series had no sample on the day before. A gone series had one then, and has none on this day. Days are in UTC.</p>
      <div class="bar">
        <label>Day <input type="date" max={today} value={params.day || today} onChange={(e) => setParam('day', e.currentTarget.value)} /></label>
        <label>Order
          <select value={params.by} onChange={(e) => setParam('by', e.currentTarget.value)}>
            {Object.entries(orders).map(([id, title]) => <option key={id} value={id}>{title}</option>)}
          </select>
        </label>
        <label>Lines
          <select value={String(params.limit)} onChange={(e) => setParam('limit', e.currentTarget.value)}>
            {[...new Set([10, 20, 50, 100, 1000, params.limit])].sort((a, b) => a - b).map((n) => <option key={n} value={String(n)}>{n}</option>)}
          </select>
        </label>
        <label><input type="checkbox" checked={params.unread === 'true'} onChange={(e) => setParam('unread', e.currentTarget.checked ? 'true' : '')} /> Only metrics that no query has read</label>
      </div>
      <Chosen name="metric" value={params.metric} />
      <Chosen name="label" value={params.label} />
      {load.error && <ErrorBox error={load.error} />}
      {!d && !load.error && <p class="quiet">Loading …</p>}
      <div aria-busy={load.loading}>{d && <Counted d={d} metric={params.metric} label={params.label} />}</div>
      {!params.metric && !params.label && <ActiveSeries limit={params.limit} />}
    </>
  );
}

/** Chosen names a metric or label to which the page is restricted, with a button that lifts this. */
function Chosen({ name, value }: { name: string; value: string }) {
  if (!value) return null;
  return (
    <p>
      Only the {name} <code>{value}</code>. {name === 'metric' && <a href={hashOf('explore', { metric: value })}>Explore it</a>}{' '}
      <button type="button" onClick={() => setParam(name, '')}>Show every {name}</button>
    </p>
  );
}

function Counted({ d, metric, label }: { d: Report; metric: string; label: string }) {
  const all = d.total.series;
  return (
    <>
      {!d.complete && <p class="warning">The time ran out: this counts {whole(d.metricsRead)} of {whole(d.metricsAll)} metrics. Choose one metric for complete counts.</p>}
      {d.valuesCut && <p class="warning">The label has more values than the server tells apart. Some are not counted.</p>}
      <Tiles tiles={[
        { name: `Series on ${d.day}`, value: whole(all) }, { name: 'New', value: whole(d.total.new) },
        { name: 'Gone', value: whole(d.total.gone) }, { name: 'Rows', value: whole(d.total.rows), hint: 'one for each series and hour' },
        { name: 'Metrics', value: whole(d.metricsAll) },
      ]} />
      <Table caption="Metrics" param="sort" rows={d.metrics} most={1000} empty="No such metric has series on this day." columns={[
        { title: 'Metric', value: (m) => m.name, show: (m) => <Choose name="metric" value={m.name} chosen={metric} /> },
        ...counted<Metric>(all, (m) => m.name),
        { title: 'Rows', value: (m) => m.rows, show: (m) => whole(m.rows), numeric: true },
        { title: 'Size', value: (m) => m.bytes ?? 0, show: (m) => (m.bytes === undefined ? '–' : bytes(m.bytes)), numeric: true },
        { title: 'Last read', value: (m) => m.lastReadMs ?? 0, show: (m) => (m.tooLarge ? 'too large to count' : m.lastReadMs ? time(m.lastReadMs) : <span class="quiet">not read</span>) },
      ]} />
      <p class="quiet">{d.readsSinceMs ? `A metric is “not read” if no query has read it since ${time(d.readsSinceMs)}.` : 'The server does not remember which metrics queries read.'}</p>
      <div class="columns wide">
        {label && <Table caption={`Values of ${label}`} rows={d.values} most={1000} columns={[
          { title: 'Value', value: (v) => v.value, show: (v) => v.value || <span class="quiet">without the label</span> }, ...counted<Counts & { value: string }>(all, (v) => v.value),
        ]} />}
        <Table caption="Labels" rows={d.labels} most={1000} columns={[
          { title: 'Label', value: (l) => l.name, show: (l) => <Choose name="label" value={l.name} chosen={label} /> },
          { title: 'Values', value: (l) => l.values, show: (l) => whole(l.values) + (l.cut ? ' or more' : ''), numeric: true },
          { title: 'New values', value: (l) => l.new, show: (l) => whole(l.new), numeric: true },
          { title: 'Gone values', value: (l) => l.gone, show: (l) => whole(l.gone), numeric: true },
        ]} />
        <Table caption="Days" rows={d.days} columns={[
          { title: 'Day', value: (x) => x.day, show: (x) => <button type="button" class="plain" onClick={() => setParam('day', x.day)}>{x.day}</button> },
          ...counted<Counts & { day: string }>(Math.max(...d.days.map((x) => x.series)), (x) => x.day),
        ]} />
      </div>
    </>
  );
}

/** counted are the columns of counts. The bar is a share of all. */
function counted<R extends Counts>(all: number, name: (r: R) => string): Column<R>[] {
  return [
    { title: 'Series', value: (r) => r.series, show: (r) => whole(r.series), numeric: true },
    { title: 'Share', value: (r) => r.series / all, show: (r) => <Bar share={r.series / all} label={`Share of ${name(r)}`} /> },
    { title: 'New', value: (r) => r.new, show: (r) => whole(r.new), numeric: true },
    { title: 'Gone', value: (r) => r.gone, show: (r) => whole(r.gone), numeric: true },
  ];
}

function Choose({ name, value, chosen }: { name: string; value: string; chosen: string }) {
  const params = new URLSearchParams(route.value.params);
  params.set(name, value);
  return value === chosen ? <>{value}</> : <a href={hashOf('cardinality', params)}>{value}</a>;
}
