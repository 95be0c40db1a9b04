import { expect, test, vi } from 'vitest';

vi.stubGlobal('location', { hash: '' });
vi.stubGlobal('addEventListener', () => {});
const { hiddenOf, hidingParams, toggled } = await import('./legend');

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

test('hidden lines survive the URL, which names the fewer ones', () => {
  expect(hidingParams(new Set(['a', 'c']), all)).toEqual({ hide: [], only: ['b'] });
  expect(hidingParams(new Set(['a']), all)).toEqual({ hide: ['a'], only: [] });
  for (const hidden of [[], ['b'], ['a', 'c'], all]) {
    const params = new URLSearchParams();
    for (const [name, list] of Object.entries(hidingParams(new Set(hidden), all))) list.forEach((l) => params.append(name, l));
    expect([...hiddenOf(params, all)]).toEqual(hidden);
  }
});

test('a link that shows only lines that are gone hides nothing', () => expect([...hiddenOf(new URLSearchParams('only=x'), all)]).toEqual([]));
