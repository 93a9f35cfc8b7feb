//! Tables of requests, errors, events, and of values without a chart.

use maud::{Markup, html};

use super::monitors::Other;
use crate::beside::LogExcerpt;
use crate::page::number::{NONE, bytes, count, instant, milliseconds};
use crate::page::table;
use crate::results::{ErrorTally, StepTally, Summary, Tally, Times};
use crate::samples::Marked;

/// More events than this are hidden until the reader opens them.
const EVENTS_OPEN_MAX: usize = 20;

/// Requests and their times, per step.
pub(super) fn steps(summary: &Summary) -> Markup {
    html! {
        section id="steps" {
            h2 { "Steps" }
            (table("Requests per step", &html! {
                thead { tr {
                    th scope="col" { "Step" }
                    @for name in ["due", "sent", "late", "done", "conflicts", "refused", "errors", "never sent",
                        "bytes sent", "bytes received"] {
                        th.number scope="col" { (name) }
                    }
                } }
                tbody {
                    @for step in &summary.steps { (count_row(&step_name(step), &step.tally)) }
                }
                tfoot { (count_row("all", &summary.all)) }
            }))
            (table("Times of requests per step", &html! {
                thead { tr {
                    th scope="col" { "Step" }
                    th scope="col" { "time" }
                    @for name in ["count", "mean", "lowest", "p50", "p90", "p95", "p99", "p99.9", "highest"] {
                        th.number scope="col" { (name) }
                    }
                } }
                @for step in &summary.steps { (time_rows(&step_name(step), &step.tally, None)) }
                (time_rows("all", &summary.all, Some(&summary.punctual).filter(|times| times.count > 0)))
            }))
            p.note {
                "Response: from the instant when a request was due to the end of its response. "
                "Service: from sending to the end. First byte: from sending to the first byte. These three count "
                "requests that were done. Lateness: from the instant when a request was due until the generator took "
                "it up; all requests. Punctual response: the response without the lateness. An answer that arrives "
                "while the generator does nothing is read when it goes on: in all times but the lateness it is late "
                "by that."
            }
        }
    }
}

fn step_name(step: &StepTally) -> String {
    format!("{}/{}", step.scenario, step.step)
}

fn count_row(name: &str, tally: &Tally) -> Markup {
    let good = [tally.due, tally.sent];
    html! {
        tr {
            th scope="row" { (name) }
            @for value in good { td.number { (count(value)) } }
            td.number.bad[tally.late > 0] { (count(tally.late)) }
            @for value in [tally.done, tally.conflicts] { td.number { (count(value)) } }
            @for value in [tally.refused, tally.failed, tally.dropped] {
                td.number.bad[value > 0] { (count(value)) }
            }
            @for value in [tally.sent_bytes, tally.received_bytes] { td.number { (bytes(value as f64)) } }
        }
    }
}

/// `punctual` are the response times without the lateness of the generator, where they are known.
fn time_rows(name: &str, tally: &Tally, punctual: Option<&Times>) -> Markup {
    let [response, rest @ ..] = [
        ("response", &tally.response),
        ("service", &tally.service),
        ("first byte", &tally.first_byte),
        ("lateness", &tally.lateness),
    ];
    let rows = 1 + rest.len() + usize::from(punctual.is_some());
    let rest = rest.into_iter().chain(punctual.map(|times| ("punctual response", times)));
    html! {
        tbody {
            tr { th scope="rowgroup" rowspan=(rows) { (name) } (time_cells(response)) }
            @for row in rest { tr { (time_cells(row)) } }
        }
    }
}

fn time_cells((name, times): (&str, &Times)) -> Markup {
    let values = [
        times.mean_ms,
        times.min_ms,
        times.p50_ms,
        times.p90_ms,
        times.p95_ms,
        times.p99_ms,
        times.p999_ms,
        times.max_ms,
    ];
    let text = |value| if times.count == 0 { NONE.to_owned() } else { milliseconds(value) };
    html! {
        th.kind scope="row" { (name) }
        td.number { (count(times.count)) }
        @for value in values { td.number { (text(value)) } }
    }
}

/// What went wrong, by kind, and what the candidate printed around the first of it.
pub(super) fn errors(errors: &[ErrorTally], logs: &[&LogExcerpt]) -> Markup {
    let logs = logs.iter().filter(|log| !log.lines.is_empty());
    html! {
        section id="errors" {
            h2 { "Errors" }
            @if errors.is_empty() {
                p { "None." }
            } @else {
                (table("Errors by kind, in the order of their first occurrence", &html! {
                    thead { tr {
                        th scope="col" { "Kind" }
                        th.number scope="col" { "count" }
                        th.number scope="col" { "first at" }
                        th scope="col" { "first in step" }
                    } }
                    tbody {
                        @for error in errors {
                            tr {
                                th scope="row" { (error.kind) }
                                td.number.bad { (count(error.count)) }
                                td.number { (instant(error.first_at_us as f64 / 1e6)) }
                                td { (error.step) }
                            }
                        }
                    }
                }))
            }
            @for log in logs {
                h3 {
                    "What the candidate printed around " (instant(log.at_s))
                    @if let Some(source) = &log.source { " (" (source) ")" }
                }
                pre { (log.lines.join("\n")) }
            }
        }
    }
}

/// What happened when: the first ones of `all`. Nothing, if nothing happened.
pub(super) fn events(events: &[Marked], all: usize) -> Markup {
    if events.is_empty() {
        return Markup::default();
    }
    let caption = match all > events.len() {
        true => format!("Events, the first {} of {}", count(events.len() as u64), count(all as u64)),
        false => "Events, in the order of time".to_owned(),
    };
    let rows = html! {
        thead { tr { th.number scope="col" { "at" } th scope="col" { "what" } } }
        tbody {
            @for event in events { tr { th.number scope="row" { (instant(event.at_s)) } td { (event.what) } } }
        }
    };
    html! {
        details open[events.len() <= EVENTS_OPEN_MAX] {
            summary { "Events" small { " " (count(all as u64)) } }
            (table(&caption, &rows))
        }
    }
}

/// Values of a monitor that have no chart.
pub(super) fn others(monitor: &str, others: &[Other]) -> Markup {
    let caption = format!("Values of {monitor} without a chart");
    table(
        &caption,
        &html! {
            thead { tr {
                th scope="col" { "Value" }
                @for name in ["lowest", "median", "highest"] { th.number scope="col" { (name) } }
            } }
            tbody {
                @for other in others {
                    @let figures = other.figures;
                    tr {
                        th scope="row" { (other.name) }
                        @for value in [figures.lowest, figures.median, figures.highest] {
                            td.number { (other.unit.format(value)) }
                        }
                    }
                }
            }
        },
    )
}
