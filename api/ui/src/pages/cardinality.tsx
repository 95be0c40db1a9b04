import { get } from '../lib/api';
import { bytes, time, whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { hashOf, route, setParam } from '../lib/route';
import { Bar } from '../parts/bar';
import { ErrorBox } from '../parts/errorbox';
import { type Column, Table } from '../parts/table';
import { Tiles } from '../parts/tiles';

interface Count {
  name: string;
  value: number;
}

interface TSDBStatus {
  headStats: { numSeries: number; numLabelPairs: number; chunkCount: number; minTime: number; maxTime: number };
  seriesCountByMetricName: Count[];
  labelValueCountByLabelName: Count[];
  memoryInBytesByLabelName: Count[];
  seriesCountByLabelValuePair: Count[];
}

/** Cardinality ranks metrics, labels and pairs by their series. */
export function Cardinality() {
  const limit = Math.min(10000, Math.max(1, Number(route.value.params.get('limit')) || 20));
  const load = useLoad(async (signal) => (await get<TSDBStatus>('status/tsdb', { limit }, signal)).data, [limit]);
  const d = load.data;
  return (
    <>
      <h1>Cardinality</h1>
      <p>Each combination of labels is a series. These are the active series: the ones with samples in the open hours.</p>
      {load.error && <ErrorBox error={load.error} />}
      {!d && !load.error && <p class="quiet">Loading …</p>}
      {d && <Ranking d={d} limit={limit} />}
    </>
  );
}

function Ranking({ d, limit }: { d: TSDBStatus; limit: number }) {
  const h = d.headStats;
  const all = h.numSeries;
  return (
    <>
      <Tiles tiles={[
        { name: 'Active series', value: whole(all) },
        { name: 'Pairs of label and value', value: whole(h.numLabelPairs) },
        { name: 'Rows in memory', value: whole(h.chunkCount) },
        { name: 'Oldest hour in memory', value: <span class="small">{h.minTime <= h.maxTime ? time(h.minTime) : '–'}</span> },
      ]} />
      <div class="bar">
        <label>Lines of each ranking
          <select value={String(limit)} onChange={(e) => setParam('limit', e.currentTarget.value)}>
            {[10, 20, 50, 100, 1000].map((n) => <option key={n} value={String(n)}>{n}</option>)}
          </select>
        </label>
      </div>
      <div class="columns wide">
        <Table caption="Series by metric" rows={d.seriesCountByMetricName} columns={columns('Metric', all, metricLink)} />
        <Table caption="Series by label and value" rows={d.seriesCountByLabelValuePair} columns={columns('Pair', all)} />
        <Table caption="Values by label" rows={d.labelValueCountByLabelName} columns={[
          { title: 'Label', value: (r) => r.name }, { title: 'Values', value: (r) => r.value, show: (r) => whole(r.value), numeric: true },
        ]} />
        <Table caption="Memory by label" rows={d.memoryInBytesByLabelName} columns={[
          { title: 'Label', value: (r) => r.name }, { title: 'Bytes', value: (r) => r.value, show: (r) => bytes(r.value), numeric: true },
        ]} />
      </div>
    </>
  );
}

function metricLink(r: Count) {
  return <a href={hashOf('explore', { metric: r.name })}>{r.name}</a>;
}

function columns(title: string, all: number, show?: (r: Count) => preact.ComponentChildren): Column<Count>[] {
  return [
    { title, value: (r) => r.name, show },
    { title: 'Series', value: (r) => r.value, show: (r) => whole(r.value), numeric: true },
    { title: 'Share', value: (r) => r.value / all, show: (r) => <Bar share={r.value / all} label={`Share of ${r.name}`} /> },
  ];
}
