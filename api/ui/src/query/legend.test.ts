import { expect, test } from 'vitest';
import { toggled } from './legend';

const all = ['a', 'b', 'c'];

test('a click hides a line and shows it again', () => {
  const hidden = toggled(new Set(), all, 'b', false);
  expect([...hidden]).toEqual(['b']);
  expect([...toggled(hidden, all, 'b', false)]).toEqual([]);
});

test('a line alone, then all of them', () => {
  const alone = toggled(new Set(['b']), all, 'b', true);
  expect([...alone]).toEqual(['a', 'c']);
  expect([...toggled(alone, all, 'b', true)]).toEqual([]);
  expect([...toggled(alone, all, 'c', true)]).toEqual(['a', 'b']);
});
