import { time } from '../lib/format';
import { Docs } from '../parts/docs';
import type { Window } from './page';
import type { Diagnosis } from './types';

const classes: Record<string, string> = { danger: 'error', info: 'info' };

/** Diagnoses lists what the map shows, with a button that zooms to it. It is open at first if there is a danger. */
export function Diagnoses({ list, show }: { list: Diagnosis[]; show: (w: Partial<Window>) => void }) {
  if (!list.length) return null;
  return (
    <details class="diagnoses" open={list.some((d) => d.level === 'danger')}>
      <summary class={list.every((d) => d.level === 'info') ? 'info' : 'warning'}>The map shows {summaryOf(list)}.</summary>
      <ul>{list.map((d, n) => <One key={n} d={d} show={show} />)}</ul>
    </details>
  );
}

/** summaryOf counts the findings by their id. */
function summaryOf(list: Diagnosis[]): string {
  const counts = new Map<string, number>();
  for (const d of list) counts.set(d.id, (counts.get(d.id) ?? 0) + 1);
  return [...counts].map(([id, n]) => (n > 1 ? `${id} ${n} times` : id)).join(', ');
}

function One({ d, show }: { d: Diagnosis; show: (w: Partial<Window>) => void }) {
  return (
    <li class={classes[d.level] ?? 'warning'}>
      <p>
        <strong>{d.level}</strong> {d.text}
        {d.time && ` From ${time(d.time[0] * 1000)} to ${time(d.time[1] * 1000)}.`}
        {d.docs && <> <Docs at={d.docs} /></>}
      </p>
      {(d.time || d.range) && (
        <button type="button" onClick={() => show({ start: d.time?.[0], end: d.time?.[1], startKey: d.range?.[0], endKey: d.range?.[1] })}>Show on the map</button>
      )}
      {d.key && <span> Keys from <code>{d.key[0] || 'the first'}</code> to before <code>{d.key[1] || 'the end'}</code></span>}
    </li>
  );
}
