// The table of runs: filters, sorting and choosing. The state of the page is in the fragment of its
// address, so that a view can be sent to somebody.
"use strict";
const portal = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const runs = new Map(data.runs.map((run) => [run.id, run]));
  const form = document.getElementById("filters");
  const table = document.querySelector("#runs table");
  const rows = new Map([...table.querySelectorAll("tbody tr")].map((row) => [row.dataset.id, row]));
  const headings = [...table.querySelectorAll("th[data-key]")];
  const NEWEST_FIRST = "-started_at";
  const VIEWS = new Set(["trend", "trend_by", "rates", "rates_by"]);
  const listeners = [];
  let sorting = NEWEST_FIRST;
  let chosen = [];

  const element = (id) => document.getElementById(id);
  const day = (run) => run.started_at.slice(0, 10);

  // A filter says which runs it shows, by the value of its field. Others compare what is named so.
  const TESTS = {
    text: (run, value) => words(value).every((word) => JSON.stringify(run).toLowerCase().includes(word)),
    scenario: (run, value) => Object.hasOwn(run.scenarios, value),
    rate_from: (run, value) => run.rate_due >= Number(value),
    rate_to: (run, value) => run.rate_due <= Number(value),
    date_from: (run, value) => day(run) >= value,
    date_to: (run, value) => day(run) <= value,
  };
  const words = (text) => text.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const fields = () => [...form.elements].filter((field) => field.name !== "");
  const standard = (field) => (VIEWS.has(field.name) ? field.options[0]?.value ?? "" : "");
  const isSet = (field) => field.value !== standard(field);

  function isShown(run, filters) {
    return filters.every(({ name, value }) =>
      Object.hasOwn(TESTS, name) ? TESTS[name](run, value) : String(run[name]) === value);
  }

  // Sorting. What is not known comes last.

  function valueOf(run, key) {
    const value = key.split(".").reduce((value, part) => value?.[part], run);
    return value !== null && typeof value === "object" ? Object.keys(value).join(", ") : value;
  }

  function compare(key, sign, one, other) {
    const [a, b] = [valueOf(one, key) ?? null, valueOf(other, key) ?? null];
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  }

  function sorted(shown) {
    const isDescending = sorting.startsWith("-");
    const key = isDescending ? sorting.slice(1) : sorting;
    return [...shown].sort((one, other) => compare(key, isDescending ? -1 : 1, one, other));
  }

  function showSorting() {
    for (const heading of headings) {
      const { key } = heading.dataset;
      const order = { [key]: "ascending", ["-" + key]: "descending" }[sorting];
      if (order) heading.setAttribute("aria-sort", order);
      else heading.removeAttribute("aria-sort");
    }
  }

  function sortBy(heading) {
    const { key } = heading.dataset;
    const isNumber = heading.classList.contains("number");
    const [first, second] = isNumber || key === "started_at" ? ["-" + key, key] : [key, "-" + key];
    sorting = sorting === first ? second : first;
    change();
  }

  // The state and the fragment.

  function fragment() {
    const state = new URLSearchParams(fields().filter(isSet).map(({ name, value }) => [name, value]));
    if (sorting !== NEWEST_FIRST) state.set("sort", sorting);
    if (chosen.length > 0) state.set("runs", chosen.join(","));
    return state.toString().replaceAll("%2C", ",");
  }

  function readFragment() {
    const text = location.hash.slice(1);
    // The name of a section is no state.
    if (text !== "" && !text.includes("=")) return;
    const state = new URLSearchParams(text);
    for (const field of fields()) {
      field.value = state.get(field.name) ?? standard(field);
      // A choice that this portal does not have.
      if (field.selectedIndex === -1) field.value = standard(field);
    }
    const key = state.get("sort") ?? NEWEST_FIRST;
    sorting = headings.some(({ dataset }) => dataset.key === key.replace(/^-/, "")) ? key : NEWEST_FIRST;
    chosen = [...new Set((state.get("runs") ?? "").split(","))].filter((id) => runs.has(id));
  }

  function change() {
    const text = fragment();
    if (text !== location.hash.slice(1)) history.replaceState(null, "", "#" + text);
    show();
  }

  function show() {
    const filters = fields().filter((field) => isSet(field) && !VIEWS.has(field.name));
    const shown = sorted(data.runs.filter((run) => isShown(run, filters)));
    rows.forEach((row, id) => {
      row.hidden = true;
      row.querySelector("input").checked = chosen.includes(id);
    });
    shown.forEach(({ id }) => {
      rows.get(id).hidden = false;
      table.tBodies[0].append(rows.get(id));
    });
    showSorting();
    element("shown").textContent = shown.length + " of " + runs.size + " runs";
    element("all").hidden = filters.length === 0;
    element("chosen").textContent = chosen.length > 0 ? chosen.length + " chosen" : "";
    element("none").hidden = chosen.length === 0;
    element("compare").hidden = chosen.length < 2;
    listeners.forEach((listener) => listener(shown, chosen.map((id) => runs.get(id))));
  }

  function choose(ids) {
    chosen = ids;
    change();
  }

  // The data of a run, from a script beside the page.

  const loading = new Map();
  const waiting = new Map();

  function load(id) {
    if (!loading.has(id)) {
      loading.set(id, new Promise((resolve, reject) => {
        const script = document.createElement("script");
        waiting.set(id, resolve);
        script.src = "runs/" + id + "/" + data.run_data;
        script.addEventListener("error", () => {
          loading.delete(id);
          reject(new Error("The data of the run " + id + " cannot be loaded."));
        });
        document.head.append(script);
      }));
    }
    return loading.get(id);
  }

  const receive = (run) => waiting.get(run.id)?.(run);

  // What the reader does.

  headings.forEach((heading) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sortBy(heading));
    heading.append(button);
  });
  rows.forEach((row, id) => row.querySelector("input").addEventListener("change", ({ target }) =>
    choose(target.checked ? [...chosen, id] : chosen.filter((other) => other !== id))));
  form.addEventListener("submit", (event) => event.preventDefault());
  fields().forEach((field) => field.addEventListener("input", change));
  element("none").addEventListener("click", () => choose([]));
  element("compare").addEventListener("click", () => element("comparison").scrollIntoView());
  element("all").addEventListener("click", () => {
    fields().filter((field) => !VIEWS.has(field.name)).forEach((field) => { field.value = ""; });
    change();
  });
  // The fragment is the state: a link to a section must not replace it.
  document.querySelectorAll("nav a").forEach((link) => link.addEventListener("click", (event) => {
    event.preventDefault();
    element(link.hash.slice(1)).scrollIntoView();
  }));
  addEventListener("hashchange", () => {
    readFragment();
    show();
  });
  addEventListener("DOMContentLoaded", () => {
    readFragment();
    show();
  });

  return { choose, load, receive, field: (name) => form.elements[name].value, listen: (on) => listeners.push(on) };
})();
