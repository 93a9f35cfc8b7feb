// A person with a browser that runs no scripts. Prints what was seen as one JSON object.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [packages, executablePath, base, token, upload, volume, screenshots] = process.argv.slice(2);
const require = createRequire(join(packages, 'package.json'));
const puppeteer = require('puppeteer-core');
const axe = require('axe-core');

const SIZES = [{ size: 'desktop', width: 1280, height: 900 }, { size: 'phone', width: 360, height: 800 }];
const LOOKS = SIZES.flatMap((size) => ['light', 'dark'].map((scheme) => (
  { ...size, scheme, name: `${size.size}-${scheme}` }
)));
const seen = { pages: 0, titles: [], violations: [], overflows: [] };

const browser = await puppeteer.launch({
  executablePath,
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
});
const page = await browser.newPage();
await page.setJavaScriptEnabled(false);
const { origin } = new URL(base);

// Looks at the present page, at each size and in each colour scheme. The checks are scripts.
async function look() {
  seen.pages += 1;
  await page.setJavaScriptEnabled(true);
  const title = await page.$eval('h1', (heading) => heading.textContent);
  seen.titles.push(title);
  for (const { name, width, height, scheme } of LOOKS) {
    await page.setViewport({ width, height });
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
    await page.evaluate(axe.source);
    const found = await page.evaluate(async () => (await axe.run()).violations);
    for (const { id, nodes } of found) {
      seen.violations.push({ page: title, look: name, id, at: nodes.map((node) => node.html).slice(0, 3) });
    }
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    if (excess > 0) seen.overflows.push({ page: title, look: name, excess });
    // The header leaves the title where people see it first.
    const top = await page.$eval('h1', (heading) => heading.getBoundingClientRect().top + window.scrollY);
    if (top > height / 3) seen.overflows.push({ page: title, look: name, top });
    // A table may be wider than a phone, but not so wide that nobody finds its other columns.
    const wide = await page.evaluate(() => {
      const widths = [...document.querySelectorAll('.wide > table')].map((table) => table.offsetWidth);
      return Math.max(0, ...widths) - 2 * window.innerWidth;
    });
    if (wide > 0) seen.overflows.push({ page: title, look: name, wide });
    if (screenshots) {
      const file = `${String(seen.pages).padStart(2, '0')}-${name}.png`;
      await page.screenshot({ path: join(screenshots, file), fullPage: true });
    }
  }
  await page.setJavaScriptEnabled(false);
}

async function go(path) {
  await page.goto(new URL(path, base).href);
  await look();
}

// A page that is made by its scripts: it is there as soon as it has this element.
async function goWithScripts(path, selector) {
  await page.setJavaScriptEnabled(true);
  await page.goto('about:blank');                 // Another view of the same page would load nothing.
  await page.goto(new URL(path, base).href);
  await page.waitForSelector(selector);
  await look();
}

async function follow(text) {
  const link = await page.$(`::-p-xpath(//a[normalize-space()="${text}"])`);
  if (!link) throw new Error(`no link ${text} on ${page.url()}`);
  await Promise.all([page.waitForNavigation(), link.click()]);
  await look();
}

async function press(text, within = '') {
  const button = await page.$(`::-p-xpath(${within}//button[normalize-space()="${text}"])`);
  if (!button) throw new Error(`no button ${text} on ${page.url()}`);
  await Promise.all([page.waitForNavigation(), button.click()]);
  await look();
}

// Presses a button of the form that does this.
async function pressIn(action, text) {
  await press(text, `//form[input[@name="action"][@value="${action}"]]`);
}

// Puts the focus somewhere by the keyboard alone, as somebody without a mouse does.
async function tabTo(selector) {
  for (let presses = 0; presses < 20; presses += 1) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluateHandle(() => document.activeElement);
    if (await focused.evaluate((element, wanted) => element.matches(wanted), selector)) return;
  }
  throw new Error(`the keyboard does not reach ${selector} on ${page.url()}`);
}

async function type(selector, text) {
  await page.$eval(selector, (field) => { field.value = ''; });
  await page.type(selector, text);
}

