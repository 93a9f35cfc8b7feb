// What the first page can do with a script: a list of all volumes, to filter while typing, of which some are chosen and come as one
// ZIP. What comes from the server is shown as text only, never as markup.

const ROWS = 50; // volumes on one screen
const DETAILS_AHEAD = 300; // up to this many volumes, all titles are read, so that searching finds them
const ASKED_AT_ONCE = 6;
const URL_CHARS_MAX = 4000; // a longer list goes through a selection

const section = document.getElementById("choose");
const title = document.getElementById("choose-title");
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

// The pages of volumes are in the repository. An id that looks like a cleaned one is named by its cleaned form, once that is known.
const address = (id) => `${section.dataset.repository}volumes/${encodeURIComponent(library.details.get(id)?.cleaned_id ?? id)}`;
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
  let hasRead = false;
  const worker = async () => {
    for (let id = waiting.shift(); id !== undefined; id = waiting.shift()) {
      try {
        const response = await ask(`volumes/${encodeURIComponent(id)}`, { headers: { accept: "application/json" } });
        library.details.set(id, await response.json());
        hasRead = true;
      } catch {
        library.details.delete(id); // gone meanwhile, or out of reach: the id alone is shown
      }
      document.querySelectorAll(`li[data-id="${CSS.escape(id)}"]`).forEach(fillIn);
    }
  };
  await Promise.all(Array.from({ length: ASKED_AT_ONCE }, worker));
  // What cannot be read is asked for again when people filter or turn pages, not here, without end.
  if (library.filter && hasRead) refreshList();
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
  const choose = (event) => {
    if (event.target.checked) library.chosen.add(id);
    else library.chosen.delete(id);
    refreshTray();
  };
  const row = h("li", { "data-id": id },
    h("input", { type: "checkbox", checked: library.chosen.has(id), onchange: choose }),
    h("div", {}, h("a", { class: "title" }), h("code", {}, id)),
    h("div", { class: "facts" }));
  fillIn(row);
  return row;
}

// Puts what is known of a volume into its row. What has the focus keeps it.
function fillIn(row) {
  const { id } = row.dataset;
  const details = library.details.get(id);
  const link = row.querySelector("a");
  link.textContent = details?.title || id;
  link.href = address(id);
  row.querySelector("input").setAttribute("aria-label", `Choose ${link.textContent}`);
  row.querySelector(".facts").textContent = details ? `${count(details.pages, "page")} · ${size(details.size_bytes)}` : "";
}

function refreshList() {
  const found = matching();
  library.first = Math.min(library.first, Math.max(0, Math.floor((found.length - 1) / ROWS) * ROWS));
  const visible = found.slice(library.first, library.first + ROWS);
  const known = count(library.ids.length, "volume") + (library.complete ? "" : " so far");
  document.getElementById("known").textContent = library.filter ? `${found.length.toLocaleString("en")} of ${known}` : known;
  const turn = (by) => () => {
    library.first += by;
    refreshList();
    title.focus();
  };
  const last = library.first + visible.length;
  document.getElementById("volumes").replaceChildren(...[
    library.failure && failure(library.failure),
    visible.length > 0 && h("ul", { class: "list" }, visible.map(volumeRow)),
    visible.length === 0 && library.complete && !library.failure && h("p", { class: "note" },
      library.filter ? `No volume matches.${findsTitles() ? "" : " In a library as large as this, this list knows titles only of volumes that it has shown: find titles by the form above."}` : "No volume is stored yet. Import some with `penates import`."),
    found.length > ROWS && h("div", { class: "row pager" },
      h("button", { disabled: library.first === 0, onclick: turn(-ROWS) }, "← Before"),
      h("span", {}, `${library.first + 1} to ${last} of ${found.length.toLocaleString("en")}`),
      h("button", { disabled: last >= found.length, onclick: turn(ROWS) }, "After →")),
  ].filter(Boolean));
  if (library.complete) readDetails(visible);
}

function showList() {
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
  section.append(
    h("p", { class: "lead", id: "known" }, "…"),
    h("div", { class: "row find" },
      h("input", { id: "filter", type: "search", placeholder: "Filter by title or id", "aria-label": "Filter by title or id", oninput: filter }),
      h("button", { onclick: chooseAll }, "Choose all of these")),
    h("div", { id: "volumes" }));
  section.hidden = false;
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
    title.focus();
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
    document.getElementById("volumes").prepend(failure(error));
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

// Earlier versions showed a volume, or one page of it, at `#/v/ID` or `#/v/ID/SEQ`.
const [, kind, id, seq] = location.hash.split("/");
if (kind === "v" && id) {
  location.replace(`${address(decodeURIComponent(id))}${seq ? `/pages/${seq}` : ""}`);
} else {
  showList();
  readIds();
}
