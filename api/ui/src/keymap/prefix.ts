import type { MapRow } from './types';

/** Group is a run of rows with one prefix. */
export interface Group {
  text: string;
  /** from and to are rows; to is not in the group. */
  from: number;
  to: number;
}

/** commonOf returns the leading labels that all rows share. */
export function commonOf(rows: MapRow[]): string[] {
  const first = rows[0]?.labels ?? [];
  const differs = first.findIndex((label, n) => rows.some((row) => row.labels[n] !== label));
  return differs < 0 ? first : first.slice(0, differs);
}

/** groupsOf divides rows at the borders of tenants and metrics. Rows of one metric are divided by the next part of their keys. */
export function groupsOf(rows: MapRow[]): Group[] {
  const groups: Group[] = [];
  const depth = commonOf(rows).length;
  rows.forEach((row, r) => {
    const part = row.labels[depth];
    const text = depth < 2 ? nameOf(row) : part === undefined ? row.key || 'the first key' : partText(part);
    const last = groups.at(-1);
    if (last && last.text === text) last.to = r + 1;
    else groups.push({ text, from: r, to: r + 1 });
  });
  return groups;
}

/** partText prints a label of a row as a reader knows it: tag:job=a as job=a, salt:03 as salt 03. */
export function partText(label: string): string {
  return label.startsWith('tag:') ? label.slice('tag:'.length) : label.replace(':', ' ');
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
