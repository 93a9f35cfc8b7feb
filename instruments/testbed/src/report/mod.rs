//! One page per run, in one file that needs no network: the verdict, charts over time, and all that
//! the run's files hold.

pub(crate) mod ceiling;
mod columns;
mod facts;
mod figure;
mod head;
mod monitors;
mod panel;
mod requests;
mod tables;

use std::ops::RangeInclusive;

use maud::{Markup, html};
use serde::Serialize;

use crate::beside::LogExcerpt;
use crate::page::{Document, number, script};
use crate::record::RunRecord;
use crate::results::{Judgement, Second, Summary};
use crate::samples::{Marked, Samples};
pub use ceiling::Ceiling;
use monitors::Monitor;
use panel::Panel;

/// A chart is about 1,000 pixels wide: more points than this are not seen.
const POINTS_MAX: usize = 4_000;

/// Values of all charts: about three megabytes of the page.
const VALUES_MAX: usize = 400_000;

/// Nobody reads more events than this, and no chart has room for them.
const EVENTS_MAX: usize = 1_000;

/// What a report does itself.
const REPORT: &str = include_str!("../../assets/report.js");

/// Its sections, by their ids.
const SECTIONS: [(&str, &str); 5] =
    [("charts", "Over time"), ("steps", "Steps"), ("errors", "Errors"), ("machines", "Machines"), ("record", "Record")];

/// What a page is made from.
pub struct Inputs<'a> {
    /// What makes the run traceable.
    pub record: &'a RunRecord,
    /// What the run shows.
    pub judgement: &'a Judgement,
    /// Its results.
    pub summary: &'a Summary,
    /// Its seconds, in any order.
    pub seconds: &'a [Second],
    /// What each monitor sampled, in any order. What was sampled before the first second or after
    /// the last one is not shown.
    pub monitors: &'a [Samples],
    /// What happened, in any order.
    pub events: &'a [Marked],
    /// The text of the plan.
    pub plan_toml: &'a str,
    /// What the candidate printed around the first error, on each machine.
    pub logs: &'a [&'a LogExcerpt],
    /// The most that the generator has shown on its machine.
    pub ceiling: Option<Ceiling>,
    /// The files of the run that lie with the page: their paths from its folder.
    pub files: &'a [&'a str],
}

/// What `assets/report.js` draws.
#[derive(Serialize)]
struct Data<'a> {
    start_s: f64,
    end_s: f64,
    spans_with_errors: Vec<(i64, i64)>,
    events: &'a [Marked],
    panels: Vec<Panel>,
}

/// A page that shows a run.
pub fn page(inputs: &Inputs<'_>) -> String {
    let span_s = span_s(inputs);
    let events = sorted_events(inputs.events);
    let shown_events = events.get(..EVENTS_MAX).unwrap_or(&events);
    let mut seconds = inputs.seconds.to_vec();
    seconds.sort_by_key(|second| second.at_s);
    let mut requests = requests::panel(&seconds);
    let mut monitors: Vec<_> = inputs.monitors.iter().map(|samples| monitors::monitor(samples, &span_s)).collect();
    number_charts(&mut requests, &mut monitors);

    let panels = || [&requests].into_iter().chain(monitors.iter().map(|monitor| &monitor.panel));
    let series = panels().map(Panel::series_count).sum::<usize>();
    let points_max = (VALUES_MAX / series.max(1)).clamp(POINTS_MAX / 10, POINTS_MAX);
    let thinned_s = panel::bucket_s(&requests.at_s, points_max);
    let data = Data {
        start_s: *span_s.start(),
        end_s: *span_s.end(),
        spans_with_errors: requests::spans_with_errors(&seconds, thinned_s.unwrap_or(0.0) as i64),
        events: shown_events,
        panels: panels().map(|panel| panel.thinned(points_max)).collect(),
    };

    let events = tables::events(shown_events, events.len());
    let content = html! {
        (head::head(inputs))
        main {
            (charts(&requests, &monitors, &events, thinned_s))
            (tables::steps(inputs.summary))
            (tables::errors(&inputs.summary.errors, inputs.logs))
            (facts::machines(inputs.record, inputs.summary))
            (facts::record(inputs))
        }
    };
    let document = Document {
        title: &head::title(inputs),
        sections: &SECTIONS,
        styles: &[],
        scripts: &[REPORT],
        loads_scripts: false,
    };
    document.page(&content, &script::json(&data)).into_string()
}

/// The charts of requests over time, for a page that shows several runs. The seconds are in ascending
/// order.
pub(crate) fn over_time(seconds: &[Second], points_max: usize) -> impl Serialize + use<> {
    requests::panel(seconds).thinned(points_max)
}

fn sorted_events(events: &[Marked]) -> Vec<Marked> {
    let mut events: Vec<_> = events.iter().filter(|event| event.at_s.is_finite()).cloned().collect();
    events.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    events
}

/// From the first second to the end of the last one; without seconds, all that was sampled.
fn span_s(inputs: &Inputs<'_>) -> RangeInclusive<f64> {
    let seconds = || inputs.seconds.iter().map(|second| second.at_s as f64);
    let samples = || inputs.monitors.iter().flat_map(|samples| samples.rows.iter().map(|(at_s, _)| *at_s));
    let samples = || samples().filter(|at_s| at_s.is_finite());
    let around = |start: f64, end: f64| (start < end).then_some(start..=end);
    around(seconds().fold(f64::INFINITY, f64::min), seconds().fold(f64::NEG_INFINITY, f64::max) + 1.0)
        .or_else(|| around(samples().fold(f64::INFINITY, f64::min), samples().fold(f64::NEG_INFINITY, f64::max)))
        .unwrap_or(0.0..=1.0)
}

fn number_charts(requests: &mut Panel, monitors: &mut [Monitor]) {
    let panels = [requests].into_iter().chain(monitors.iter_mut().map(|monitor| &mut monitor.panel));
    for (number, chart) in panels.flat_map(|panel| &mut panel.charts).enumerate() {
        chart.id = format!("chart-{number}");
    }
}

fn charts(requests: &Panel, monitors: &[Monitor], events: &Markup, thinned_s: Option<f64>) -> Markup {
    html! {
        section.charts id="charts" {
            h2 { "Over time" }
            p.note {
                "Time is in minutes and seconds since the start instant; the warm-up before it is shaded. "
                "Red below a chart marks seconds with errors, refusals or time-outs. "
                span.interactive {
                    "Drag to zoom in, double-click or press Escape to zoom out; arrow keys move the cursor."
                }
                @if let Some(thinned_s) = thinned_s {
                    " Each point sums up " (number::Unit::Milliseconds.format(thinned_s * 1e3))
                    ": the highest p99, response time, pause and number of errors, and the mean of all else."
                }
            }
            noscript {
                p.note { "A script draws the lines, and this browser runs none. The tables list their main figures." }
            }
            @for chart in &requests.charts { (figure::figure(chart, &requests.at_s)) }
            @for monitor in monitors {
                h3 { "Monitor " (monitor.name) }
                @for chart in &monitor.panel.charts { (figure::figure(chart, &monitor.panel.at_s)) }
                @if !monitor.others.is_empty() { (tables::others(&monitor.name, &monitor.others)) }
            }
            (events)
        }
    }
}

#[cfg(test)]
mod tests;
