// The pages that the browser test opens, each with what it does there. alone marks a visit that changes the server.

const rate = 'sum by (instance) (rate(demo_requests_total[5m]))';
const query = (expr, more = '') => `query?${new URLSearchParams({ expr })}${more}`;

const base64url = (text) => Buffer.from(text).toString('base64url');

/** expectText waits for a text, because the page keeps the data of the visit before until it has its own. */
async function expectText(page, fault, text) {
  await page.waitForFunction((t) => document.body.innerText.includes(t), text, { timeout: 10_000 })
    .catch(() => fault(`the page does not show ${JSON.stringify(text)}`));
}

export function visits(hostile) {
  const shows = (text) => (page, fault) => expectText(page, fault, text);
  const buckets = 'sum by (le) (rate(app_request_duration_seconds_bucket[5m]))';
  return [
    { name: 'overview', hash: '', act: shows(hostile) },
    { name: 'query', hash: query('sum by (region) (rate(demo_requests_total[5m]))', '&range=6h'), image: 'ui-query' },
    { name: 'query-stacked', hash: query(rate, '&range=6h&tab=stacked') },
    { name: 'query-heatmap', hash: query(buckets, '&range=6h&tab=heatmap') },
    { name: 'query-table', hash: query(`last_over_time({job="<script>alert(2)</script>"}[1h])`, '&tab=table'), act: shows(hostile) },
    { name: 'query-raw', hash: query('demo_requests_total{instance=~"host-0000.*"}', '&tab=raw&range=5m') },
    { name: 'query-plan', hash: query(rate, '&range=6h&tab=plan'), act: shows('aggregate sum by (instance)') },
    { name: 'query-type', hash: 'query', act: typeQuery },
    { name: 'explore', hash: 'explore', act: shows(hostile) },
    { name: 'explore-metric', hash: 'explore?metric=app_requests_total&label=service', act: shows('Rate a second by service') },
    { name: 'explore-hostile', hash: `explore?${new URLSearchParams({ metric: hostile })}`, act: shows(hostile) },
    { name: 'keymap', hash: 'keymap', act: pinCell },
    { name: 'keymap-two', hash: 'keymap?second=read_rows&range=3600', act: noPinnedCell },
    { name: 'keymap-demo', hash: `keymap?from=${base64url('demo_requests_total#')}&to=${base64url('demo_requests_total$')}`, act: shows('sequential'), image: 'ui-keymap' },
    { name: 'keymap-pixels', hash: 'keymap?metric=errors', before: mockMap, act: checkPixels },
    { name: 'compare', hash: `compare?${new URLSearchParams({ rules: '[{"pattern":"*","salts":16,"basis":"tags"}]' })}`, act: compareKeys },
    { name: 'compare-layout', hash: 'compare?layout=static-key', act: shows('Hottest of 16 ranges') },
    { name: 'cardinality', hash: 'cardinality?limit=1000', act: shows(hostile) },
    { name: 'cardinality-metric', hash: `cardinality?${new URLSearchParams({ metric: hostile, label: 'job' })}`, act: shows('<script>alert(2)</script>') },
    { name: 'cardinality-unread', hash: 'cardinality?unread=true&by=new', act: shows('not read') },
    { name: 'tablets', hash: 'tablets?range=21600', act: shows('Load of the tablets of data') },
    { name: 'tablets-hot', hash: 'tablets', before: mockHotTablets(hotReport), act: shows('http_requests_total#03#instance=web-9:80') },
    { name: 'tablets-hot-error', hash: 'tablets?range=86400', before: mockHotTablets({ tablets: [], error: 'The account lacks a role.' }), act: shows('There is no report. The account lacks a role.') },
    { name: 'tablets-key', hash: `tablets?${new URLSearchParams({ rules: '[{"pattern":"*","salts":2,"basis":"tags"}]' })}`, act: writeSeries(hostile) },
    { name: 'retention', hash: 'retention?raw=1d', act: shows('Would free') },
    { name: 'queries', hash: 'queries?by=count', act: blockQuery, alone: true },
    { name: 'doctor', hash: 'doctor?level=ok', before: mockDoctor(hostile), act: shows('Run tsdb <b>now</b>') },
    { name: 'senders', hash: 'senders', act: shows(hostile) },
    { name: 'status', hash: 'status?flag=retention', act: async (page, fault) => { await expectText(page, fault, '--storage.retention'); await expectText(page, fault, 'API of Prometheus'); } },
  ];
}

