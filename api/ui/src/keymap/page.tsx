import { useEffect, useState } from 'preact/hooks';
import { get } from '../lib/api';
import { formatDuration } from '../lib/duration';
import { number, time, zone } from '../lib/format';
import { useLoad } from '../lib/load';
import { hashOf, route, setParam, setParams } from '../lib/route';
import { ErrorBox } from '../parts/errorbox';
import { CellBox } from './cellbox';
import { Diagnoses } from './diagnoses';
import { OneMap } from './onemap';
import { RangeTable } from './ranges';
import { type KeyMap, metrics } from './types';

/** Point is where the cursor stands: a time in unix seconds, and a key as base64url. Both maps follow it. */
export interface Point {
  at: number;
  start: string;
}

/** Window is the part of time and keys that the maps show. */
export interface Window {
  start: number;
  end: number;
  startKey: string;
  endKey: string;
}

const ranges: Record<string, number> = { '1 h': 3600, '6 h': 21600, '1 d': 86400, '4 d': 345600, '28 d': 2419200 };
const followMs = 60000;

/** copied are the parameters of the URL with these names. */
function copied(names: string[]): Record<string, string> {
  return Object.fromEntries(names.map((n) => [n, route.value.params.get(n) ?? '']).filter(([, v]) => v));
}

/** readWindow reads the window from the parameters of the URL. */
export function readWindow(params: URLSearchParams): Window {
  const at = (name: string) => Math.max(0, Number(params.get(name)) || 0);
  const end = at('end') || Math.ceil(Date.now() / 60000) * 60;
  const start = at('start') || end - (at('range') || 21600);
  return { start, end, startKey: params.get('from') ?? '', endKey: params.get('to') ?? '' };
}

/** KeyMapPage shows load by row key and time. */
export function KeyMapPage() {
  const params = route.value.params;
  const window = readWindow(params);
  const chosen = params.get('metric') ?? 'write_cells';
  const second = params.get('second') ?? '';
  const [point, setPoint] = useState<Point | null>(null);
  const [pinned, setPinned] = useState<Point | null>(null);
  // Another window shows other cells, also if a link or the history of the browser chose it.
  useEffect(() => setPinned(null), ['range', 'start', 'end', 'from', 'to'].map((name) => params.get(name)));
  const brightness = Math.min(3, Math.max(0.4, Number(params.get('brightness')) || 1));
  const top = Math.max(0, Number(params.get('top')) || 0);
  const live = !params.get('end');
  const load = useLoad(async (signal) => {
    const fetchMap = (metric: string) => get<KeyMap>('keyviz/heatmap', {
      metric, start: window.start, end: window.end, start_key: window.startKey, end_key: window.endKey, format: 'f32', rows: 256, cols: 360,
    }, signal);
    return (await Promise.all([chosen, second].filter(Boolean).map(fetchMap))).map((a) => a.data);
  }, [chosen, second, params.get('range'), params.get('start'), params.get('end'), window.startKey, window.endKey], live ? followMs : 0);
  const show = (w: Partial<Window>) => {
    const next = new URLSearchParams(params);
    for (const [name, value] of Object.entries({ start: w.start, end: w.end, from: w.startKey, to: w.endKey })) {
      if (value) next.set(name, String(value));
      else if (value === '') next.delete(name);
    }
    setParams(next);
  };
  const out = () => {
    const next = new URLSearchParams(params);
    for (const name of ['start', 'end', 'from', 'to']) next.delete(name);
    setParams(next);
  };
  return (
    <>
      <h1>Key map</h1>
      <p class="quiet">Time goes from left to right, row keys from top to bottom, and colour is load. A good schema gives even noise. A bright band is a
        hot range, a diagonal a key that grows with time, a vertical line a scan of all keys.</p>
      <Controls {...{ chosen, second, brightness, top, out }} max={load.data?.[0]?.max ?? 0} zoomed={params.has('start') || params.has('from')} window={window} />
      {load.error && <ErrorBox error={load.error} />}
      {!load.data && !load.error && <p class="quiet">Loading …</p>}
      <div aria-busy={load.loading}>
        {load.data?.[0] && <Diagnoses list={load.data[0].diagnostics} show={show} />}
        {load.data?.map((m) => (
          <OneMap key={m.metric} map={m} brightness={brightness} top={m.metric === chosen ? top : 0} point={point} move={setPoint} pin={setPinned} show={show} out={out} />
        ))}
      </div>
      <CellBox point={pinned} close={() => setPinned(null)} />
      {load.data && <RangeTable metric={chosen} window={window} show={show} />}
    </>
  );
}

function Controls({ chosen, second, brightness, top, max, out, zoomed, window }: {
  chosen: string;
  second: string;
  brightness: number;
  top: number;
  max: number;
  out: () => void;
  zoomed: boolean;
  window: Window;
}) {
  const range = route.value.params.get('range') ?? '';
  const options = Object.entries(metrics).map(([id, title]) => <option key={id} value={id}>{title}</option>);
  return (
    <div class="bar">
      <label>Load
        <select value={chosen} onChange={(e) => setParam('metric', e.currentTarget.value)}>{options}</select>
      </label>
      <label>Below it
        <select value={second} onChange={(e) => setParam('second', e.currentTarget.value)}>
          <option value="">nothing</option>
          {options}
        </select>
      </label>
      <label>Time
        <select value={Object.values(ranges).includes(Number(range)) ? range : '21600'} onChange={(e) => { out(); setParam('range', e.currentTarget.value); }}>
          {Object.entries(ranges).map(([title, s]) => <option key={s} value={String(s)}>{title}</option>)}
        </select>
      </label>
      <label>Brightness
        <input type="range" min="0.4" max="3" step="0.1" value={brightness} onInput={(e) => setParam('brightness', e.currentTarget.value, true)} />
      </label>
      <label>Scale
        <select value={top ? 'absolute' : ''} onChange={(e) => setParam('top', e.currentTarget.value && String(max || 1))}>
          <option value="">relative to what is shown</option>
          <option value="absolute">absolute{top ? `, to ${number(top)}` : ''}</option>
        </select>
      </label>
      <button type="button" onClick={out} disabled={!zoomed}>Zoom out</button>
      <a href={hashOf('compare', copied(['range', 'start', 'end', 'from', 'to', 'metric']))}>Compare with other keys</a>
      <span class="quiet">{time(window.start * 1000)} {zone(window.start * 1000)}, {formatDuration(window.end - window.start)}</span>
    </div>
  );
}
