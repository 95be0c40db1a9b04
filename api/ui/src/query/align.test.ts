import { expect, test } from 'vitest';
import { align, stack, timesOf, yRange } from './align';

const span = { start: 100, end: 130, step: 10 };

test('values find their step, and gaps stay gaps', () => {
  expect(timesOf(span)).toEqual([100, 110, 120, 130]);
  const series = { metric: {}, values: [[100, '1'], [120, 'NaN'], [130.0001, '4'], [140, '5']] as [number, string][] };
  expect(align(series, span, 4)).toEqual([1, null, null, 4]);
});

test('rows lie on the rows before them', () => expect(stack([[1, null], [2, 3]])).toEqual([[1, 0], [3, 3]]));

test('an axis has a finite height', () => {
  const max = Number.MAX_VALUE;
  for (const [low, high] of [[-max, max], [max, max], [-max, -max], [0, max], [5, 5], [0, 0], [1, 2]]) {
    for (const stacked of [false, true]) {
      const [from, to] = yRange(low, high, stacked);
      expect(to).toBeGreaterThan(from);
      expect(to - from).toBeLessThan(Infinity);
    }
  }
});
