import { get } from '../lib/api';
import { bytes, time, whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { Bar } from '../parts/bar';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';
import { Tiles } from '../parts/tiles';

interface Count {
  name: string;
  value: number;
}

interface TSDBStatus {
  headStats: { numSeries: number; numLabelPairs: number; chunkCount: number; minTime: number; maxTime: number };
  memoryInBytesByLabelName: Count[];
  seriesCountByLabelValuePair: Count[];
}

/** ActiveSeries ranks pairs and labels of the series that have samples in the open hours. */
export function ActiveSeries({ limit }: { limit: number }) {
  const load = useLoad(async (signal) => (await get<TSDBStatus>('status/tsdb', { limit }, signal)).data, [limit]);
  if (load.error) return <ErrorBox error={load.error} />;
  if (!load.data) return <p class="quiet">Loading …</p>;
  const { headStats: h, memoryInBytesByLabelName: memory, seriesCountByLabelValuePair: pairs } = load.data;
  return (
    <>
      <h2>Active series</h2>
      <p class="quiet">These series have samples in the open hours and take memory now.</p>
      <Tiles tiles={[
        { name: 'Active series', value: whole(h.numSeries) },
        { name: 'Pairs of label and value', value: whole(h.numLabelPairs) },
        { name: 'Rows in memory', value: whole(h.chunkCount) },
        { name: 'Oldest hour in memory', value: <span class="small">{h.numSeries > 0 && h.minTime <= h.maxTime ? time(h.minTime) : '–'}</span> },
      ]} />
      <div class="columns wide">
        <Table caption="Series by label and value" rows={pairs} columns={[
          { title: 'Pair', value: (r) => r.name },
          { title: 'Series', value: (r) => r.value, show: (r) => whole(r.value), numeric: true },
          { title: 'Share', value: (r) => r.value / h.numSeries, show: (r) => <Bar share={r.value / h.numSeries} label={`Share of ${r.name}`} /> },
        ]} />
        <Table caption="Memory by label" rows={memory} columns={[
          { title: 'Label', value: (r) => r.name }, { title: 'Bytes', value: (r) => r.value, show: (r) => bytes(r.value), numeric: true },
        ]} />
      </div>
    </>
  );
}
