import { labelName, quote } from './format';

/** Metadata is what senders say of a metric. */
export interface Metadata {
  type: string;
  unit: string;
  help: string;
}

/** baseOf is the name under which senders describe a metric. Parts of histograms and summaries have the name without suffix. */
export function baseOf(name: string): string {
  return name.replace(/_(bucket|count|sum|total)$/, '');
}

/** describe finds the type and the help of a metric. */
export function describe(name: string, metadata: Record<string, Metadata[]>): { type: string; help: string } {
  const own = metadata[name]?.[0];
  const base = metadata[baseOf(name)]?.[0];
  return { type: typeOf(name, own?.type), help: (own ?? base)?.help ?? '' };
}

/** typeOf is the described type, or a guess by the name. */
function typeOf(name: string, described?: string): string {
  if (described && described !== 'unknown') return described;
  if (/_bucket$/.test(name)) return 'histogram';
  return /_(total|count|sum)$/.test(name) ? 'counter' : 'gauge';
}

/** queryOf is an expression that suits the type of a metric, aggregated by a label. */
export function queryOf(name: string, type: string, label: string): string {
  const selector = `{__name__=${quote(name)}}`;
  const labels = label ? [labelName(label)] : [];
  const by = label ? ` by (${labels})` : '';
  switch (type) {
    case 'counter': return `sum${by} (rate(${selector}[5m]))`;
    case 'histogram': return `histogram_quantile(0.99, sum by (${['le', ...labels].join(', ')}) (rate(${selector}[5m])))`;
    default: return `avg${by} (${selector})`;
  }
}
