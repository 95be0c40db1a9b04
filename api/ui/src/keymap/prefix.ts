import type { MapRow } from './types';

/** Group is a run of rows of one metric. */
export interface Group {
  text: string;
  /** from and to are rows; to is not in the group. */
  from: number;
  to: number;
}

/** groupsOf divides rows at the borders of tenants and metrics. */
export function groupsOf(rows: MapRow[]): Group[] {
  const groups: Group[] = [];
  rows.forEach((row, r) => {
    const text = nameOf(row);
    const last = groups.at(-1);
    if (last && last.text === text) last.to = r + 1;
    else groups.push({ text, from: r, to: r + 1 });
  });
  return groups;
}

/** nameOf names the tenant and the metric of a row. */
export function nameOf(row: MapRow): string {
  const part = (name: string) => row.labels.find((l) => l.startsWith(name + ':'))?.slice(name.length + 1);
  const tenant = part('tenant');
  const metric = part('metric') ?? row.key;
  return tenant && tenant !== 'default' ? `${tenant} / ${metric}` : metric || 'the first key';
}

/** Place is where a label stands beside the map. */
export interface Place {
  group: Group;
  /** top is a share of the height of the map. */
  top: number;
}

/** places leaves out labels that stand closer than gap, a share of the height. Larger groups go first. */
export function places(groups: Group[], rows: number, gap: number): Place[] {
  const taken: Place[] = [];
  for (const group of [...groups].sort((a, b) => b.to - b.from - (a.to - a.from))) {
    const top = (group.from + group.to) / 2 / rows;
    if (taken.every((p) => Math.abs(p.top - top) >= gap)) taken.push({ group, top });
  }
  return taken.sort((a, b) => a.top - b.top);
}
