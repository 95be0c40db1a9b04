import { expect, test, vi } from 'vitest';

vi.stubGlobal('location', { hash: '' });
vi.stubGlobal('addEventListener', () => {});
const { changed, linkOf, paramsOf, rawOf, readState, spanOf } = await import('./state');

test('a state survives the URL', () => {
  const state = { exprs: ['up', 'a{b="&#?"}'], tab: 'table' as const, rangeSeconds: 600, endMs: 1e12, stepSeconds: 5 };
  expect(readState(new URLSearchParams(paramsOf(state).toString()))).toEqual(state);
});

test('bad parameters take their defaults', () =>
  expect(readState(new URLSearchParams('tab=x&range=-1&step=y&end=z'))).toEqual({ exprs: [''], tab: 'graph', rangeSeconds: 3600, endMs: 0, stepSeconds: 0 }));

test('an end that no field of dates can show is the present', () => {
  for (const end of ['1e20', 'Infinity', '253402300800000', '-1']) expect(readState(new URLSearchParams({ end })).endMs).toBe(0);
  expect(readState(new URLSearchParams({ end: '253402300799999' })).endMs).toBe(253402300799999);
});

test('an instant query leads to a table, since a graph refuses ranges', () => {
  expect(linkOf('up[5m]', 'instant')).toBe('#/query?expr=up%5B5m%5D&tab=table');
  expect(linkOf('up', 'range')).toBe('#/query?expr=up');
});

test('the range of raw samples stands before the modifiers', () => {
  expect(rawOf(' up ', 60)).toBe('up[60s]');
  expect(rawOf('up[5m]', 60)).toBe('up[5m]');
  expect(rawOf('', 60)).toBe('');
  expect(rawOf('up{a="x offset 5m"}', 60)).toBe('up{a="x offset 5m"}[60s]');
  expect(rawOf('up offset -1h30m', 60)).toBe('up[60s] offset -1h30m');
  expect(rawOf('up{a="b"} @ 1700000000.5 offset 5m', 60)).toBe('up{a="b"}[60s] @ 1700000000.5 offset 5m');
  expect(rawOf('up @ end()', 60)).toBe('up[60s] @ end()');
});

test('a span begins at a multiple of its step', () => {
  const span = spanOf({ exprs: [], tab: 'graph', rangeSeconds: 3600, endMs: 0, stepSeconds: 0 }, 1_700_000_123_456);
  expect(span.start % span.step).toBe(0);
  expect(span.end - span.start).toBe(3600);
});

test('other expressions show all lines, and keep the order and exemplars', () => {
  const before = new URLSearchParams('expr=up&hide=a&hide=b&all=1&sort=Value&exemplars=1');
  expect(changed(before, { rangeSeconds: 60 }).toString()).toBe('expr=up&range=1m&exemplars=1&sort=Value&hide=a&hide=b&all=1');
  expect(changed(before, { exprs: ['up*2'] }).toString()).toBe('expr=up*2&exemplars=1&sort=Value');
});
