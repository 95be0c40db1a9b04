/** number prints a figure with at most four digits and a suffix, such as 4.41M. */
export function number(value: number): string {
  return figure(value, 4);
}

function figure(value: number, digits: number): string {
  if (!Number.isFinite(value)) return sample(value);
  if (Math.abs(value) >= 1e15) return exponential(value, digits - 1);
  // 999,999.9 rounds to a million, so it has the suffix of a million.
  value = Number(value.toPrecision(digits));
  const size = Math.abs(value);
  if (size !== 0 && size < 1e-3) return exponential(value, digits - 2);
  for (const [unit, suffix] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']] as const) {
    if (size >= unit) return trim(value / (suffix === 'k' ? 1e3 : unit), digits) + suffix;
  }
  return trim(value, digits);
}

function exponential(value: number, decimals: number): string {
  return value.toExponential(decimals).replace(/\.?0+e/, 'e');
}

/** sample prints a value as Prometheus does, with +Inf and -Inf. */
export function sample(value: number): string {
  return String(value).replace(/^(-?)Infinity$/, (_, sign) => `${sign || '+'}Inf`);
}

/** sampleOf reads a value that the server has printed. */
export function sampleOf(text: string): number {
  const value = Number(text);
  // Few values are not finite, and a graph reads millions.
  return Number.isNaN(value) ? Number(text.replace(/^\+?(-?)Inf$/, '$1Infinity')) : value;
}

/** distinct prints figures with as many digits as tell them apart, from four to eight. */
export function distinct(values: number[]): string[] {
  for (let digits = 4; ; digits++) {
    const texts = values.map((v) => figure(v, digits));
    if (digits === 8 || new Set(texts).size === new Set(values).size) return texts;
  }
}

function trim(value: number, digits = 4): string {
  return String(Number(value.toPrecision(digits)));
}

/** bytes prints a size, such as 3.2 MiB. */
export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let at = 0;
  while (Math.abs(value) >= 1024 && at < units.length - 1) {
    value /= 1024;
    at++;
  }
  return `${Number(value.toPrecision(3))} ${units[at]}`;
}

/** whole prints an integer with commas between thousands. */
export function whole(value: number): string {
  return value.toLocaleString('en-US', { maximumFractionDigits: 0 });
}

/** zone names the local time zone at a time in unix milliseconds, such as UTC+05:30. */
export function zone(ms: number): string {
  const minutes = -new Date(ms).getTimezoneOffset();
  if (!minutes) return 'UTC';
  const size = Math.abs(minutes);
  return `UTC${minutes < 0 ? '-' : '+'}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}

/** seconds prints a time span given in seconds. */
export function seconds(value: number): string {
  if (value === 0) return '0';
  if (Math.abs(value) < 1e-3) return `${trim(value * 1e6)} µs`;
  if (Math.abs(value) < 1) return `${trim(value * 1e3)} ms`;
  if (Math.abs(value) < 120) return `${Number(value.toPrecision(3))} s`;
  if (Math.abs(value) < 7200) return `${Math.round(value / 60)} min`;
  if (Math.abs(value) < 172800) return `${Number((value / 3600).toPrecision(3))} h`;
  return `${Number((value / 86400).toPrecision(3))} d`;
}

const two = (n: number) => String(n).padStart(2, '0');

/** time prints unix milliseconds as local date and time. */
export function time(ms: number): string {
  const d = new Date(ms);
  if (Number.isNaN(d.getTime())) return String(ms);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** clock prints unix milliseconds as local time of the day, with the date if the range is longer than a day. */
export function clock(ms: number, rangeSeconds: number): string {
  const text = time(ms);
  return rangeSeconds > 86400 ? text.slice(5, 16) : text.slice(11, rangeSeconds < 600 ? 19 : 16);
}

/** series prints labels as PromQL does. */
export function series(labels: Record<string, string>): string {
  const pairs = Object.keys(labels).filter((k) => k !== '__name__').sort().map((k) => `${labelName(k)}=${quote(labels[k])}`);
  const name = labels.__name__ ?? '';
  const plain = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/.test(name);
  if (name && !plain) return `{${[quote(name), ...pairs].join(', ')}}`;
  return pairs.length || !name ? `${name}{${pairs.join(', ')}}` : name;
}

/** labelName prints the name of a label as PromQL does: names beyond the old alphabet are quoted. */
export function labelName(name: string): string {
  return /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name) ? name : quote(name);
}

const escapes: Record<string, string> = { '\\': '\\\\', '"': '\\"', '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** quote prints a string of PromQL. As in Go, invisible characters become escapes. */
export function quote(text: string): string {
  const escaped = text.replace(/[\\"\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, (c) => {
    const code = c.codePointAt(0)!.toString(16);
    return escapes[c] ?? (code.length > 4 ? '\\U' + code.padStart(8, '0') : '\\u' + code.padStart(4, '0'));
  });
  return `"${escaped}"`;
}
