import { post } from '../lib/api';
import type { Span } from './state';
import type { Outcome, Result, Series } from './types';

/** runRange evaluates each expression over a range. An expression that fails has an error and does not stop the others. */
export function runRange(exprs: string[], span: Span, signal: AbortSignal): Promise<Outcome[]> {
  return Promise.all(exprs.filter((e) => e.trim()).map((expr) =>
    run(expr, 'query_range', { query: expr, start: span.start, end: span.end, step: span.step, stats: 'true' }, signal)));
}

/** runInstant evaluates each expression at one time, in unix seconds. */
export function runInstant(exprs: string[], at: number, signal: AbortSignal): Promise<Outcome[]> {
  return Promise.all(exprs.filter((e) => e.trim()).map((expr) => run(expr, 'query', { query: expr, time: at, stats: 'true' }, signal)));
}

async function run(expr: string, path: string, params: Record<string, string | number>, signal: AbortSignal): Promise<Outcome> {
  const began = performance.now();
  try {
    const answer = await post<Result>(path, params, signal);
    return { expr, result: answer.data, warnings: answer.warnings, infos: answer.infos, tookMs: performance.now() - began };
  } catch (error) {
    if (signal.aborted) throw error;
    return { expr, error: error as Error, warnings: [], infos: [], tookMs: performance.now() - began };
  }
}

/** seriesOf returns the series of a result. A scalar or string is a series without labels. */
export function seriesOf(result?: Result): Series[] {
  if (!result) return [];
  if (result.resultType === 'matrix' || result.resultType === 'vector') return result.result as Series[];
  return [{ metric: {}, value: result.result as [number, string] }];
}
