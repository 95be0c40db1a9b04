// Checks the log-in against a server with tokens.
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const tokens = { full: 'token-of-the-operator-0123456789', part: 'token-of-a-team-0123456789abcdef' };

/** accessFlags writes an access file and returns the flags that use it. */
export function accessFlags(folder) {
  const hash = (text) => createHash('sha256').update(text).digest('hex');
  const path = join(folder, 'access.yml');
  writeFileSync(path, `tokens:
  - {name: operator, scopes: [read, admin], sha256: ${hash(tokens.full)}}
  - {name: team, scopes: [read], sha256: ${hash(tokens.part)}, match: '{team="a"}'}
`);
  return [`--web.access-file=${path}`];
}

/** checkLogIn logs in with a wrong token, with one that sees all, and with one that sees some series only. */
export async function checkLogIn(browser, url, faults, check, folder) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const fault = (text) => faults.push(`log-in: ${text}`);
  const expect = (text) => page.getByText(text).first().waitFor({ timeout: 10_000 }).catch(() => fault(`the page does not show ${text}`));
  const links = () => page.locator('nav a').allInnerTexts();
  page.on('pageerror', (e) => fault(e.stack));
  await page.goto(url);
  await expect('Password');
  await check(page, 'log-in');
  if (folder) await page.screenshot({ path: join(folder, 'login.png') });
  if ((await links()).length) fault('the navigation shows pages before the log-in');
  await logIn(page, 'wrong');
  await expect('the token is unknown');
  await logIn(page, tokens.full);
  await expect('The server is ready');
  if (!(await links()).includes('Status')) fault('the operator does not see the page Status');
  await page.route('**/status/doctor', (route) => route.fulfill({ status: 403, contentType: 'application/json', body: '{"status":"error","error":"no"}' }));
  await page.evaluate(() => (location.hash = '#/doctor'));
  await expect('need a token with the scope admin');
  if (await page.getByRole('alert').count()) fault('the page Doctor shows an error to a user without the scope admin');
  await page.unroute('**/status/doctor');
  await page.evaluate(() => (location.hash = '#/'));
  await page.getByRole('button', { name: 'Log out' }).click();
  await expect('Password');
  await logIn(page, tokens.part);
  await page.waitForSelector('.exprs');
  if ((await links()).join() !== 'Query,Explore') fault(`a restricted user sees ${await links()}`);
  await page.evaluate(() => (location.hash = '#/status'));
  await expect('You may not see or do this.');
  await context.close();
}

async function logIn(page, token) {
  await page.getByLabel('Token').fill(token);
  await page.keyboard.press('Enter');
}
