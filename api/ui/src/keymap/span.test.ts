import { expect, test } from 'vitest';
import { panned, scaled } from './span';

const now = 1_000_020;

test('zooming keeps the time under the cursor', () => {
  expect(scaled(0, 7200, 0.5, 0.5, now)).toEqual({ start: 1800, end: 5400 });
  expect(scaled(0, 7200, 0.5, 0, now)).toEqual({ start: 0, end: 3600 });
  expect(scaled(7200, 14400, 2, 1, now)).toEqual({ start: 0, end: 14400 });
});

test('a span has bounds, and ends by now', () => {
  expect(scaled(6000, 6600, 0.01, 0.5, now)).toEqual({ start: 6180, end: 6480 });
  expect(panned(now - 3600, now, 0.5, now)).toEqual({ start: now - 3600, end: now });
  expect(panned(3600, 7200, -0.5, now)).toEqual({ start: 1800, end: 5400 });
});
