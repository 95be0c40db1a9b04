import type { Line } from './chart';
import { number } from '../lib/format';

/** Legend names the lines of a chart. A click hides a line or shows it again; with Ctrl or Shift it shows that line only. */
export function Legend({ lines, toggle }: { lines: Line[]; toggle: (n: number, alone: boolean) => void }) {
  return (
    <ul class="legend" aria-label="Series of the graph">
      {lines.map((l, n) => {
        const last = l.values.findLast((v) => v !== null);
        return (
          <li key={n}>
            <button type="button" aria-pressed={l.shown} onClick={(e) => toggle(n, e.ctrlKey || e.metaKey || e.shiftKey)}>
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
