// Checks the pages while something is wrong: the browser stores nothing, the server is slow or gone, a link is nonsense.

/** trials have pages of their own. They change no state of the server. */
export const trials = [noStorage, slowServer, badEnd, severalExpressions, hiddenSeries, badResponse, stoppedServer, backButton,
  emptyLists, badWindow, viewInURL, manySeries, tabKeys, followedLink, printed, forcedColours];

/** tryOut opens a page of a server whose responses the trial delays or changes. */
export async function tryOut(trial, browser, url, faults) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const fault = (text) => faults.push(`${trial.name}: ${text}`);
  page.on('pageerror', (e) => fault(e.stack));
  await trial(page, url, fault, (text) => page.getByText(text).first().waitFor({ timeout: 10_000 })
    .catch(() => fault(`the page does not show ${text}`))).catch((e) => fault(e.message));
  await context.close();
}

/** noStorage runs a query in a browser that forbids storage. */
async function noStorage(page, url, fault, shows) {
  await page.addInitScript(() => Object.defineProperty(window, 'localStorage', {
    get() { throw new DOMException('Access is denied', 'SecurityError'); },
  }));
  await page.goto(`${url}#/query?expr=up`);
  await shows(/\d+ series in/);
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByTitle('Change the colours').click();
  if (!(await page.locator('html').getAttribute('data-theme'))) fault('the page has no colours');
}

/** slowServer delays /metrics for longer than the polling interval of the page. */
async function slowServer(page, url, _fault, shows) {
  await page.route('**/metrics', async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 2500));
    await route.continue().catch(() => undefined);
  });
  await page.goto(url);
  await shows('Samples a second');
}

/** badEnd opens links whose end is no date. */
async function badEnd(page, url, _fault, shows) {
  for (const end of ['1e20', 'x']) {
    await page.goto('about:blank');
    await page.goto(`${url}#/query?expr=up&end=${end}`);
    await shows(/\d+ series in/);
  }
}

/** severalExpressions runs two expressions without labels, and one that fails. */
async function severalExpressions(page, url, fault, shows) {
  await page.goto(`${url}#/query?${new URLSearchParams([['expr', 'sum(up)'], ['expr', 'sum('], ['expr', 'count(up)']])}`);
  await shows('A: 1 series in');
  await shows('B: This failed.');
  const names = await page.locator('.legend button span:not(.quiet)').allInnerTexts();
  if (names.join() !== 'A {},C {}') fault(`the legend names ${names}`);
  await page.getByRole('button', { name: 'Remove expression 2' }).click();
  await page.waitForURL(/expr=sum%28up%29&expr=count/);
  if (await page.locator(':focus').innerText() !== 'Add an expression') fault('the focus is lost with the expression');
  await page.goto('about:blank');
  await page.goto(`${url}#/query?expr=sum(`);
  await shows('This failed.');
  if (await page.getByRole('button', { name: 'Download CSV' }).count()) fault('a failed query offers a download');
}

