// The comparison of the chosen runs. The first one is the baseline.
"use strict";
(() => {
  const { make, report, line, swatch, table, figure } = figures;
  const { FORMATS, NONE, THIN_SPACE, count, significant } = charts;
  const place = document.getElementById("compared");
  const hint = document.getElementById("hint");
  const method = document.getElementById("method");
  let groups = [];
  let compared = "";

  // Figures.

  const FIGURES = [
    ["verdict", (run) => run.verdict, (value) => value],
    ["rate due", (run) => run.rate_due, FORMATS.per_second],
    ["rate done", (run) => run.rate_done, FORMATS.per_second],
    ["mean", (run) => run.response.mean_ms, FORMATS.milliseconds],
    ["p50", (run) => run.response.p50_ms, FORMATS.milliseconds, "p50_ms"],
    ["p90", (run) => run.response.p90_ms, FORMATS.milliseconds],
    ["p95", (run) => run.response.p95_ms, FORMATS.milliseconds],
    ["p99", (run) => run.response.p99_ms, FORMATS.milliseconds, "p99_ms"],
    ["p99.9", (run) => run.response.p999_ms, FORMATS.milliseconds],
    ["highest", (run) => run.response.max_ms, FORMATS.milliseconds],
    ["done", (run) => run.done, count],
    ["conflicts", (run) => run.conflicts, count],
    ["errors", (run) => run.errors, count],
    ["refused", (run) => run.refused, count],
    ["never sent", (run) => run.dropped, count],
    ["workers", (run) => run.workers, count],
  ];

  const signed = (share) => (share > 0 ? "+" : "") + significant(share * 100) + THIN_SPACE + "%";

  function difference(value, base) {
    if (typeof value !== "number" || value === base) return "";
    return base === 0 ? "" : signed(value / base - 1);
  }

  // The span that holds 95 % of the relative differences between resamples of two runs.
  function interval(base, other, key) {
    if (!base.resamples || !other.resamples) return null;
    const bases = base.resamples[key];
    const shares = other.resamples[key].map((value, at) => value / bases[at] - 1).sort((a, b) => a - b);
    if (!shares.every(Number.isFinite)) return null;
    const outside = Math.floor(shares.length / 40);
    return [shares[outside], shares[shares.length - 1 - outside]];
  }

  function intervalText(base, other, key) {
    const found = interval(base, other, key);
    if (!found) return "no interval";
    const [low, high] = found;
    const doubt = low <= 0 && high >= 0 ? ": no difference shown" : "";
    return "95" + THIN_SPACE + "%: " + signed(low) + " to " + signed(high) + doubt;
  }

  function cell(run, data, base, baseData, [, value, format, key]) {
    const isEmpty = key !== undefined && run.response.count === 0;
    const shown = make("div", {}, isEmpty ? NONE : format(value(run)));
    if (run === base || isEmpty) return make("td", { class: "figure" }, shown);
    shown.append(" ", make("small", {}, difference(value(run), value(base))));
    const doubt = key ? make("small", {}, intervalText(baseData, data, key)) : "";
    return make("td", { class: "figure" }, shown, doubt);
  }

  function figuresTable(runs, all) {
    const ids = runs.map(({ id }) => id);
    const headings = runs.map((run, position) => {
      const to = make("button", { type: "button", class: "quiet" }, "make it the baseline");
      to.addEventListener("click", () => portal.choose([run.id, ...ids.filter((id) => id !== run.id)]));
      return [
        make("div", { class: "line" }, swatch(line(position)), report(run)),
        make("div", {}, run.candidate + " " + run.version),
        make("div", {}, position === 0 ? "baseline" : to),
      ];
    });
    const rows = FIGURES.map((figure) =>
      [figure[0], ...runs.map((run, position) => cell(run, all[position], runs[0], all[0], figure))]);
    return table("Figures side by side", ["", ...headings], rows);
  }

  // The same configuration?

  // Of texts of several lines, those lines that not all of them have.
  function distinct(values) {
    const split = values.map((value) => (value ?? NONE).split("\n"));
    if (split.every((lines) => lines.length === 1)) return values.map((value) => value ?? NONE);
    const isCommon = (line) => split.every((lines) => lines.includes(line));
    return split.map((lines) => lines.filter((line) => !isCommon(line)).join("\n") || "only lines that all have");
  }

  function differences(all) {
    const maps = all.map(({ settings }) => new Map(settings));
    const names = [...new Set(all.flatMap(({ settings }) => settings.map(([name]) => name)))];
    const values = (name) => maps.map((map) => map.get(name));
    const differing = names.filter((name) => new Set(values(name)).size > 1);
    return { names, differing: differing.map((name) => [name, ...distinct(values(name))]) };
  }

  function configuration(runs, all) {
    const { names, differing } = differences(all);
    const isSame = differing.length === 0;
    const answer = isSame
      ? "Yes. All " + names.length + " settings agree."
      : "No. " + differing.length + " of " + names.length + " settings differ.";
    const parts = [make("p", {}, make("strong", {}, "Same configuration? "), answer)];
    if (isSame) return parts;
    const rows = differing.map(([name, ...values]) =>
      [name, ...values.map((value) => make("td", { class: "setting" }, make("code", {}, value)))]);
    const headings = runs.map((run, position) => make("div", { class: "line" }, swatch(line(position)), run.id));
    parts.push(make("details", runs.length === 2 && rows.length <= 30 ? { open: "" } : {},
      make("summary", {}, "Differences"),
      table("What differs; of longer texts, the lines that do", ["Setting", ...headings], rows)));
    return parts;
  }

  // Charts.

  function overTime(runs, all, title, from, label) {
    const found = all.map(({ over_time: panel }) => panel.charts.find((chart) => chart.title === from));
    const tables = found.map((chart, position) => [
      all[position].over_time.at_s,
      chart?.series.find((series) => series.label === label).values ?? [],
    ]);
    const [at, ...values] = uPlot.join(tables.map(([at, values]) => (values.length > 0 ? [at, values] : [[], []])));
    const series = runs.map((run, position) => ({ label: run.id, line: line(position), values: values[position] }));
    const known = found.find((chart) => chart);
    const isLog = found.some((chart) => chart?.is_log);
    return { at, chart: { title, unit: known?.unit ?? "plain", is_log: isLog, series } };
  }

  function addOverTime(runs, all) {
    const instants = all.flatMap(({ over_time: { at_s: at } }) => (at.length > 0 ? [at[0], at.at(-1) + 1] : []));
    const group = charts.group({ key: "compared", start: Math.min(...instants, 0), end: Math.max(...instants, 1) });
    groups.push(group);
    for (const [title, from, label] of [
      ["Requests done per second", "Requests per second", "done"],
      ["Response time, p50", "Response time", "p50"],
      ["Response time, p99", "Response time", "p99"],
    ]) {
      const { at, chart } = overTime(runs, all, title, from, label);
      add(group, chart, at);
    }
  }

  function add(group, chart, at, columns) {
    const element = figure(chart, columns);
    place.append(element);
    group.add(element, chart, at);
  }

  // The axis of percentiles: equal steps from 90 % to 99 % to 99.9 %.
  const PERCENTILES = {
    format: (part) => percentile(part, Math.max(0, Math.ceil(Math.log10(part)) - 1)),
    axis: {
      space: 30,
      grid: { stroke: () => charts.colour("rule"), width: 1, filter: charts.powersOfTen },
      values: (_, parts) => charts.powersOfTen(null, parts)
        .map((part) => (part === null ? "" : percentile(part, Math.max(0, Math.round(Math.log10(part)) - 2)))),
    },
    scale: { distr: 3 },
  };
  const percentile = (part, decimals) => (100 - 100 / part).toFixed(decimals) + THIN_SPACE + "%";

  function addCurve(runs, all) {
    const curves = all.map(({ curve }) => [curve.map(([part]) => part), curve.map(([, ms]) => ms)]);
    const [at, ...values] = uPlot.join(curves);
    const series = runs.map((run, position) => ({ label: run.id, line: line(position), values: values[position] }));
    const chart = { title: "Response time by percentile", unit: "milliseconds", is_log: true, series };
    const group = charts.group({ key: "curves", start: 1, end: Math.max(...at, 10), x: PERCENTILES });
    groups.push(group);
    add(group, chart, at, []);
  }

  // Everything.

  // A run whose response times cannot be read.
  const unread = (all) => all.filter((data) => data.unread)
    .map((data) => make("p", { class: "note" }, data.id + " has no intervals and no curve: " + data.unread));

  function clear(text) {
    groups.splice(0).forEach((group) => group.clear());
    place.replaceChildren();
    hint.textContent = text;
    hint.hidden = text === "";
    method.hidden = text !== "";
  }

  async function show(_, runs) {
    const ids = runs.map(({ id }) => id).join();
    if (ids === compared) return;
    compared = ids;
    if (runs.length < 2) return clear("Choose two or more runs in the table.");
    const all = await Promise.all(runs.map(({ id }) => portal.load(id))).catch((error) => error);
    // The reader has chosen others meanwhile.
    if (ids !== compared) return;
    if (all instanceof Error) {
      compared = "";
      return clear(all.message);
    }
    clear("");
    place.append(...configuration(runs, all), ...unread(all), figuresTable(runs, all));
    addCurve(runs, all);
    addOverTime(runs, all);
  }

  portal.listen(show);
})();
