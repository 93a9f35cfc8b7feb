//! The benchmarks run, with inputs so small that their figures mean nothing.
use std::path::Path;
use std::process::Command;

use crate::support::{built_penates, not_run};
use serde_json::Value;

const DATA_DOOR: &str = env!("CARGO_BIN_EXE_data-door");
const BENCHMARKS: [&str; 14] = [
    "bulk",
    "java",
    "https",
    "levels",
    "libraries",
    "selection",
    "range",
    "page",
    "many",
    "memory",
    "hostile",
    "import",
    "start",
    "cold",
];
/// A figure with a target for each of them, by the beginning of its name.
const HELD: [(&str, &str); 17] = [
    ("bulk", "3 volumes, selection: page text"),
    ("bulk", "6 volumes, POST of ids: of nginx's rate"),
    ("java", "POST of ids: of Java's rate at level 0"),
    ("java", "selection: of Java's rate at level 1"),
    ("https", "6 volumes, selection: of nginx's rate"),
    ("levels", "pages, level 9: of the library's rate"),
    ("selection", "GET of the selection: first byte"),
    ("selection", "POST /selections: whole answer"),
    ("range", "1 MB, median of 20"),
    ("page", "random pages: rate"),
    ("page", "one page: p99"),
    ("many", "16 bulk clients: of the rate of 1"),
    ("many", "1 page client beside 16 bulk clients: p99"),
    ("memory", "slow clients: 50, a POST each of another order: peak from its start on"),
    ("hostile", "all of these: peak of the server"),
    ("import", "import: of the bare program's rate"),
    ("start", "start until /readyz says so"),
];

/// Benchmarks that are measured once, because each starts a server for each of its measurements.
/// All others are measured twice.
const ONCE: [&str; 2] = ["memory", "hostile"];

/// Measures some benchmarks. Returns the report as JSON and as a table.
fn measured(folder: &Path, what: &[&str], repetitions: usize) -> (Value, String) {
    let file = folder.join("figures.json");
    let mut command = Command::new(DATA_DOOR);
    command.args(what).args(["--volumes", "6", "--few", "3", "--pages-per-volume", "4", "--seconds", "0.1"]);
    command.arg("--repetitions").arg(repetitions.to_string());
    command.arg("--work").arg(folder.join("work")).arg("--json").arg(&file);
    if let Some(program) = built_penates(DATA_DOOR) {
        command.arg("--penates").arg(program);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let names: Vec<_> = report["benchmarks"].as_array().unwrap().iter().map(|bench| &bench["name"]).collect();
    assert_eq!(names, what);
    (report, String::from_utf8(output.stdout).unwrap())
}

#[test]
fn every_benchmark_is_measured_as_often_as_requested_and_reported_in_table_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let others: Vec<_> = BENCHMARKS.into_iter().filter(|name| !ONCE.contains(name)).collect();
    let twice = measured(folder.path(), &others, 2);
    let once = measured(folder.path(), &ONCE, 1);
    let of = |name: &str| if ONCE.contains(&name) { (&once, 1_usize) } else { (&twice, 2) };

    let left_out = twice.0["left_out"].as_array().unwrap().iter().map(|why| why.as_str().unwrap());
    let left_out: Vec<_> = left_out.collect();
    left_out.iter().for_each(|why| not_run(&format!("the data door beside its peers: {why}")));
    for (name, what) in HELD {
        let peer = what.contains("nginx") || what.contains("Java");
        if peer && !left_out.is_empty() {
            continue;
        }
        let ((report, _), repetitions) = of(name);
        let figure = figure(report, name, what);
        assert_eq!(figure["samples"].as_array().unwrap().len(), repetitions, "{figure}");
        assert!(figure["median"].as_f64().unwrap() > 0.0, "{figure}");
        assert!(figure["target"].is_object() && figure["met"].is_boolean(), "{figure}");
    }

    for (name, what) in HELD.iter().filter(|_| left_out.is_empty()) {
        let ((_, table), _) = of(name);
        assert!(table.contains(&format!("| {name} | {what} |")), "{what}: {table}");
        assert!(table.contains(&format!("| {name}: {what} |")), "{what}: {table}");
    }
    // Files that are kept for the next run exist; files that this run changed are deleted.
    let mut kept: Vec<_> = list(&folder.path().join("work"));
    kept.sort();
    assert_eq!(kept, ["pairtree-3-seed-1-pages-4", "store-6-seed-1-pages-4"]);
}

#[test]
fn these_tests_measure_every_benchmark_that_there_is() {
    let output = Command::new(DATA_DOOR).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let offered = help.lines().filter_map(|line| line.trim_start().strip_prefix("- ")?.split_once(':'));
    let offered: Vec<_> = offered.map(|(name, _)| name).filter(|name| *name != "all").collect();
    assert_eq!(offered, BENCHMARKS, "{help}");
}

#[test]
fn a_program_that_is_not_a_server_is_reported_and_not_measured() {
    let output = Command::new(DATA_DOOR).args(["start", "--volumes", "1", "--penates", "/bin/false"]).output().unwrap();
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn figure<'a>(report: &'a Value, bench: &str, what: &str) -> &'a Value {
    let bench = report["benchmarks"].as_array().unwrap().iter().find(|known| known["name"] == bench).unwrap();
    let figures = bench["figures"].as_array().unwrap();
    figures.iter().find(|figure| figure["what"] == what).unwrap_or_else(|| panic!("no {what} in {bench}"))
}

fn list(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
