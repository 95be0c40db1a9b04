import { useState } from 'preact/hooks';
import { get, remove } from '../lib/api';
import { whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { administers } from '../lib/session';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';

interface Rule {
  id: string;
  query?: string;
  regexp?: string;
  fingerprint?: string;
  token?: string;
  action: string;
  reason: string;
  source: string;
  matches: number;
  waiting: number;
  running: number;
}

const actions: Record<string, string> = { refuse: 'refuse', slow_lane: 'slow lane' };
const sources: Record<string, string> = { config: 'configuration file', api: 'added here, until the server stops' };

/** Rules lists the rules for queries, and removes those that were added while the server ran. changes counts additions. */
export function Rules({ changes }: { changes: number }) {
  const load = useLoad(async (signal) => (await get<{ rules: Rule[] }>('status/query_rules', {}, signal)).data.rules, [changes], 10000);
  const [fault, setFault] = useState<Error | null>(null);
  const take = (id: string) => {
    setFault(null);
    remove('admin/query_rules', { id }).then(load.reload, setFault);
  };
  const error = load.error ?? fault;
  return (
    <>
      {error && <ErrorBox error={error} />}
      {load.data && (
        <Table caption="Query rules" rows={load.data} empty="There is no rule: the configuration file has no query_rules, and nothing is blocked here." columns={[
          { title: 'Rule', value: (r) => r.id },
          { title: 'Matches', value: matches, show: (r) => <code>{matches(r)}</code> },
          { title: 'Action', value: (r) => r.action, show: (r) => actions[r.action] ?? r.action },
          { title: 'Reason', value: (r) => r.reason },
          { title: 'From', value: (r) => r.source, show: (r) => sources[r.source] ?? r.source },
          { title: 'Queries', value: (r) => r.matches, show: (r) => whole(r.matches), numeric: true },
          { title: 'Now', value: (r) => r.running, show: (r) => `${r.running} running, ${r.waiting} waiting` },
          ...(administers() ? [{
            title: 'Change', value: (r: Rule) => r.id,
            show: (r: Rule) => r.source === 'api' && <button type="button" aria-label={`Remove the rule ${r.id}`} onClick={() => take(r.id)}>Remove</button>,
          }] : []),
        ]} />
      )}
    </>
  );
}

function matches(r: Rule): string {
  return [r.query, r.regexp && `expression ${r.regexp}`, r.fingerprint && `fingerprint ${r.fingerprint}`, r.token && `token ${r.token}`].filter(Boolean).join(', ');
}
