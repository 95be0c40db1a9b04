import { expect, test } from 'vitest';
import { columnAt, gridOf, keyBytes, rowAt } from './decode';
import type { KeyMap } from './types';

const mapOf = (values: KeyMap['values']) => ({ values }) as KeyMap;

test('values come as floats or as a list', () => {
  const data = btoa(String.fromCharCode(...new Uint8Array(Float32Array.from([0, 1.5, -2, 1e9]).buffer)));
  expect([...gridOf(mapOf({ encoding: 'f32le', shape: [2, 2], data })).values]).toEqual([0, 1.5, -2, 1e9]);
  expect([...gridOf(mapOf({ encoding: 'json', shape: [1, 2], data: [3, 4] })).values]).toEqual([3, 4]);
  expect(() => gridOf(mapOf({ encoding: 'json', shape: [2, 2], data: [3] }))).toThrow('2 × 2');
});

test('keys and times find their cell', () => {
  const starts = ['', 'a', 'a#01', 'b'];
  expect(['', 'a', 'a#009', 'a#01x', 'z'].map((k) => rowAt(starts, k))).toEqual([0, 1, 1, 2, 3]);
  expect(keyBytes('_-8')).toBe('\xff\xef');
  expect([0, 10, 15, 30, 99].map((t) => columnAt([10, 20, 30], t))).toEqual([0, 0, 0, 1, 1]);
});
