import { expect, test, vi } from 'vitest';
import { bytes, distinct, number, sample, sampleOf, seconds, series, zone } from './format';

test('numbers have at most four digits', () => {
  expect([0, 1, 1234, 12345, 4409460, -2.5e9, 0.00012345, 0.123456].map(number))
    .toEqual(['0', '1', '1234', '12.35k', '4.409M', '-2.5G', '1.23e-4', '0.1235']);
  expect([NaN, Infinity, -Infinity].map(number)).toEqual(['NaN', '+Inf', '-Inf']);
  expect([999999.9, 9999.9, 1.56e15, -3e21, 1.7976931348623157e308, 1e-4, 5e-324].map(number))
    .toEqual(['1M', '10k', '1.56e+15', '-3e+21', '1.798e+308', '1e-4', '4.94e-324']);
});

test('values are read and printed as the server has them', () => {
  for (const text of ['+Inf', '-Inf', 'NaN', '0.1', '-1.5', '1e+300']) expect(sample(sampleOf(text))).toBe(text);
  expect(sampleOf('+Inf')).toBe(Infinity);
  expect(sampleOf('Inf')).toBe(Infinity);
  expect(sampleOf('text')).toBeNaN();
});

test('figures that differ little have more digits', () => {
  expect(distinct([1, 2.5, 12345])).toEqual(['1', '2.5', '12.35k']);
  expect(distinct([218.42, 218.43, 218.44])).toEqual(['218.42', '218.43', '218.44']);
  expect(distinct([1e9, 1e9 + 1])).toEqual(['1G', '1G']);
  expect(distinct([7, 7])).toEqual(['7', '7']);
});

test('sizes have units', () => expect([0, 1023, 1536, 5 * 1024 ** 3].map(bytes)).toEqual(['0 B', '1020 B', '1.5 KiB', '5 GiB']));

test('time spans have units', () =>
  expect([0, 2e-5, 0.0179, 5, 300, 7200, 864000].map(seconds)).toEqual(['0', '20 µs', '17.9 ms', '5 s', '5 min', '2 h', '10 d']));

test('a time zone has the offset of its time', () => {
  const offset = vi.spyOn(Date.prototype, 'getTimezoneOffset');
  const found = [0, -330, 210].map((minutes) => {
    offset.mockReturnValue(minutes);
    return zone(0);
  });
  offset.mockRestore();
  expect(found).toEqual(['UTC', 'UTC+05:30', 'UTC-03:30']);
});

test('labels are printed as PromQL', () => {
  expect(series({ __name__: 'up', b: 'x"\\', a: '1' })).toBe('up{a="1", b="x\\"\\\\"}');
  expect(series({ __name__: '<b>' })).toBe('{"<b>"}');
  expect(series({ __name__: 'up' })).toBe('up');
  expect(series({})).toBe('{}');
  expect(series({ 'service.name': 'a', __name__: 'x' })).toBe('x{"service.name"="a"}');
});

test('hidden characters of labels are escapes', () => {
  expect(series({ a: 'x\u202ey\u00a0\0\t é名🙂 z' })).toBe('{a="x\\u202ey\\u00a0\\u0000\\t é名🙂 z"}');
  expect(series({ a: '\u{e0001}' })).toBe('{a="\\U000e0001"}');
});
