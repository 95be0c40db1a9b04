import { expect, test } from 'vitest';
import { perSecond } from './rates';

test('counts of columns become rates', () => {
  expect(perSecond([60, 0, 30], [0, 60_000, 120_000, 130_000])).toEqual([1, 0, 3]);
  expect(perSecond([], [0])).toEqual([]);
});
