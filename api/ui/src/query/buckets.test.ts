import { expect, test } from 'vitest';
import { bucketsOf } from './buckets';

const span = { start: 0, end: 10, step: 10 };

test('classic buckets are not cumulative any more', () => {
  const one = (le: string, a: string, b: string) => ({ metric: { le }, values: [[0, a], [10, b]] as [number, string][] });
  const got = bucketsOf([one('1', '1', '2'), one('+Inf', '6', '7'), one('5', '4', '4'), one('5', '1', '1')], span, 2);
  expect(got.rows.map((r) => r.text)).toEqual(['5 to +Inf', '1 to 5', '0 to 1']);
  expect([...got.grid.values]).toEqual([1, 4, 1, 2, 3, 2]);
});

test('native buckets of several series add up', () => {
  const h = { count: '3', sum: '4', buckets: [[0, '1', '2', '3'], [0, '2', '4', '5']] as [number, string, string, string][] };
  const s = { metric: {}, histograms: [[10, h]] as [number, typeof h][] };
  const got = bucketsOf([s, s], span, 2);
  expect(got.rows.map((r) => r.text)).toEqual(['2 to 4', '1 to 2']);
  expect([...got.grid.values]).toEqual([0, 0, 10, 6]);
});

test('the outer buckets of custom bounds are infinite', () => {
  const h = { count: '6', sum: '4', buckets: [[0, '-Inf', '1', '1'], [0, '1', '5', '2'], [0, '5', '+Inf', '3']] as [number, string, string, string][] };
  const got = bucketsOf([{ metric: {}, histograms: [[0, h]] as [number, typeof h][] }], span, 1);
  expect(got.rows.map((r) => r.text)).toEqual(['5 to +Inf', '1 to 5', '-Inf to 1']);
  expect([...got.grid.values]).toEqual([3, 2, 1]);
});
