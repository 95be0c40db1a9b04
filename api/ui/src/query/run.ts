import { post } from '../lib/api';
import type { Span } from './state';
import type { Outcome, Result, Series } from './types';

/** runRange evaluates each expression over a range. An expression that fails has an error and does not stop the others. */
export function runRange(exprs: string[], span: Span, signal: AbortSignal): Promise<Outcome[]> {
  return Promise.all(named(exprs).map((e) =>
    run(e, 'query_range', { query: e.expr, start: span.start, end: span.end, step: span.step, stats: 'true' }, signal)));
}

/** runInstant evaluates each expression at one time, in unix seconds. */
export function runInstant(exprs: string[], at: number, signal: AbortSignal): Promise<Outcome[]> {
  return Promise.all(named(exprs).map((e) => run(e, 'query', { query: e.expr, time: at, stats: 'true' }, signal)));
}

/** letterOf names the nth expression. */
export function letterOf(n: number): string {
  return String.fromCharCode(65 + n);
}

interface Named {
  name: string;
  expr: string;
}

/** named gives each expression its letter, and leaves out empty ones. */
export function named(exprs: string[]): Named[] {
  return exprs.map((expr, n) => ({ name: exprs.length > 1 ? letterOf(n) : '', expr })).filter((e) => e.expr.trim());
}

async function run({ name, expr }: Named, path: string, params: Record<string, string | number>, signal: AbortSignal): Promise<Outcome> {
  const began = performance.now();
  try {
    const response = await post<Result>(path, params, signal);
    return { name, expr, result: response.data, warnings: response.warnings, infos: response.infos, tookMs: performance.now() - began };
  } catch (error) {
    if (signal.aborted) throw error;
    return { name, expr, error: error as Error, warnings: [], infos: [], tookMs: performance.now() - began };
  }
}

/** seriesOf returns the series of a result. A scalar or string is a series without labels. */
export function seriesOf(result?: Result): Series[] {
  if (!result) return [];
  if (result.resultType === 'matrix' || result.resultType === 'vector') return result.result as Series[];
  return [{ metric: {}, value: result.result as [number, string] }];
}
