// Draws the charts of a report: what happened, the warm-up and errors in them, beside what all charts
// have.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { colour, font } = charts;
  const LABEL_HEIGHT = 13;

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

  // Without zeros between zeros: lines of errors would hide the axis.
  const withoutZeros = (values) =>
    values.map((value, at) => (value === 0 && !values[at - 1] && !values[at + 1] ? null : value));

  const drawn = ({ line, values }) => (line.colour.startsWith("bad") ? withoutZeros(values) : values);

  const run = charts.group({
    key: "run",
    start: data.start_s,
    end: data.end_s,
    hooks: { drawClear: [shadeWarmUp], drawAxes: [markEvents], draw: [markErrors] },
    top: data.events.length > 0 ? 2 * LABEL_HEIGHT + 4 : 8,
  });
  data.panels.forEach(({ at_s: at, charts: panel }) => panel.forEach((chart) => {
    const series = chart.series.map((one) => ({ ...one, drawn: drawn(one) }));
    run.add(document.getElementById(chart.id), { ...chart, series }, at);
  }));

  // In an archive a report is in the folder `data` of its run; in a portal it is in that of the run.
  const ceiling = document.querySelector("#ceiling a");
  if (ceiling && !location.pathname.endsWith("/data/report.html")) {
    ceiling.href = "../" + ceiling.dataset.run + "/report.html";
  }
})();
