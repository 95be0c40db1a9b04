import { expect, test, vi } from 'vitest';
import type { Outcome, Result } from './types';

vi.stubGlobal('location', { hash: '' });
vi.stubGlobal('addEventListener', () => {});
const { jsonOf, csvRows } = await import('./export');

const outcome = (expr: string, result?: Result): Outcome => ({ name: '', expr, result, warnings: [], infos: [], tookMs: 1 });
const zero = '1970-01-01T00:00:00.000Z';

test('a line for each sample, a column for each label', () => {
  const result: Result = { resultType: 'matrix', result: [
    { metric: { __name__: 'm', time: 'noon' }, values: [[0, '1.5'], [60, '+Inf']] }, { metric: { a: '=1' }, values: [[0, 'NaN']] },
  ] };
  expect(csvRows([outcome('m', result)])).toEqual([
    ['query', '__name__', 'a', 'label_time', 'time', 'value'],
    ['m', 'm', '', 'noon', zero, 1.5], ['m', 'm', '', 'noon', '1970-01-01T00:01:00.000Z', Infinity],
    ['m', '', '=1', '', zero, 'NaN'],
  ]);
});

test('histograms have counts and sums, also beside floats', () => {
  const result: Result = { resultType: 'matrix', result: [{ metric: {}, values: [[60, '7']], histograms: [[0, { count: '3', sum: '-Inf' }]] }] };
  expect(csvRows([outcome('h', result)])).toEqual([
    ['query', 'time', 'value', 'count', 'sum'], ['h', zero, '', 3, -Infinity], ['h', '1970-01-01T00:01:00.000Z', 7, '', ''],
  ]);
});

test('a string is itself', () => {
  expect(csvRows([outcome('"x"', { resultType: 'string', result: [0, 'x'] })])[1]).toEqual(['"x"', zero, 'x']);
});

test('JSON says why an expression has no result', () => {
  expect(jsonOf({ ...outcome('sum('), error: new Error('parse error') })).toEqual({ query: 'sum(', error: 'parse error' });
  expect(jsonOf({ ...outcome('1', { resultType: 'scalar', result: [0, '1'] }), warnings: ['w'] }))
    .toEqual({ query: '1', warnings: ['w'], resultType: 'scalar', result: [0, '1'] });
});