await go('rest/fcr:forms');                       // It offers nothing to a stranger.
await follow('Account');
await type('#token', 'no such token');
await press('Sign in');
await type('#token', token);
await press('Sign in');
await go('rest/');
await follow('Change');
await type('#create-title', 'Letters from <b>Rome</b>');
await press('Add');
const letters = page.url();
await follow('Change');
await (await page.$('#upload-file')).uploadFile(upload);
await press('Upload');
await follow('Check the bytes');
await go(letters);
await follow('Change');
await page.click('summary');
await type('#members-title', 'Pages of a <i>book</i>');
await type('#members-relation', 'no relation');
await pressIn('create-with-members', 'Add');     // It is refused, and what was typed comes back.
await type('#members-relation', 'dcterms:hasPart');
await pressIn('create-with-members', 'Add');
await go(letters);
await follow('Change');
await type('#describe-turtle', 'this is no Turtle');
await press('Save');
await type('#describe-turtle', '<> <http://purl.org/dc/terms/title> "Changed" .');
await press('Save');
await follow('Versions');
await press('Compare');
await page.goBack();
await follow('Choose');
await press('Compare');
await page.goBack();
await follow('Restore');
await press('Restore');
await follow('Change');
await page.click('input[name="sure"]');
await press('Delete');
await go(letters);
await go('rest/fcr:versions?members=deleted');
await page.goto(new URL('rest/', base).href);
await tabTo('.search input');
await page.keyboard.type('let*');
await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
await look();
if (page.url() !== `${origin}/rest/fcr:search?fedora_id=let*`) throw new Error(`the search led to ${page.url()}`);
await go('');
if (!(await page.$('.search input'))) throw new Error('the first page has no search without a script');
await type('[name="title"]', 'salmon');
await press('Find');
await follow(await page.$eval('td a', (link) => link.textContent));
await follow('Read');
await type('[name="page"]', '2');
await press('Go');
await goWithScripts('', 'a.title');
await page.setJavaScriptEnabled(true);
// Who types by voice presses single keys without meaning to (WCAG 2.1.4).
await page.keyboard.press('/');
if (await page.$eval('#filter', (field) => field === document.activeElement)) throw new Error('a single key moved the focus');
await page.goto(`${origin}/rest/volumes/${volume}/pages/2`);
for (const [key, seq] of [['ArrowRight', 3], ['ArrowLeft', 2]]) {
  await Promise.all([page.waitForNavigation(), page.keyboard.press(key)]);
  if (!page.url().endsWith(`/pages/${seq}`)) throw new Error(`${key} led to ${page.url()}`);
}
await page.goto(new URL('openapi', base).href);
await page.waitForSelector('#filter-routes');
await page.type('#filter-routes', 'patch attributes');
const matching = await page.$$eval('#routes details:not([hidden])', (routes) => routes.map((route) => route.textContent));
if (matching.length !== 1 || !matching[0].startsWith('PATCH /records/{id}')) throw new Error(`found ${matching}`);
await look();                                     // Scripts are off from here on.
await page.goto(new URL('openapi', base).href);
await page.click('summary');
await look();
await go('volumes/?format=html');
await go('rest/volumes');
await page.click('input[name="volumeIDs"]');
const zip = page.waitForResponse((response) => response.request().method() === 'POST');
await page.click('main form button');
if ((await zip).headers()['content-type'] !== 'application/zip') throw new Error('the chosen volumes are no ZIP');
await follow('Title');                            // The list that sorts.
await go(`rest/volumes/${volume}`);
await go(`rest/volumes/${volume}?limit=10`);
await follow('Next pages');
await follow('Pages before');
await go('rest/fcr:constraints');
await go('rest/seal.svg/fcr:metadata');
if (!(await page.$('p.preview img'))) throw new Error('an image is not shown');
await go('rest/mets.xml/fcr:metadata');
if (!(await page.$('.wide td code'))) throw new Error('a METS is not shown');
await go('rest/group');
await go('sign-in');
await press('Sign out');
await browser.close();
console.log(JSON.stringify(seen));
