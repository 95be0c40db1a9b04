import { seconds, time } from '../lib/format';
import { Bar } from '../parts/bar';
import { Table } from '../parts/table';

interface HotTablet {
  table: string;
  startKey: string;
  endKey: string;
  startMs: number;
  endMs: number;
  cpuPercent: number;
}

/** HotTabletReport is what Bigtable reports, or why it does not. */
export interface HotTabletReport {
  tablets: HotTablet[];
  error?: string;
}

/** reportSeconds is the longest time of a report. */
const reportSeconds = 172800;

/** HotTablets shows the hot tablets that Bigtable reports. */
export function HotTablets({ report, range }: { report: HotTabletReport; range: number }) {
  const past = seconds(Math.min(range, reportSeconds));
  return (
    <>
      <h2>Hot tablets of the cluster</h2>
      <p>Bigtable reports tablets that took much of the CPU of a node, minute by minute. The load is that of all clients.</p>
      {report.error
        ? <p class="state warn">There is no report. {report.error}</p>
        : <Table caption={`Hot tablets of the past ${past}`} rows={report.tablets} empty={`Bigtable reports no hot tablet in the past ${past}.`} columns={[
          { title: 'Table', value: (t) => t.table },
          { title: 'Rows', value: (t) => t.startKey, show: (t) => <>from <code>{t.startKey || 'the first'}</code><br />to <code>{t.endKey || 'the end'}</code></> },
          { title: 'Time', value: (t) => t.startMs, show: (t) => <>{time(t.startMs)}<br />for {seconds((t.endMs - t.startMs) / 1000)}</> },
          { title: 'CPU of the node', value: (t) => t.cpuPercent, show: (t) => <Bar share={t.cpuPercent / 100} label={`CPU share of the tablet from ${t.startKey || 'the first key'}`} /> },
        ]} />}
    </>
  );
}
