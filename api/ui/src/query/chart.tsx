import { useLayoutEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { clock, distinct, number, time } from '../lib/format';
import { dark } from '../lib/theme';
import { stack, yRange } from './align';

/** Line is a series of a chart. */
export interface Line {
  label: string;
  colour: string;
  values: (number | null)[];
  shown: boolean;
}

/** Mark is an exemplar: a point with a text. */
export interface Mark {
  /** at is unix seconds. */
  at: number;
  value: number;
  text: string;
}

interface ChartProps {
  label: string;
  times: number[];
  lines: Line[];
  marks?: Mark[];
  stacked: boolean;
  /** zoom takes the range that the user drags, in unix seconds. */
  zoom?: (from: number, to: number) => void;
  height?: number;
}

/** noMarks is one array for all charts, because the chart is drawn again if its marks are another array. */
export const noMarks: Mark[] = [];

/** Chart draws lines over time. A line above it says what is at the cursor. */
export function Chart({ label, times, lines, marks = noMarks, stacked, zoom, height = 340 }: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const readout = useRef<HTMLDivElement>(null);
  const isDark = dark();
  useLayoutEffect(() => {
    const host = box.current!;
    const shown = lines.filter((l) => l.shown);
    const rows = stacked ? stack(shown.map((l) => l.values)) : shown.map((l) => l.values);
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue('--quiet').trim();
    const grid = style.getPropertyValue('--line').trim();
    const rangeSeconds = times.length > 1 ? times[times.length - 1] - times[0] : 0;
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: '12px system-ui, sans-serif' };
    const plot = new uPlot({
      width: Math.max(200, host.clientWidth),
      height,
      legend: { show: false },
      scales: { x: { time: false }, y: { range: (_, low, high) => yRange(low, high, stacked) } },
      axes: [
        { ...axis, space: 80, values: (_, ticks) => ticks.map((t) => clock(t * 1000, rangeSeconds)), incrs: timeSteps, size: 36 },
        { ...axis, size: 72, values: (_, ticks) => distinct(ticks) },
      ],
      cursor: { drag: { x: !!zoom, y: false, setScale: false }, points: { size: 6, one: true }, focus: { prox: 1e6 } },
      // To dim the other lines, all are drawn again.
      focus: { alpha: rows.length > dimmedMax ? 1 : 0.35 },
      series: [
        {},
        // The uppermost row comes first, so that each row paints over the one above it.
        ...rows.map((_, i) => lineOptions(shown[stacked ? rows.length - 1 - i : i], stacked, times.length)),
      ],
      hooks: {
        setSelect: [(u) => {
          if (!zoom || u.select.width < 4) return;
          zoom(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'));
        }],
        draw: [(u) => drawMarks(u, marks, ink)],
        setCursor: [(u) => show(u, readout.current!, shown, marks, stacked)],
        setSeries: [(u) => show(u, readout.current!, shown, marks, stacked)],
      },
    }, [times, ...(stacked ? rows.reverse() : rows)] as uPlot.AlignedData, host);
    plot.root.setAttribute('aria-hidden', 'true');
    const observer = new ResizeObserver(() => {
      const width = Math.max(200, host.clientWidth);
      // setSize draws all lines again, and the observer also calls at its beginning.
      if (width !== plot.width) plot.setSize({ width, height });
    });
    observer.observe(host);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [times, lines, marks, stacked, isDark, height]);
  return (
    <div class="chart">
      <div class="readout" ref={readout}>{zoom ? 'Move over the graph to read values. Drag to zoom.' : 'Move over the graph to read values.'}</div>
      <div ref={box} role="img" aria-label={label} />
    </div>
  );
}

/** dimmedMax bounds the lines of a chart that dims those away from the cursor. */
const dimmedMax = 500;

const timeSteps = [1, 5, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];

function lineOptions(line: Line, stacked: boolean, points: number): uPlot.Series {
  return {
    stroke: line.colour,
    width: 1.5,
    fill: stacked ? line.colour : undefined,
    spanGaps: false,
    points: { show: points < 3 ? true : undefined, size: 4 },
  };
}

function drawMarks(u: uPlot, marks: Mark[], ink: string): void {
  const { ctx } = u;
  ctx.save();
  ctx.fillStyle = ink;
  for (const m of marks) {
    const x = u.valToPos(m.at, 'x', true);
    const y = u.valToPos(m.value, 'y', true);
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width || y < u.bbox.top || y > u.bbox.top + u.bbox.height) continue;
    ctx.beginPath();
    ctx.moveTo(x, y - 6);
    ctx.lineTo(x + 6, y);
    ctx.lineTo(x, y + 6);
    ctx.lineTo(x - 6, y);
    ctx.fill();
  }
  ctx.restore();
}

/** show writes what is at the cursor: the nearest series, and an exemplar if one is near. */
function show(u: uPlot, out: HTMLElement, shown: Line[], marks: Mark[], stacked: boolean): void {
  const { idx, left = 0, top = 0 } = u.cursor;
  if (idx === null || idx === undefined || left < 0) return;
  const at = u.data[0][idx];
  let best = -1;
  let distance = Infinity;
  for (let i = 1; i < u.data.length; i++) {
    const value = u.data[i][idx];
    if (value === null || value === undefined) continue;
    const d = Math.abs(u.valToPos(value, 'y') - top);
    if (d < distance) [best, distance] = [i - 1, d];
  }
  const near = marks.find((m) => Math.hypot(u.valToPos(m.at, 'x') - left, u.valToPos(m.value, 'y') - top) < 10);
  const line = shown[stacked ? shown.length - 1 - best : best];
  const value = line?.values[idx];
  out.textContent = near
    ? `${time(near.at * 1000)}  exemplar ${number(near.value)}  ${near.text}`
    : `${time(at * 1000)}${line ? `  ${value === null || value === undefined ? 'no sample' : number(value)}  ${line.label}` : ''}`;
}
