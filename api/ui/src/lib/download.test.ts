import { expect, test } from 'vitest';
import { csv } from './download';

test('cells are quoted, and formulas are text', () => {
  expect(csv([['a,b', 'say "x"', 'l\n2'], ['=1+1', -5, '-x', '-5']])).toBe('"a,b","say ""x""","l\n2"\r\n\'=1+1,-5,\'-x,-5\r\n');
  expect(csv([[Infinity, -Infinity, NaN, 1e300]])).toBe('+Inf,-Inf,NaN,1e+300\r\n');
});
