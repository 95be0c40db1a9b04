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
import { checkTrouble } from './trouble.mjs';
import { visits } from './visits.mjs';

// IMAGES is a folder that takes the pictures of the documents.
const images = process.env.IMAGES;
// VISITS chooses the visits whose names contain it.
const chosen = process.env.VISITS ?? '';
const [program, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const faults = [];
const hostile = '<img src=x onerror=alert(1)>';

/** write sends samples of a metric with a hostile name, and one that the server refuses. */
async function write(url) {
  const line = `{"${hostile}",job="<script>alert(2)</script>"} 1\n`;
  const type = { 'Content-Type': 'text/plain; version=1.0.0' };
  const answer = await fetch(url + 'api/v1/import/prometheus', { method: 'POST', headers: type, body: line });
  if (!answer.ok) faults.push(`the hostile metric was refused: ${await answer.text()}`);
  await fetch(url + 'api/v1/write', { method: 'POST', headers: { 'User-Agent': hostile }, body: 'x' });
}

function watch(page, name) {
  page.on('console', (m) => m.type() === 'error' && faults.push(`${name()}: console: ${m.text()}`));
  page.on('pageerror', (e) => faults.push(`${name()}: ${e.stack}`));
  page.on('requestfailed', (r) => r.failure()?.errorText !== 'net::ERR_ABORTED' && faults.push(`${name()}: ${r.url()}: ${r.failure()?.errorText}`));
  page.on('response', (r) => r.status() >= 400 && faults.push(`${name()}: ${r.url()}: ${r.status()}`));
  page.on('dialog', (d) => { faults.push(`${name()}: a dialog: ${d.message()}`); d.dismiss(); });
}

async function check(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  for (const v of violations.filter((v) => ['serious', 'critical'].includes(v.impact))) {
    faults.push(`${name}: axe: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.target.join(' ') + ' ' + n.failureSummary?.replace(/\s+/g, ' ')).join(' | ')}`);
  }
  const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (over > 0) faults.push(`${name}: the page is ${over} px wider than the window`);
}

async function settle(page) {
  await page.waitForSelector('h1', { state: 'attached' });
  await page.waitForFunction(() => !document.querySelector('[aria-busy=true]')
    && ![...document.querySelectorAll('.quiet')].some((e) => /^(Loading|Evaluating) …$/.test(e.textContent)));
  await page.waitForTimeout(150);
}

async function visitAll(browser, url) {
  const looks = [
    { look: 'light', width: 1280, height: 800 }, { look: 'dark', width: 1280, height: 800 }, { look: 'narrow', width: 360, height: 740 },
    // 200 % zoom shows 640 of 1280 px.
    { look: 'zoomed', width: 640, height: 400 },
  ];
  for (const { look, width, height } of looks) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: look === 'dark' ? 'dark' : 'light', reducedMotion: 'reduce' });
    const page = await context.newPage();
    let name = '';
    watch(page, () => name);
    for (const visit of visits(hostile).filter((v) => v.name.includes(chosen))) {
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
}

const data = mkdtempSync(join(tmpdir(), 'halite-ui-'));
if (folder) mkdirSync(folder, { recursive: true });
const demo = await start(program, ['demo', `--storage.path=${data}/demo`, '--web.enable-admin-api', '--web.route-prefix=/halite'], 'Demo:');
const url = demo.url + 'halite/';
const guarded = await start(program, ['serve', `--storage.path=${data}/guarded`, ...accessFlags(data)], '');
const shared = await start(program, ['serve', `--storage.path=${data}/shared`, '--tenants', ...accessFlags(data)], '');
try {
  await write(url);
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  await visitAll(browser, url);
  await checkTrouble(browser, url, faults);
  await checkLogIn(browser, guarded.url, faults, check, folder);
  await checkDoctor(browser, shared.url, faults, check, folder);
  await browser.close();
} finally {
  await Promise.all([demo.stop(), guarded.stop(), shared.stop()]);
  rmSync(data, { recursive: true });
}
for (const f of [...new Set(faults)]) console.error(f);
if (faults.length) process.exit(1);
console.log(`${visits(hostile).length} visits in four sizes and colours: no fault`);
