import { expect, test } from 'vitest';
import { formatDuration, parseDuration, stepFor } from './duration';

test('durations are read as in PromQL', () => {
  expect(['1h30m', '500ms', '90', '2d'].map(parseDuration)).toEqual([5400, 0.5, 90, 172800]);
  for (const bad of ['', 'x', '1h-', '-5m', '5 m']) expect(parseDuration(bad)).toBeNaN();
});

test('what is printed is read as the same', () => {
  for (const s of [0.25, 1, 59, 60, 3661, 86400, 90061]) expect(parseDuration(formatDuration(s))).toBe(s);
});

test('a step gives at most 251 points', () => {
  for (const range of [10, 300, 3600, 86400, 40 * 86400, 4000 * 86400]) expect(range / stepFor(range)).toBeLessThanOrEqual(250);
});
