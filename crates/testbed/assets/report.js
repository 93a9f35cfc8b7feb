// Draws the charts of a report. They share their time axis, their cursor and what is zoomed in to.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = [];
  let shown = { min: data.start_s, max: data.end_s };
  const phone = matchMedia("(max-width: 40rem)");
  // As in report.css: a page that is about to be printed cannot measure itself.
  const PRINTED_WIDTH = 430;
  const THIN_SPACE = "\u202f";
  const NONE = "–";
  const LABEL_HEIGHT = 13;
  const TIME_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200,
    86400];

  // Numbers: three significant digits, as src/report/number.rs writes them.

  function significant(value) {
    const rounded = Number(value.toPrecision(3));
    const size = Math.abs(rounded);
    if (size !== 0 && (size < 1e-4 || size >= 1e15)) return rounded.toExponential(2).replaceAll("-", "−");
    const decimals = Number.isInteger(rounded) ? 0 : Math.max(0, 2 - Math.floor(Math.log10(size)));
    const [whole, rest] = rounded.toFixed(decimals).split(".");
    const grouped = whole.replace(/\B(?=(\d{3})+$)/g, THIN_SPACE);
    return (rest ? grouped + "." + rest : grouped).replace("-", "−");
  }

  function scaled(value, prefixes) {
    const size = Math.abs(Number(value.toPrecision(3)));
    const power = prefixes.findLastIndex((_, power) => power === 0 || size >= 1000 ** power);
    return significant(value / 1000 ** power) + THIN_SPACE + prefixes[power];
  }

  const bytes = (value) => scaled(value, ["B", "kB", "MB", "GB", "TB", "PB"]);
  const plain = (value) =>
    Math.abs(value) < 999500 ? significant(value) : scaled(value, ["", "k", "M", "G", "T", "P"]);

  function milliseconds(value) {
    const size = Math.abs(Number(value.toPrecision(3)));
    if (size >= 1000) return significant(value / 1000) + THIN_SPACE + "s";
    if (size >= 1 || size === 0) return significant(value) + THIN_SPACE + "ms";
    return significant(value * 1000) + THIN_SPACE + "µs";
  }

  const FORMATS = {
    plain,
    per_second: (value) => plain(value) + "/s",
    milliseconds,
    bytes,
    bytes_per_second: (value) => bytes(value) + "/s",
    share: (value) => significant(value * 100) + THIN_SPACE + "%",
  };

  function instant(seconds) {
    const tenths = Math.round(Math.abs(seconds) * 10);
    const whole = Math.floor(tenths / 10);
    const two = (value) => String(value).padStart(2, "0");
    const hours = Math.floor(whole / 3600);
    const minutes = Math.floor(whole / 60) % 60;
    const clock = hours > 0 ? hours + ":" + two(minutes) : String(minutes);
    const sign = seconds < 0 && tenths > 0 ? "−" : "";
    return sign + clock + ":" + two(whole % 60) + (tenths % 10 ? "." + (tenths % 10) : "");
  }

  // Drawing.

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const font = (size) => size * devicePixelRatio + "px system-ui, sans-serif";

  function shadeWarmUp(plot) {
    const { ctx, bbox } = plot;
    const end = Math.min(plot.valToPos(0, "x", true), bbox.left + bbox.width);
    if (end <= bbox.left) return;
    ctx.save();
    ctx.fillStyle = colour("shade");
    ctx.fillRect(bbox.left, bbox.top, end - bbox.left, bbox.height);
    ctx.restore();
  }

  function markErrors(plot) {
    const { ctx, bbox } = plot;
    const height = 4 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = colour("bad1");
    for (const [from, to] of data.spans_with_errors) {
      const start = Math.max(plot.valToPos(from, "x", true), bbox.left);
      const end = Math.min(plot.valToPos(to, "x", true), bbox.left + bbox.width);
      if (end > start) ctx.fillRect(start, bbox.top + bbox.height, Math.max(end - start, devicePixelRatio), height);
    }
    ctx.restore();
  }

  // A line per event, and its label above the chart: in the upper row if the next line would cross
  // it in the lower one, and nowhere if both are taken.
  function markEvents(plot) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    const right = bbox.left + bbox.width;
    const position = (event) => Math.round(plot.valToPos(event.at_s, "x", true)) + 0.5;
    const events = data.events.filter((event) => position(event) >= bbox.left && position(event) <= right);
    // Many lines would hide what they mark.
    const strength = Math.max(0.2, Math.min(1, 30 / events.length));
    let [lowerEnd, upperEnd] = [-Infinity, -Infinity];
    ctx.save();
    ctx.font = font(10.5);
    ctx.textAlign = "left";
    ctx.textBaseline = "bottom";
    ctx.lineWidth = ratio;
    ctx.fillStyle = ctx.strokeStyle = colour("muted");
    ctx.setLineDash([2 * ratio, 2 * ratio]);
    events.forEach((event, number) => {
      const x = position(event);
      const label = event.what.length > 40 ? event.what.slice(0, 39) + "…" : event.what;
      const width = ctx.measureText(label).width;
      const start = Math.max(bbox.left, Math.min(x - ratio, right - width));
      const end = start + width + 6 * ratio;
      const isCrossed = number + 1 < events.length && position(events[number + 1]) < end;
      const isLabelled = lowerEnd < start && (!isCrossed || upperEnd < start);
      const bottom = bbox.top - (isLabelled && isCrossed ? LABEL_HEIGHT * ratio : 0) - 2 * ratio;
      ctx.globalAlpha = strength;
      ctx.beginPath();
      ctx.moveTo(x, isLabelled ? bottom : bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (!isLabelled) return;
      ctx.globalAlpha = 1;
      ctx.fillText(label, start, bottom);
      if (isCrossed) upperEnd = end;
      else lowerEnd = end;
    });
    ctx.restore();
  }

  // Charts.

  const powersOfTen = (_, values) => values.map((value) => (Number.isInteger(Math.log10(value)) ? value : null));

  // Without zeros between zeros: lines of errors would hide the axis.
  const withoutZeros = (values) =>
    values.map((value, at) => (value === 0 && !values[at - 1] && !values[at + 1] ? null : value));

  const drawn = ({ line, values }) => (line.colour.startsWith("bad") ? withoutZeros(values) : values);

  function axes(chart) {
    const common = {
      stroke: () => colour("muted"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: () => colour("rule"), width: 1 },
      ticks: { show: false },
    };
    return [
      { ...common, space: 60, incrs: TIME_STEPS, size: 26, gap: 6, values: (_, at) => at.map(instant) },
      {
        ...common,
        grid: { ...common.grid, filter: chart.is_log ? powersOfTen : (_, values) => values },
        space: chart.is_log ? 20 : 24,
        size: phone.matches ? 62 : 76,
        values: (_, values) => values.map((value) => (value === null ? "" : FORMATS[chart.unit](value))),
      },
    ];
  }

  function yRange(chart) {
    // Charts start at zero: a line that is near the top is a large value, in each of them.
    if (!chart.is_log) return (_, low, high) => [Math.min(0, low ?? 0), Math.max(high * 1.06, chart.top ?? 0) || 1];
    return (_, low, high) => [low > 0 ? low * 0.8 : 0.1, high > 0 ? high * 1.25 : 10];
  }

  function show(element, chart, at) {
    const series = chart.series.map((one) => ({
      label: one.label,
      stroke: () => colour(one.line.colour),
      width: one.line.width,
      dash: one.line.dash,
      points: { show: at.length < 3 },
      // It would hide the axis as well.
      show: one.values.some((value) => value !== 0 && value !== null),
    }));
    const figure = element.parentElement;
    const rows = [...figure.querySelectorAll(".legend tbody tr")];
    const head = figure.querySelector(".legend thead .now");
    const plot = new uPlot({
      width: element.clientWidth,
      height: element.clientHeight,
      padding: [data.events.length > 0 ? 2 * LABEL_HEIGHT + 4 : 8, 24, 0, 0],
      legend: { show: false },
      scales: {
        x: { time: false, range: () => [shown.min, shown.max] },
        y: { distr: chart.is_log ? 3 : 1, range: yRange(chart) },
      },
      axes: axes(chart),
      series: [{}, ...series],
      cursor: {
        y: false,
        points: { size: 6 },
        sync: { key: "run", filters: { pub: (type) => type !== "mousedown" && type !== "mouseup" } },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => zoomOut },
      },
      hooks: {
        drawClear: [shadeWarmUp],
        drawAxes: [markEvents],
        draw: [markErrors],
        setSelect: [zoomIn],
        setCursor: [(plot) => read(plot, element, chart, at, head, rows)],
      },
    }, [at, ...chart.series.map(drawn)], element);

    rows.forEach((row, position) => {
      const button = row.querySelector("button");
      const set = (isShown) => {
        plot.setSeries(position + 1, { show: isShown });
        button.setAttribute("aria-pressed", isShown);
      };
      button.addEventListener("click", () => set(!plot.series[position + 1].show));
    });
    return { element, plot };
  }

  // What the cursor points at, in the legend and for screen readers.
  function read(plot, element, chart, at, head, rows) {
    const index = plot.cursor.idx;
    const isOff = index === null || index === undefined;
    const format = FORMATS[chart.unit];
    const texts = chart.series.map(({ values }) =>
      isOff || values[index] === null ? NONE : format(values[index]));
    head.textContent = isOff ? "at cursor" : "at " + instant(Math.round(at[index]));
    rows.forEach((row, position) => { row.querySelector(".now").textContent = texts[position]; });
    if (document.activeElement !== element || isOff) return;
    element.setAttribute("aria-valuenow", at[index]);
    const spoken = chart.series.map(({ label }, position) => label + " " + texts[position]);
    element.setAttribute("aria-valuetext", [instant(Math.round(at[index])), ...spoken].join(", "));
  }

  function zoomIn(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  }

  const zoomOut = () => zoom(data.start_s, data.end_s);

  function zoom(min, max) {
    shown = { min, max };
    charts.forEach(({ plot }) => {
      plot.setScale("x", { min, max });
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    });
  }

  function onKey(event, plot, at) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60, Home: -Infinity, End: Infinity };
    if (event.key === "Escape") return zoomOut();
    if (!(event.key in steps) || at.length === 0) return;
    event.preventDefault();
    const index = (plot.cursor.idx ?? -1) + steps[event.key] * (event.shiftKey ? 10 : 1);
    const to = at[Math.max(0, Math.min(at.length - 1, index))];
    plot.setCursor({ left: plot.valToPos(to, "x"), top: 1 }, true, true);
  }

  data.panels.forEach(({ at_s: at, charts: panel }) => panel.forEach((chart) => {
    const element = document.querySelector("#" + chart.id + " .plot");
    const added = show(element, chart, at);
    charts.push(added);
    element.tabIndex = 0;
    element.setAttribute("role", "slider");
    element.setAttribute("aria-label", "Cursor of the chart “" + chart.title + "”");
    element.setAttribute("aria-valuemin", data.start_s);
    element.setAttribute("aria-valuemax", data.end_s);
    element.setAttribute("aria-valuenow", data.start_s);
    element.setAttribute("aria-valuetext", "not set");
    element.addEventListener("keydown", (event) => onKey(event, added.plot, at));
  }));

  // Width, colours and print.

  const fit = (width) => charts.forEach(({ element, plot }) =>
    plot.setSize({ width: width ?? element.clientWidth, height: element.clientHeight }));
  const redraw = () => charts.forEach(({ plot }) => plot.redraw(false, true));

  let isPrinted = false;
  let opened = [];
  new ResizeObserver(() => { if (!isPrinted) fit(); }).observe(document.body);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  addEventListener("beforeprint", () => {
    isPrinted = true;
    document.documentElement.classList.add("prints");
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((details) => { details.open = true; });
    fit(PRINTED_WIDTH);
    redraw();
  });
  addEventListener("afterprint", () => {
    isPrinted = false;
    document.documentElement.classList.remove("prints");
    opened.forEach((details) => { details.open = false; });
    fit();
    redraw();
  });
})();
