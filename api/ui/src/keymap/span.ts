/** Span is a range of time in unix seconds. */
export interface Span {
  start: number;
  end: number;
}

/** leastSeconds and mostSeconds bound what a map shows: five columns, and all that the server keeps. */
const leastSeconds = 300;
const mostSeconds = 28 * 86400;

/** scaled shows factor times as much time. The time at a share of the width stays where it is. No span ends after now. */
export function scaled(start: number, end: number, factor: number, around: number, now: number): Span {
  const length = Math.min(mostSeconds, Math.max(leastSeconds, (end - start) * factor));
  const fixed = start + (end - start) * around;
  return before(fixed - length * around, length, now);
}

/** panned moves a span by a share of its length. */
export function panned(start: number, end: number, by: number, now: number): Span {
  return before(start + (end - start) * by, end - start, now);
}

function before(start: number, length: number, now: number): Span {
  const last = Math.ceil(now / 60) * 60;
  const end = Math.min(last, Math.round((start + length) / 60) * 60);
  return { start: end - Math.round(length / 60) * 60, end };
}
