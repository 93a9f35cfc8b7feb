// Uses a repository with Inrupt's solid-client. Says what it did, and what came of it.

import { File } from "node:buffer";
import { createRequire } from "node:module";

const [packages, part, root, token] = process.argv.slice(2);
const solid = createRequire(`${packages}/`)("@inrupt/solid-client");

const TITLE = "http://purl.org/dc/terms/title";
const PAGES = "http://example.org/pages";

// Where Solid logs in, this sends a token.
async function withToken(address, init = {}) {
  const headers = new Headers(init.headers);
  headers.set("authorization", `Bearer ${token}`);
  return fetch(address, { ...init, headers });
}

const options = { fetch: withToken };

async function say(what, doing) {
  let came;
  try {
    came = (await doing()) ?? "done";
  } catch (error) {
    came = error.statusCode ?? "the client refuses";
  }
  console.log(`${what}: ${typeof came === "string" ? came : JSON.stringify(came)}`);
}

function dataset(...things) {
  return things.reduce((all, thing) => solid.setThing(all, thing), solid.createSolidDataset());
}

function titled(title, thing) {
  return solid.buildThing(thing).addStringNoLocale(TITLE, title).build();
}

async function titles(address, thing = address) {
  const found = solid.getThing(await solid.getSolidDataset(address, options), thing);
  return found === null ? [] : solid.getStringNoLocaleAll(found, TITLE).sort();
}

async function members(address) {
  return solid.getContainedResourceUrlAll(await solid.getSolidDataset(address, options)).sort();
}

async function data() {
  await say("create a container", async () =>
    solid.getSourceUrl(await solid.createContainerAt(`${root}box/`, options)));
  await say("create it again", () => solid.createContainerAt(`${root}box/`, options));
  await say("create one in it", async () =>
    solid.getSourceUrl(await solid.createContainerInContainer(`${root}box/`, { ...options, slugSuggestion: "inner" })));
  await say("save", async () => {
    const saved = dataset(titled("One", solid.createThing({ name: "it" })));
    return solid.getSourceUrl(await solid.saveSolidDatasetAt(`${root}box/letters`, saved, options));
  });
  await say("save over it", () => solid.saveSolidDatasetAt(`${root}box/letters`, dataset(), options));
  const it = `${root}box/letters#it`;
  await say("titles", () => titles(`${root}box/letters`, it));
  await say("change", async () => {
    const read = await solid.getSolidDataset(`${root}box/letters`, options);
    const changed = solid.buildThing(solid.getThing(read, it)).setStringNoLocale(TITLE, "Two").addInteger(PAGES, 3);
    await solid.saveSolidDatasetAt(`${root}box/letters`, solid.setThing(read, changed.build()), options);
    const found = solid.getThing(await solid.getSolidDataset(`${root}box/letters`, options), it);
    return [solid.getStringNoLocaleAll(found, TITLE), solid.getInteger(found, PAGES)];
  });
  await say("change a container", async () => {
    const read = await solid.getSolidDataset(`${root}box/`, options);
    const changed = titled("Box", solid.getThing(read, `${root}box`));
    await solid.saveSolidDatasetAt(`${root}box`, solid.setThing(read, changed), options);
    return titles(`${root}box`);
  });
  await say("save in the container", async () => {
    const saved = dataset(titled("Named", solid.createThing({ name: "it" })));
    const named = { ...options, slugSuggestion: "named" };
    return solid.getSourceUrl(await solid.saveSolidDatasetInContainer(`${root}box/`, saved, named));
  });
  await say("titles", () => titles(`${root}box/named`, `${root}box/named#it`));
  await say("members", () => members(`${root}box/`));
  await say("members of the root", async () => (await members(root)).includes(`${root}box`));
  await say("are all valid", async () =>
    solid.validateContainedResourceAll(await solid.getSolidDataset(`${root}box/`, options)).isValid);
  await say("delete", () => solid.deleteSolidDataset(`${root}box/letters`, options));
  await say("titles", () => titles(`${root}box/letters`, it));
  await say("delete the container", () => solid.deleteContainer(`${root}box/`, options));
  await say("members", () => members(`${root}box/`));
  await say("create without a token", () => solid.createContainerAt(`${root}other/`));
}

