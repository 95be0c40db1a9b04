// Opens every page of a demo server in Chromium and checks it: no error in the console, no failed request, no serious fault of
// accessibility, no sideways scrolling at 360 px. Usage: node build/browser.mjs TSDB [FOLDER]. TSDB is the program. FOLDER takes
// a screenshot of each page.
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { accessFlags, checkDoctor, checkLogIn } from './login.mjs';
import { start } from './server.mjs';
import { trials, tryOut } from './trouble.mjs';
import { visits } from './visits.mjs';

// IMAGES is a folder that takes the pictures of the documents.
const images = process.env.IMAGES;
// VISITS chooses the visits and trials whose names contain it.
const chosen = process.env.VISITS ?? '';
const [program, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const faults = [];
const hostile = '<img src=x onerror=alert(1)>';

/** write sends samples of a metric with a hostile name, and one that the server refuses. */
async function write(url) {
  const line = `{"${hostile}",job="<script>alert(2)</script>"} 1\n`;
  const type = { 'Content-Type': 'text/plain; version=1.0.0' };
  const response = await fetch(url + 'api/v1/import/prometheus', { method: 'POST', headers: type, body: line });
  if (!response.ok) faults.push(`the hostile metric was refused: ${await response.text()}`);
  await fetch(url + 'api/v1/write', { method: 'POST', headers: { 'User-Agent': hostile }, body: 'x' });
}

/** open holds the requests of each watched page that have no response yet. */
const open = new WeakMap();

function watch(page, name) {
  track(page);
  page.on('console', (m) => m.type() === 'error' && faults.push(`${name()}: console: ${m.text()}`));
  page.on('pageerror', (e) => faults.push(`${name()}: ${e.stack}`));
  page.on('requestfailed', (r) => r.failure()?.errorText !== 'net::ERR_ABORTED' && faults.push(`${name()}: ${r.url()}: ${r.failure()?.errorText}`));
  page.on('response', (r) => r.status() >= 400 && faults.push(`${name()}: ${r.url()}: ${r.status()}`));
  page.on('dialog', (d) => { faults.push(`${name()}: a dialog: ${d.message()}`); d.dismiss(); });
}

function track(page) {
  const requests = new Set();
  open.set(page, requests);
  page.on('request', (r) => requests.add(r));
  page.on('requestfinished', (r) => requests.delete(r));
  page.on('requestfailed', (r) => requests.delete(r));
}

async function check(page, name) {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ['violations'] }));
  for (const v of violations.filter((v) => ['serious', 'critical'].includes(v.impact))) {
    faults.push(`${name}: axe: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + n.failureSummary?.replace(/\s+/g, ' ')).join(' | ')}`);
  }
  const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (over > 0) faults.push(`${name}: the page is ${over} px wider than the window`);
}

/** settle waits until no request is open, nothing says that it loads, and two frames are painted. */
async function settle(page) {
  await page.waitForSelector('h1', { state: 'attached' });
  do {
    await page.waitForFunction(async () => {
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return !document.querySelector('[aria-busy=true]')
        && ![...document.querySelectorAll('.quiet')].some((e) => /^(Loading|Evaluating) …$/.test(e.textContent));
    });
  } while (open.get(page)?.size);
}

const looks = [
  { look: 'light', width: 1280, height: 800 }, { look: 'dark', width: 1280, height: 800 }, { look: 'narrow', width: 360, height: 740 },
  // 200 % zoom shows 640 of 1280 px.
  { look: 'zoomed', width: 640, height: 400 },
];

/** visitAll opens the pages of a list one after another, in one size and colour. */
async function visitAll(browser, url, { look, width, height }, list) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: look === 'dark' ? 'dark' : 'light', reducedMotion: 'reduce' });
  const page = await context.newPage();
  let name = '';
  watch(page, () => name);
  for (const visit of list) {
    name = `${visit.name} ${look}`;
    const undo = await visit.before?.(page);
    await page.goto(`${url}#/${visit.hash}`);
    await settle(page);
    if (visit.act) {
      await visit.act(page, (text) => faults.push(`${name}: ${text}`), look);
      await settle(page);
    }
    await check(page, name);
    await undo?.();
    if (folder) await page.screenshot({ path: join(folder, `${visit.name}-${look}.png`), fullPage: true });
    if (images && visit.image && look === 'light') await page.screenshot({ path: join(images, `${visit.image}.png`) });
  }
  await context.close();
}

/** sideBySide runs jobs that share no state, as many at a time as keep two cores busy while some of them wait. */
async function sideBySide(jobs) {
  const left = [...jobs];
  await Promise.all([1, 2, 3].map(async () => {
    for (let job = left.shift(); job; job = left.shift()) await job();
  }));
}

async function checkAll(browser, url, guarded, shared) {
  const list = visits(hostile).filter((v) => v.name.includes(chosen));
  const helpers = { check, settle, track, folder };
  await sideBySide([
    ...looks.map((look) => () => visitAll(browser, url, look, list.filter((v) => !v.alone))),
    () => checkLogIn(browser, guarded, faults, helpers),
    () => checkDoctor(browser, shared, faults, helpers),
    ...trials.filter((t) => t.name.includes(chosen)).map((trial) => () => tryOut(trial, browser, url, faults)),
  ]);
  for (const look of looks) await visitAll(browser, url, look, list.filter((v) => v.alone));
}

const data = mkdtempSync(join(tmpdir(), 'halite-ui-'));
if (folder) mkdirSync(folder, { recursive: true });
const [browser, demo, guarded, shared] = await Promise.all([
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  }),
  start(program, ['demo', `--storage.path=${data}/demo`, '--web.enable-admin-api', '--web.route-prefix=/halite'], 'Demo:'),
  start(program, ['serve', `--storage.path=${data}/guarded`, ...accessFlags(data)], ''),
  start(program, ['serve', `--storage.path=${data}/shared`, '--tenants', ...accessFlags(data)], ''),
]);
const url = demo.url + 'halite/';
try {
  await write(url);
  await checkAll(browser, url, guarded.url, shared.url);
} finally {
  await Promise.all([browser.close(), demo.stop(), guarded.stop(), shared.stop()]);
  rmSync(data, { recursive: true });
}
for (const f of [...new Set(faults)]) console.error(f);
if (faults.length) process.exit(1);
console.log(`${visits(hostile).length} visits in four sizes and colours: no fault`);
