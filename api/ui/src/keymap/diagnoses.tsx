import { time } from '../lib/format';
import type { Window } from './page';
import type { Diagnosis } from './types';

/** Diagnoses lists what is wrong with the load, with a button that shows it on the map. */
export function Diagnoses({ list, show }: { list: Diagnosis[]; show: (w: Partial<Window>) => void }) {
  if (!list.length) return null;
  return (
    <ul class="diagnoses" aria-label="Diagnosis">
      {list.map((d, n) => (
        <li key={n} class={d.level === 'danger' ? 'error' : 'warning'}>
          <strong>{d.level}</strong> {d.text}
          {d.time && <span> From {time(d.time[0] * 1000)} to {time(d.time[1] * 1000)}.</span>}
          {(d.time || d.key) && (
            <button type="button" onClick={() => show({ start: d.time?.[0], end: d.time?.[1], startKey: d.key?.[0], endKey: d.key?.[1] })}>Show</button>
          )}
        </li>
      ))}
    </ul>
  );
}
