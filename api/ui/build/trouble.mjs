// Checks the pages while something is wrong: the browser stores nothing, the server is slow.

/** checkTrouble opens pages of a server whose answers it holds back or changes. */
export async function checkTrouble(browser, url, faults) {
  for (const trial of [noStorage, slowServer]) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    const page = await context.newPage();
    const fault = (text) => faults.push(`${trial.name}: ${text}`);
    page.on('pageerror', (e) => fault(e.stack));
    await trial(page, url, fault, (text) => page.getByText(text).first().waitFor({ timeout: 10_000 })
      .catch(() => fault(`the page does not show ${text}`))).catch((e) => fault(e.message));
    await context.close();
  }
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

/** slowServer holds back metrics for longer than the page waits between two of them. */
async function slowServer(page, url, _fault, shows) {
  await page.route('**/metrics', async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 2500));
    await route.continue().catch(() => undefined);
  });
  await page.goto(url);
  await shows('Samples a second');
}
