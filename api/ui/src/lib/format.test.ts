import { expect, test } from 'vitest';
import { bytes, distinct, number, seconds, series } from './format';

test('numbers have at most four digits', () => {
  expect([0, 1, 1234, 12345, 4409460, -2.5e9, 0.00012345, 0.123456].map(number))
    .toEqual(['0', '1', '1234', '12.35k', '4.409M', '-2.5G', '1.23e-4', '0.1235']);
  expect(number(NaN)).toBe('NaN');
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

test('labels are printed as PromQL', () => {
  expect(series({ __name__: 'up', b: 'x"\\', a: '1' })).toBe('up{a="1", b="x\\"\\\\"}');
  expect(series({ __name__: '<b>' })).toBe('{"<b>"}');
  expect(series({ __name__: 'up' })).toBe('up');
  expect(series({})).toBe('{}');
});
