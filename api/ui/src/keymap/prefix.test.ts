import { expect, test } from 'vitest';
import { commonOf, groupsOf } from './prefix';
import type { MapRow } from './types';

const rows = (...labels: string[]): MapRow[] => labels.map((l) => ({ key: l, start: '', labels: l.split(' ').filter(Boolean), border: '' }));
const texts = (list: MapRow[]) => groupsOf(list).map((g) => `${g.text} ${g.from}-${g.to}`);

test('rows of several metrics are divided by metric', () => {
  const list = rows('', 'tenant:default metric:a salt:00', 'tenant:default metric:a salt:01', 'tenant:x metric:a salt:00');
  expect(texts(list)).toEqual(['the first key 0-1', 'a 1-3', 'x / a 3-4']);
  expect(commonOf(list)).toEqual([]);
});

test('rows of one metric are divided by the next part of their keys', () => {
  expect(texts(rows('tenant:default metric:a salt:00 tag:b=1', 'tenant:default metric:a salt:00 tag:b=2', 'tenant:default metric:a salt:01')))
    .toEqual(['salt 00 0-2', 'salt 01 2-3']);
  const one = rows('tenant:default metric:a salt:00 tag:b=1 tag:c=1', 'tenant:default metric:a salt:00 tag:b=1 tag:c=2', 'tenant:default metric:a salt:00 tag:b=<i>');
  expect(texts(one)).toEqual(['b=1 0-2', 'b=<i> 2-3']);
  expect(commonOf(one)).toEqual(['tenant:default', 'metric:a', 'salt:00']);
});
