import { get } from '../lib/api';
import { formatDuration } from '../lib/duration';
import { bytes, number, seconds, time, whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { hashOf, route, setParam } from '../lib/route';
import { ErrorBox } from '../parts/errorbox';
import { type Column, Table } from '../parts/table';
import { linkOf } from '../query/state';
import type { Blocked } from './block';

interface TopQuery {
  tenant?: string;
  kind: string;
  query: string;
  queryBytes?: number;
  fingerprint?: string;
  count: number;
  errors: number;
  totalSeconds: number;
  meanSeconds: number;
  maxSeconds: number;
  samples: number;
  peakBytes: number;
  firstSeenMs: number;
  lastSeenMs: number;
  slowest: { timeMs: number; seconds: number; startMs: number; endMs: number; stepMs: number };
}

const orders: Record<string, string> = { time: 'total time', max_time: 'slowest run', count: 'count', memory: 'memory' };

/** TopQueries shows what queries have cost since the start of the server, with the plan of the slowest run of each. */
export function TopQueries({ block }: { block?: (b: Blocked) => void }) {
  const wanted = route.value.params.get('by') ?? '';
  const by = orders[wanted] ? wanted : 'time';
  const load = useLoad(async (signal) =>
    (await get<{ queries: TopQuery[]; evicted: number }>('status/top_queries', { by, limit: 100 }, signal)).data, [by], 10000);
  const d = load.data;
  const columns: Column<TopQuery>[] = [
    { title: 'Query', value: (q) => q.query, show: (q) => <Text q={q} /> },
    { title: 'Count', value: (q) => q.count, show: (q) => whole(q.count) + (q.errors ? `, ${whole(q.errors)} failed` : ''), numeric: true },
    { title: 'Total', value: (q) => q.totalSeconds, show: (q) => seconds(q.totalSeconds), numeric: true },
    { title: 'Mean', value: (q) => q.meanSeconds, show: (q) => seconds(q.meanSeconds), numeric: true },
    { title: 'Slowest', value: (q) => q.maxSeconds, show: (q) => <Slowest q={q} />, numeric: true },
    { title: 'Samples', value: (q) => q.samples, show: (q) => number(q.samples), numeric: true },
    { title: 'Memory', value: (q) => q.peakBytes, show: (q) => (q.peakBytes ? bytes(q.peakBytes) : '–'), numeric: true },
    { title: 'Last', value: (q) => q.lastSeenMs, show: (q) => time(q.lastSeenMs) },
  ];
  if (d?.queries.some((q) => q.tenant)) columns.splice(1, 0, { title: 'Tenant', value: (q) => q.tenant ?? '' });
  if (block) {
    columns.push({
      title: 'Action', value: (q) => q.fingerprint ?? '',
      show: (q) => (q.fingerprint || !q.queryBytes) && <button type="button" onClick={() => block(q)}>Block</button>,
    });
  }
  return (
    <>
      <h2>Top queries</h2>
      <p class="quiet">What queries have cost since the server started. Queries count together if they differ only in spaces and the order of labels.
        {d?.evicted ? ` ${whole(d.evicted)} cheap queries made room for others.` : ''}</p>
      <div class="bar">
        <label>Order
          <select value={by} onChange={(e) => setParam('by', e.currentTarget.value)}>
            {Object.entries(orders).map(([id, title]) => <option key={id} value={id}>{title}</option>)}
          </select>
        </label>
      </div>
      {load.error && <ErrorBox error={load.error} />}
      {!d && !load.error && <p class="quiet">Loading …</p>}
      {d && <Table caption={`Queries by ${orders[by]}`} param="sort" rows={d.queries} most={20} empty="No query has run yet." columns={columns} />}
    </>
  );
}

function Text({ q }: { q: TopQuery }) {
  if (q.queryBytes) return <code>{q.query} … ({bytes(q.queryBytes)})</code>;
  if (!q.fingerprint) return <code>{q.query}</code>;
  return <a class="mono" href={linkOf(q.query, q.kind)}>{q.query}</a>;
}

/** Slowest leads to the plan of the slowest run, over the same range. */
function Slowest({ q }: { q: TopQuery }) {
  const s = q.slowest;
  if (!q.fingerprint || q.queryBytes) return <>{seconds(q.maxSeconds)}</>;
  const params: Record<string, string> = { expr: q.query, tab: 'plan' };
  if (s.endMs > s.startMs) {
    params.range = formatDuration((s.endMs - s.startMs) / 1000);
    params.end = String(s.endMs);
    if (s.stepMs >= 1000) params.step = formatDuration(s.stepMs / 1000);
  }
  return <>{seconds(q.maxSeconds)}<br /><a href={hashOf('query', params)} aria-label={`Plan of ${q.query}`}>Plan</a></>;
}
