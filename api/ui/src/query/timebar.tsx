import { useEffect, useState } from 'preact/hooks';
import { formatDuration, parseDuration, stepFor } from '../lib/duration';
import { zone } from '../lib/format';
import { type QueryState, changeState } from './state';

const ranges = ['5m', '15m', '1h', '3h', '6h', '12h', '1d', '2d', '7d', '30d'];

/** TimeBar chooses the end of the range, its length and the step. */
export function TimeBar({ state }: { state: QueryState }) {
  const [range, setRange] = useState('');
  const [step, setStep] = useState('');
  const [fault, setFault] = useState('');
  useEffect(() => setRange(formatDuration(state.rangeSeconds)), [state.rangeSeconds]);
  useEffect(() => setStep(state.stepSeconds ? formatDuration(state.stepSeconds) : ''), [state.stepSeconds]);
  const take = (text: string, name: string, use: (seconds: number) => void) => {
    const value = parseDuration(text);
    const good = value > 0;
    setFault(good ? '' : `${name} is not a duration such as 30s, 5m or 1h30m.`);
    if (good) use(value);
  };
  const move = (by: number) => changeState({ endMs: Math.min(Date.now(), (state.endMs || Date.now()) + by * state.rangeSeconds * 500) });
  const end = state.endMs ? new Date(state.endMs - new Date(state.endMs).getTimezoneOffset() * 60000).toISOString().slice(0, 19) : '';
  return (
    <div class="bar">
      <label>Range
        <input class="short" list="ranges" value={range} onInput={(e) => setRange(e.currentTarget.value)}
          onChange={(e) => take(e.currentTarget.value, 'The range', (rangeSeconds) => changeState({ rangeSeconds }))} />
      </label>
      <datalist id="ranges">{ranges.map((r) => <option key={r} value={r} />)}</datalist>
      <label>End
        <input type="datetime-local" step="1" value={end}
          onChange={(e) => changeState({ endMs: e.currentTarget.value ? new Date(e.currentTarget.value).getTime() : 0 })} />
      </label>
      <span>
        <button type="button" onClick={() => move(-1)} aria-label="Earlier">◀</button>{' '}
        <button type="button" onClick={() => move(1)} aria-label="Later" disabled={!state.endMs}>▶</button>{' '}
        <button type="button" onClick={() => changeState({ endMs: 0 })} disabled={!state.endMs}>Now</button>
      </span>
      <label>Step
        <input class="short" value={step} placeholder={formatDuration(stepFor(state.rangeSeconds))} onInput={(e) => setStep(e.currentTarget.value)}
          onChange={(e) => (e.currentTarget.value.trim()
            ? take(e.currentTarget.value, 'The step', (stepSeconds) => changeState({ stepSeconds }))
            : changeState({ stepSeconds: 0 }))} />
      </label>
      <span class="quiet">Times are in {zone(state.endMs || Date.now())}.</span>
      {fault && <span class="error" role="alert">{fault}</span>}
    </div>
  );
}
