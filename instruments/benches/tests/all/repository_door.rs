//! The benchmarks of the repository door run, with inputs so small that their figures mean nothing.
use std::collections::BTreeSet;
use std::process::Command;

use crate::support::built_penates;
use serde_json::Value;

const REPOSITORY_DOOR: &str = env!("CARGO_BIN_EXE_repository-door");

/// Benchmarks, each with a figure that it must report.
const WRITING: &[(&str, &str)] = &[
    ("ingest", "Penates, 2 connections: rate"),
    ("ingest", "bare sync: p99"),
    ("arrivals", "Penates: not held"),
    ("large", "up, of plain copying"),
    ("versions", "updates that keep versions"),
    ("transactions", "Penates, 2 clients: in transactions of 100"),
];
const READING: &[(&str, &str)] = &[
    ("reading", "Penates, binary of 1 KB: rate"),
    ("members", "listing as N-Triples"),
    ("quads", "N-Quads: rate"),
    ("search", "1,000 changes/s: p99 until a change is found"),
    ("feed", "100 consumers from the start: rate"),
];
const OF_WHOLE_STORES: &[(&str, &str)] =
    &[("fixity", "the auditor without a limit"), ("moving", "a load beside Fedora's ingest")];

/// Runs these benchmarks.
fn measure(benches: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    let mut command = Command::new(REPOSITORY_DOOR);
    command.args(benches.iter().map(|(name, _)| name).collect::<BTreeSet<_>>());
    command.args(["--connections", "1,2", "--repetitions", "1", "--seconds", "0.1", "--members", "300"]);
    command.args(["--large-bytes", "1000000", "--many", "200", "--versions", "50", "--events", "100"]);
    command.args(["--resources", "200"]);
    command.arg("--work").arg(folder.path().join("work")).arg("--json").arg(&file);
    if let Some(program) = built_penates(REPOSITORY_DOOR) {
        command.arg("--penates").arg(program);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    for (name, what) in benches {
        let bench = report["benchmarks"].as_array().unwrap().iter().find(|known| known["name"] == *name).unwrap();
        let figure = bench["figures"].as_array().unwrap().iter().find(|figure| figure["what"] == *what);
        let figure = figure.unwrap_or_else(|| panic!("no {what} in {bench}"));
        assert!(figure["median"].as_f64().unwrap() > 0.0, "{figure}");
        assert!(table.contains(&format!("| {name} | {what} |")), "{what}: {table}");
    }
    // Stores are deleted.
    assert_eq!(std::fs::read_dir(folder.path().join("work/running")).unwrap().count(), 0);
}

#[test]
fn benchmarks_of_writing_are_measured_and_reported_in_table_and_json() {
    measure(WRITING);
}

#[test]
fn benchmarks_of_reading_are_measured_and_reported_in_table_and_json() {
    measure(READING);
}

#[test]
fn benchmarks_of_whole_stores_are_measured_and_reported_in_table_and_json() {
    measure(OF_WHOLE_STORES);
}

#[test]
fn these_tests_measure_every_benchmark_that_there_is() {
    let output = Command::new(REPOSITORY_DOOR).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    // The values of the first argument come first.
    let (what, _) = help.split_once("Options:").unwrap();
    let offered = what.lines().filter_map(|line| line.trim_start().strip_prefix("- ")?.split_once(':'));
    let offered: BTreeSet<_> = offered.map(|(name, _)| name).filter(|name| *name != "all").collect();
    let measured = [WRITING, READING, OF_WHOLE_STORES].concat();
    assert_eq!(offered, measured.iter().map(|(name, _)| *name).collect(), "{help}");
}
