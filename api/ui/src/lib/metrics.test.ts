import { expect, test } from 'vitest';
import { Metrics } from './metrics';

test('sums, lines and rates', () => {
  const then = new Metrics('# HELP a x\na{b="c d"} 5\na{b="e"} 1e1\n', 1000);
  const now = new Metrics('a{b="c d"} 25\na{b="e"} 10\nz 1\n', 3000);
  expect(then.sum('a')).toBe(15);
  expect(now.line('a{b="c d"}')).toBe(25);
  expect(now.rate('a', then)).toBe(10);
  expect(now.rate('z', then)).toBeUndefined();
  expect(then.rate('a', now)).toBeUndefined();
});
