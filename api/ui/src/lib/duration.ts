const units: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86400, w: 604800, y: 31536000 };

/** parseDuration returns the seconds of a duration of PromQL such as 1h30m, or of a plain number; NaN if it is neither. */
export function parseDuration(text: string): number {
  text = text.trim();
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text);
  if (!/^(\d+(ms|[smhdwy]))+$/.test(text)) return NaN;
  let sum = 0;
  for (const part of text.matchAll(/(\d+)(ms|[smhdwy])/g)) sum += Number(part[1]) * units[part[2]];
  return sum;
}

/** formatDuration is the inverse of parseDuration. */
export function formatDuration(seconds: number): string {
  if (seconds < 1) return `${Math.round(seconds * 1000)}ms`;
  let rest = Math.round(seconds);
  let out = '';
  for (const unit of ['d', 'h', 'm', 's']) {
    const n = Math.floor(rest / units[unit]);
    if (n) out += n + unit;
    rest -= n * units[unit];
  }
  return out || '0s';
}

/** stepFor is a step that gives about 250 points, from a list of round ones, in seconds. */
export function stepFor(rangeSeconds: number): number {
  const least = rangeSeconds / 250;
  const round = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  return round.find((s) => s >= least) ?? Math.ceil(least / 86400) * 86400;
}