/** hiddenSeries hides a series. The series of another expression are shown. */
async function hiddenSeries(page, url, fault) {
  await page.goto(`${url}#/query?expr=up`);
  const first = page.locator('.legend button').first();
  await first.click();
  if (await first.getAttribute('aria-pressed') !== 'false') fault('a click hides no series');
  await page.evaluate(() => (location.hash = '#/query?expr=up*2'));
  await page.getByText(/^\{cluster=/).first().waitFor();
  if (await first.getAttribute('aria-pressed') !== 'true') fault('a series of another expression is hidden');
}

/** badResponse opens a page whose response lacks a part, and one whose response is not JSON. Other pages still work. */
async function badResponse(page, url, fault, shows) {
  page.removeAllListeners('pageerror');
  await page.route('**/status/senders', (route) => route.fulfill({ json: { status: 'success', data: {} } }));
  await page.route('**/status/retention*', (route) => route.fulfill({ contentType: 'text/html', body: '<h1>Log in to the proxy</h1>' }));
  await page.goto(`${url}#/senders`);
  await shows('The page has a fault');
  await page.locator('nav a', { hasText: 'Retention' }).click();
  await shows('The response is not JSON.');
  await page.locator('nav a', { hasText: 'Explore' }).click();
  await shows(/\d+ metrics/);
  await page.evaluate(() => (location.hash = '#/nothing'));
  await shows('There is no page “nothing”.');
  if (await page.locator('nav a[aria-current]').count()) fault('the navigation marks a page although there is none');
}

/** stoppedServer loses the server while a page is open, and before the page knows its user. */
async function stoppedServer(page, url, fault, shows) {
  await page.goto(url);
  await shows('The server is ready');
  await page.route('**/api/**', (route) => route.abort());
  await shows('The server does not answer.');
  if (await page.getByText('The server is ready').count()) fault('the page says that a stopped server is ready');
  await page.reload();
  await shows('The server does not answer.');
  await page.unroute('**/api/**');
  await shows('The server is ready');
}

/** backButton goes back to a state of fields that the URL holds. */
async function backButton(page, url, fault) {
  await page.goto(`${url}#/retention`);
  const age = page.getByLabel('raw');
  await age.fill('1d');
  await page.keyboard.press('Enter');
  await page.getByText('Would free').waitFor();
  await page.goBack();
  await page.getByText('Would free').waitFor({ state: 'detached' });
  if (await age.inputValue()) fault(`the age to try is still ${await age.inputValue()}`);
}

/** emptyLists searches a metric that does not exist, then opens a server without metrics. */
async function emptyLists(page, url, _fault, shows) {
  await page.goto(`${url}#/explore?search=no+such+metric`);
  await shows('No metric has this type and contains this text.');
  await page.route('**/__name__/values*', (route) => route.fulfill({ json: { status: 'success', data: [] } }));
  await page.reload();
  await shows('There are no metrics yet.');
}

/** badWindow opens links to windows and tables that do not exist. */
async function badWindow(page, url, fault, shows) {
  await page.goto(`${url}#/keymap?range=-5&end=x`);
  await shows('Hottest key ranges');
  const chosen = () => page.locator('label', { hasText: /^Time/ }).locator('option:checked').innerText();
  if (await chosen() !== '6 h') fault(`the key map shows ${await chosen()}`);
  await page.evaluate(() => (location.hash = '#/tablets?table=nothing&range=x'));
  await shows('Tablets of data');
  if (await chosen() !== '1 h') fault(`the tablets show ${await chosen()}`);
}

/** viewInURL hides a series, asks for exemplars and sorts a table. A reload keeps this, and the back button undoes it. */
async function viewInURL(page, url, fault, shows) {
  await page.goto(`${url}#/query?expr=up`);
  const first = page.locator('.legend button').first();
  await first.click();
  await page.getByLabel('Exemplars').check();
  await page.reload();
  await first.waitFor();
  if (await first.getAttribute('aria-pressed') !== 'false') fault('a reload shows a hidden series');
  if (!(await page.getByLabel('Exemplars').isChecked())) fault('a reload forgets the exemplars');
  await page.goBack();
  if (await page.getByLabel('Exemplars').isChecked()) fault('the back button keeps the exemplars');
  await page.goBack();
  if (await first.getAttribute('aria-pressed') !== 'true') fault('the back button keeps a series hidden');
  await page.getByRole('tab', { name: 'Table' }).click();
  await page.getByRole('button', { name: 'Value' }).click();
  await page.reload();
  await shows(/\d+ series in/);
  if (await page.locator('th[aria-sort=descending]').innerText() !== 'Value ▾') fault('a reload forgets the order of the table');
}

/** manySeries shows all of 1,000 series, one with a label of 10 kB. The legend lists some of them, and the graph stays where it is. */
async function manySeries(page, url, fault, shows) {
  const now = Math.floor(Date.now() / 1000);
  const result = Array.from({ length: 1000 }, (_, n) => ({ metric: { __name__: 'wide', host: `host-${n}` }, values: [[now - 600, '1'], [now - 300, String(n)]] }));
  result[0] = { metric: { __name__: 'wide', host: 'long'.repeat(2500) }, values: Array.from({ length: 241 }, (_, n) => [now - n * 15, '1']) };
  await page.route('**/query_range', (route) => route.fulfill({ json: { status: 'success', data: { resultType: 'matrix', result } } }));
  await page.goto(`${url}#/query?expr=wide`);
  await page.getByRole('button', { name: 'Show all' }).click();
  await shows('100 of 1000 series are listed.');
  const rows = page.locator('.legend li');
  if (await rows.count() !== 100) fault(`the legend has ${await rows.count()} rows`);
  if ((await rows.first().boundingBox()).height > 200) fault('a long label fills the legend');
  await page.getByLabel('Search the legend').fill('host-999');
  await shows('1 of 1 series are listed.');
  const graph = page.getByRole('img', { name: 'Graph of 1000 series' });
  const before = await graph.boundingBox();
  await page.mouse.move(before.x + 700, before.y + before.height - 50);
  await page.waitForFunction(() => document.querySelector('.readout').textContent.includes('long'));
  const { y } = await graph.boundingBox();
  if (y !== before.y) fault(`a long label moves the graph by ${y - before.y} px`);
}

/** tabKeys moves over the views by keyboard. Each view is the panel of its tab. */
async function tabKeys(page, url, fault) {
  await page.goto(`${url}#/query`);
  await page.getByRole('tab', { name: 'Graph' }).focus();
  for (const [key, name] of [['End', 'Plan'], ['ArrowRight', 'Graph'], ['ArrowLeft', 'Plan'], ['Home', 'Graph']]) {
    await page.keyboard.press(key);
    const tab = page.getByRole('tab', { name, selected: true });
    await tab.waitFor({ timeout: 10_000 }).catch(() => fault(`${key} does not lead to ${name}`));
    const panel = await tab.getAttribute('aria-controls');
    if (!(await page.getByRole('tabpanel', { name }).and(page.locator(`#${panel}`)).count())) fault(`${name} controls no panel`);
  }
}

/** followedLink follows a link far down a page, and goes back. */
async function followedLink(page, url, fault) {
  await page.setViewportSize({ width: 360, height: 300 });
  await page.goto(`${url}#/explore`);
  const card = page.locator('.cards a').last();
  await card.scrollIntoViewIfNeeded();
  const scrolled = await page.evaluate(() => scrollY);
  await card.click();
  await page.getByRole('link', { name: 'All metrics' }).waitFor();
  if (await page.evaluate(() => scrollY)) fault(`a link from ${scrolled} px down does not lead to the top of its page`);
}

/** printed prints a dark page with dark text on light paper. */
async function printed(page, url, fault, shows) {
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.goto(`${url}#/query?expr=up`);
  await shows(/\d+ series in/);
  const theme = () => page.locator('html').getAttribute('data-theme');
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  if (await theme() !== 'light') fault('a dark page prints light text');
  await page.evaluate(() => dispatchEvent(new Event('afterprint')));
  if (await theme() !== 'dark') fault('a dark page stays light after printing');
  await page.emulateMedia({ media: 'print' });
  if (await page.locator('nav').isVisible()) fault('the navigation is printed');
}

/** forcedColours opens a page in the colours of the system, in which only a colour of its own marks the chosen tab. */
async function forcedColours(page, url, fault) {
  await page.emulateMedia({ forcedColors: 'active' });
  await page.goto(`${url}#/query`);
  const ground = (name) => page.getByRole('tab', { name }).evaluate((e) => getComputedStyle(e).backgroundColor);
  if (await ground('Graph') === await ground('Table')) fault('the chosen tab looks like the others');
}
