import { expect, test, vi } from 'vitest';
import { keep, stored } from './storage';

test('a browser without storage stores nothing', () => {
  const refuse = () => { throw new DOMException('Access is denied', 'SecurityError'); };
  Object.defineProperty(globalThis, 'localStorage', { configurable: true, get: refuse });
  keep('a', '1');
  expect(stored('a')).toBeNull();
});

test('a text comes back', () => {
  const texts = new Map<string, string>();
  Object.defineProperty(globalThis, 'localStorage', { configurable: true, value: undefined });
  vi.stubGlobal('localStorage', { getItem: (k: string) => texts.get(k) ?? null, setItem: (k: string, v: string) => texts.set(k, v) });
  keep('a', '1');
  expect([stored('a'), stored('b')]).toEqual(['1', null]);
});
