import { useEffect, useState } from 'preact/hooks';
import { get } from '../lib/api';
import { time } from '../lib/format';
import { useLoad } from '../lib/load';
import { hashOf, route, setParam, setParams } from '../lib/route';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';
import { Diagnoses } from './diagnoses';
import { OneMap } from './onemap';
import { type Point, type Window, readWindow } from './page';
import { type KeyMap, metrics } from './types';

interface Side {
  maxOverMean: number;
  heatmap: KeyMap;
}

interface Comparison {
  keys: number;
  before: Side;
  after: Side;
}

const layouts: Record<string, string> = {
  '': 'the schema rules below', 'time-first': 'keys with the time first', 'sequential-id-first': 'keys with a sequential id first', 'static-key': 'one key for all',
};
const exampleRules = '[{"pattern": "*", "salts": 16, "basis": "tags"}]';

/** ComparePage shows the recorded load with its own keys, and with other keys. */
export function ComparePage() {
  const p = route.value.params;
  const window = readWindow(p);
  const metric = p.get('metric') ?? 'write_cells';
  const layout = layouts[p.get('layout') ?? ''] ? p.get('layout') ?? '' : '';
  const rules = p.get('rules') ?? exampleRules;
  const [draft, setDraft] = useState(rules);
  useEffect(() => setDraft(rules), [rules]);
  const [cursor, setCursor] = useState<{ side: string; point: Point } | null>(null);
  const load = useLoad(async (signal) => (await get<Comparison>('keyviz/compare', {
    metric, start: window.start, end: window.end, start_key: window.startKey, end_key: window.endKey, format: 'f32', rows: 128, cols: 120,
    ...(layout ? { layout } : { rules }),
  }, signal)).data, [metric, layout, rules, p.get('range'), p.get('start'), p.get('end'), window.startKey, window.endKey]);
  const show = (w: Partial<Window>) => {
    const next = new URLSearchParams(p);
    if (w.start) next.set('start', String(w.start));
    if (w.end) next.set('end', String(w.end));
    setParams(next);
  };
  const out = () => {
    const next = new URLSearchParams(p);
    for (const name of ['start', 'end', 'from', 'to']) next.delete(name);
    setParams(next);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    setParam('rules', draft === exampleRules ? '' : draft);
  };
  const d = load.data;
  const top = d && Math.max(d.before.heatmap.max, d.after.heatmap.max);
  return (
    <>
      <h1>Compare keys</h1>
      <p class="quiet">The first map is the recorded load. The second map is the same load as it would be with other keys. Both have the same colours for the same load.</p>
      <form onSubmit={submit}>
        <div class="bar">
          <label>Load
            <select value={metric} onChange={(e) => setParam('metric', e.currentTarget.value)}>
              {Object.entries(metrics).map(([id, title]) => <option key={id} value={id}>{title}</option>)}
            </select>
          </label>
          <label>Compare with
            <select value={layout} onChange={(e) => setParam('layout', e.currentTarget.value)}>
              {Object.entries(layouts).map(([id, title]) => <option key={id} value={id}>{title}</option>)}
            </select>
          </label>
          <button type="button" onClick={out} disabled={!p.has('start') && !p.has('from')}>Zoom out</button>
          <span class="quiet">{time(window.start * 1000)} to {time(window.end * 1000)}</span>
          <a href={hashOf('keymap', { metric })}>Key map</a>
        </div>
        {!layout && (
          <div class="fields">
            <label>Schema rules, as JSON
              <textarea class="mono" rows={3} spellcheck={false} value={draft} onInput={(e) => setDraft(e.currentTarget.value)} />
            </label>
            <div><button type="submit" class="primary">Compare</button></div>
          </div>
        )}
      </form>
      {load.error && <ErrorBox error={load.error} />}
      {!d && !load.error && <p class="quiet">Loading …</p>}
      <div aria-busy={load.loading}>
        {d && (
          <>
            <Figures d={d} />
            <div class="columns wide">
              {(['before', 'after'] as const).map((side) => (
                <div key={side}>
                  <OneMap map={d[side].heatmap} title={side === 'before' ? 'As recorded' : 'With other keys'} brightness={1} top={top} timeOnly={cursor?.side !== side}
                    point={cursor?.point ?? null} move={(point) => setCursor(point && { side, point })} pin={() => undefined} show={show} out={out} />
                  <Diagnoses list={d[side].heatmap.diagnostics ?? []} show={show} />
                </div>
              ))}
            </div>
          </>
        )}
      </div>
    </>
  );
}

function Figures({ d }: { d: Comparison }) {
  const sides = [{ name: 'As recorded', side: d.before }, { name: 'With other keys', side: d.after }];
  return (
    <>
      {d.keys === 0 && <p class="warning">No key was sampled in this window yet. The server needs about a minute of load.</p>}
      <Table caption={`Hottest of 16 ranges, divided by the mean: 1 is even, 16 is the worst. ${d.keys} sampled keys.`} rows={sides} columns={[
        { title: 'Keys', value: (s) => s.name },
        { title: 'Hottest / mean', value: (s) => s.side.maxOverMean, show: (s) => s.side.maxOverMean.toFixed(2), numeric: true },
        { title: 'Ranges', value: (s) => s.side.heatmap.rows.length, numeric: true },
        { title: 'Findings', value: (s) => s.side.heatmap.diagnostics?.length ?? 0, numeric: true },
      ]} />
    </>
  );
}
