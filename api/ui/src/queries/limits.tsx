import { get } from '../lib/api';
import { whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { Table } from '../parts/table';

interface Limit {
  max: number;
  warn: number;
  dryRun: boolean;
  warnings: number;
  refused: number;
}

/** Limits shows the limits of queries. */
export function Limits() {
  const load = useLoad(async (signal) => (await get<{ queries?: Record<string, Limit | number> }>('status/limits', {}, signal)).data.queries, [], 10000);
  if (!load.data) return null;
  const names: Record<string, string> = { timeMs: 'Time, ms', bytes: 'Memory, bytes', concurrency: 'Queries at once' };
  const rows = Object.entries(load.data).filter((e): e is [string, Limit] => typeof e[1] === 'object');
  const figure = (n: number) => (n ? whole(n) : 'none');
  return (
    <>
    <Table caption="Limits of queries in the configuration file" rows={rows} columns={[
      { title: 'Limit', value: ([name]) => names[name] ?? name },
      { title: 'Maximum', value: ([, l]) => l.max, show: ([, l]) => figure(l.max) + (l.dryRun ? ' (dry run)' : ''), numeric: true },
      { title: 'Warning at', value: ([, l]) => l.warn, show: ([, l]) => figure(l.warn), numeric: true },
      { title: 'Warnings', value: ([, l]) => l.warnings, numeric: true },
      { title: 'Refused', value: ([, l]) => l.refused, numeric: true },
    ]} />
    <p class="quiet">The flags <code>--query.timeout</code> and <code>--query.max-bytes</code> also limit queries. See the page <a href="#/status?flag=query.">Status</a>.</p>
    </>
  );
}
