//! What makes a run traceable: workers, machines, programs, inputs and the plan.

use maud::{Markup, html};

use super::Inputs;
use crate::page::number::{NONE, bytes, count, instant, milliseconds, significant};
use crate::page::table;
use crate::record::{Machine, Program, RunRecord, WorkerRecord};
use crate::results::Summary;

/// Workers and machines.
pub(super) fn machines(record: &RunRecord, summary: &Summary) -> Markup {
    html! {
        section id="machines" {
            h2 { "Workers and machines" }
            (workers(&record.workers, &summary.worker_cpu_shares))
            (machine_table(&record.machines))
        }
    }
}

fn workers(workers: &[WorkerRecord], cpu_shares: &[f64]) -> Markup {
    table(
        "Workers",
        &html! {
            thead { tr {
                th scope="col" { "Worker" }
                th scope="col" { "address" }
                th.number scope="col" { "share of a processor" }
                th.number scope="col" { "processor time" }
                th.number scope="col" { "memory at the start" }
                th.number scope="col" { "memory at most" }
                th.number scope="col" { "clock ahead by" }
                th.number scope="col" { "± at most" }
                th scope="col" { "program" }
                th scope="col" { "commit" }
                th scope="col" { "command line" }
            } }
            tbody {
                @for (position, worker) in workers.iter().enumerate() {
                    tr {
                        th scope="row" { (worker.number) }
                        td { (worker.address.as_deref().unwrap_or("started by the coordinator")) }
                        td.number { (cpu_shares.get(position).map_or(NONE.to_owned(), |share| percent(*share))) }
                        td.number { (milliseconds(worker.cpu_s * 1e3)) }
                        @for memory_bytes in [worker.memory_at_start_bytes, worker.memory_peak_bytes] {
                            td.number { (memory_bytes.map_or(NONE.to_owned(), |memory| bytes(memory as f64))) }
                        }
                        td.number { (milliseconds(worker.clock_offset_us as f64 / 1e3)) }
                        td.number { (milliseconds(worker.clock_error_us as f64 / 1e3)) }
                        td { (worker.program.name) " " (worker.program.version) }
                        td { code { (known(worker.program.commit.as_ref())) } }
                        td { code { (known(worker.command.as_deref().map(command_line).as_ref())) } }
                    }
                }
            }
        },
    )
}

/// A column per machine: there are few, and their facts are long.
fn machine_table(machines: &[Machine]) -> Markup {
    let facts: Vec<_> = machines.iter().map(machine_facts).collect();
    let names = facts.first().into_iter().flatten().map(|(name, _)| *name);
    table(
        "Machines",
        &html! {
            thead { tr { th scope="col" { "Machine" } @for machine in machines { th scope="col" { (machine.name) } } } }
            tbody {
                @for (position, name) in names.enumerate() {
                    tr {
                        th scope="row" { (name) }
                        @for facts in &facts { td { (known(facts.get(position).and_then(|(_, fact)| fact.as_ref()))) } }
                    }
                }
            }
        },
    )
}

/// The same facts in the same order for each machine.
fn machine_facts(machine: &Machine) -> Vec<(&'static str, Option<String>)> {
    let limits: Vec<_> = machine.limits.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    vec![
        ("what ran there", Some(machine.roles.join(", "))),
        ("processor", machine.processor.clone()),
        ("processors", Some(machine.processors.to_string())),
        ("memory", machine.memory_bytes.map(|memory_bytes| bytes(memory_bytes as f64))),
        ("disk", machine.disk.clone()),
        ("kernel", machine.kernel.clone()),
        ("clock source", machine.clock_source.clone()),
        ("container", machine.is_container.map(yes_or_no)),
        ("processors that others used before", machine.busy_before.map(significant)),
        ("limits", (!limits.is_empty()).then(|| limits.join("; "))),
    ]
}

/// The whole record, the inputs and the plan.
pub(super) fn record(inputs: &Inputs<'_>) -> Markup {
    let record = inputs.record;
    html! {
        section id="record" {
            h2 { "Record" }
            (files(inputs.files))
            (facts("The run", &run_facts(record)))
            (programs(record))
            (facts("The candidate", &candidate_facts(record)))
            @let beside = record.beside.facts();
            @if !beside.is_empty() {
                (facts("Beside the load", &beside.into_iter().map(|(name, fact)| (name, Some(fact))).collect::<Vec<_>>()))
            }
            @if let Some(configuration) = &record.candidate.configuration {
                (text("Configuration of the candidate, as read back from it", configuration))
            }
            (table("Inputs", &html! {
                thead { tr {
                    th scope="col" { "Name" }
                    th.number scope="col" { "bytes" }
                    th scope="col" { "SHA-256" }
                } }
                tbody {
                    @for input in &record.inputs {
                        tr {
                            th scope="row" { (input.name) }
                            td.number { (input.bytes.map_or(NONE.to_owned(), count)) }
                            td.digest { code { (input.sha256) } }
                        }
                    }
                }
            }))
            (text("The plan", inputs.plan_toml))
        }
    }
}

