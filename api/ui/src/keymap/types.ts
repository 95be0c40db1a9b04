/** Diagnosis names something that the map shows. Its level is danger, warning or info. */
export interface Diagnosis {
  id: string;
  level: string;
  time?: [number, number];
  /** key has the first key and the key after the last one as text; range has both as base64url. */
  key?: [string, string];
  range?: [string, string];
  share?: number;
  text: string;
  docs?: string;
}

export interface MapRow {
  /** key is the start as text, start as base64url. */
  key: string;
  start: string;
  labels: string[];
  border: string;
}

/** KeyMap is the response of keyviz/heatmap. Times are in unix seconds. */
export interface KeyMap {
  metric: string;
  unit: string;
  columns: number[];
  missing?: number[];
  rows: MapRow[];
  values: { encoding: string; shape: [number, number]; data: string | number[] };
  tablets: { start: string; end: string; bytes: number; rows: number; node: string }[];
  rowTotals: number[];
  colTotals: number[];
  max: number;
  p99: number;
  diagnostics: Diagnosis[];
  approximate: boolean;
  scaled: boolean;
}

export interface HotRange extends MapRow {
  end: string;
  total: number;
  share: number;
  perSecond: number;
}

export interface CellDetail {
  found: boolean;
  time?: [number, number];
  key?: string;
  labels?: string[];
  counts?: Record<string, number>;
  keys?: { key: string; metric?: string; salt?: number; base?: string; tags?: Record<string, string> }[];
}

/** metrics are what the server counts. */
export const metrics: Record<string, string> = {
  write_cells: 'Samples written', write_rows: 'Rows written', write_bytes: 'Bytes written', read_rows: 'Rows read',
  read_bytes: 'Bytes read', read_time: 'Time of reads', read_time_max: 'Longest read', errors: 'Errors',
};
