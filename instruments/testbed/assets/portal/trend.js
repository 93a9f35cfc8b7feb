// The trend of runs of one plan and candidate, and the highest rates by nodes or workers.
"use strict";
(() => {
  const { make, report, line, table, figure } = figures;
  const { FORMATS, NONE, colour } = charts;
  const groups = { trend: [], rates: [] };

  function begin(section) {
    groups[section].splice(0).forEach((group) => group.clear());
    const place = document.querySelector("#" + section + " .drawn");
    place.replaceChildren();
    return place;
  }

  function add(section, place, group, chart, at, columns) {
    groups[section].push(group);
    const element = figure(chart, columns);
    place.append(element);
    group.add(element, chart, at);
  }

  // Trend.

  // A mark by verdict, so that it does not need a colour.
  const MARKS = {
    held: (ctx, x, y, size) => {
      ctx.arc(x, y, size, 0, 2 * Math.PI);
      ctx.fill();
    },
    degrading: (ctx, x, y, size) => {
      ctx.moveTo(x, y - size * 1.2);
      ctx.lineTo(x + size * 1.1, y + size * 0.9);
      ctx.lineTo(x - size * 1.1, y + size * 0.9);
      ctx.fill();
    },
    failed: (ctx, x, y, size) => {
      ctx.moveTo(x - size, y - size);
      ctx.lineTo(x + size, y + size);
      ctx.moveTo(x + size, y - size);
      ctx.lineTo(x - size, y + size);
      ctx.stroke();
    },
    void: (ctx, x, y, size) => {
      ctx.rect(x - size, y - size, 2 * size, 2 * size);
      ctx.stroke();
    },
  };

  const marks = (runs, lines) => (plot) => {
    const { ctx } = plot;
    ctx.save();
    ctx.lineWidth = 2 * devicePixelRatio;
    lines.forEach(({ colour: name }, position) => {
      if (!plot.series[position + 1].show) return;
      ctx.fillStyle = ctx.strokeStyle = colour(name);
      runs.forEach((run, at) => {
        const value = plot.data[position + 1][at];
        if (value === null || value === undefined) return;
        ctx.beginPath();
        const x = plot.valToPos(plot.data[0][at], "x", true);
        MARKS[run.verdict](ctx, x, plot.valToPos(value, "y", true), 4 * devicePixelRatio);
      });
    });
    ctx.restore();
  };

  const DAY_S = 86400;
  const date = (at, hasTime) => {
    const text = new Date(at * 1000).toISOString();
    return hasTime ? text.slice(5, 16).replace("T", " ") : text.slice(0, 10);
  };
  const dates = (runs) => ({
    format: (_, index) => runs[index].id,
    axis: {
      space: 90,
      incrs: [60, 300, 900, 3600, 10800, 21600, DAY_S, 2 * DAY_S, 7 * DAY_S, 30 * DAY_S, 91 * DAY_S, 365 * DAY_S],
      values: (_, instants, __, ___, step) => instants.map((at) => date(at, step < DAY_S)),
    },
    scale: {},
  });
  const commits = (runs, names) => ({
    format: (_, index) => runs[index].id,
    axis: {
      space: 80,
      incrs: [1, 2, 5, 10, 20, 50, 100],
      values: (_, splits) => splits.map((at) => names[at]?.slice(0, 10) ?? ""),
    },
    scale: {},
  });

  function showTrend(shown) {
    const place = begin("trend");
    const runs = shown.filter((run) => run.plan_sha256 + " " + run.candidate === portal.field("trend"))
      .sort((one, other) => one.started_at.localeCompare(other.started_at));
    if (runs.length === 0) return place.append(make("p", {}, "None of these runs is shown."));
    const isByCommit = portal.field("trend_by") === "commit";
    // Commits are in the order of their first runs.
    const names = [...new Set(runs.map((run) => run.commit ?? "not known"))];
    const position = (run) =>
      isByCommit ? names.indexOf(run.commit ?? "not known") : Date.parse(run.started_at) / 1000;
    runs.sort((one, other) => position(one) - position(other));
    const at = runs.map(position);
    const margin = (at.at(-1) - at[0]) * 0.04 || (isByCommit ? 1 : 3600);
    const x = isByCommit ? commits(runs, names) : dates(runs);
    const time = (key) => runs.map(({ response }) => (response.count > 0 ? response[key] : null));
    const spread = (values) => Math.max(...values) > 50 * Math.min(...values.filter((value) => value > 0));
    const one = (title, unit, series) => {
      const is_log = unit === "milliseconds" && spread(series.flatMap(([, values]) => values));
      const lines = series.map((_, position) => line(position));
      const chart = { title, unit, is_log, series: series.map(([label, values], position) =>
        ({ label, values, line: lines[position], options: { width: 1, points: { show: false } } })) };
      const group = charts.group({
        key: "trend", start: at[0] - margin, end: at.at(-1) + margin, x, hooks: { draw: [marks(runs, lines)] },
      });
      add("trend", place, group, chart, at);
    };
    one("Rate done", "per_second", [["done", runs.map((run) => run.rate_done)]]);
    one("Response time", "milliseconds", [["p50", time("p50_ms")], ["p99", time("p99_ms")]]);
  }

  // Rates.

  function highestRates(runs, by) {
    const rates = new Map();
    for (const run of runs) {
      const number = Number(by === "nodes" ? run.facts.nodes ?? NaN : run.workers);
      if (!Number.isFinite(number) || run.verdict !== "held") continue;
      if (!rates.has(run.candidate)) rates.set(run.candidate, new Map());
      const known = rates.get(run.candidate).get(number);
      if (!known || known.rate_done < run.rate_done) rates.get(run.candidate).set(number, run);
    }
    return rates;
  }

  function showRates(shown) {
    const place = begin("rates");
    const by = portal.field("rates_by");
    const runs = shown.filter((run) => Object.keys(run.scenarios).join(", ") === portal.field("rates"));
    const rates = highestRates(runs, by);
    const numbers = [...new Set([...rates.values()].flatMap((of) => [...of.keys()]))].sort((a, b) => a - b);
    if (numbers.length === 0) {
      return place.append(make("p", {}, "None of these runs has held its load with a known number of " + by + "."));
    }
    const candidates = [...rates.keys()].sort();
    const series = candidates.map((label, position) => ({
      label,
      line: line(position),
      values: numbers.map((number) => rates.get(label).get(number)?.rate_done ?? null),
      options: { spanGaps: true, points: { show: true, size: 8 } },
    }));
    const x = {
      format: (number) => number + " " + by,
      axis: { space: 60, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000], values: (_, splits) => splits },
      scale: {},
    };
    const chart = { title: "Highest rate held, by number of " + by, unit: "per_second", is_log: false, series };
    const group = charts.group({ key: "rates", start: 0, end: numbers.at(-1) * 1.05 + 0.5, x });
    add("rates", place, group, chart, numbers, []);
    const cell = (run) => make("td", { class: "figure" },
      ...(run ? [make("div", {}, FORMATS.per_second(run.rate_done)), make("small", {}, report(run))] : [NONE]));
    const rows = numbers.map((number) =>
      [String(number), ...candidates.map((candidate) => cell(rates.get(candidate).get(number)))]);
    place.append(table("Highest rate held", [by, ...candidates], rows));
  }

  portal.listen(showTrend);
  portal.listen(showRates);
})();
