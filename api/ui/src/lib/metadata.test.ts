import { expect, test } from 'vitest';
import { describe, queryOf } from './metadata';

test('parts of a histogram have its help, but are what their names say', () => {
  const metadata = { h: [{ type: 'histogram', unit: 's', help: 'Latency.' }], g_total: [{ type: 'gauge', unit: '', help: 'Odd.' }] };
  expect(['h', 'h_bucket', 'h_count', 'h_sum', 'g_total', 'other'].map((name) => describe(name, metadata))).toEqual([
    { type: 'histogram', help: 'Latency.' }, { type: 'histogram', help: 'Latency.' }, { type: 'counter', help: 'Latency.' },
    { type: 'counter', help: 'Latency.' }, { type: 'gauge', help: 'Odd.' }, { type: 'gauge', help: '' },
  ]);
});

test('an expression suits the type', () => {
  expect(queryOf('a_total', 'counter', 'job')).toBe('sum by (job) (rate({__name__="a_total"}[5m]))');
  expect(queryOf('h', 'histogram', 'a.b')).toBe('histogram_quantile(0.99, sum by (le, "a.b") (rate({__name__="h"}[5m])))');
  expect(queryOf('g', 'gauge', '')).toBe('avg ({__name__="g"})');
});
