// The page for people: three views (volumes, one volume, one page) over the JSON and text of the data door. What comes from the
// server is shown as text only, never as markup.

const ROWS = 50; // volumes on one screen
const DETAILS_AHEAD = 300; // up to this many volumes, all titles are read, so that searching finds them
const ASKED_AT_ONCE = 6;
const URL_CHARS_MAX = 4000; // a longer list goes through a selection

const main = document.getElementById("main");
const library = { ids: [], complete: false, failure: null, details: new Map(), chosen: new Set(), filter: "", first: 0, layout: "pages" };

// ---- Small tools ----

// An element with properties, attributes (those with a dash or in the list) and children.
function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const path = (id) => `volumes/${encodeURIComponent(id)}`;
const volumeHash = (id) => `#/v/${encodeURIComponent(id)}`;
const pageHash = (id, seq) => `${volumeHash(id)}/${seq}`;
const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
const say = (text) => (document.getElementById("status").textContent = text);

function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  const power = Math.min(Math.floor(Math.log10(bytes) / 3), 4);
  return `${(bytes / 1000 ** power).toFixed(bytes / 1000 ** power < 10 ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

async function ask(url, options = {}) {
  const response = await fetch(url, options);
  if (response.ok) return response;
  const text = await response.text();
  let detail = text;
  if ((response.headers.get("content-type") || "").includes("json")) {
    const problem = JSON.parse(text);
    detail = problem.detail || problem.title;
  }
  throw new Error(detail || `the server answered ${response.status}`);
}

const askJson = async (url) => (await ask(url, { headers: { accept: "application/json" } })).json();

function show(title, ...content) {
  document.title = title ? `${title} · Penates` : "Penates";
  main.replaceChildren(...content.flat());
}

const failure = (error) => h("p", { class: "note", role: "alert" }, `This did not work: ${error.message}`);

// ---- Volumes ----

// Reads all ids, one a line, and shows them as they come.
async function readIds() {
  try {
    const response = await ask("volumes/", { headers: { accept: "text/plain" } });
    const lines = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let shown = 0; ; ) {
      const { done, value } = await lines.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      for (const id of parts) if (id) library.ids.push(id);
      if (library.ids.length >= shown + 2000 || shown === 0) {
        shown = library.ids.length;
        refreshList();
      }
    }
    if (rest) library.ids.push(rest);
  } catch (error) {
    library.failure = error;
  }
  library.complete = true;
  refreshList();
  if (library.ids.length <= DETAILS_AHEAD) await readDetails(library.ids);
}

// Details of volumes, a few at a time; rows fill in as they come.
async function readDetails(ids) {
  const waiting = ids.filter((id) => !library.details.has(id));
  if (!waiting.length) return;
  for (const id of waiting) library.details.set(id, null);
  const worker = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      try {
        library.details.set(id, await askJson(path(id)));
      } catch {
        library.details.delete(id); // gone meanwhile, or out of reach: the id alone is shown
      }
      document.querySelectorAll(`li[data-id="${CSS.escape(id)}"]`).forEach((row) => row.replaceWith(volumeRow(id)));
    }
  };
  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, worker));
  if (library.filter) refreshList();
}

function matching() {
  const words = library.filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return library.ids;
  return library.ids.filter((id) => {
    const text = `${id} ${library.details.get(id)?.title || ""}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

// Titles are read ahead only in a small library.
const findsTitles = () => library.ids.length <= DETAILS_AHEAD;

function volumeRow(id) {
  const details = library.details.get(id);
  const choose = (event) => {
    if (event.target.checked) library.chosen.add(id);
    else library.chosen.delete(id);
    refreshTray();
  };
  const title = details?.title || id;
  return h("li", { "data-id": id },
    h("input", { type: "checkbox", "aria-label": `Choose ${title}`, checked: library.chosen.has(id), onchange: choose }),
    h("div", {}, h("a", { class: "title", href: volumeHash(id) }, title), h("code", {}, id)),
    h("div", { class: "facts" }, details ? `${count(details.pages, "page")} · ${size(details.size_bytes)}` : ""));
}

