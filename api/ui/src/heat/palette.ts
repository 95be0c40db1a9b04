/** stops are colours from the coldest to the hottest. They differ in lightness, so that colour-blind readers can tell them apart. */
const stops = {
  dark: [[10, 22, 40], [30, 58, 104], [86, 91, 109], [150, 141, 118], [214, 187, 88], [255, 236, 120]],
  light: [[250, 248, 236], [240, 220, 130], [190, 176, 110], [124, 123, 120], [66, 78, 107], [0, 32, 77]],
};

/** palette returns 256 colours as ABGR, which is what ImageData holds on little-endian machines. Brightness 1 shows the levels as they are. */
export function palette(dark: boolean, brightness: number): Uint32Array {
  const list = dark ? stops.dark : stops.light;
  const out = new Uint32Array(256);
  for (let level = 0; level < 256; level++) {
    const at = Math.min(1, Math.pow(level / 255, 1 / brightness)) * (list.length - 1);
    const low = Math.min(list.length - 2, Math.floor(at));
    const [r, g, b] = list[low].map((c, i) => Math.round(c + (list[low + 1][i] - c) * (at - low)));
    out[level] = ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
  }
  return out;
}
