import { get } from '../lib/api';
import { bytes, seconds, time, whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { route, setParam } from '../lib/route';
import { Bar } from '../parts/bar';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';
import { Encoder } from './encoder';
import { type HotTabletReport, HotTablets } from './hottablets';
import { type LoadSeries, TabletLoad, rangeSeconds } from './tabletload';

interface Tablet {
  start: string;
  end: string;
  sizeBytes: number;
  rowsWritten: number;
  rowsRead: number;
  bytesWritten: number;
  bytesRead: number;
  load?: { rowsWritten: number; bytesWritten: number; cellsWritten: number; rowsRead: number; bytesRead: number; readSeconds: number; errors: number };
  series?: LoadSeries;
}

/** TabletEvent is a split or a merge. */
interface TabletEvent {
  tMs: number;
  kind: string;
  table: string;
  key: string;
  reason: string;
}

interface TableStatus {
  name: string;
  tablets: Tablet[];
}

interface Rule {
  pattern: string;
  from_hour: number;
  salts: number;
  basis: string;
  salt_tags?: number;
  promoted?: string[];
  reversed_domains?: string[];
}

/** Tablets shows the tables with their row ranges, and the rules that make row keys. */
export function Tablets() {
  const range = rangeSeconds();
  const load = useLoad(async (signal) => {
    const start = (Date.now() / 1000 - range).toFixed(3);
    const [tables, schema] = await Promise.all([
      get<{ endMs: number; timesMs: number[]; tables: TableStatus[]; events: TabletEvent[]; hotTablets?: HotTabletReport }>('status/tablets', { start }, signal),
      get<{ rules: Rule[]; hour: number }>('status/schema', {}, signal),
    ]);
    return { ...tables.data, ...schema.data, range };
  }, [range], 10000);
  const d = load.data;
  return (
    <>
      <h1>Tablets and schema</h1>
      {load.error && <ErrorBox error={load.error} />}
      {!d && !load.error && <p class="quiet">Loading …</p>}
      {d && <Tables tables={d.tables} timesMs={d.timesMs} endMs={d.endMs} range={d.range} />}
      {d?.hotTablets && <HotTablets report={d.hotTablets} range={d.range} />}
      {d && <Events events={d.events} range={d.range} />}
      {d && <Rules rules={d.rules} hour={d.hour} />}
      <Encoder />
    </>
  );
}

const sum = (t: TableStatus, of: keyof Tablet) => t.tablets.reduce((s, x) => s + (x[of] as number), 0);

function Tables({ tables, timesMs, endMs, range }: { tables: TableStatus[]; timesMs: number[]; endMs: number; range: number }) {
  const wanted = route.value.params.get('table');
  const table = tables.find((t) => t.name === wanted) ?? tables.find((t) => t.name === 'data');
  const chosen = table?.name;
  const rows = (t: Tablet) => t.rowsRead + t.rowsWritten;
  const all = table ? sum(table, 'rowsRead') + sum(table, 'rowsWritten') : 0;
  return (
    <>
      <p>A tablet is a contiguous range of rows. Rows reach a table when their hour is flushed, so samples in memory are not counted.</p>
      <Table caption="Tables" rows={tables} columns={[
        { title: 'Table', value: (t) => t.name, show: (t) => <button type="button" class={t.name === chosen ? 'on' : ''} aria-pressed={t.name === chosen} onClick={() => setParam('table', t.name)}>{t.name}</button> },
        { title: 'Tablets', value: (t) => t.tablets.length, numeric: true },
        { title: 'Size', value: (t) => sum(t, 'sizeBytes'), show: (t) => bytes(sum(t, 'sizeBytes')), numeric: true },
        { title: 'Rows written', value: (t) => sum(t, 'rowsWritten'), show: (t) => whole(sum(t, 'rowsWritten')), numeric: true },
        { title: 'Rows read', value: (t) => sum(t, 'rowsRead'), show: (t) => whole(sum(t, 'rowsRead')), numeric: true },
      ]} />
      {table?.name === 'data' && <TabletLoad tablets={table.tablets} timesMs={timesMs} endMs={endMs} />}
      {table && (
        <Table caption={`Tablets of ${table.name}`} param="sort" rows={table.tablets} columns={[
          { title: 'Keys', value: (t) => t.start, show: (t) => <>from <code>{t.start || 'the first'}</code><br />to <code>{t.end || 'the end'}</code></> },
          { title: 'Size', value: (t) => t.sizeBytes, show: (t) => bytes(t.sizeBytes), numeric: true },
          { title: 'Written', value: (t) => t.rowsWritten, show: (t) => `${whole(t.rowsWritten)} rows, ${bytes(t.bytesWritten)}`, numeric: true },
          { title: 'Read', value: (t) => t.rowsRead, show: (t) => `${whole(t.rowsRead)} rows, ${bytes(t.bytesRead)}`, numeric: true },
          ...(table.name === 'data' ? [{ title: `Load of ${seconds(range)}`, value: (t: Tablet) => t.load?.cellsWritten ?? 0, show: (t: Tablet) => <LoadText t={t} />, numeric: true }] : []),
          { title: 'Share of rows', value: rows, show: (t) => <Bar share={all ? rows(t) / all : 0} label={`Share of the tablet from ${t.start || 'the first key'}`} /> },
        ]} />
      )}
    </>
  );
}

function LoadText({ t }: { t: Tablet }) {
  if (!t.load) return <>–</>;
  return <>{whole(t.load.cellsWritten)} samples in<br />{whole(t.load.rowsRead)} rows out in {seconds(t.load.readSeconds)}</>;
}

function Events({ events, range }: { events: TabletEvent[]; range: number }) {
  if (events.length === 0) return <p class="quiet">No tablet was split or merged in the past {seconds(range)}.</p>;
  return (
    <Table caption="Splits and merges" rows={events} columns={[
      { title: 'Time', value: (e) => e.tMs, show: (e) => time(e.tMs) },
      { title: 'Event', value: (e) => e.kind },
      { title: 'Table', value: (e) => e.table },
      { title: 'At key', value: (e) => e.key, show: (e) => <code>{e.key}</code> },
      { title: 'Reason', value: (e) => e.reason || '–' },
    ]} />
  );
}

const hourText = (hour: number) => new Date(hour * 3600000).toISOString().slice(0, 16).replace('T', ' ') + ' UTC';

function Rules({ rules, hour }: { rules: Rule[]; hour: number }) {
  return (
    <>
      <h2>Schema rules</h2>
      <p>A row key is <code>metric#salt#tags#reversed-hour</code>. The first rule whose pattern matches a metric makes its keys. The current hour is {hourText(hour)}.</p>
      <Table caption="Schema rules" rows={rules} columns={[
        { title: 'Pattern', value: (r) => r.pattern, show: (r) => <code>{r.pattern}</code> },
        { title: 'From', value: (r) => r.from_hour, show: (r) => (r.from_hour ? `${hourText(r.from_hour)}${r.from_hour > hour ? ' (to come)' : ''}` : 'always') },
        { title: 'Salts', value: (r) => r.salts, numeric: true },
        { title: 'Salt from', value: (r) => r.basis, show: (r) => r.basis + (r.salt_tags ? `, ${r.salt_tags} of them` : '') },
        { title: 'Promoted labels', value: (r) => (r.promoted ?? []).join(', ') || '–' },
        { title: 'Reversed domains', value: (r) => (r.reversed_domains ?? []).join(', ') || '–' },
      ]} />
    </>
  );
}