fn run_facts(record: &RunRecord) -> Vec<(String, Option<String>)> {
    let took_s = record.ended_at.duration_since(record.started_at).as_secs_f64();
    let missing = match record.missing.is_empty() {
        true => "nothing".to_owned(),
        false => record.missing.join("; "),
    };
    [
        ("id", record.id.clone()),
        ("measured by", record.who.clone()),
        ("started at", record.started_at.to_string()),
        ("ended at", format!("{}, after {}", record.ended_at, instant(took_s.round()))),
        ("seed", record.seed.to_string()),
        ("preparation", record.preparation.clone()),
        ("missing", missing),
    ]
    .map(|(name, fact)| (name.to_owned(), Some(fact)))
    .to_vec()
}

fn candidate_facts(record: &RunRecord) -> Vec<(String, Option<String>)> {
    let candidate = &record.candidate;
    let mut facts = vec![
        ("URL".to_owned(), Some(candidate.url.clone())),
        ("command line".to_owned(), candidate.command.as_deref().map(command_line)),
    ];
    if candidate.configuration.is_none() {
        facts.push(("configuration".to_owned(), None));
    }
    facts.extend(candidate.facts.iter().map(|(name, fact)| (name.clone(), Some(fact.clone()))));
    facts
}

fn programs(record: &RunRecord) -> Markup {
    let row = |name: &str, program: &Program| {
        html! {
            tr {
                th scope="row" { (name) }
                td { (program.name) " " (program.version) }
                // Most builds have none.
                td { (program.tag.as_deref().unwrap_or(NONE)) }
                td { code { (known(program.commit.as_ref())) } }
                td { (known(program.is_dirty.map(yes_or_no).as_ref())) }
                td.digest { code { (known(program.sha256.as_ref())) } }
                td { (repository(program)) }
            }
        }
    };
    table(
        "Programs",
        &html! {
            thead { tr {
                @for name in ["Program", "version", "tag", "commit", "changed files", "SHA-256", "repository"] {
                    th scope="col" { (name) }
                }
            } }
            tbody {
                (row("testbed", &record.testbed))
                (row("candidate", &record.candidate.program))
                @for worker in &record.workers { (row(&format!("worker {}", worker.number), &worker.program)) }
            }
        },
    )
}

/// A program's repository. Only an address of the web is a link: what a run says may be anything.
fn repository(program: &Program) -> Markup {
    match program.repository.as_deref() {
        Some(address) if address.starts_with("https://") || address.starts_with("http://") => {
            html! { a href=(address) { (address) } }
        }
        _ => known(program.repository.as_ref()),
    }
}

/// Links to the files of the run. A name with other signs is no address as it is, and stays text.
fn files(files: &[&str]) -> Markup {
    let is_address = |name: &str| name.chars().all(|sign| sign.is_ascii_alphanumeric() || "._-/".contains(sign));
    html! {
        @if !files.is_empty() {
            details {
                summary { "Files of the run" small { " " (count(files.len() as u64)) } }
                ul { @for name in files { li { @if is_address(name) { a href=(name) { (name) } } @else { (name) } } } }
            }
        }
    }
}

fn facts(caption: &str, facts: &[(String, Option<String>)]) -> Markup {
    table(
        caption,
        &html! {
            tbody {
                @for (name, fact) in facts { tr { th scope="row" { (name) } td { (known(fact.as_ref())) } } }
            }
        },
    )
}

fn text(summary: &str, text: &str) -> Markup {
    let lines = count(text.lines().count() as u64);
    html! {
        details {
            summary { (summary) small { " " (lines) " lines" } }
            pre tabindex="0" { (text) }
        }
    }
}

/// Words with spaces or quotes are quoted, so that it is clear where each ends.
fn command_line(words: &[String]) -> String {
    let is_plain = |word: &str| !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"\\".contains(c));
    let quoted = |word: &String| if is_plain(word) { word.clone() } else { format!("{word:?}") };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

fn known(fact: Option<&String>) -> Markup {
    match fact {
        Some(fact) if !fact.is_empty() => html! { (fact) },
        _ => html! { span.unknown { "not known" } },
    }
}

fn yes_or_no(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

fn percent(share: f64) -> String {
    crate::page::number::Unit::Share.format(share)
}