/** hotReport has the form of the response on Bigtable, which the demo does not use. */
const hotReport = {
  tablets: [{
    table: 'data', startKey: 'http_requests_total#03#instance=web-1:80,job=web#9501170', endKey: 'http_requests_total#03#instance=web-9:80,job=web#9501881',
    startMs: 1763000000000, endMs: 1763000060000, cpuPercent: 71.5,
  }],
};

/** mockHotTablets adds a report of hot tablets to the response of the server. */
function mockHotTablets(report) {
  return async (page) => {
    await page.route('**/status/tablets*', async (route) => {
      const response = await (await route.fetch()).json();
      await route.fulfill({ json: { ...response, data: { ...response.data, hotTablets: report } } });
    });
    return () => page.unroute('**/status/tablets*');
  };
}

/** compareKeys compares with rules from the field, and moves the cursor of both maps. */
async function compareKeys(page, fault) {
  await page.getByLabel('Schema rules, as JSON').fill('[{"pattern":"*","salts":4,"basis":"tags"}]');
  await page.getByRole('button', { name: 'Compare', exact: true }).click();
  await page.waitForURL(/salts%22%3A4/);
  await expectText(page, fault, 'Hottest of 16 ranges');
  await page.locator('canvas').first().focus();
  await page.keyboard.press('ArrowLeft');
  const times = await page.locator('[aria-live=polite]').allInnerTexts();
  if (times.length !== 2 || times[0].slice(0, 16) !== times[1].slice(0, 16)) fault(`the maps are not linked: ${JSON.stringify(times)}`);
}

/** writeSeries writes a series into the encoder of keys, and reads its keys. */
function writeSeries(hostile) {
  return async (page, fault) => {
    await page.getByRole('textbox', { name: 'Series' }).fill(`{"${hostile}",job="a"}`);
    await page.waitForURL(/series=/);
    await page.getByRole('region', { name: 'Under the other rules' }).getByText('job=a').first().waitFor();
    await expectText(page, fault, hostile);
    await expectText(page, fault, 'of 2: The metric and all labels decide it.');
  };
}

/** blockQuery blocks a query of the list, and removes the rule again. */
async function blockQuery(page, fault) {
  await expectText(page, fault, 'Limits of queries in the configuration file');
  await page.evaluate(() => fetch('api/v1/query_range?query=sum(rate(demo_requests_total[5m]))&start=1&end=60&step=15'));
  await page.reload();
  await page.getByRole('link', { name: /^Plan of/ }).first().waitFor();
  await page.getByRole('button', { name: 'Block' }).last().click();
  await page.getByLabel('Reason, for its users').fill('<b>too</b> heavy');
  await page.keyboard.press('Enter');
  const taken = page.getByRole('button', { name: /^Remove the rule added-/ });
  await taken.waitFor();
  await expectText(page, fault, '<b>too</b> heavy');
  await taken.click();
  await taken.waitFor({ state: 'detached' });
}

/** typeQuery writes an expression by keyboard alone, takes a completion, and runs it. */
async function typeQuery(page, fault) {
  await page.waitForSelector('.cm-content');
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press('Tab');
    const inside = await page.evaluate(() => !!document.activeElement?.shadowRoot?.activeElement?.classList.contains('cm-content'));
    if (inside) break;
  }
  await page.keyboard.type('demo_req', { delay: 20 });
  await page.waitForSelector('.cm-tooltip-autocomplete').catch(() => fault('there is no completion'));
  // The editor ignores keys in the first 75 ms of a list, so that a fast typist takes nothing by chance.
  await page.waitForTimeout(100);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.cm-tooltip-autocomplete', { state: 'detached' });
  await page.keyboard.press('Control+Enter');
  await page.waitForURL(/demo_requests_total/, { timeout: 10_000 }).catch(() => fault('the URL does not hold the expression'));
  await expectText(page, fault, 'demo_requests_total');
}

/** noPinnedCell follows pinCell: a link to another window closes the details of the cell. */
async function noPinnedCell(page, fault) {
  await expectText(page, fault, 'Rows read');
  if (await page.getByLabel('Details of a cell').count()) fault('the details of a cell of the window before are still there');
}

