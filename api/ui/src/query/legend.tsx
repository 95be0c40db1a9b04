import { useState } from 'preact/hooks';
import type { Line } from './chart';
import { number } from '../lib/format';

const none: ReadonlySet<string> = new Set();

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

/** useHidden keeps the labels of the lines that the user has hidden. With another key all lines are shown again. */
export function useHidden(key: string): { hidden: ReadonlySet<string>; toggle: (all: string[], label: string, alone: boolean) => void } {
  const [state, setState] = useState({ key, hidden: none });
  const hidden = state.key === key ? state.hidden : none;
  return { hidden, toggle: (all, label, alone) => setState({ key, hidden: toggled(hidden, all, label, alone) }) };
}

/** Legend names the lines of a chart. A click hides a line or shows it again; with Ctrl or Shift it shows that line only. */
export function Legend({ lines, toggle }: { lines: Line[]; toggle: (all: string[], label: string, alone: boolean) => void }) {
  return (
    <ul class="legend" aria-label="Series of the graph">
      {lines.map((l, n) => {
        const last = l.values.findLast((v) => v !== null);
        return (
          <li key={n}>
            <button type="button" aria-pressed={l.shown} onClick={(e) => toggle(lines.map((x) => x.label), l.label, e.ctrlKey || e.metaKey || e.shiftKey)}>
              <svg class="swatch" viewBox="0 0 1 1" aria-hidden="true"><rect width="1" height="1" fill={l.colour} /></svg>
              <span>{l.label}</span>
              {last !== undefined && last !== null && <span class="quiet">{number(last)}</span>}
            </button>
          </li>
        );
      })}
    </ul>
  );
}
