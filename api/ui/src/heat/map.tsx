import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { clock } from '../lib/format';
import { dark } from '../lib/theme';
import { draw, layoutOf, mapHeight, mapWidth } from './draw';
import { type Grid, levels, paint } from './levels';
import { palette } from './palette';

export interface Cell {
  c: number;
  r: number;
}

/** Box is a rectangle of cells; the second column and row are in it. */
export interface Box {
  from: Cell;
  to: Cell;
}

interface HeatMapProps {
  label: string;
  grid: Grid;
  /** times are the starts of the columns and the end of the last one, in unix seconds. */
  times: number[];
  rowSums: number[];
  colSums: number[];
  /** borders are rows above which a line stands. */
  borders?: number[];
  missing?: number[];
  brightness: number;
  /** top is the value of the brightest colour; 0 takes the largest value of the grid. */
  top?: number;
  height?: number;
  cursor: Cell | null;
  move: (cell: Cell | null) => void;
  /** pin is the action of Enter and of a click. */
  pin: (cell: Cell) => void;
  zoom?: (box: Box) => void;
  /** out is the action of Escape and of a double click. */
  out?: () => void;
  /** scale shows factor times as much time around a share of the width, and pan moves the window by a share of it. */
  scale?: (factor: number, around: number) => void;
  pan?: (by: number) => void;
}

const none: number[] = [];

/** HeatMap draws a grid. The mouse and the arrow keys move a cursor over its cells. */
export function HeatMap(p: HeatMapProps) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [drag, setDrag] = useState<{ x0: number; y0: number; x1: number; y1: number } | null>(null);
  const isDark = dark();
  const height = p.height ?? 460;
  const layout = layoutOf(width, height);
  const level = useMemo(() => levels(p.grid, p.top), [p.grid, p.top]);
  const image = useMemo(() => imageOf(level, p.grid, palette(isDark, p.brightness)), [level, isDark, p.brightness]);
  useEffect(() => {
    const box = host.current!;
    const observer = new ResizeObserver(() => setWidth(box.clientWidth));
    observer.observe(box);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (!width) return;
    const frame = requestAnimationFrame(() => {
      const c = canvas.current;
      if (!c) return;
      const ratio = devicePixelRatio || 1;
      c.width = Math.round(width * ratio);
      c.height = Math.round(height * ratio);
      const ctx = c.getContext('2d')!;
      ctx.scale(ratio, ratio);
      const style = getComputedStyle(document.documentElement);
      const colour = (name: string) => style.getPropertyValue(name).trim();
      draw(ctx, layout, {
        image, cols: p.grid.cols, rows: p.grid.rows, rowSums: p.rowSums, colSums: p.colSums, borders: p.borders ?? none,
        missing: p.missing ?? none, cursor: p.cursor, box: drag, ticks: ticksOf(p.times, mapWidth(layout)),
        ink: colour('--quiet'), line: colour('--quiet'), accent: isDark ? '#ff9c6b' : '#c2410c',
      });
    });
    return () => cancelAnimationFrame(frame);
  }, [image, width, height, p.cursor, drag, p.borders, p.missing, p.times]);
  const cellAt = (x: number, y: number): Cell => ({
    c: clamp(Math.floor((x / mapWidth(layout)) * p.grid.cols), p.grid.cols), r: clamp(Math.floor((y / mapHeight(layout)) * p.grid.rows), p.grid.rows),
  });
  const onDown = (e: PointerEvent) => {
    canvas.current!.setPointerCapture(e.pointerId);
    setDrag({ x0: e.offsetX, y0: e.offsetY, x1: e.offsetX, y1: e.offsetY });
  };
  const onMove = (e: PointerEvent) => {
    p.move(cellAt(e.offsetX, e.offsetY));
    if (drag) setDrag({ ...drag, x1: e.offsetX, y1: e.offsetY });
  };
  const onUp = () => {
    if (!drag) return;
    setDrag(null);
    const far = Math.abs(drag.x1 - drag.x0) > 6 && Math.abs(drag.y1 - drag.y0) > 6;
    const from = cellAt(Math.min(drag.x0, drag.x1), Math.min(drag.y0, drag.y1));
    if (far && p.zoom) p.zoom({ from, to: cellAt(Math.max(drag.x0, drag.x1), Math.max(drag.y0, drag.y1)) });
    else if (!far) p.pin(from);
  };
  // A finger that moves up or down scrolls the page, and the browser takes its pointer.
  const onCancel = () => setDrag(null);
  const onKey = (e: KeyboardEvent) => {
    const at = p.cursor ?? { c: p.grid.cols - 1, r: 0 };
    const by = e.shiftKey ? 10 : 1;
    const steps: Record<string, [number, number]> = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by] };
    const step = steps[e.key];
    if (step) p.move({ c: clamp(at.c + step[0], p.grid.cols), r: clamp(at.r + step[1], p.grid.rows) });
    else if (e.key === 'Enter') p.pin(at);
    else if (e.key === 'Escape' && p.out) p.out();
    else if ((e.key === '+' || e.key === '-') && p.scale) p.scale(e.key === '+' ? 0.5 : 2, (at.c + 0.5) / p.grid.cols);
    else if ((e.key === '<' || e.key === '>') && p.pan) p.pan(e.key === '<' ? -0.25 : 0.25);
    else return;
    e.preventDefault();
  };
  // Without a key, the wheel scrolls the page.
  const onWheel = (e: WheelEvent) => {
    const by = e.deltaY || e.deltaX;
    if (!by || !(e.ctrlKey || e.metaKey ? p.scale : e.shiftKey && p.pan)) return;
    e.preventDefault();
    if (e.shiftKey) p.pan!(by > 0 ? 0.1 : -0.1);
    else p.scale!(by > 0 ? 1.25 : 0.8, Math.min(1, e.offsetX / mapWidth(layout)));
  };
  return (
    <div ref={host} class="heat">
      <canvas ref={canvas} style={{ width: '100%', height: `${height}px` }} tabIndex={0} role="application" aria-label={p.label}
        onPointerDown={onDown} onPointerMove={onMove} onPointerUp={onUp} onPointerCancel={onCancel} onPointerLeave={() => p.move(null)} onDblClick={p.out} onKeyDown={onKey} onWheel={onWheel} />
    </div>
  );
}

function clamp(n: number, count: number): number {
  return Math.max(0, Math.min(count - 1, n));
}

function imageOf(level: Uint8Array, grid: Grid, colours: Uint32Array): HTMLCanvasElement {
  const image = document.createElement('canvas');
  image.width = Math.max(1, grid.cols);
  image.height = Math.max(1, grid.rows);
  const ctx = image.getContext('2d')!;
  const data = ctx.createImageData(image.width, image.height);
  paint(level, grid.cols, grid.rows, colours, new Uint32Array(data.data.buffer));
  ctx.putImageData(data, 0, 0);
  return image;
}

function ticksOf(times: number[], width: number): { x: number; text: string }[] {
  const from = times[0];
  const span = times[times.length - 1] - from;
  const count = Math.max(2, Math.floor(width / 110));
  return Array.from({ length: count + 1 }, (_, i) => ({ x: i / count, text: clock((from + (span * i) / count) * 1000, span) }));
}
