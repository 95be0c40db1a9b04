import { expect, test } from 'vitest';
import { levels, paint } from './levels';
import { palette } from './palette';

test('levels grow with the values, from 0 to 255', () => {
  const got = [...levels({ cols: 2, rows: 3, values: Float32Array.from([0, 1e-9, 5, 50, 200, 1000]) })];
  expect(got[0]).toBe(0);
  expect(got[1]).toBe(1);
  expect(got[5]).toBe(255);
  for (let i = 1; i < got.length; i++) expect(got[i]).toBeGreaterThan(got[i - 1]);
  expect([...levels({ cols: 1, rows: 2, values: Float32Array.from([0, 0]) })]).toEqual([0, 0]);
});

test('pixels are row by row', () => {
  const pixels = new Uint32Array(6);
  const colours = Uint32Array.from({ length: 256 }, (_, i) => i);
  paint(Uint8Array.from([1, 2, 3, 4, 5, 6]), 2, 3, colours, pixels);
  expect([...pixels]).toEqual([1, 4, 2, 5, 3, 6]);
});

test('colours are opaque, and their lightness goes one way', () => {
  for (const dark of [true, false]) {
    const light = [...palette(dark, 1)].map((p) => (p & 255) * 0.3 + ((p >> 8) & 255) * 0.59 + ((p >> 16) & 255) * 0.11);
    for (let i = 1; i < 256; i++) expect((light[i] - light[i - 1]) * (dark ? 1 : -1)).toBeGreaterThanOrEqual(-1);
    expect([...palette(dark, 2)].every((p) => p >>> 24 === 255)).toBe(true);
  }
});
