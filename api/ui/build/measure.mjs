// Measures the interface in Chromium on a demo server: the time until the first graph is painted, and the times of a key map of
// 360 × 512 cells. Usage: node build/measure.mjs TSDB [ROUNDS]
import { mkdtempSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { start } from './server.mjs';

const [program, rounds = '15'] = process.argv.slice(2);
const cols = 360;
const rows = 512;
/** settleMs is the time in which the browser prepares a new window. Until then its own work takes one core. */
const settleMs = 4000;

/** mapResponse is the response of a key map in which each cell has another value. */
function mapResponse() {
  const now = Math.floor(Date.now() / 1000);
  const values = new Float32Array(cols * rows).map((_, n) => (n * 7919) % 10007);
  const data = {
    metric: 'write_cells', unit: 'cells/s', columns: Array.from({ length: cols + 1 }, (_, c) => now - (cols - c) * 60), missing: [3],
    rows: Array.from({ length: rows }, (_, r) => {
      const key = `metric${String(r >> 4).padStart(3, '0')}#${String(r % 16).padStart(2, '0')}#instance=host-${r},job=node,`;
      return { key, start: Buffer.from(key).toString('base64url'), labels: ['tenant:default', `metric:metric${r >> 4}`, `salt:${r % 16}`, 'tag:job=node'], border: r % 16 ? 'salt' : 'metric' };
    }),
    values: { encoding: 'f32le', shape: [cols, rows], data: Buffer.from(values.buffer).toString('base64') },
    tablets: [], rowTotals: new Array(rows).fill(1), colTotals: new Array(cols).fill(1), max: 10006, p99: 9900, diagnostics: [], approximate: false, scaled: true,
  };
  return JSON.stringify({ status: 'success', data });
}

/** graphMs is the time from the start of the navigation to the frame after the first graph. */
async function graphMs(page, url) {
  const expr = 'sum by (instance) (rate(demo_requests_total[5m]))';
  await page.goto(`${url}#/query?${new URLSearchParams({ expr })}&range=1h`);
  const found = await page.waitForFunction(() => document.querySelector('.uplot canvas') && new Promise((done) => {
    requestAnimationFrame(() => done(performance.now()));
  }), null, { polling: 'raf' });
  return found.jsonValue();
}

/**
 * mapTimes are the times of a key map. painted has the decoding of base64, the colours of the cells, their image, and its
 * drawing. ready begins with the response and ends with the image, so it also has JSON and the elements of the page. shown ends
 * with the drawing, so it also has the layout and the wait for the next frame.
 */
async function mapTimes(page, url) {
  const body = mapResponse();
  await page.route('**/keyviz/heatmap*', (route) => route.fulfill({ contentType: 'application/json', body }));
  await page.addInitScript(() => {
    const at = (globalThis.mapAt = {});
    const { json } = Response.prototype;
    Response.prototype.json = async function () {
      if (!this.url.includes('keyviz/heatmap')) return json.call(this);
      const text = await this.text();
      at.received = performance.now();
      return JSON.parse(text);
    };
    const { fromBase64 } = Uint8Array;
    Uint8Array.fromBase64 = (text) => {
      const began = performance.now();
      const bytes = fromBase64.call(Uint8Array, text);
      at.decoding = performance.now() - began;
      // The first logarithm after the decoding begins the colours.
      const { log1p } = Math;
      Math.log1p = (x) => {
        Math.log1p = log1p;
        at.colours = performance.now();
        return log1p(x);
      };
      return bytes;
    };
    const { drawImage, putImageData } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.putImageData = function (...args) {
      putImageData.apply(this, args);
      at.imaged = performance.now();
    };
    CanvasRenderingContext2D.prototype.drawImage = function (...args) {
      const began = performance.now();
      drawImage.apply(this, args);
      this.getImageData(0, 0, 1, 1); // waits until the drawing is done
      at.drawn = performance.now();
      at.drawing = at.drawn - began;
    };
  });
  await page.goto(`${url}#/keymap`);
  await page.waitForFunction(() => globalThis.mapAt.drawn);
  await page.waitForTimeout(300);
  const at = await page.evaluate(() => globalThis.mapAt);
  return { painted: at.decoding + at.imaged - at.colours + at.drawing, ready: at.imaged - at.received, shown: at.drawn - at.received };
}

/** measure prints each time that one returns, over all rounds. */
async function measure(browser, url, one) {
  const found = {};
  for (let i = 0; i < Number(rounds); i++) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    await page.waitForTimeout(settleMs);
    for (const [name, ms] of Object.entries(await one(page, url))) (found[name] ??= []).push(ms);
    await context.close();
  }
  for (const [name, times] of Object.entries(found)) {
    times.sort((a, b) => a - b);
    const at = (share) => times[Math.floor(share * (times.length - 1))].toFixed(1);
    console.log(`${name}: least ${at(0)} ms, median ${at(0.5)} ms, most ${at(1)} ms, ${times.length} rounds, load ${loadavg()[0].toFixed(1)}`);
  }
}

const data = mkdtempSync(join(tmpdir(), 'halite-ui-'));
const demo = await start(program, ['demo', `--storage.path=${data}/demo`], 'Demo:');
try {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
  });
  await measure(browser, demo.url, async (page, url) => ({ 'first graph': await graphMs(page, url) }));
  await measure(browser, demo.url, mapTimes);
  await browser.close();
} finally {
  await demo.stop();
  rmSync(data, { recursive: true });
}
