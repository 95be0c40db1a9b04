import { get } from '../lib/api';
import { quote } from '../lib/format';
import { type Metadata, baseOf, describe, queryOf } from '../lib/metadata';
import { useLoad } from '../lib/load';
import { hashOf, route, setParam, setParams } from '../lib/route';
import { seesServer } from '../lib/session';
import { ErrorBox } from '../parts/errorbox';
import { SearchField } from '../parts/search';
import { Graph } from '../query/graph';
import { runRange } from '../query/run';
import { spanOf } from '../query/state';

interface Metric {
  name: string;
  type: string;
  help: string;
}

/** cardsMax bounds the cards that are shown at once. */
const cardsMax = 120;

/** Explore shows metrics as cards, and one metric by its labels, without PromQL. */
export function Explore() {
  const metric = route.value.params.get('metric');
  return metric ? <OneMetric name={metric} /> : <Cards />;
}

async function listMetrics(signal: AbortSignal): Promise<Metric[]> {
  const [names, metadata] = await Promise.all([
    get<string[]>('label/__name__/values', {}, signal), get<Record<string, Metadata[]>>('metadata', {}, signal),
  ]);
  return names.data.map((name) => ({ name, ...describe(name, metadata.data) }));
}

function Cards() {
  const params = route.value.params;
  const search = (params.get('search') ?? '').toLowerCase();
  const type = params.get('type') ?? '';
  const load = useLoad(listMetrics, []);
  const all = load.data ?? [];
  const found = all.filter((m) => (!type || m.type === type) && `${m.name} ${m.help}`.toLowerCase().includes(search));
  const types = [...new Set(all.map((m) => m.type))].sort();
  return (
    <>
      <h1>Explore</h1>
      <div class="bar">
        <SearchField name="search" label="Search" />
        <label>Type
          <select value={type} onChange={(e) => setParam('type', e.currentTarget.value)}>
            <option value="">all</option>
            {types.map((t) => <option key={t}>{t}</option>)}
          </select>
        </label>
        <span class="quiet">{found.length} of {all.length} metrics</span>
      </div>
      {load.error && <ErrorBox error={load.error} />}
      {!load.data && !load.error && <p class="quiet">Loading …</p>}
      <ul class="cards">
        {found.slice(0, cardsMax).map((m) => (
          <li key={m.name} class="card">
            <a class="mono" href={hashOf('explore', { metric: m.name })}>{m.name}</a>
            <span class="type">{m.type}</span>
            {m.help && <p class="quiet">{m.help}</p>}
          </li>
        ))}
      </ul>
      {load.data && !found.length && <p class="quiet">{all.length ? 'No metric has this type and contains this text.' : <Nothing />}</p>}
      {found.length > cardsMax && <p class="quiet">The page shows {cardsMax} of them. A search finds the others.</p>}
    </>
  );
}

/** Nothing says what a reader without metrics can do. */
function Nothing() {
  return seesServer() ? <>There are no metrics yet. The page <a href="#/">Overview</a> shows how to send samples.</> : <>There are no metrics that you may read.</>;
}

function OneMetric({ name }: { name: string }) {
  const label = route.value.params.get('label') ?? '';
  const labels = useLoad(async (signal) => (await get<string[]>('labels', { 'match[]': `{__name__=${quote(name)}}` }, signal)).data, [name]);
  const described = useLoad(async (signal) => {
    const names = [...new Set([name, baseOf(name)])];
    const found = await Promise.all(names.map((metric) => get<Record<string, Metadata[]>>('metadata', { metric }, signal)));
    return Object.assign({}, ...found.map((f) => f.data)) as Record<string, Metadata[]>;
  }, [name]);
  const { type, help } = describe(name, described.data ?? {});
  const expr = queryOf(name, type, label);
  const span = useLoad(async (signal) => {
    const at = spanOf({ exprs: [], tab: 'graph', rangeSeconds: 3600, endMs: 0, stepSeconds: 0 }, Date.now());
    return { span: at, outcomes: await runRange([expr], at, signal) };
  }, [expr]);
  const choose = (l: string) => setParams(new URLSearchParams(l ? { metric: name, label: l } : { metric: name }));
  const words: Record<string, string> = { counter: 'Rate a second', histogram: '99th percentile', gauge: 'Mean' };
  const outcome = span.data?.outcomes[0];
  return (
    <>
      <p><a href="#/explore">All metrics</a></p>
      <h1 class="mono">{name} <span class="type">{type}</span></h1>
      {help && <p>{help}</p>}
      <div class="bar" role="group" aria-label="Break down by a label">
        <span>By label:</span>
        {['', ...(labels.data ?? []).filter((l) => l !== '__name__' && !(type === 'histogram' && l === 'le'))].map((l) => (
          <button key={l} type="button" class={l === label ? 'on' : ''} aria-pressed={l === label} onClick={() => choose(l)}>{l || 'none'}</button>
        ))}
      </div>
      {labels.error && <ErrorBox error={labels.error} />}
      <h2>{words[type] ?? words.gauge}{label && ` by ${label}`}</h2>
      {(span.error ?? outcome?.error) && <ErrorBox error={(span.error ?? outcome?.error)!} />}
      {!span.data && !span.error && <p class="quiet">Loading …</p>}
      {span.data && !outcome?.error && <Graph outcomes={span.data.outcomes} span={span.data.span} stacked={false} zoomable={false} />}
      <p class="bar">
        <a href={hashOf('query', { expr })}>Open as a query</a>
        <a href={hashOf('query', { expr, tab: 'table' })}>Values as a table</a>
      </p>
    </>
  );
}
