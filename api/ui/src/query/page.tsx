import { useEffect, useRef, useState } from 'preact/hooks';
import { lazy } from '../lib/lazy';
import { useLoad } from '../lib/load';
import { route } from '../lib/route';
import { seesServer } from '../lib/session';
import { number, seconds, whole } from '../lib/format';
import { ErrorBox } from '../parts/errorbox';
import { TabPanel, Tabs } from '../parts/tabs';
import { Editor } from './editor';
import { exportCSV, exportJSON } from './export';
import { Graph } from './graph';
import { History, remember } from './history';
import { ResultTable } from './resulttable';
import { letterOf, runInstant, runRange, seriesOf } from './run';
import { type QueryState, type Span, type Tab, changeState, rawOf, readState, spanOf } from './state';
import { TimeBar } from './timebar';
import type { Outcome } from './types';

/** exprsMax bounds the expressions of the page. */
const exprsMax = 10;

/** QueryPage evaluates expressions and shows the results. The URL holds its state. */
export function QueryPage() {
  const state = readState(route.value.params);
  const tabs = shownTabs();
  // A link may name a view that this user does not have.
  if (!tabs.some((t) => t.id === state.tab)) state.tab = 'graph';
  const [texts, setTexts] = useState(state.exprs);
  const [runs, setRuns] = useState(0);
  const [painted, setPainted] = useState(false);
  const hasExpr = state.exprs.some((e) => e.trim());
  const key = JSON.stringify(state.exprs);
  useEffect(() => setTexts(state.exprs), [key]);
  const run = () => {
    remember(texts);
    changeState({ exprs: texts });
    setRuns((n) => n + 1);
  };
  const add = useRef<HTMLButtonElement>(null);
  const setText = (n: number, text: string) => setTexts((all) => all.map((t, i) => (i === n ? text : t)));
  const drop = (n: number) => {
    const rest = texts.filter((_, i) => i !== n);
    setTexts(rest);
    changeState({ exprs: rest });
    // The button that had the focus is gone.
    add.current?.focus();
  };
  return (
    <>
      <h1 class="hidden">Query</h1>
      <div class="exprs">
        {texts.map((text, n) => (
          <div class="expr" key={n}>
            {texts.length > 1 && <span class="name">{letterOf(n)}</span>}
            <Editor label={`Expression ${n + 1}`} value={text} change={(t) => setText(n, t)} run={run}
              defer={hasExpr && !painted} />
            {texts.length > 1 && <button type="button" onClick={() => drop(n)} aria-label={`Remove expression ${n + 1}`}>✕</button>}
          </div>
        ))}
      </div>
      <div class="bar">
        <button type="button" class="primary" onClick={run}>Run</button>
        <button type="button" ref={add} onClick={() => setTexts([...texts, ''])} disabled={texts.length >= exprsMax}>Add an expression</button>
        <History choose={(e) => setText(texts.length - 1, e)} />
      </div>
      <TimeBar state={state} />
      <Tabs label="Views of the result" panel="result" active={state.tab} choose={(tab) => changeState({ tab: tab as Tab })} tabs={tabs} />
      <TabPanel panel="result" active={state.tab}>
        {hasExpr ? <View state={state} runs={runs} onPainted={() => setPainted(true)} /> : <Hint />}
      </TabPanel>
    </>
  );
}

function shownTabs() {
  const list = [
    { id: 'graph', title: 'Graph' }, { id: 'stacked', title: 'Stacked' }, { id: 'heatmap', title: 'Heat map' },
    { id: 'table', title: 'Table' }, { id: 'raw', title: 'Raw samples' },
  ];
  // A plan shows row keys, which restricted users may not see.
  return seesServer() ? [...list, { id: 'plan', title: 'Plan' }] : list;
}

const Plan = lazy(async () => (await import('./plan')).PlanView);
const Heat = lazy(async () => (await import('./histograms')).Histograms);

function Hint() {
  return <p class="quiet">Type an expression and press Enter. Ctrl+Space completes names. Shift+Enter begins a new line.</p>;
}

/** View shows the results. It calls onPainted once they are painted, so that the editor does not delay them. */
function View({ state, runs, onPainted }: { state: QueryState; runs: number; onPainted: () => void }) {
  const { exprs, tab, rangeSeconds, endMs, stepSeconds } = state;
  const load = useLoad(async (signal) => {
    const span = spanOf(state, Date.now());
    const at = (endMs || Date.now()) / 1000;
    switch (tab) {
      case 'table': return { tab, span, outcomes: await runInstant(exprs, at, signal) };
      case 'plan': return { tab, span, outcomes: [] };
      case 'raw': return { tab, span, outcomes: await runInstant(exprs.map((e) => rawOf(e, rangeSeconds)), at, signal) };
      default: return { tab, span, outcomes: await runRange(exprs, span, signal) };
    }
  }, [JSON.stringify(exprs), tab, rangeSeconds, endMs, stepSeconds, runs]);
  const settled = !!load.error || !!load.data;
  useEffect(() => {
    if (settled) onPainted();
  }, [settled]);
  if (load.error) return <ErrorBox error={load.error} />;
  if (!load.data || load.data.tab !== tab) return <p class="quiet">Evaluating …</p>;
  const { outcomes, span } = load.data;
  return (
    <div aria-busy={load.loading}>
      {outcomes.map((o, n) => <Notes key={n} outcome={o} />)}
      {tab === 'raw' && outcomes.some((o) => o.error) && <p class="quiet">Raw samples need a selector, such as <code>up{'{job="node"}'}</code>.</p>}
      {tab === 'plan' ? <Plan exprs={exprs} span={span} runs={runs} /> : <Results tab={tab} outcomes={outcomes} span={span} />}
      <div class="bar" hidden={!outcomes.some((o) => seriesOf(o.result).length)}>
        <button type="button" onClick={() => exportCSV(outcomes)}>Download CSV</button>
        <button type="button" onClick={() => exportJSON(outcomes)}>Download JSON</button>
      </div>
    </div>
  );
}

function Results({ tab, outcomes, span }: { tab: Tab; outcomes: Outcome[]; span: Span }) {
  if (tab === 'table' || tab === 'raw') {
    return <>{outcomes.filter((o) => !o.error).map((o, n) => <ResultTable key={n} outcome={o} />)}</>;
  }
  if (outcomes.every((o) => o.error)) return null;
  if (tab === 'heatmap') return <Heat outcomes={outcomes} span={span} />;
  return <Graph outcomes={outcomes} span={span} stacked={tab === 'stacked'} />;
}

function Notes({ outcome }: { outcome: Outcome }) {
  const name = outcome.name && `${outcome.name}: `;
  if (outcome.error) return <ErrorBox error={outcome.error} name={name} />;
  const found = seriesOf(outcome.result);
  const samples = outcome.result?.stats?.samples?.totalQueryableSamples;
  return (
    <>
      {[...outcome.warnings, ...outcome.infos].map((w) => <p key={w} class="warning">{name}{w}</p>)}
      <p class="stats">
        {name}{whole(found.length)} series in {seconds(outcome.tookMs / 1000)}{samples !== undefined && `, ${number(samples)} samples read`}
      </p>
    </>
  );
}