/** pinCell moves the cursor of the key map by keyboard and shows the details of a cell. */
async function pinCell(page, fault) {
  await page.waitForSelector('canvas');
  await page.focus('canvas');
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowLeft']) await page.keyboard.press(key);
  const text = await page.locator('[aria-live=polite]').innerText();
  if (!/\d{4}-\d\d-\d\d .*cells\/s/.test(text)) fault(`the cursor says ${JSON.stringify(text)}`);
  await page.keyboard.press('Enter');
  await page.waitForSelector('[aria-label="Details of a cell"]');
}

/** mockDoctor answers with a verdict of each level, with a hostile text. */
function mockDoctor(hostile) {
  return async (page) => {
    const verdict = (level) => ({
      id: `check-${level}`, level, subject: hostile, evidence: 'A <b>figure</b> of 42 %.', advice: 'Run tsdb <b>now</b>.', command: 'tsdb check', docs: 'docs/doctor.md#x',
    });
    const data = { ready: true, checkedMs: Date.now(), verdicts: ['ok', 'info', 'warn', 'critical'].map(verdict) };
    await page.route('**/status/doctor', (route) => route.fulfill({ contentType: 'application/json', body: JSON.stringify({ status: 'success', data }) }));
    return () => page.unroute('**/status/doctor');
  };
}

/** mockedRows and mockedCols are the size of a map with known values. */
const mockedRows = 4;
const mockedCols = 5;

/** mockMap answers with a map whose cell n, column by column, has the value 1.3 to the power n. */
async function mockMap(page) {
  const key = (r) => Buffer.from('row' + r).toString('base64url');
  const now = Math.floor(Date.now() / 1000);
  const data = {
    metric: 'errors', unit: 'errors/s', columns: Array.from({ length: mockedCols + 1 }, (_, c) => now - 3600 + c * 600), missing: [],
    rows: Array.from({ length: mockedRows }, (_, r) => ({ key: 'row' + r, start: key(r), labels: ['metric:one'], border: '' })),
    values: { encoding: 'json', shape: [mockedCols, mockedRows], data: Array.from({ length: mockedCols * mockedRows }, (_, n) => 1.3 ** n) },
    tablets: [], rowTotals: [1, 2, 3, 4], colTotals: [1, 2, 3, 4, 5], max: 1, p99: 1, approximate: false, scaled: true,
    diagnostics: [{ id: 'hot-range', level: 'danger', time: [now - 1800, now - 600], key: ['row1', 'row2'], range: [key(1), key(2)], share: 0.7, text: 'A <b>hot</b> range.' }],
  };
  const json = JSON.stringify({ status: 'success', data });
  await page.route('**/keyviz/heatmap*', (route) => route.fulfill({ contentType: 'application/json', body: json }));
  return () => page.unroute('**/keyviz/heatmap*');
}

/** checkPixels reads the 20 cells of the map back: a larger value is lighter on a dark page, and darker on a light one. */
async function checkPixels(page, fault, look) {
  await expectText(page, fault, 'A <b>hot</b> range.');
  // A cursor would cover cells. It goes when the mouse leaves the map.
  await page.hover('canvas');
  await page.mouse.move(5, 5);
  await page.waitForTimeout(200);
  const light = await page.evaluate(([cols, rows]) => {
    const canvas = document.querySelector('canvas');
    const ratio = canvas.width / canvas.clientWidth;
    const sums = canvas.clientWidth > 500 ? 44 : 0;
    const [w, h] = [canvas.clientWidth - sums, canvas.clientHeight - sums - 20];
    const ctx = canvas.getContext('2d');
    return Array.from({ length: cols * rows }, (_, n) => {
      const [c, r] = [Math.floor(n / rows), n % rows];
      const [red, green, blue] = ctx.getImageData(((c + 0.5) / cols) * w * ratio, ((r + 0.5) / rows) * h * ratio, 1, 1).data;
      return 0.3 * red + 0.59 * green + 0.11 * blue;
    });
  }, [mockedCols, mockedRows]);
  const sign = look === 'dark' ? 1 : -1;
  for (let n = 1; n < light.length; n++) {
    if ((light[n] - light[n - 1]) * sign <= 0) fault(`cell ${n} has lightness ${light[n]}, the smaller one before it ${light[n - 1]}`);
  }
}