function refreshList() {
  const holder = document.getElementById("volumes");
  if (!holder) return;
  const found = matching();
  library.first = Math.min(library.first, Math.max(0, Math.floor((found.length - 1) / ROWS) * ROWS));
  const visible = found.slice(library.first, library.first + ROWS);
  const known = count(library.ids.length, "volume") + (library.complete ? "" : " so far");
  document.getElementById("known").textContent = library.filter ? `${found.length.toLocaleString("en")} of ${known}` : known;
  const turn = (by) => () => {
    library.first += by;
    refreshList();
    scrollTo(0, 0);
  };
  const last = library.first + visible.length;
  holder.replaceChildren(...[
    library.failure && failure(library.failure),
    visible.length > 0 && h("ul", { class: "list" }, visible.map(volumeRow)),
    visible.length === 0 && library.complete && !library.failure && h("p", { class: "note" },
      library.filter ? `No volume matches.${findsTitles() ? "" : " In a library as large as this, titles are found only of volumes that were shown already: filter by id."}` : "No volume is stored yet. Import some with `penates import`."),
    found.length > ROWS && h("div", { class: "row pager" },
      h("button", { disabled: library.first === 0, onclick: turn(-ROWS) }, "← Before"),
      h("span", {}, `${library.first + 1} to ${last} of ${found.length.toLocaleString("en")}`),
      h("button", { disabled: last >= found.length, onclick: turn(ROWS) }, "After →")),
  ].filter(Boolean));
  if (library.complete) readDetails(visible);
}

function listView() {
  const filter = (event) => {
    library.filter = event.target.value;
    library.first = 0;
    refreshList();
    say(document.getElementById("known").textContent);
  };
  const chooseAll = () => {
    matching().forEach((id) => library.chosen.add(id));
    refreshList();
    refreshTray();
  };
  show("",
    h("h1", {}, "The library"),
    h("p", { class: "lead", id: "known" }, "…"),
    h("div", { class: "row find" },
      h("input", { id: "filter", type: "search", placeholder: "Filter by title or id  ( / )", "aria-label": "Filter by title or id",
        value: library.filter, oninput: filter }),
      h("button", { onclick: chooseAll }, "Choose all of these")),
    h("div", { id: "volumes" }));
  refreshList();
}

// ---- Chosen volumes, as one ZIP ----

const LAYOUTS = [["pages", "a file a page"], ["volumes", "a file a volume"], ["wordseq", "one text file"]];

function refreshTray() {
  document.getElementById("tray")?.remove();
  if (!library.chosen.size) return;
  const layout = h("select", { "aria-label": "Layout", onchange: () => (library.layout = layout.value) },
    LAYOUTS.map(([value, text]) => h("option", { value, selected: value === library.layout }, text)));
  const clear = () => {
    library.chosen.clear();
    refreshList();
    refreshTray();
  };
  const button = h("button", { class: "primary", onclick: () => download(button) }, "Download as one ZIP");
  document.body.append(h("aside", { id: "tray", class: "tray", "aria-label": "Chosen volumes" }, h("div", { class: "row" },
    h("strong", { class: "grow" }, `${count(library.chosen.size, "volume")} chosen`), layout, button,
    h("button", { class: "plain", onclick: clear }, "Clear"))));
}

async function download(button) {
  button.disabled = true;
  try {
    location.href = await zipAddress([...library.chosen], library.layout);
  } catch (error) {
    main.prepend(failure(error));
  }
  button.disabled = false;
}

// A list that is too long for a URL is posted as a selection, whose address can also be resumed.
async function zipAddress(ids, layout) {
  const query = new URLSearchParams({ volumeIDs: ids.join("|"), layout });
  const url = `volumes?${query}`;
  if (url.length <= URL_CHARS_MAX) return url;
  const response = await ask("selections", { method: "POST", body: query, headers: { accept: "application/json" } });
  return response.headers.get("location");
}

// ---- One volume ----

async function volumeView(id) {
  const [details, pages] = await Promise.all([askJson(path(id)), readPages(id)]);
  library.details.set(id, details);
  const zip = (parameters) => `volumes?${new URLSearchParams({ volumeIDs: id, ...parameters })}`;
  const facts = [["Id", h("code", {}, id)], ["Published", details.pub_date], ["Language", details.language],
    ["Rights", details.rights && h("span", { class: "badge" }, details.rights)],
    ["Access", details.access_profile], ["Pages", details.pages.toLocaleString("en")], ["Text", size(details.size_bytes)],
    ["Imported", new Date(details.imported).toLocaleString()], ["Revision", h("code", {}, details.revision)],
    ["Damaged", details.damaged ? count(details.damaged, "part") : null]];
  show(details.title || id,
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "← All volumes")),
    h("h1", {}, details.title || id),
    h("dl", { class: "about" }, facts.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    h("div", { class: "row" },
      h("a", { class: "button primary", href: pageHash(id, pages[0]?.seq ?? 1) }, "Read"),
      h("a", { class: "button", href: zip({ layout: "pages" }) }, "ZIP, a file a page"),
      h("a", { class: "button", href: zip({ layout: "volumes" }) }, "ZIP, one text file"),
      h("a", { class: "button", href: zip({ layout: "pages", mets: "true" }) }, "ZIP with METS"),
      h("a", { class: "button plain", href: `${path(id)}/mets` }, "METS"),
      details.record_bytes && h("a", { class: "button plain", href: `${path(id)}/record` }, "Record")),
    h("h2", {}, "Pages"),
    h("ol", { class: "grid" }, pages.map((page) => pageTile(id, page))));
}

