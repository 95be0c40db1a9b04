// The pages that the browser test opens, each with what it does there.

const rate = 'sum by (instance) (rate(demo_requests_total[5m]))';
const query = (expr, more = '') => `query?${new URLSearchParams({ expr })}${more}`;

async function expectText(page, fault, text) {
  const body = await page.locator('body').innerText();
  if (!body.includes(text)) fault(`the page does not show ${JSON.stringify(text)}`);
}

export function visits(hostile) {
  return [
    { name: 'overview', hash: '', act: (page, fault) => expectText(page, fault, hostile) },
    { name: 'query', hash: query(rate, '&range=6h'), crop: true },
    { name: 'query-stacked', hash: query(rate, '&range=6h&tab=stacked') },
    { name: 'query-table', hash: query(`{job="<script>alert(2)</script>"}`, '&tab=table'), act: (page, fault) => expectText(page, fault, hostile) },
    { name: 'query-raw', hash: query('demo_requests_total{instance=~"host-0000.*"}', '&tab=raw&range=5m') },
    { name: 'query-type', hash: 'query', act: typeQuery },
  ];
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
  await page.waitForTimeout(200);
  await page.keyboard.press('Enter');
  await page.waitForTimeout(100);
  await page.keyboard.press('Control+Enter');
  await page.waitForTimeout(500);
  await expectText(page, fault, 'demo_requests_total');
  if (!page.url().includes('demo_requests_total')) fault('the URL does not hold the expression');
}
