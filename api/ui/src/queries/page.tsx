import { useState } from 'preact/hooks';
import { get, post } from '../lib/api';
import { seconds, time, whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { administers } from '../lib/session';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';
import { linkOf } from '../query/state';
import { BlockForm, type Blocked } from './block';
import { Limits } from './limits';
import { Rules } from './rules';
import { TopQueries } from './top';

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

/** Queries lists the running queries, what queries have cost, and the rules and limits for queries. */
export function Queries() {
  const active = useLoad(async (signal) => (await get<Active[]>('status/active_queries', {}, signal)).data, [], 2000);
  const [fault, setFault] = useState<Error | null>(null);
  const [blocked, setBlocked] = useState<Blocked | null>(null);
  const [changes, setChanges] = useState(0);
  const cancel = (id: string) => {
    setFault(null);
    post('admin/cancel_query', { id }).then(active.reload, setFault);
  };
  const mayChange = administers();
  return (
    <>
      <h1>Queries</h1>
      {active.error && <ErrorBox error={active.error} />}
      {fault && <ErrorBox error={fault} />}
      {!active.data && !active.error && <p class="quiet">Loading …</p>}
      {active.data && (
        <Table caption="Running queries" rows={active.data} empty="No query is running." columns={[
          { title: 'Query', value: (q) => q.query, show: (q) => <a class="mono" href={linkOf(q.query, q.kind)}>{q.query}</a> },
          { title: 'Since', value: (q) => q.since, show: (q) => <>{time(q.since * 1000)}<br /><span class="quiet">{q.duration}</span></> },
          { title: 'Kind', value: (q) => q.kind, show: (q) => `${q.kind}${q.waiting ? ', waiting' : ''}` },
          { title: 'Range', value: (q) => q.end - q.start, show: (q) => seconds((q.end - q.start) / 1000), numeric: true },
          { title: 'Samples', value: (q) => q.samples, show: (q) => whole(q.samples), numeric: true },
          { title: 'Client', value: (q) => q.remote_addr },
          ...(mayChange ? [{
            title: 'Action', value: (q: Active) => q.id,
            show: (q: Active) => (
              <span class="actions">
                <button type="button" onClick={() => cancel(q.id)}>Cancel</button>
                <button type="button" onClick={() => setBlocked({ query: q.query, fingerprint: q.fingerprint })}>Block</button>
              </span>
            ),
          }] : []),
        ]} />
      )}
      {blocked && <BlockForm blocked={blocked} close={(added) => { setBlocked(null); if (added) setChanges(changes + 1); }} />}
      <TopQueries block={mayChange ? setBlocked : undefined} />
      <Rules changes={changes} />
      <Limits />
    </>
  );
}
