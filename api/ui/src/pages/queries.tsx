import { useState } from 'preact/hooks';
import { get, post } from '../lib/api';
import { seconds, time, whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { hashOf } from '../lib/route';
import { administers } from '../lib/session';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';

interface Active {
  id: string;
  duration: string;
  remote_addr: string;
  query: string;
  kind: string;
  start: number;
  end: number;
  step: number;
  waiting: boolean;
  samples: number;
  since: number;
  fingerprint?: string;
}

interface Rule {
  id: string;
  query?: string;
  regexp?: string;
  fingerprint?: string;
  token?: string;
  action: string;
  reason: string;
  matches: number;
  waiting: number;
  running: number;
}

/** Queries lists the running queries, ends them, and shows the rules for queries. */
export function Queries() {
  const active = useLoad(async (signal) => (await get<Active[]>('status/active_queries', {}, signal)).data, [], 2000);
  const rules = useLoad(async (signal) => (await get<{ rules: Rule[] }>('status/query_rules', {}, signal)).data.rules, [], 10000);
  const [fault, setFault] = useState<Error | null>(null);
  const cancel = (id: string) => {
    setFault(null);
    post('admin/cancel_query', { id }).then(active.reload, setFault);
  };
  const mayCancel = administers();
  return (
    <>
      <h1>Queries</h1>
      {(active.error ?? rules.error) && <ErrorBox error={(active.error ?? rules.error)!} />}
      {fault && <ErrorBox error={fault} />}
      {!active.data && !active.error && <p class="quiet">Loading …</p>}
      {active.data && (
        <Table caption="Running queries" rows={active.data} empty="No query is running." columns={[
          { title: 'Query', value: (q) => q.query, show: (q) => <a class="mono" href={hashOf('query', { expr: q.query })}>{q.query}</a> },
          { title: 'Since', value: (q) => q.since, show: (q) => <>{time(q.since * 1000)}<br /><span class="quiet">{q.duration}</span></> },
          { title: 'Kind', value: (q) => q.kind, show: (q) => `${q.kind}${q.waiting ? ', waiting' : ''}` },
          { title: 'Range', value: (q) => q.end - q.start, show: (q) => seconds((q.end - q.start) / 1000), numeric: true },
          { title: 'Samples', value: (q) => q.samples, show: (q) => whole(q.samples), numeric: true },
          { title: 'Client', value: (q) => q.remote_addr },
          ...(mayCancel ? [{ title: 'Action', value: (q: Active) => q.id, show: (q: Active) => <button type="button" onClick={() => cancel(q.id)}>Cancel</button> }] : []),
        ]} />
      )}
      {rules.data && (
        <Table caption="Query rules" rows={rules.data} empty="The configuration file has no query_rules." columns={[
          { title: 'Rule', value: (r) => r.id },
          { title: 'Matches', value: (r) => [r.query, r.regexp, r.fingerprint, r.token].filter(Boolean).join(', ') },
          { title: 'Action', value: (r) => r.action },
          { title: 'Reason', value: (r) => r.reason },
          { title: 'Queries', value: (r) => r.matches, show: (r) => whole(r.matches), numeric: true },
          { title: 'Now', value: (r) => r.running, show: (r) => `${r.running} running, ${r.waiting} waiting` },
        ]} />
      )}
      <Limits />
    </>
  );
}

interface Limit {
  max: number;
  warn: number;
  dryRun: boolean;
  warnings: number;
  refused: number;
}

function Limits() {
  const load = useLoad(async (signal) => (await get<{ queries?: Record<string, Limit | number> }>('status/limits', {}, signal)).data.queries, [], 10000);
  if (!load.data) return null;
  const names: Record<string, string> = { timeMs: 'Time, ms', bytes: 'Memory, bytes', concurrency: 'Queries at once' };
  const rows = Object.entries(load.data).filter((e): e is [string, Limit] => typeof e[1] === 'object');
  const figure = (n: number) => (n ? whole(n) : 'none');
  return (
    <Table caption="Limits of queries" rows={rows} columns={[
      { title: 'Limit', value: ([name]) => names[name] ?? name },
      { title: 'Most', value: ([, l]) => l.max, show: ([, l]) => figure(l.max) + (l.dryRun ? ' (dry run)' : ''), numeric: true },
      { title: 'Warning at', value: ([, l]) => l.warn, show: ([, l]) => figure(l.warn), numeric: true },
      { title: 'Warnings', value: ([, l]) => l.warnings, numeric: true },
      { title: 'Refused', value: ([, l]) => l.refused, numeric: true },
    ]} />
  );
}
