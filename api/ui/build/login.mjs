// Checks the log-in against a server with tokens.
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const tokens = { full: 'token-of-the-operator-0123456789', part: 'token-of-a-team-0123456789abcdef', reader: 'token-of-a-reader-0123456789abcd', writer: 'token-of-a-writer-0123456789abcd' };

/** accessFlags writes an access file and returns the flags that use it. */
export function accessFlags(folder) {
  const hash = (text) => createHash('sha256').update(text).digest('hex');
  const path = join(folder, 'access.yml');
  writeFileSync(path, `tokens:
  - {name: operator, scopes: [read, admin], sha256: ${hash(tokens.full)}}
  - {name: reader, scopes: [read], sha256: ${hash(tokens.reader)}}
  - {name: writer, scopes: [write], sha256: ${hash(tokens.writer)}}
  - {name: team, scopes: [read], sha256: ${hash(tokens.part)}, match: '{team="a"}'}
`);
  return [`--web.access-file=${path}`];
}

/** checkLogIn logs in with a wrong token, with one that sees all, and with one that sees some series only. */
export async function checkLogIn(browser, url, faults, { check, folder }) {
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
  if (await page.getByRole('button', { name: 'Log out' }).count()) fault('a user who is not logged in can log out');
  await logIn(page, tokens.writer);
  await expect('"writer" has the scopes write; this request needs read');
  // A token that the server does not know yet: the second attempt is the same one.
  await page.route('**/status/self', (route) => route.fulfill({ status: 401, json: { status: 'error', error: 'not known yet' } }), { times: 1 });
  await logIn(page, tokens.full);
  await expect('not known yet');
  await page.getByRole('button', { name: 'Log in' }).click();
  await expect('The server is ready');
  if (!(await links()).includes('Status')) fault('the operator does not see the page Status');
  await page.evaluate(() => (location.hash = '#/'));
  await page.getByRole('button', { name: 'Log out' }).click();
  await expect('Password');
  await logIn(page, tokens.part);
  await page.waitForSelector('.exprs');
  if ((await links()).join() !== 'Query,Explore') fault(`a restricted user sees ${await links()}`);
  await page.evaluate(() => (location.hash = '#/status'));
  await expect('You may not see or do this.');
  await expectForbidden(page, fault, 'may read only the series {team="a"}');
  await context.close();
}

/** checkDoctor opens the page Doctor of a server with tenants, which wants the scope admin for it. */
export async function checkDoctor(browser, url, faults, { check, settle, track, folder }) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const fault = (text) => faults.push(`doctor of a server with tenants: ${text}`);
  track(page);
  await page.goto(url);
  await logIn(page, tokens.reader);
  await page.locator('nav a', { hasText: 'Doctor' }).waitFor().catch(() => fault('the reader does not see the page Doctor'));
  await expectForbidden(page, fault, '"reader" has the scopes read; this request needs admin');
  await check(page, 'doctor without the scope');
  if (folder) await page.screenshot({ path: join(folder, 'doctor-forbidden.png') });
  await page.evaluate(() => (location.hash = '#/'));
  await page.getByRole('button', { name: 'Log out' }).click();
  await logIn(page, tokens.full);
  await page.locator('nav a', { hasText: 'Doctor' }).click();
  await page.getByRole('button', { name: 'Check again' }).waitFor().catch(() => fault('the operator does not see the verdicts'));
  // No page of the server needs a tenant, which the operator does not have.
  for (const link of await page.locator('nav a').all()) {
    await link.click();
    await settle(page);
    if (await page.locator('input[type=password]').count()) fault(`the page ${await page.title()} wants another log-in`);
  }
  if ((await page.locator('nav a').allInnerTexts()).includes('Query')) fault('a user without a tenant sees the page Query');
  await context.close();
}

/** expectForbidden opens the page Doctor, and wants the reason of the server in words, not as a failure. */
async function expectForbidden(page, fault, reason) {
  await page.evaluate(() => (location.hash = '#/doctor'));
  await page.getByText(reason).first().waitFor({ timeout: 10_000 }).catch(() => fault(`the page Doctor does not show ${reason}`));
  if (!(await page.getByText('need a token that may see all of it').count())) fault('the page Doctor does not say which token it needs');
  if (await page.getByRole('alert').count()) fault('the page Doctor shows an error to a user who may not see it');
}

async function logIn(page, token) {
  await page.getByLabel('Token').fill(token);
  await page.keyboard.press('Enter');
}
