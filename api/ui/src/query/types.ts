export type Labels = Record<string, string>;

/** Bucket is one bucket of a native histogram: which bounds belong to it, the bounds, and the count. */
export type Bucket = [number, string, string, string];

export interface Histogram {
  count: string;
  sum: string;
  buckets?: Bucket[];
}

export interface Series {
  metric: Labels;
  value?: [number, string];
  values?: [number, string][];
  histogram?: [number, Histogram];
  histograms?: [number, Histogram][];
}

export interface Result {
  resultType: 'matrix' | 'vector' | 'scalar' | 'string';
  result: Series[] | [number, string];
  stats?: Stats;
}

export interface Stats {
  timings?: Record<string, number>;
  samples?: { totalQueryableSamples?: number; peakSamples?: number };
}

/** Outcome is the result of one expression. */
export interface Outcome {
  /** name is the letter of the expression; "" if it is the only one. */
  name: string;
  expr: string;
  result?: Result;
  error?: Error;
  warnings: string[];
  infos: string[];
  /** tookMs is the time until the response arrived. */
  tookMs: number;
}
