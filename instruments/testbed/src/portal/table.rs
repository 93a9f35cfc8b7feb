//! The table of runs, and what it can be filtered by.

use std::collections::BTreeSet;

use maud::{Markup, html};

use super::row::Row;
use super::source::{COPIED, REPORT};
use crate::page::number::{NONE, Unit, count, milliseconds};
use crate::page::{table, verdict};
use crate::report::ceiling::command;

/// So many characters of a commit or a digest identify it among those of a portal.
pub(super) const SHORT: usize = 10;

/// The heading of a column, and where its values are in a row of `runs.json`.
const COLUMNS: [(&str, &str); 20] = [
    ("Run", "started_at"),
    ("verdict", "verdict"),
    ("candidate", "candidate"),
    ("version", "version"),
    ("commit", "commit"),
    ("scenarios", "scenarios"),
    ("workers", "workers"),
    ("due", "rate_due"),
    ("done", "rate_done"),
    ("generator's ceiling", "ceiling.rate"),
    ("p50", "response.p50_ms"),
    ("p90", "response.p90_ms"),
    ("p99", "response.p99_ms"),
    ("p99.9", "response.p999_ms"),
    ("highest", "response.max_ms"),
    ("errors", "errors"),
    ("refused", "refused"),
    ("never sent", "dropped"),
    ("machine", "machine"),
    ("engine", "engine"),
];

/// Columns of numbers.
const NUMBERS: std::ops::Range<usize> = 6..18;

/// All runs.
pub(super) fn runs(rows: &[Row]) -> Markup {
    let body = html! {
        thead { tr {
            @for (position, (heading, key)) in COLUMNS.iter().enumerate() {
                th.number[NUMBERS.contains(&position)] scope="col" data-key=(key) { (heading) }
            }
            th.files scope="col" { "files" }
        } }
        tbody { @for row in rows { (run(row)) } }
    };
    table("Runs", &body)
}

fn run(row: &Row) -> Markup {
    let time = |ms: f64| if row.response.count == 0 { NONE.to_owned() } else { milliseconds(ms) };
    let response = row.response;
    let of_run = |file: &str| format!("runs/{}/{file}", row.id);
    html! {
        tr data-id=(row.id) {
            th scope="row" {
                input.interactive type="checkbox" aria-label={ "Compare " (row.id) };
                a href=(of_run(REPORT)) { (row.id) }
                @if !row.traceable {
                    " " em.untraceable title={ "The record lacks " (row.missing.join("; ")) } { "untraceable" }
                }
            }
            td class=(verdict::word(row.verdict)) title=(row.reasons.join(" ")) {
                span aria-hidden="true" { (verdict::sign(row.verdict)) } " " (verdict::word(row.verdict))
            }
            td { (row.candidate) }
            td { (row.version) }
            td { (commit(row)) }
            td { (row.scenario_names()) }
            td.number { (row.workers) }
            @for rate in [row.rate_due, row.rate_done] { td.number { (Unit::PerSecond.format(rate)) } }
            (ceiling(row))
            @for ms in [response.p50_ms, response.p90_ms, response.p99_ms, response.p999_ms, response.max_ms] {
                td.number { (time(ms)) }
            }
            @for failed in [row.errors, row.refused, row.dropped] { td.number.bad[failed > 0] { (count(failed)) } }
            td { (row.machine) }
            td { (row.engine.as_deref().unwrap_or(NONE)) }
            td.files { @for file in &COPIED { a href=(of_run(file)) download { (file) } } }
        }
    }
}

/// The most that the generator has shown on its machine.
fn ceiling(row: &Row) -> Markup {
    html! {
        @match &row.ceiling {
            Some(ceiling) => {
                td.number title={ "with " (ceiling.workers) " workers" } {
                    a href={ "runs/" (ceiling.run) "/" (REPORT) } { (Unit::PerSecond.format(ceiling.rate)) }
                }
            }
            None => { td.number title={ "not measured from the same machines: " (command(row.protocol)) } { (NONE) } }
        }
    }
}

fn commit(row: &Row) -> Markup {
    let Some(commit) = &row.commit else { return html! { span.unknown { "not known" } } };
    html! {
        code title=(commit) { (short(commit)) }
        @if row.is_dirty == Some(true) { " + changes" }
    }
}

/// The beginning of a commit or a digest.
pub(super) fn short(text: &str) -> String {
    text.chars().take(SHORT).collect()
}

/// Filters; without a script there are none.
pub(super) fn filters(rows: &[Row]) -> Markup {
    let values = |value: fn(&Row) -> Option<&String>| rows.iter().filter_map(value).cloned().collect();
    let scenarios = rows.iter().flat_map(|row| row.scenarios.keys().cloned()).collect();
    let verdicts = rows.iter().map(|row| verdict::word(row.verdict).to_owned()).collect();
    let workers: BTreeSet<usize> = rows.iter().map(|row| row.workers).collect();
    let workers = workers.into_iter().map(|workers| (workers.to_string(), workers.to_string())).collect();
    let commits: BTreeSet<String> = values(|row| row.commit.as_ref());
    let commits = commits.into_iter().map(|commit| (short(&commit), commit)).collect();
    let configurations: BTreeSet<_> = rows.iter().filter_map(configuration).collect();
    html! {
        form.scripted id="filters" aria-label="Filters" {
            label.wide { "Search" input type="search" name="text" placeholder="any words"; }
            (choice("Candidate", "candidate", same(values(|row| Some(&row.candidate)))))
            (choice("Version", "version", same(values(|row| Some(&row.version)))))
            (choice("Commit", "commit", commits))
            (choice("Scenario", "scenario", same(scenarios)))
            (choice("Plan", "plan", same(values(|row| Some(&row.plan)))))
            (choice("Verdict", "verdict", same(verdicts)))
            (choice("Workers", "workers", workers))
            (choice("Machine", "machine", same(values(|row| Some(&row.machine)))))
            (choice("Configuration", "configuration_sha256", configurations.into_iter().collect()))
            (choice("Engine", "engine", same(values(|row| row.engine.as_ref()))))
            label { "Due, at least" input type="number" name="rate_from" min="0" step="any" placeholder="per second"; }
            label { "Due, at most" input type="number" name="rate_to" min="0" step="any" placeholder="per second"; }
            label { "Date, from" input type="date" name="date_from"; }
            label { "Date, to" input type="date" name="date_to"; }
        }
        p.scripted.note.chosen aria-live="polite" {
            span id="shown" {}
            button type="button" id="all" hidden { "Show all" }
            span id="chosen" {}
            button type="button" id="compare" hidden { "Compare" }
            button type="button" id="none" hidden { "Choose none" }
        }
    }
}

/// A configuration as a label and a value: candidates have different ones anyway.
fn configuration(row: &Row) -> Option<(String, String)> {
    let sha256 = row.configuration_sha256.clone()?;
    Some((format!("{} {}", row.candidate, short(&sha256)), sha256))
}

fn same(values: BTreeSet<String>) -> Vec<(String, String)> {
    values.into_iter().map(|value| (value.clone(), value)).collect()
}

/// A choice of one value, as labels and values, or of any.
fn choice(label: &str, name: &str, options: Vec<(String, String)>) -> Markup {
    html! {
        label {
            (label)
            select name=(name) {
                option value="" { "any" }
                @for (label, value) in &options { option value=(value) { (label) } }
            }
        }
    }
}
