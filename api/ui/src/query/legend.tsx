import { useMemo, useState } from 'preact/hooks';
import { number } from '../lib/format';
import { route, setLists } from '../lib/route';
import type { Line } from './chart';

/** rowsMax bounds the rows of the legend, because 10,000 of them take a browser seconds. */
const rowsMax = 100;

/** toggled hides a line or shows it again. With alone it shows that line only, or all lines if it already was the only one. */
export function toggled(hidden: ReadonlySet<string>, all: string[], label: string, alone: boolean): Set<string> {
  if (alone) {
    const was = !hidden.has(label) && all.every((l) => l === label || hidden.has(l));
    return new Set(was ? [] : all.filter((l) => l !== label));
  }
  const next = new Set(hidden);
  if (!next.delete(label)) next.add(label);
  return next;
}

/** hiddenOf returns the labels that the parameters of a URL hide. A link that shows only lines that are gone hides nothing. */
export function hiddenOf(params: URLSearchParams, all: string[]): ReadonlySet<string> {
  const only = new Set(params.getAll('only'));
  if (all.some((l) => only.has(l))) return new Set(all.filter((l) => !only.has(l)));
  return new Set(params.getAll('hide'));
}

/** hidingParams is the inverse of hiddenOf. It names the hidden lines or the shown ones, whichever are fewer. */
export function hidingParams(hidden: ReadonlySet<string>, all: string[]): { hide: string[]; only: string[] } {
  const shown = all.filter((l) => !hidden.has(l));
  return shown.length && shown.length < hidden.size ? { hide: [], only: shown } : { hide: [...hidden], only: [] };
}

/** useHidden returns the labels of the lines that the user has hidden. The URL keeps them. */
export function useHidden(all: string[]): { hidden: ReadonlySet<string>; toggle: (label: string, alone: boolean) => void } {
  const { params } = route.value;
  const key = JSON.stringify([params.getAll('hide'), params.getAll('only')]);
  const hidden = useMemo(() => hiddenOf(params, all), [key, all]);
  return { hidden, toggle: (label, alone) => setLists(hidingParams(toggled(hidden, all, label, alone), all)) };
}

/** Legend names the lines of a chart. A click hides a line or shows it again; with Ctrl or Shift it shows that line only. */
export function Legend({ lines, toggle }: { lines: Line[]; toggle: (label: string, alone: boolean) => void }) {
  const [search, setSearch] = useState('');
  const found = search ? lines.filter((l) => l.label.toLowerCase().includes(search.toLowerCase())) : lines;
  return (
    <>
      {lines.length > rowsMax && (
        <div class="bar">
          <label>Search the legend <input type="search" value={search} onInput={(e) => setSearch(e.currentTarget.value)} /></label>
          <span class="quiet" role="status">{Math.min(rowsMax, found.length)} of {found.length} series are listed.</span>
        </div>
      )}
      <ul class="legend" aria-label="Series of the graph">
        {found.slice(0, rowsMax).map((l, n) => {
          const last = l.values.findLast((v) => v !== null);
          return (
            <li key={n}>
              <button type="button" aria-pressed={l.shown} onClick={(e) => toggle(l.label, e.ctrlKey || e.metaKey || e.shiftKey)}>
                <svg class="swatch" viewBox="0 0 1 1" aria-hidden="true"><rect width="1" height="1" fill={l.colour} /></svg>
                <span>{l.label}</span>
                {last !== undefined && last !== null && <span class="quiet">{number(last)}</span>}
              </button>
            </li>
          );
        })}
      </ul>
    </>
  );
}
