import { hashOf, route, setParams } from '../lib/route';
import { formatDuration, parseDuration, stepFor } from '../lib/duration';

export type Tab = 'graph' | 'stacked' | 'heatmap' | 'table' | 'raw' | 'plan';

/** endMaxMs is the end of the year 9999, the last one that the field of the end can show. */
const endMaxMs = 253402300799999;

/** QueryState is the state of the query page, as the URL has it. */
export interface QueryState {
  exprs: string[];
  tab: Tab;
  /** rangeSeconds is the length of the graph. */
  rangeSeconds: number;
  /** endMs is its end in unix milliseconds; 0 is the present. */
  endMs: number;
  /** stepSeconds is the step; 0 is chosen from the range. */
  stepSeconds: number;
}

const tabs: Tab[] = ['graph', 'stacked', 'heatmap', 'table', 'raw', 'plan'];

export function readState(params: URLSearchParams): QueryState {
  const tab = params.get('tab') as Tab;
  const range = parseDuration(params.get('range') ?? '');
  const step = parseDuration(params.get('step') ?? '');
  const end = Number(params.get('end') ?? 0);
  const exprs = params.getAll('expr');
  return {
    exprs: exprs.length ? exprs : [''],
    tab: tabs.includes(tab) ? tab : 'graph',
    rangeSeconds: range > 0 ? range : 3600,
    endMs: end > 0 && end <= endMaxMs ? end : 0,
    stepSeconds: step > 0 ? step : 0,
  };
}

export function paramsOf(s: QueryState): URLSearchParams {
  const params = new URLSearchParams();
  for (const e of s.exprs) params.append('expr', e);
  if (s.tab !== 'graph') params.set('tab', s.tab);
  if (s.rangeSeconds !== 3600) params.set('range', formatDuration(s.rangeSeconds));
  if (s.endMs) params.set('end', String(s.endMs));
  if (s.stepSeconds) params.set('step', formatDuration(s.stepSeconds));
  return params;
}

/** viewParams say how results are shown. Those of shownParams name lines of one result, so other expressions drop them. */
const viewParams = ['exemplars', 'sort'];
const shownParams = ['hide', 'only', 'all'];

/** changed is the state of the URL with a change. */
export function changed(before: URLSearchParams, change: Partial<QueryState>): URLSearchParams {
  const params = paramsOf({ ...readState(before), ...change });
  const same = JSON.stringify(params.getAll('expr')) === JSON.stringify(before.getAll('expr'));
  for (const name of same ? [...viewParams, ...shownParams] : viewParams) {
    for (const value of before.getAll(name)) params.append(name, value);
  }
  return params;
}

export function changeState(change: Partial<QueryState>): void {
  setParams(changed(route.value.params, change));
}

/** Span is a time range with a step, in seconds. */
export interface Span {
  start: number;
  end: number;
  step: number;
}

/** linkOf leads to the query of an expression, in the view that suits its kind: a graph, or a table for an instant query. */
export function linkOf(expr: string, kind: string): string {
  return hashOf('query', kind === 'instant' ? { expr, tab: 'table' } : { expr });
}

/** rawOf turns a selector into a query for its samples. It returns other text unchanged, and the server reports the fault. */
export function rawOf(expr: string, rangeSeconds: number): string {
  const text = expr.trim();
  if (!text || text.endsWith(']')) return text;
  const modifiers = /(?:\s+offset\s+-?\w+|\s*@\s*[-\w.]+(?:\(\))?)+$/i.exec(text)?.[0] ?? '';
  return `${text.slice(0, text.length - modifiers.length)}[${Math.max(1, Math.round(rangeSeconds))}s]${modifiers}`;
}

/** spanOf is the range that a state asks for at the time nowMs. Its start is a multiple of the step, so that caches can help. */
export function spanOf(s: QueryState, nowMs: number): Span {
  const step = s.stepSeconds || stepFor(s.rangeSeconds);
  const end = Math.floor((s.endMs || nowMs) / 1000 / step) * step;
  return { start: end - Math.max(step, Math.round(s.rangeSeconds / step) * step), end, step };
}
