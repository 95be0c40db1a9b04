import { post } from '../lib/api';
import { clock, seconds, whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';
import { Tiles } from '../parts/tiles';
import { named } from './run';
import type { Span } from './state';

interface Scan {
  day: string;
  ranges: number;
  start: string;
  end: string;
  rowsRead: number;
  rowsUsed: number;
}

interface Tier {
  selector: string;
  tier: string;
  reason: string;
  dayStates: number;
  hourStates: number;
  rowsRead: number;
  samples: number;
}

interface Plan {
  operators: string[];
  givenUp?: boolean;
  givenUpReason?: string;
  engine: { expression: string; reason: string }[];
  selectors: { selector: string; from: number; to: number; firstDay: string; lastDay: string; days: number }[];
  reading: { series: number; ranges: number; rowsRead: number; rowsUsed: number; rowsCached: number; samplesDecoded: number; scans: Scan[] };
  tiers: Tier[];
  cache: { outcome: string; reason?: string; sameRangeOnly?: string; stepsReused: number; stepsEvaluated: number };
  stages: Record<string, number>;
}

/** PlanView says how each expression was evaluated over a range, and what it took. */
export function PlanView({ exprs, span, runs }: { exprs: string[]; span: Span; runs: number }) {
  return <>{named(exprs).map((e) => <OnePlan key={e.name} {...e} span={span} runs={runs} />)}</>;
}

function OnePlan({ name, expr, span, runs }: { name: string; expr: string; span: Span; runs: number }) {
  const load = useLoad(async (signal) => {
    // A range query refuses a range vector, so its plan is that of an instant query.
    const params = expr.trim().endsWith(']') ? { query: expr, time: span.end } : { query: expr, start: span.start, end: span.end, step: span.step };
    const plan = (await post<Plan>('explain', params, signal)).data;
    // If the result cache had the whole result, nothing was evaluated and there is no tree.
    const cached = plan.operators.length === 0 && plan.cache.outcome === 'hit';
    return { cached, plan: cached ? (await post<Plan>('explain', { ...params, nocache: '1' }, signal)).data : plan };
  }, [expr, span.start, span.end, span.step, runs]);
  const p = load.data?.plan;
  return (
    <section class="card">
      <h2 class="mono">{name && `${name}: `}{expr}</h2>
      {load.error && <ErrorBox error={load.error} />}
      {!p && !load.error && <p class="quiet">Evaluating …</p>}
      {load.data?.cached && <p class="quiet">The result cache has the whole result. This plan is of an evaluation without it.</p>}
      {p && <Figures p={p} />}
      {p && <Tree p={p} />}
      {p && <Stages stages={p.stages} />}
      {p && <Reading p={p} />}
    </section>
  );
}

function Figures({ p }: { p: Plan }) {
  const r = p.reading;
  const c = p.cache;
  return (
    <Tiles tiles={[
      { name: 'Total time', value: seconds(p.stages.total ?? 0) },
      { name: 'Series', value: whole(r.series) },
      { name: 'Ranges', value: whole(r.ranges), hint: r.series && r.ranges >= r.series ? 'one for each series: a promoted label could join them' : undefined },
      { name: 'Rows read', value: whole(r.rowsRead), hint: `${whole(r.rowsUsed)} used, ${whole(r.rowsCached)} from the cache` },
      { name: 'Samples decoded', value: whole(r.samplesDecoded) },
      { name: 'Result cache', value: <span class="small">{c.outcome}</span>, hint: c.reason || `${whole(c.stepsReused)} of ${whole(c.stepsReused + c.stepsEvaluated)} steps reused` },
    ]} />
  );
}

function Tree({ p }: { p: Plan }) {
  return (
    <>
      <h3>Operators</h3>
      <ul class="tree">
        {p.operators.map((line, n) => {
          const depth = (line.length - line.trimStart().length) / 2;
          return <li key={n} class={`depth${Math.min(depth, 8)}`}><span class="hidden">Level {depth + 1}: </span>{line.trim()}</li>;
        })}
      </ul>
      {p.givenUp && <p class="warning">The operators gave up: {p.givenUpReason}. Prometheus's engine evaluated the expression.</p>}
      {p.engine.length > 0 && (
        <Table caption="Evaluated by Prometheus's engine" rows={p.engine} columns={[
          { title: 'Expression', value: (e) => e.expression, show: (e) => <code>{e.expression}</code> },
          { title: 'Reason', value: (e) => e.reason },
        ]} />
      )}
    </>
  );
}

/** stagesInOrder are the stages of a query; total contains them. */
const stagesInOrder = ['queue', 'plan', 'select', 'read', 'evaluate'];

function Stages({ stages }: { stages: Record<string, number> }) {
  const total = stages.total || 1e-9;
  return (
    <Table caption="Time by stage" rows={stagesInOrder} columns={[
      { title: 'Stage', value: (s) => s },
      { title: 'Time', value: (s) => stages[s] ?? 0, show: (s) => seconds(stages[s] ?? 0), numeric: true },
      { title: 'Share', value: (s) => (stages[s] ?? 0) / total, show: (s) => <meter value={Math.min(1, (stages[s] ?? 0) / total)} max={1} aria-label={`Share of ${s}`} /> },
    ]} />
  );
}

function Reading({ p }: { p: Plan }) {
  return (
    <>
      <Table caption="Selectors" rows={p.selectors} columns={[
        { title: 'Selector', value: (s) => s.selector, show: (s) => <code>{s.selector}</code> },
        { title: 'From', value: (s) => s.from, show: (s) => clock(s.from * 1000, Infinity) },
        { title: 'To', value: (s) => s.to, show: (s) => clock(s.to * 1000, Infinity) },
        { title: 'Days', value: (s) => s.days, numeric: true },
      ]} />
      {p.tiers.length > 0 && (
        <Table caption="Rollups" rows={p.tiers} columns={[
          { title: 'Selector', value: (t) => t.selector, show: (t) => <code>{t.selector}</code> },
          { title: 'Tier', value: (t) => t.tier },
          { title: 'Reason', value: (t) => t.reason },
          { title: 'Days', value: (t) => t.dayStates, numeric: true },
          { title: 'Hours', value: (t) => t.hourStates, numeric: true },
          { title: 'Samples', value: (t) => t.samples, show: (t) => whole(t.samples), numeric: true },
        ]} />
      )}
      <Table caption="Reads of the tables" rows={p.reading.scans} empty="No table was read: the head or a cache had all samples." columns={[
        { title: 'Day', value: (s) => s.day },
        { title: 'Ranges', value: (s) => s.ranges, numeric: true },
        { title: 'Rows read', value: (s) => s.rowsRead, show: (s) => whole(s.rowsRead), numeric: true },
        { title: 'Rows used', value: (s) => s.rowsUsed, show: (s) => whole(s.rowsUsed), numeric: true },
        { title: 'First key', value: (s) => s.start, show: (s) => <code>{s.start}</code> },
        { title: 'Last key', value: (s) => s.end, show: (s) => <code>{s.end}</code> },
      ]} />
    </>
  );
}
