import { useEffect, useState } from 'preact/hooks';
import { get, text } from '../lib/api';
import { bytes, seconds, time, whole } from '../lib/format';
import { useLoad } from '../lib/load';
import { Metrics } from '../lib/metrics';
import { route, setParams } from '../lib/route';
import { ErrorBox } from '../parts/errorbox';
import { Table } from '../parts/table';
import { Tiles } from '../parts/tiles';

interface Cost {
  pattern: string;
  tier: string;
  age: string;
  oldestMs: number;
  bytes: number;
  bytesADay: number;
  hiddenBytes: number;
  newAge: string;
  freedBytes: number;
}

const tiers = ['raw', 'hours', 'days', 'histograms'];

/** Retention shows what is kept how long, what other ages would free, and how far rollups and deletions are. */
export function Retention() {
  const params = route.value.params;
  const chosen = Object.fromEntries(['rule', ...tiers].map((t) => [t, params.get(t) ?? '']));
  const load = useLoad(async (signal) => (await get<{ costs: Cost[] }>('status/retention', chosen, signal)).data.costs, [params.toString()]);
  return (
    <>
      <h1>Retention, rollups, deletions</h1>
      <Progress />
      <h2>Ages</h2>
      <p>Samples older than the age of their tier are hidden at once and freed by the next sweep. 0 keeps them forever.</p>
      <WhatIf chosen={chosen} rules={[...new Set((load.data ?? []).map((c) => c.pattern))]} />
      {load.error && <ErrorBox error={load.error} />}
      {!load.data && !load.error && <p class="quiet">Loading …</p>}
      {load.data && <CostTable list={load.data} tries={tiers.some((t) => chosen[t])} />}
    </>
  );
}

function CostTable({ list, tries }: { list: Cost[]; tries: boolean }) {
  const size = (n: number) => (n < 0 ? 'unknown' : bytes(n));
  return (
    <Table caption="What is kept" param="sort" rows={list} columns={[
      { title: 'Rule', value: (c) => c.pattern, show: (c) => <span class="mono">{c.pattern}</span> },
      { title: 'Tier', value: (c) => c.tier },
      { title: 'Age', value: (c) => c.age },
      { title: 'Oldest day', value: (c) => c.oldestMs, show: (c) => (c.oldestMs ? new Date(c.oldestMs).toISOString().slice(0, 10) : 'none') },
      { title: 'Size', value: (c) => c.bytes, show: (c) => size(c.bytes), numeric: true },
      { title: 'A day', value: (c) => c.bytesADay, show: (c) => size(c.bytesADay), numeric: true },
      { title: 'To be freed', value: (c) => c.hiddenBytes, show: (c) => size(c.hiddenBytes), numeric: true },
      ...(tries ? [
        { title: 'Age to try', value: (c: Cost) => c.newAge },
        { title: 'Would free', value: (c: Cost) => c.freedBytes, show: (c: Cost) => size(c.freedBytes), numeric: true },
      ] : []),
    ]} />
  );
}

function WhatIf({ chosen, rules }: { chosen: Record<string, string>; rules: string[] }) {
  const [ages, setAges] = useState(chosen);
  useEffect(() => setAges(chosen), [JSON.stringify(chosen)]);
  const submit = (event: Event) => {
    event.preventDefault();
    setParams(new URLSearchParams(Object.entries(ages).filter(([, v]) => v)));
  };
  return (
    <form class="bar" onSubmit={submit} aria-label="Ages to try">
      {tiers.map((t) => (
        <label key={t}>{t}
          <input class="short" placeholder="e.g. 90d" value={ages[t]} onInput={(e) => setAges({ ...ages, [t]: e.currentTarget.value })} />
        </label>
      ))}
      {rules.length > 1 && (
        <label>of rule
          <select value={ages.rule} onChange={(e) => setAges({ ...ages, rule: e.currentTarget.value })}>
            <option value="">all</option>
            {rules.map((r) => <option key={r}>{r}</option>)}
          </select>
        </label>
      )}
      <button type="submit">Try these ages</button>
      <span class="quiet">This changes nothing.</span>
    </form>
  );
}

function Progress() {
  const load = useLoad(async (signal) => new Metrics(await text('metrics', signal), Date.now()), [], 10000);
  if (!load.data) return load.error ? <ErrorBox error={load.error} /> : null;
  const m = load.data;
  const count = (name: string) => whole(m.sum(name) ?? 0);
  const swept = m.sum('tsdb_retention_last_sweep_timestamp_seconds') ?? 0;
  return (
    <Tiles tiles={[
      { name: 'Lag of rollups', value: seconds(m.sum('tsdb_rollup_lag_seconds') ?? 0), hint: `${count('tsdb_rollup_pending_day_passes')} days, ${count('tsdb_rollup_pending_months')} months wait` },
      { name: 'Series in rollups', value: count('tsdb_rollup_series_total'), hint: `${count('tsdb_rollup_failures_total')} failures`, bad: (m.sum('tsdb_rollup_failures_total') ?? 0) > 0 },
      { name: 'Deletions', value: count('tsdb_tombstones'), hint: `at most ${count('tsdb_tombstones_max')}; ${count('tsdb_rollup_pending_deletions')} wait for rollups` },
      { name: 'Rows cleaned', value: count('tsdb_tombstones_cleaned_rows_total'), hint: bytes(m.sum('tsdb_tombstones_cleaned_bytes_total') ?? 0) },
      { name: 'Freed by sweeps', value: bytes(m.sum('tsdb_retention_freed_bytes_total') ?? 0), hint: swept ? `last sweep ${time(swept * 1000)}` : 'no sweep yet' },
    ]} />
  );
}