async function files() {
  const note = `${root}box/note.txt`;
  const text = (content) => new Blob([content], { type: "text/plain" });
  await say("overwrite what is not there", async () =>
    solid.getSourceUrl(await solid.overwriteFile(note, text("hello"), options)));
  await say("overwrite", () => solid.overwriteFile(note, text("hello again"), options).then(() => "done"));
  await say("get", async () => {
    const file = await solid.getFile(note, options);
    return [await file.text(), solid.getContentType(file), solid.isRawData(file)];
  });
  await say("overwrite with bytes", async () => {
    await solid.overwriteFile(`${root}box/image`, Buffer.from([0, 255, 1]), { ...options, contentType: "image/png" });
    const file = await solid.getFile(`${root}box/image`, options);
    return [solid.getContentType(file), [...new Uint8Array(await file.arrayBuffer())]];
  });
  await say("save in the container", async () => {
    const named = new File(["named"], "named.txt", { type: "text/plain" });
    return solid.getSourceUrl(await solid.saveFileInContainer(`${root}box/`, named, options));
  });
  await say("about it", async () => {
    const about = await solid.getResourceInfo(`${root}box/named.txt`, options);
    return [solid.getContentType(about), solid.getLinkedResourceUrlAll(about).describedby];
  });
  await say("members", () => members(`${root}box/`));
  await say("delete", () => solid.deleteFile(note, options));
  await say("get", () => solid.getFile(note, options));
  await say("delete without a token", () => solid.deleteFile(`${root}box/image`));
}

// What Solid has and this server has not.
async function differences() {
  await solid.createContainerAt(`${root}box/`, options);
  await solid.saveSolidDatasetAt(`${root}box/data`, dataset(titled("One", solid.createThing({ name: "it" }))), options);
  const box = await solid.getSolidDataset(`${root}box/`, options);
  await say("the address of a container", () => solid.getSourceUrl(box));
  await say("is a container", () => solid.isContainer(box));
  await say("delete the container that was read", () => solid.deleteContainer(box, options));
  await say("statements with a slash are about another resource", async () => {
    const initial = dataset(titled("Inner", solid.createThing({ url: `${root}box/inner/` })));
    await solid.createContainerAt(`${root}box/inner/`, { ...options, initialContent: initial });
    return [await titles(`${root}box/inner`), await titles(`${root}box/inner`, `${root}box/inner/`)];
  });
  await say("two changes of one title", async () => {
    const it = `${root}box/data#it`;
    const read = await solid.getSolidDataset(`${root}box/data`, options);
    for (const title of ["Two", "Three"]) {
      const changed = solid.buildThing(solid.getThing(read, it)).setStringNoLocale(TITLE, title).build();
      await solid.saveSolidDatasetAt(`${root}box/data`, solid.setThing(read, changed), options);
    }
    return titles(`${root}box/data`, it);
  });
  await say("rules of its own", async () => {
    const ruled = await solid.getSolidDatasetWithAcl(`${root}box/`, options);
    return [solid.hasAccessibleAcl(ruled), solid.hasResourceAcl(ruled), solid.getPublicAccess(ruled)];
  });
  await say("public access", async () =>
    String(await solid.universalAccess.getPublicAccess(`${root}box/data`, options)));
  await say("set public access", async () =>
    String(await solid.universalAccess.setPublicAccess(`${root}box/data`, { read: true }, options)));
  await say("effective access", async () =>
    solid.getEffectiveAccess(await solid.getResourceInfo(`${root}box/data`, options)));
  await say("owner", async () => String(solid.getPodOwner(await solid.getResourceInfo(`${root}box/data`, options))));
  await say("storage", async () => solid.getWellKnownSolid(`${root}box/data`, options));
  await say("delete a container with members", () => solid.deleteContainer(`${root}box/`, options));
  await say("create it again", () => solid.createContainerAt(`${root}box/`, options));
}

await { data, files, differences }[part]();
