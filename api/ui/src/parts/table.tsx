import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { route, setParam } from '../lib/route';

/** Column is a column of a table over rows of type R. */
export interface Column<R> {
  title: string;
  /** value sorts the rows; show prints the cell, by default the value itself. */
  value: (row: R) => string | number;
  show?: (row: R) => ComponentChildren;
  numeric?: boolean;
}

interface TableProps<R> {
  caption: string;
  columns: Column<R>[];
  rows: R[];
  empty?: string;
  /** most bounds the rows that are shown at first. */
  most?: number;
  /** sort is the column that sorts at first, with - in front for the largest first. */
  sort?: string;
  /** param is the parameter of the URL that keeps the order. Without it, a reload forgets the order. */
  param?: string;
  hideCaption?: boolean;
}

/** stepMax bounds the rows that one click adds, because 10,000 of them take a browser seconds. */
const stepMax = 1000;

/** Table shows rows that the reader can sort by each column. */
export function Table<R>({ caption, columns, rows, empty = 'There is nothing here.', most = 100, sort = '', param, hideCaption }: TableProps<R>) {
  const [own, setOwn] = useState(sort);
  const by = param ? route.value.params.get(param) ?? sort : own;
  const setBy = (text: string) => (param ? setParam(param, text) : setOwn(text));
  const [limit, setLimit] = useState(most);
  const down = by.startsWith('-');
  const column = columns.find((c) => c.title === by.replace(/^-/, ''));
  const sorted = column ? sortedBy(rows, column.value, down) : rows;
  const choose = (c: Column<R>) => setBy(by === c.title ? '-' + c.title : by === '-' + c.title || !c.numeric ? c.title : '-' + c.title);
  return (
    <div class="tablebox" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption class={hideCaption ? 'hidden' : ''}>{caption}</caption>
        <thead>
          <tr>
            {columns.map((c) => (
              <th key={c.title} scope="col" class={c.numeric ? 'numeric' : ''} aria-sort={c === column ? (down ? 'descending' : 'ascending') : undefined}>
                <button type="button" class="plain" onClick={() => choose(c)}>
                  {c.title}{c === column && <span aria-hidden="true"> {down ? '▾' : '▴'}</span>}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, limit).map((row, i) => (
            <tr key={i}>
              {columns.map((c) => <td key={c.title} class={c.numeric ? 'numeric' : ''}>{c.show ? c.show(row) : c.value(row)}</td>)}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p class="quiet">{empty}</p>}
      {rows.length > limit && (
        <p><button type="button" onClick={() => setLimit(limit + Math.min(limit * 9, stepMax))}>Show more</button> <span class="quiet">{limit} of {rows.length} rows</span></p>
      )}
    </div>
  );
}

/** sortedBy reads the value of each row once. */
function sortedBy<R>(rows: R[], value: (row: R) => string | number, down: boolean): R[] {
  const keyed = rows.map((row) => ({ row, key: value(row) }));
  return keyed.sort((a, b) => compare(a.key, b.key) * (down ? -1 : 1)).map((k) => k.row);
}

function compare(a: string | number, b: string | number): number {
  if (typeof a === 'number' && typeof b === 'number') return (Number.isNaN(a) ? -Infinity : a) - (Number.isNaN(b) ? -Infinity : b) || 0;
  return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
}
