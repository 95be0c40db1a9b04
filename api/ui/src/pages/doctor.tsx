import { ApiError, get } from '../lib/api';
import { time } from '../lib/format';
import { useLoad } from '../lib/load';
import { route, setParam } from '../lib/route';
import { Copyable } from '../parts/copy';
import { Docs } from '../parts/docs';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';
import { Tiles } from '../parts/tiles';

interface Verdict {
  id: string;
  level: string;
  subject: string;
  evidence: string;
  advice: string;
  command: string;
  docs: string;
}

interface Report {
  ready: boolean;
  checkedMs: number;
  verdicts: Verdict[];
}

const levels = ['critical', 'warn', 'info', 'ok'];
const titles: Record<string, string> = { critical: 'Critical', warn: 'Warnings', info: 'Notes', ok: 'Good' };
const classes: Record<string, string> = { critical: 'bad', warn: 'warn', info: 'info', ok: 'good' };

/** Doctor shows what the server finds wrong with itself, with evidence and advice. */
export function Doctor() {
  const least = route.value.params.get('level') ?? '';
  const load = useLoad(async (signal) => (await get<Report>('status/doctor', {}, signal)).data, [], 60000);
  const d = load.data;
  const forbidden = load.error instanceof ApiError && load.error.status === 403;
  const rank = (v: Verdict) => levels.indexOf(v.level);
  const shown = (d?.verdicts ?? []).filter((v) => (levels.includes(least) ? rank(v) <= levels.indexOf(least) : v.level !== 'ok')).sort((a, b) => rank(a) - rank(b));
  const good = d?.verdicts.filter((v) => v.level === 'ok') ?? [];
  return (
    <>
      <h1>Doctor</h1>
      {load.error && (forbidden ? <Forbidden reason={load.error.message} /> : <ErrorBox error={load.error} />)}
      {!d && !load.error && <p class="quiet">Loading …</p>}
      {d && (
        <>
          {!d.ready && <p class="state warn">The server is not ready, or it has not run long enough for all checks.</p>}
          <Tiles tiles={levels.map((l) => ({
            name: titles[l], value: String(d.verdicts.filter((v) => v.level === l).length), bad: l === 'critical' && d.verdicts.some((v) => v.level === l),
          }))} />
          <div class="bar">
            <label>Show
              <select value={least} onChange={(e) => setParam('level', e.currentTarget.value)}>
                <option value="">all problems</option>
                <option value="critical">critical</option>
                <option value="warn">critical and warnings</option>
                <option value="ok">all</option>
              </select>
            </label>
            <button type="button" onClick={load.reload}>Check again</button>
            <span class="quiet">Checked {time(d.checkedMs)}</span>
          </div>
          {shown.length === 0 && <p class="state good">The checks found nothing of this kind.</p>}
          {shown.filter((v) => v.level !== 'ok').map((v, n) => <One key={n} v={v} />)}
          {shown.some((v) => v.level === 'ok') && (
            <Table caption="Good" rows={good} columns={[
              { title: 'Check', value: (v) => v.id }, { title: 'Subject', value: (v) => v.subject }, { title: 'Evidence', value: (v) => v.evidence },
            ]} />
          )}
        </>
      )}
    </>
  );
}

function Forbidden({ reason }: { reason: string }) {
  return (
    <p class="state warn" role="status">
      The verdicts name metrics and senders of the whole server, so they need a token that may see all of it. On a server with tenants it
      needs the scope admin. The server says: {reason}.
    </p>
  );
}

function One({ v }: { v: Verdict }) {
  return (
    <section class={`card verdict ${classes[v.level] ?? 'warn'}`} aria-label={`${v.level}: ${v.id}`}>
      <h2><span class="type">{v.level}</span> {v.id}{v.subject && <>: <span class="mono">{v.subject}</span></>}</h2>
      <p>{v.evidence}</p>
      {v.advice && <p><strong>What to do.</strong> {v.advice}</p>}
      {v.command && <Copyable label={`Command for ${v.id}`} text={v.command} />}
      {v.docs && <p class="quiet"><Docs at={v.docs} /></p>}
    </section>
  );
}
