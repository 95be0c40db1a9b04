/** Grid holds values of cells, column by column: row r of column c is at c·rows + r. */
export interface Grid {
  cols: number;
  rows: number;
  values: Float32Array;
}

/** levels gives each cell a level from 0 to 255 on a logarithmic scale. A max of 0 takes the largest value. */
export function levels(grid: Grid, max = 0): Uint8Array {
  let top = max;
  if (!top) for (const v of grid.values) if (v > top) top = v;
  const out = new Uint8Array(grid.values.length);
  if (top <= 0) return out;
  // A hundredth of the largest value is still visible, and near the top a third more is too.
  const unit = top / 100;
  const factor = 255 / Math.log1p(100);
  for (let i = 0; i < out.length; i++) {
    const v = grid.values[i];
    if (v > 0) out[i] = Math.max(1, Math.min(255, Math.round(factor * Math.log1p(v / unit))));
  }
  return out;
}

/** paint puts the colours of the levels into pixels, row by row. */
export function paint(level: Uint8Array, cols: number, rows: number, colours: Uint32Array, pixels: Uint32Array): void {
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < cols; c++) pixels[r * cols + c] = colours[level[c * rows + r]];
  }
}