const pageLists = new Map();

async function readPages(id) {
  if (!pageLists.has(id)) pageLists.set(id, await askJson(`${path(id)}/pages/`));
  return pageLists.get(id);
}

const featureWords = (page, wanted = () => true) => page.features.filter(wanted).map((word) => word.replaceAll("_", " ").toLowerCase());

function pageTile(id, page) {
  const marks = featureWords(page, (feature) => feature !== "LEFT" && feature !== "RIGHT").join(" · ");
  return h("li", {}, h("a", { href: pageHash(id, page.seq), class: page.size_bytes === 0 && "empty", title: marks },
    h("span", { class: "seq" }, String(page.seq)),
    page.label && h("span", { class: "label" }, `page ${page.label}`),
    h("span", { class: "marks" }, marks)));
}

// ---- One page ----

async function pageView(id, seq) {
  const [pages, response] = await Promise.all([readPages(id), ask(`${path(id)}/pages/${seq}`)]);
  const details = library.details.get(id) || (await askJson(path(id)));
  library.details.set(id, details);
  const text = await response.text();
  const index = pages.findIndex((page) => page.seq === seq);
  const page = pages[index];
  const to = (other) => (other ? pageHash(id, other.seq) : null);
  const step = (other, text, key) => h("a", { class: "button", href: to(other), rel: key, "aria-disabled": other ? null : "true" }, text);
  const go = (event) => {
    const wanted = pages.find((page) => page.seq === event.target.valueAsNumber);
    if (wanted) location.hash = to(wanted);
  };
  show(`${seq} · ${details.title || id}`,
    h("p", { class: "crumbs" }, h("a", { href: "#/" }, "← All volumes"), " / ",
      h("a", { href: volumeHash(id) }, details.title || id)),
    h("h1", { class: "visually-hidden" }, `Page ${seq} of ${details.title || id}`),
    h("div", { class: "row reader" },
      step(pages[index - 1], "← Previous", "prev"),
      h("label", { class: "row" }, h("span", { class: "visually-hidden" }, "Go to page"),
        h("input", { type: "number", min: "1", value: String(seq), onchange: go }),
        `of ${pages.length}`),
      step(pages[index + 1], "Next →", "next")),
    h("article", { class: "leaf", "aria-label": `Page ${seq}` },
      text.trim() ? h("pre", {}, text) : h("p", { class: "blank" }, "This page has no text.")),
    h("div", { class: "row under" },
      h("span", { class: "row" }, page?.label && `Page ${page.label}`,
        page && featureWords(page).map((word) => h("span", { class: "badge" }, word))),
      h("a", { href: `${path(id)}/pages/${seq}`, download: `${details.cleaned_id}-${seq}.txt` },
        `Download as text, ${size(page?.size_bytes ?? text.length)}`)));
}

// ---- Which view ----

async function route() {
  const [, kind, id, seq] = location.hash.split("/");
  scrollTo(0, 0);
  try {
    if (kind === "v" && seq) await pageView(decodeURIComponent(id), Number(seq));
    else if (kind === "v") await volumeView(decodeURIComponent(id));
    else listView();
  } catch (error) {
    show("", h("p", { class: "crumbs" }, h("a", { href: "#/" }, "← All volumes")), failure(error));
  }
  say(document.title);
}

addEventListener("hashchange", async () => {
  const wasPaging = document.querySelector(".reader")?.contains(document.activeElement) && document.activeElement.rel;
  await route();
  (document.querySelector(`.reader [rel="${wasPaging}"]`) || main).focus({ preventScroll: true });
});

addEventListener("keydown", (event) => {
  if (event.target.matches("input, select") || event.altKey || event.ctrlKey || event.metaKey) return;
  const link = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
  if (link) document.querySelector(`.reader a[rel="${link}"][href]`)?.click();
  if (event.key === "/" && document.getElementById("filter")) {
    event.preventDefault();
    document.getElementById("filter").focus();
  }
});

route();
readIds();
