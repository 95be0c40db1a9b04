import { get } from '../lib/api';
import { quote } from '../lib/format';
import { useLoad } from '../lib/load';
import { hashOf, route, setParam, setParams } from '../lib/route';
import { ErrorBox } from '../parts/errorbox';
import { SearchField } from '../parts/search';
import { Graph } from '../query/graph';
import { runRange } from '../query/run';
import { spanOf } from '../query/state';

interface Metadata {
  type: string;
  unit: string;
  help: string;
}

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
  return names.data.map((name) => {
    const described = metadata.data[name] ?? metadata.data[name.replace(/_(bucket|count|sum|total)$/, '')];
    return { name, type: typeOf(name, described?.[0]?.type), help: described?.[0]?.help ?? '' };
  });
}

/** typeOf is the described type, or a guess by the name. */
export function typeOf(name: string, described?: string): string {
  if (described && described !== 'unknown') return described;
  if (/_bucket$/.test(name)) return 'histogram';
  return /_(total|count|sum)$/.test(name) ? 'counter' : 'gauge';
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
      {found.length > cardsMax && <p class="quiet">The page shows {cardsMax} of them. A search finds the others.</p>}
    </>
  );
}

/** queryOf is an expression that suits the type of a metric, added up by a label. */
export function queryOf(name: string, type: string, label: string): string {
  const selector = `{__name__=${quote(name)}}`;
  const by = label ? ` by (${/^[a-zA-Z_][a-zA-Z0-9_]*$/.test(label) ? label : quote(label)})` : '';
  switch (type) {
    case 'counter': return `sum${by} (rate(${selector}[5m]))`;
    case 'histogram': return `histogram_quantile(0.99, sum by (le${label ? ', ' + by.slice(5, -1) : ''}) (rate(${selector}[5m])))`;
    default: return `avg${by} (${selector})`;
  }
}

function OneMetric({ name }: { name: string }) {
  const label = route.value.params.get('label') ?? '';
  const labels = useLoad(async (signal) => (await get<string[]>('labels', { 'match[]': `{__name__=${quote(name)}}` }, signal)).data, [name]);
  const described = useLoad(async (signal) => (await get<Record<string, Metadata[]>>('metadata', { metric: name }, signal)).data, [name]);
  const about = described.data?.[name]?.[0];
  const type = typeOf(name, about?.type);
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
      {about?.help && <p>{about.help}</p>}
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
