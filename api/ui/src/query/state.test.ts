import { expect, test, vi } from 'vitest';

vi.stubGlobal('location', { hash: '' });
vi.stubGlobal('addEventListener', () => {});
const { paramsOf, readState, spanOf } = await import('./state');

test('a state survives the URL', () => {
  const state = { exprs: ['up', 'a{b="&#?"}'], tab: 'table' as const, rangeSeconds: 600, endMs: 1e12, stepSeconds: 5 };
  expect(readState(new URLSearchParams(paramsOf(state).toString()))).toEqual(state);
});

test('bad parameters take their defaults', () =>
  expect(readState(new URLSearchParams('tab=x&range=-1&step=y&end=z'))).toEqual({ exprs: [''], tab: 'graph', rangeSeconds: 3600, endMs: 0, stepSeconds: 0 }));

test('a span begins at a multiple of its step', () => {
  const span = spanOf({ exprs: [], tab: 'graph', rangeSeconds: 3600, endMs: 0, stepSeconds: 0 }, 1_700_000_123_456);
  expect(span.start % span.step).toBe(0);
  expect(span.end - span.start).toBe(3600);
});
