//! The page of all runs.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

use super::Refused;
use super::resamples::{COUNT, SECONDS_MIN};
use super::row::Row;
use super::source::DATA;
use super::table::{self, short};
use crate::page::number::count;
use crate::page::{Document, script};

/// What the page does itself.
const SCRIPTS: [&str; 4] = [
    include_str!("../../assets/portal/runs.js"),
    include_str!("../../assets/portal/figures.js"),
    include_str!("../../assets/portal/compare.js"),
    include_str!("../../assets/portal/trend.js"),
];

/// Its sections, by their ids.
const SECTIONS: [(&str, &str); 4] =
    [("runs", "Runs"), ("comparison", "Comparison"), ("trend", "Trend"), ("rates", "Rate by nodes")];

/// What `assets/portal/runs.js` reads.
#[derive(Serialize)]
struct Data<'a> {
    runs: &'a [Row],
    /// The name of the script with the data of a run, in its folder.
    run_data: &'static str,
}

/// The page of these runs, which are the newest first.
pub(super) fn page(rows: &[Row], refused: &[Refused], at: Timestamp) -> String {
    let document = Document {
        title: "Runs of the testbed",
        sections: &SECTIONS,
        styles: &[include_str!("../../assets/portal/portal.css")],
        scripts: &SCRIPTS,
        loads_scripts: true,
    };
    let content = html! {
        (head(rows, at))
        main {
            section id="runs" {
                (table::filters(rows))
                (table::runs(rows))
                (list_refused(refused))
            }
            noscript {
                p.note { "A script filters, sorts and compares runs, and this browser runs none." }
            }
            (comparison())
            (trend(rows))
            (rates(rows))
        }
    };
    document.page(&content, &script::json(&Data { runs: rows, run_data: DATA })).into_string()
}

fn head(rows: &[Row], at: Timestamp) -> Markup {
    let candidates: BTreeSet<&str> = rows.iter().map(|row| row.candidate.as_str()).collect();
    let day = |row: &Row| row.started_at.strftime("%Y-%m-%d").to_string();
    html! {
        header {
            div.name { h1 { "Runs of the testbed" } }
            p.run {
                (plural(rows.len(), "run")) " of " (plural(candidates.len(), "candidate"))
                @if let (Some(newest), Some(oldest)) = (rows.first(), rows.last()) {
                    ", " (day(oldest)) " to " (day(newest))
                }
                " · published " (at.strftime("%Y-%m-%d %H:%M:%S")) " UTC · " a href="runs.json" { "runs.json" }
            }
        }
    }
}

fn plural(number: usize, what: &str) -> String {
    format!("{} {what}{}", count(number as u64), if number == 1 { "" } else { "s" })
}

fn list_refused(refused: &[Refused]) -> Markup {
    html! {
        @if !refused.is_empty() {
            details open {
                summary { "Not published" small { " " (plural(refused.len(), "folder")) " of the archive" } }
                (crate::page::table("Damaged runs, and folders that are none", &html! {
                    thead { tr { th scope="col" { "Folder" } th scope="col" { "reason" } } }
                    tbody {
                        @for one in refused { tr { th scope="row" { (one.name) } td { (one.reason) } } }
                    }
                }))
            }
        }
    }
}

fn comparison() -> Markup {
    html! {
        section.scripted.charts id="comparison" {
            h2 { "Comparison" }
            p.note id="hint" { "Choose two or more runs in the table." }
            div id="compared" {}
            p.note id="method" hidden {
                "Percentages are relative to the baseline. Below p50 and p99 is the interval that holds 95 % of the "
                "differences between " (count(COUNT as u64)) " resamples of each run. A resample draws blocks of "
                "consecutive seconds with replacement (circular block bootstrap; a block has as many seconds as the "
                "cube root of their number), because neighbouring requests are not independent. Random numbers follow "
                "from the ids of runs: the interval is the same each time. Runs of fewer than " (SECONDS_MIN)
                " seconds have none. An interval says how much requests vary within these runs. How much runs vary, "
                "only repeated runs show."
            }
        }
    }
}

fn trend(rows: &[Row]) -> Markup {
    html! {
        section.scripted.charts id="trend" {
            h2 { "Trend" }
            p.note {
                "Runs of the same plan and candidate, of those that the filters show. The mark is the verdict: "
                "● held, ▲ degrading, ✕ failed, □ void."
            }
            p.choices {
                label { "Candidate and plan" select form="filters" name="trend" {
                    @for (value, label) in trends(rows) { option value=(value) { (label) } }
                } }
                label { "Over" select form="filters" name="trend_by" {
                    option value="date" { "dates" }
                    option value="commit" { "commits" }
                } }
            }
            div.drawn {}
        }
    }
}

/// Candidates and plans with a digest, as values and labels; those with the most runs come first.
fn trends(rows: &[Row]) -> Vec<(String, String)> {
    let mut groups: BTreeMap<(&str, &str), (usize, &str)> = BTreeMap::new();
    for row in rows {
        let Some(sha256) = &row.plan_sha256 else { continue };
        groups.entry((&row.candidate, sha256)).or_insert((0, &row.plan)).0 += 1;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, (runs, _))| std::cmp::Reverse(*runs));
    let option = |((candidate, sha256), (runs, plan)): ((&str, &str), (usize, &str))| {
        let label = format!("{candidate} · {plan} ({}) · {}", short(sha256), plural(runs, "run"));
        (format!("{sha256} {candidate}"), label)
    };
    groups.into_iter().map(option).collect()
}

fn rates(rows: &[Row]) -> Markup {
    let scenarios: BTreeSet<String> = rows.iter().map(Row::scenario_names).collect();
    html! {
        section.scripted.charts id="rates" {
            h2 { "Rate by nodes and workers" }
            p.note {
                "The highest rate of requests that each candidate has held, of the runs that the filters show. "
                "Nodes are what the candidate's description says."
            }
            p.choices {
                label { "Scenarios" select form="filters" name="rates" {
                    @for scenarios in &scenarios { option value=(scenarios) { (scenarios) } }
                } }
                label { "By" select form="filters" name="rates_by" {
                    option value="nodes" { "nodes" }
                    option value="workers" { "workers" }
                } }
            }
            div.drawn {}
        }
    }
}
