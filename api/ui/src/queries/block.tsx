import { useEffect, useRef, useState } from 'preact/hooks';
import { post } from '../lib/api';
import { ErrorBox } from '../parts/errorbox';

/** Blocked is a query that the user wants to block. Without a fingerprint, the rule matches the whole text. */
export interface Blocked {
  query: string;
  fingerprint?: string;
}

/** BlockForm asks for action and reason, and adds a query rule. */
export function BlockForm({ blocked, close }: { blocked: Blocked; close: (added: boolean) => void }) {
  const [reason, setReason] = useState('');
  const [action, setAction] = useState('refuse');
  const [fault, setFault] = useState<Error | null>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), [blocked]);
  const submit = (event: Event) => {
    event.preventDefault();
    const match = blocked.fingerprint ? { fingerprint: blocked.fingerprint } : { query: blocked.query };
    post('admin/query_rules', { ...match, action, reason }).then(() => close(true), setFault);
  };
  return (
    <form class="card" onSubmit={submit} aria-labelledby="block-title">
      <h2 id="block-title">Block a query</h2>
      <p><code>{blocked.query}</code></p>
      <p class="quiet">The rule {blocked.fingerprint ? 'matches all queries that differ only in spaces and the order of labels' : 'matches this text'}. It ends
        with the process: write it into <code>query_rules</code> of the configuration file to keep it.</p>
      {fault && <ErrorBox error={fault} />}
      <div class="bar">
        <label>What happens
          <select value={action} onChange={(e) => setAction(e.currentTarget.value)}>
            <option value="refuse">Refuse it</option>
            <option value="slow_lane">One at a time, in the slow lane</option>
          </select>
        </label>
        <label>Reason, for its users <input ref={field} required value={reason} onInput={(e) => setReason(e.currentTarget.value)} /></label>
        <button type="submit" class="primary">Block</button>
        <button type="button" onClick={() => close(false)}>Leave it</button>
      </div>
    </form>
  );
}
