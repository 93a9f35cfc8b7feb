// Parts of the page that scripts make: elements, tables, and charts with their legends.
"use strict";
const figures = (() => {
  const COLOURS = ["s1", "s2", "s3", "s4", "s5", "s6"];
  const DASHES = [[], [7, 3], [2, 3]];

  // An element with attributes and children. Texts stay texts.
  function make(name, attributes, ...children) {
    const element = document.createElement(name);
    Object.entries(attributes ?? {}).forEach(([key, value]) => element.setAttribute(key, value));
    element.append(...children);
    return element;
  }

  const report = (run) => make("a", { href: "runs/" + run.id + "/report.html" }, run.id);

  // The line of the nth series, as src/report/panel.rs has it: colours first, then dashes.
  const line = (position) => ({
    colour: COLOURS[position % COLOURS.length],
    dash: DASHES[Math.floor(position / COLOURS.length) % DASHES.length],
    width: 1.5,
  });

  function swatch({ colour, dash }) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const stroke = document.createElementNS(svg.namespaceURI, "line");
    const set = (element, attributes) =>
      Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    set(svg, { class: colour, width: 20, height: 8, "aria-hidden": true });
    set(stroke, { x1: 0, x2: 20, y1: 4, y2: 4, "stroke-width": 2, "stroke-dasharray": dash.join(" ") });
    svg.append(stroke);
    return svg;
  }

  // A table with a heading row and rows of cells; the first cell of a row is its heading.
  function table(caption, headings, rows) {
    const heading = (content, position) =>
      make("th", { scope: "col", class: position > 0 ? "figure" : "" }, ...[content].flat());
    const row = ([first, ...cells]) => make("tr", {}, make("th", { scope: "row" }, first), ...cells);
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
      make("table", {},
        make("caption", {}, caption),
        make("thead", {}, make("tr", {}, ...headings.map(heading))),
        make("tbody", {}, ...rows.map(row))));
  }

  const isKnown = (value) => value !== null && value !== undefined;

  function median(values) {
    const known = values.filter(isKnown).sort((a, b) => a - b);
    return known[Math.floor((known.length - 1) / 2)];
  }

  const highest = (values) => values.filter(isKnown).reduce((high, value) => Math.max(high, value), -Infinity);

  // The place of a chart and its legend, as src/report/figure.rs writes it. `columns` sum up a line.
  function figure(chart, columns = [["median", median], ["highest", highest]]) {
    const format = (value) => (Number.isFinite(value) ? charts.FORMATS[chart.unit](value) : charts.NONE);
    const number = (name) => make("th", { scope: "col", class: "number" }, name);
    const row = ({ label, line, values }) => make("tr", {},
      make("th", { scope: "row" },
        make("button", { type: "button", "aria-pressed": true, title: "Shows or hides this line" },
          swatch(line), make("span", {}, label))),
      make("td", { class: "now number" }, charts.NONE),
      ...columns.map(([, of]) => make("td", { class: "number" }, format(of(values)))));
    return make("figure", { class: "chart large" },
      make("figcaption", {}, chart.title, chart.is_log ? make("small", {}, " log scale") : ""),
      make("div", { class: "plot" }),
      make("div", { class: "scroll" },
        make("table", { class: "legend" },
          make("caption", { class: "unseen" }, "Lines of the chart “" + chart.title + "”"),
          make("thead", {}, make("tr", {},
            make("th", { scope: "col" }, "Line"),
            make("th", { scope: "col", class: "now number" }, "at cursor"),
            ...columns.map(([name]) => number(name)))),
          make("tbody", {}, ...chart.series.map(row)))));
  }

  return { make, report, line, swatch, table, figure };
})();
