//! The top of a page: what was run, the verdict and the most important figures.

use maud::{Markup, html};

use super::Inputs;
use super::ceiling::{command, protocol};
use crate::page::number::{self, NONE, Unit, significant};
use crate::page::verdict;
use crate::record::{Program, RunRecord};
use crate::results::{Tally, Verdict};

/// The page's title, as the browser shows it.
pub(super) fn title(inputs: &Inputs<'_>) -> String {
    let untraceable = if inputs.record.missing.is_empty() { "" } else { "Untraceable: " };
    format!("{untraceable}{} – {}", inputs.record.id, verdict::word(inputs.judgement.verdict))
}

/// What a verdict means.
fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "No error, everything was sent in time, and durations do not grow.",
        Verdict::Degrading => "No error, but durations or the backlog grow.",
        Verdict::Failed => "There was an error or a time-out.",
        Verdict::Void => "The run says nothing about the candidate.",
    }
}

/// The top of the page.
pub(super) fn head(inputs: &Inputs<'_>) -> Markup {
    let verdict = inputs.judgement.verdict;
    html! {
        header {
            @if !inputs.record.missing.is_empty() { (untraceable(inputs.record)) }
            div.name {
                h1 { (inputs.record.id) }
                p class={ "verdict " (verdict::word(verdict)) } {
                    span aria-hidden="true" { (verdict::sign(verdict)) } " " strong { (verdict::word(verdict)) }
                }
            }
            (run(inputs.record))
            @if inputs.judgement.reasons.is_empty() {
                p.reasons { (meaning(verdict)) }
            } @else {
                ul.reasons { @for reason in &inputs.judgement.reasons { li { (reason) } } }
            }
            (figures(inputs))
            (ceiling(inputs))
        }
    }
}

fn untraceable(record: &RunRecord) -> Markup {
    html! {
        section.untraceable aria-label="Untraceable" {
            p { strong { "Untraceable." } " The record of this run lacks:" }
            ul { @for missing in &record.missing { li { (missing) } } }
        }
    }
}

fn run(record: &RunRecord) -> Markup {
    let minute = |at: jiff::Timestamp| at.strftime("%Y-%m-%d %H:%M:%S").to_string();
    let took_s = record.ended_at.duration_since(record.started_at).as_secs_f64();
    html! {
        p.run {
            strong { (program(&record.candidate.program)) }
            @if !record.candidate.url.is_empty() { " at " (record.candidate.url) }
            " · " (minute(record.started_at)) " UTC, " (number::instant(took_s.round()))
            " · measured by " (record.who) " with " (program(&record.testbed))
        }
    }
}

/// A program's name and version.
fn program(program: &Program) -> String {
    let dirty = if program.is_dirty == Some(true) { " (changed files)" } else { "" };
    format!("{} {}{dirty}", program.name, program.version)
}

fn figures(inputs: &Inputs<'_>) -> Markup {
    let (all, duration_s) = (&inputs.summary.all, inputs.summary.duration_s);
    let rate = |count: u64| match duration_s > 0.0 {
        true => Unit::PerSecond.format(count as f64 / duration_s),
        false => NONE.to_owned(),
    };
    let time = |value: f64| if all.response.count == 0 { NONE.to_owned() } else { number::milliseconds(value) };
    html! {
        dl.figures {
            (figure("due", &number::count(all.due), &rate(all.due), false))
            (figure("sent", &number::count(all.sent), &late(all.late), false))
            (figure("done", &number::count(all.done), &done(all), false))
            (figure("refused", &number::count(all.refused), &share(all.refused, all.due), all.refused > 0))
            (figure("errors", &number::count(all.failed), &share(all.failed, all.due), all.failed > 0))
            (figure("never sent", &number::count(all.dropped), &share(all.dropped, all.due), all.dropped > 0))
            (figure("rate", &Unit::PerSecond.format(inputs.summary.done_per_s), &format!("done, over {}", number::instant(duration_s)), false))
            (figure("response, p50", &time(all.response.p50_ms), "", false))
            (figure("p99", &time(all.response.p99_ms), "", false))
            (figure("highest", &time(all.response.max_ms), "", false))
        }
    }
}

/// The most that the generator can show. In a portal the link leads to another place: `report.js`.
fn ceiling(inputs: &Inputs<'_>) -> Markup {
    html! {
        p.note id="ceiling" {
            "The generator's own ceiling: "
            @if let Some(ceiling) = &inputs.ceiling {
                (Unit::PerSecond.format(ceiling.rate)) " with " (ceiling.workers)
                " workers, which a server that does nothing has held from the same machines ("
                a href={ "../../" (ceiling.run) "/data/report.html" } data-run=(ceiling.run) { (ceiling.run) } ")."
            } @else {
                "not measured from the same machines: " code { (command(protocol(inputs.record))) }
            }
        }
    }
}

fn figure(name: &str, value: &str, note: &str, is_bad: bool) -> Markup {
    html! {
        div.bad[is_bad] { dt { (name) } dd { (value) } @if !note.is_empty() { dd.note { (note) } } }
    }
}

fn late(count: u64) -> String {
    if count == 0 { "none late".to_owned() } else { format!("{} late", number::count(count)) }
}

/// The share of the requests that were done, and how many of them met a conflict.
fn done(all: &Tally) -> String {
    match all.conflicts {
        0 => share(all.done, all.due),
        conflicts => format!("{}, {} conflicts", share(all.done, all.due), number::count(conflicts)),
    }
}

fn share(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) | (_, 0) => String::new(),
        (part, whole) if part == whole => "all".to_owned(),
        // Nearly all is not all.
        (part, whole) if part as f64 / whole as f64 > 0.9995 => "more than 99.9 %".to_owned(),
        (part, whole) => format!("{}{}%", significant(part as f64 * 100.0 / whole as f64), number::THIN_SPACE),
    }
}
