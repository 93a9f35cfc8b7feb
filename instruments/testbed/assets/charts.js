// What charts of all pages have in common: how numbers are written, axes, the cursor, zooming, and
// how charts follow the width of the page, its colours and print.
"use strict";
const charts = (() => {
  const phone = matchMedia("(max-width: 40rem)");
  // As in report.css: a page that is about to be printed cannot measure itself.
  const PRINTED_WIDTH = 430;
  const THIN_SPACE = "\u202f";
  const NONE = "–";
  const TIME_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200,
    86400];
  const shownPlots = new Set();

  // Numbers: three significant digits, as src/page/number.rs writes them.

  function significant(value) {
    const rounded = Number(value.toPrecision(3));
    const size = Math.abs(rounded);
    if (size !== 0 && (size < 1e-4 || size >= 1e15)) return rounded.toExponential(2).replaceAll("-", "−");
    const decimals = Number.isInteger(rounded) ? 0 : Math.max(0, 2 - Math.floor(Math.log10(size)));
    const [whole, rest] = rounded.toFixed(decimals).split(".");
    const grouped = count(whole);
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

  // All digits.
  const count = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, THIN_SPACE);

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
  const powersOfTen = (_, values) => values.map((value) => (Number.isInteger(Math.log10(value)) ? value : null));

  // The x axis of charts over time.
  const TIME = {
    format: (seconds) => instant(Math.round(seconds)),
    axis: { space: 60, incrs: TIME_STEPS, values: (_, at) => at.map(instant) },
    scale: {},
  };

  function axes(chart, x) {
    const common = {
      stroke: () => colour("muted"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: () => colour("rule"), width: 1 },
      ticks: { show: false },
    };
    return [
      { ...common, size: 26, gap: 6, ...x.axis },
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

  // A group of charts that share their x axis, their cursor and what is zoomed in to. `x` says how the
  // axis is written; `hooks` of uPlot draw what is in each chart besides its lines.
  function group({ key, start, end, x = TIME, hooks = {}, top = 8 }) {
    const members = [];
    let shown = { min: start, max: end };

    const zoomOut = () => zoom(start, end);

    function zoom(min, max) {
      shown = { min, max };
      members.forEach(({ plot }) => {
        plot.setScale("x", { min, max });
        plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
      });
    }

    function zoomIn(plot) {
      const { left, width } = plot.select;
      if (width < 4) return;
      zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
    }

    // Draws a chart in a figure with a place for it and a legend. A series may bring options of uPlot.
    function add(figure, chart, at) {
      const element = figure.querySelector(".plot");
      const rows = [...figure.querySelectorAll(".legend tbody tr")];
      const head = figure.querySelector(".legend thead .now");
      const series = chart.series.map(({ label, line, values, options }) => ({
        label,
        stroke: () => colour(line.colour),
        width: line.width,
        dash: line.dash,
        points: { show: at.length < 3 },
        // A line of zeros would hide the axis.
        show: values.some((value) => (value ?? 0) !== 0),
        ...options,
      }));
      const plot = new uPlot({
        width: element.clientWidth,
        height: element.clientHeight,
        padding: [top, 24, 0, 0],
        legend: { show: false },
        scales: {
          x: { time: false, ...x.scale, range: () => [shown.min, shown.max] },
          y: { distr: chart.is_log ? 3 : 1, range: yRange(chart) },
        },
        axes: axes(chart, x),
        series: [{}, ...series],
        cursor: {
          y: false,
          points: { size: 6 },
          sync: { key, filters: { pub: (type) => type !== "mousedown" && type !== "mouseup" } },
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => zoomOut },
        },
        hooks: { ...hooks, setSelect: [zoomIn], setCursor: [(plot) => read(plot, element, chart, at, x, head, rows)] },
      }, [at, ...chart.series.map(({ drawn, values }) => drawn ?? values)], element);

      rows.forEach((row, position) => {
        const button = row.querySelector("button");
        const set = (isShown) => {
          plot.setSeries(position + 1, { show: isShown });
          button.setAttribute("aria-pressed", isShown);
        };
        button.addEventListener("click", () => set(!plot.series[position + 1].show));
      });
      slide(element, chart, plot, at);
      const member = { element, plot };
      members.push(member);
      shownPlots.add(member);
    }

    // The cursor by keys.
    function slide(element, chart, plot, at) {
      element.tabIndex = 0;
      element.setAttribute("role", "slider");
      element.setAttribute("aria-label", "Cursor of the chart “" + chart.title + "”");
      element.setAttribute("aria-valuemin", start);
      element.setAttribute("aria-valuemax", end);
      element.setAttribute("aria-valuenow", start);
      element.setAttribute("aria-valuetext", "not set");
      element.onkeydown = (event) => onKey(event, plot, at);
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

    // Removes all charts of the group.
    function clear() {
      members.splice(0).forEach((member) => {
        member.plot.destroy();
        shownPlots.delete(member);
      });
    }

    return { add, clear };
  }

  // What the cursor points at, in the legend and for screen readers.
  function read(plot, element, chart, at, x, head, rows) {
    const index = plot.cursor.idx;
    const isOff = index === null || index === undefined;
    const format = FORMATS[chart.unit];
    const texts = chart.series.map(({ values }) =>
      isOff || (values[index] ?? null) === null ? NONE : format(values[index]));
    head.textContent = isOff ? "at cursor" : "at " + x.format(at[index], index);
    rows.forEach((row, position) => { row.querySelector(".now").textContent = texts[position]; });
    if (document.activeElement !== element || isOff) return;
    element.setAttribute("aria-valuenow", at[index]);
    const spoken = chart.series.map(({ label }, position) => label + " " + texts[position]);
    element.setAttribute("aria-valuetext", [x.format(at[index], index), ...spoken].join(", "));
  }

  // Width, colours and print.

  const fit = (width) => shownPlots.forEach(({ element, plot }) =>
    plot.setSize({ width: width ?? element.clientWidth, height: element.clientHeight }));
  const redraw = () => shownPlots.forEach(({ plot }) => plot.redraw(false, true));

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

  return { FORMATS, NONE, THIN_SPACE, count, significant, instant, colour, font, powersOfTen, group };
})();
