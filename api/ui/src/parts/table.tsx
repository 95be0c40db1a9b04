import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

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
  hideCaption?: boolean;
}

/** Table shows rows that the reader can sort by each column. */
export function Table<R>({ caption, columns, rows, empty = 'There is nothing here.', most = 100, sort = '', hideCaption }: TableProps<R>) {
  const [by, setBy] = useState(sort);
  const [limit, setLimit] = useState(most);
  const down = by.startsWith('-');
  const column = columns.find((c) => c.title === by.replace(/^-/, ''));
  const sorted = column ? [...rows].sort((a, b) => compare(column.value(a), column.value(b)) * (down ? -1 : 1)) : rows;
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
        <p><button type="button" onClick={() => setLimit(limit * 10)}>Show more</button> <span class="quiet">{limit} of {rows.length} rows</span></p>
      )}
    </div>
  );
}

function compare(a: string | number, b: string | number): number {
  if (typeof a === 'number' && typeof b === 'number') return (Number.isNaN(a) ? -Infinity : a) - (Number.isNaN(b) ? -Infinity : b) || 0;
  return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
}
