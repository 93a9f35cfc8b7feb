// A person with a browser that runs no scripts, and visits pages that have some with them, too. Prints
// what was seen as one JSON object. At the server `closed` strangers may not even read.
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [packages, executablePath, base, closed, token, operator, upload, volume, screenshots] = process.argv.slice(2);
const require = createRequire(join(packages, 'package.json'));
const puppeteer = require('puppeteer-core');
const axe = require('axe-core');

const SIZES = [{ size: 'desktop', width: 1280, height: 900 }, { size: 'phone', width: 360, height: 800 }];
const LOOKS = SIZES.flatMap((size) => ['light', 'dark'].map((scheme) => (
  { ...size, scheme, name: `${size.size}-${scheme}` }
)));
// A colour scheme changes colours only. The other rules have looked at the same page in the other one.
const RULES_OF_COLOURS = { type: 'rule', values: ['color-contrast', 'link-in-text-block'] };
const seen = { pages: 0, titles: [], violations: [], overflows: [] };
// The scripts of pages, each with whether a page was looked at with them (`true`) and without.
const ways = new Map();

const browser = await puppeteer.launch({
  executablePath,
  args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
});
const page = await browser.newPage();
await page.setJavaScriptEnabled(false);
const { origin } = new URL(base);

// Looks at the present page, at each size and in each colour scheme. The checks are scripts.
async function look({ withScripts = false } = {}) {
  seen.pages += 1;
  await page.setJavaScriptEnabled(true);
  const title = await page.$eval('h1', (heading) => heading.textContent);
  seen.titles.push(title);
  const scripts = await page.evaluate(() => [...document.scripts].map((script) => script.src || script.textContent).join());
  if (scripts) ways.set(scripts, (ways.get(scripts) ?? new Set()).add(withScripts));
  await page.evaluate(axe.source);
  for (const { name, width, height, scheme } of LOOKS) {
    await page.setViewport({ width, height });
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
    const rules = { resultTypes: ['violations'], ...(scheme === 'dark' ? { runOnly: RULES_OF_COLOURS } : {}) };
    const found = await page.evaluate(async (rules) => (await axe.run(document, rules)).violations, rules);
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

const visit = (path) => page.goto(new URL(path, base).href);

async function go(path) {
  await visit(path);
  await look();
}

// Visits a page that its scripts complete: it is there as soon as it has this element.
async function visitWithScripts(path, selector) {
  await page.setJavaScriptEnabled(true);
  await page.goto('about:blank');                 // Another view of the same page would load nothing.
  await visit(path);
  await page.waitForSelector(selector);
}

// Clicks on something that leads to another page, and does not look at that.
async function click(selector) {
  const element = await page.$(selector);
  if (!element) throw new Error(`no ${selector} on ${page.url()}`);
  await Promise.all([page.waitForNavigation(), element.click()]);
}

const link = (text) => `::-p-xpath(//a[normalize-space()="${text}"])`;
const button = (text, within = '') => `::-p-xpath(${within}//button[normalize-space()="${text}"])`;

async function follow(text) {
  await click(link(text));
  await look();
}

async function press(text, within = '') {
  await click(button(text, within));
  await look();
}

async function expect(selector) {
  if (!(await page.$(selector))) throw new Error(`no ${selector} on ${page.url()}`);
}

async function choose(field) {
  await (await page.$(field)).uploadFile(upload);
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

await go(closed);                                 // It offers nothing to a stranger but to sign in.
await go('rest/fcr:forms');                       // Nor do forms.
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
await choose('#upload-file');
await press('Upload');
const letter = page.url();
await follow('Check the bytes');
await visit(letter);
await follow('Change');                           // The forms of a file.
writeFileSync(upload, 'Dear Anne');
await choose('#replace-file');
await click(button('Replace'));
await follow('Versions');
await press('Compare');
await expect('ins');                              // Two texts are compared line by line.
await page.goBack();
await click('.history a');
await look();
await visit(letter);
await click(link('Change'));
await page.click('input[name="sure"]');
await click(button('Delete'));
await go(letter);
await follow('Bring it back');
await click(button('Restore'));
if (page.url() !== letter) throw new Error(`a restored file led to ${page.url()}`);
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
await type('#describe-turtle', '<> <http://www.w3.org/ns/ldp#contains> <never> .');
await press('Save');                              // It conflicts with what the server states.
const headers = { authorization: `Bearer ${token}`, 'content-type': 'text/turtle' };
const body = '<> <http://purl.org/dc/terms/title> "Changed meanwhile" .';
const meanwhile = await fetch(letters, { method: 'PUT', headers, body });
if (!meanwhile.ok) throw new Error(`the description is not replaced: ${await meanwhile.text()}`);
await type('#describe-turtle', '<> <http://purl.org/dc/terms/title> "Never saved" .');
await press('Save');
await click(link('open the form with the current state'));
const forms = page.url();
await page.$eval('#describe-turtle', (field) => { field.value = '#'.repeat((512 << 10) + 1); });
await press('Save');                              // It is larger than the server takes.
await visit(forms);
await type('#describe-turtle', '<> <http://purl.org/dc/terms/title> "Changed" .');
await press('Save');
await follow('Versions');
await press('Compare');
await page.goBack();
await click('.history a');
await look();
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
await go(letter);
await expect(link('Bring back what it belonged to'));
await go(`${letters}/fcr:versions?members=deleted`);
await go('rest/fcr:versions?members=deleted');
await visit('rest/');
await tabTo('.search input');
await page.keyboard.type('let*');
await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
await look();
if (page.url() !== `${origin}/rest/fcr:search?fedora_id=let*`) throw new Error(`the search led to ${page.url()}`);
await go('rest/fcr:search');
await type('main [name="fedora_id"]', 'seal*');
await press('Search', '//main');
await expect('td');
await go('rest/fcr:search?fedora_id=nothing');
await go('rest/fcr:search?size_from=many');
await expect('[role="alert"]');
await visit('rest/?limit=2');
await follow('Next page');
await go('');
if (!(await page.$('.search input'))) throw new Error('the first page has no search without a script');
await type('[name="title"]', 'salmon');
await press('Find');
await follow(await page.$eval('td a', (link) => link.textContent));
await follow('Read');
await type('[name="page"]', '2');
await press('Go');
await go('volumes/?format=html&title=nothing');
// A volume that cannot be read is not asked for again and again while a filter is typed in.
const refuse = (request) => (/\/volumes\/./.test(new URL(request.url()).pathname)
  ? request.respond({ status: 500, body: 'not now' })
  : request.continue());
await page.setRequestInterception(true);
page.on('request', refuse);
await visitWithScripts('', 'a.title');
await page.type('#filter', volume[0]);
await page.waitForNetworkIdle({ timeout: 10_000 });
await expect('a.title');
page.off('request', refuse);
await page.setRequestInterception(false);
await visitWithScripts('', 'a.title');
// Who types by voice presses single keys without meaning to (WCAG 2.1.4).
await page.keyboard.press('/');
if (await page.$eval('#filter', (field) => field === document.activeElement)) throw new Error('a single key moved the focus');
await look({ withScripts: true });
await visitWithScripts(`rest/volumes/${volume}/pages/2`, 'h1');
for (const [key, seq] of [['ArrowRight', 3], ['ArrowLeft', 2]]) {
  await Promise.all([page.waitForNavigation(), page.keyboard.press(key)]);
  if (!page.url().endsWith(`/pages/${seq}`)) throw new Error(`${key} led to ${page.url()}`);
}
await look({ withScripts: true });
await visitWithScripts('openapi', '#filter-routes');
await page.type('#filter-routes', 'patch attributes');
const matching = await page.$$eval('#routes details:not([hidden])', (routes) => routes.map((route) => route.textContent));
if (matching.length !== 1 || !matching[0].startsWith('PATCH /records/{id}')) throw new Error(`found ${matching}`);
await look({ withScripts: true });                // Scripts are off from here on.
await visit('openapi');
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
await go(`rest/volumes/${volume}/mets`);
await go('rest/fcr:constraints');
await go('rest/seal.svg/fcr:metadata');
await expect('p.preview img');
await go('rest/mets.xml/fcr:metadata');
await expect('.wide td code');
await go('rest/talk.mp3/fcr:metadata');
await expect('audio');
await go('rest/walk.mp4/fcr:metadata');
await expect('video');
await go('rest/group');
await page.setExtraHTTPHeaders({ prefer: 'return=representation' });
await go('rest/group');                           // The statements as a program asks for them.
await page.setExtraHTTPHeaders({});
await go('rest/scan.txt/fcr:metadata');           // Its bytes are damaged.
await go('rest/scan.txt/fcr:fixity');
await expect('[role="alert"]');
await go('rest/scan.txt');
await go('rest/nothing/here');
await go('fixity');                               // It is for operators.
await go('sign-in');
await press('Sign out');
await go('fixity');
await click(link('Sign in'));
await type('#token', operator);
await press('Sign in');
await follow('1');
await expect('[aria-label="Findings"] td');
await browser.close();
for (const [scripts, looks] of ways) {
  if (looks.size < 2) throw new Error(`a page was looked at only ${looks.has(true) ? 'with' : 'without'} ${scripts}`);
}
console.log(JSON.stringify(seen));
