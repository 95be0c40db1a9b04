/** Layout places the parts of a heat map on a canvas, in CSS pixels. */
export interface Layout {
  width: number;
  height: number;
  /** sums is the width of the bars beside the map. */
  sums: number;
  /** axis is the height of the times below the map. */
  axis: number;
}

export function layoutOf(width: number, height: number): Layout {
  return { width, height, sums: width > 500 ? 44 : 0, axis: 20 };
}

export const mapWidth = (l: Layout) => l.width - l.sums;
export const mapHeight = (l: Layout) => l.height - l.sums - l.axis;

/** Scene is all that a heat map draws. */
export interface Scene {
  image: HTMLCanvasElement;
  cols: number;
  rows: number;
  rowSums: number[];
  colSums: number[];
  borders: number[];
  missing: number[];
  cursor: { c: number; r: number } | null;
  /** box is what the user drags, in pixels. */
  box: { x0: number; y0: number; x1: number; y1: number } | null;
  ticks: { x: number; text: string }[];
  ink: string;
  line: string;
  accent: string;
}

/** borderGap is the least distance of two lines, in pixels. */
const borderGap = 14;

/** draw paints a scene. The map itself is the image, scaled without smoothing. */
export function draw(ctx: CanvasRenderingContext2D, l: Layout, s: Scene): void {
  const w = mapWidth(l);
  const h = mapHeight(l);
  ctx.clearRect(0, 0, l.width, l.height);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(s.image, 0, 0, s.cols, s.rows, 0, 0, w, h);
  hatch(ctx, s, w, h);
  ctx.strokeStyle = s.line;
  ctx.globalAlpha = 0.35;
  let last = -borderGap;
  for (const row of s.borders) {
    const y = Math.round((row / s.rows) * h) + 0.5;
    if (y - last < borderGap) continue;
    last = y;
    stroke(ctx, 0, y, w, y);
  }
  ctx.globalAlpha = 1;
  sums(ctx, l, s, w, h);
  ctx.fillStyle = s.ink;
  ctx.font = '12px system-ui, sans-serif';
  ctx.textAlign = 'center';
  for (const t of s.ticks) ctx.fillText(t.text, Math.min(w - 24, Math.max(24, t.x * w)), l.height - 5);
  ctx.strokeStyle = s.accent;
  if (s.cursor) {
    const cw = w / s.cols;
    const ch = h / s.rows;
    const x = s.cursor.c * cw;
    const y = s.cursor.r * ch;
    stroke(ctx, x + cw / 2, 0, x + cw / 2, h);
    stroke(ctx, 0, y + ch / 2, w, y + ch / 2);
    ctx.lineWidth = 2;
    ctx.strokeRect(x - 2, y - 2, Math.max(4, cw) + 2, Math.max(4, ch) + 2);
    ctx.lineWidth = 1;
  }
  if (s.box) ctx.strokeRect(Math.min(s.box.x0, s.box.x1), Math.min(s.box.y0, s.box.y1), Math.abs(s.box.x1 - s.box.x0), Math.abs(s.box.y1 - s.box.y0));
}

/** hatch marks the columns in which nothing was counted. */
function hatch(ctx: CanvasRenderingContext2D, s: Scene, w: number, h: number): void {
  const cw = w / s.cols;
  ctx.strokeStyle = s.line;
  ctx.save();
  ctx.beginPath();
  for (const c of s.missing) ctx.rect(c * cw, 0, cw, h);
  ctx.clip();
  if (s.missing.length) for (let x = -h; x < w; x += 8) stroke(ctx, x, h, x + h, 0);
  ctx.restore();
}

function sums(ctx: CanvasRenderingContext2D, l: Layout, s: Scene, w: number, h: number): void {
  if (!l.sums) return;
  ctx.fillStyle = s.ink;
  const most = Math.max(...s.rowSums) || 1;
  s.rowSums.forEach((v, r) => ctx.fillRect(w + 4, (r / s.rows) * h, (v / most) * (l.sums - 6), Math.max(1, h / s.rows)));
  const top = Math.max(...s.colSums) || 1;
  s.colSums.forEach((v, c) => {
    const size = (v / top) * (l.sums - 6);
    ctx.fillRect((c / s.cols) * w, h + 2 + (l.sums - 6 - size), Math.max(1, w / s.cols - 0.3), size);
  });
}

function stroke(ctx: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}
