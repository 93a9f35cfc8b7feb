//! The benchmarks run, with inputs so small that their figures mean nothing.
use std::path::Path;
use std::process::Command;

use crate::support::{built_penates, not_run};
use serde_json::Value;

const DATA_DOOR: &str = env!("CARGO_BIN_EXE_data-door");
const BENCHMARKS: [&str; 7] =
    ["levels", "libraries", "hostile", "door-cost", "import", "cassandra-bulk", "cassandra-import"];
/// A figure with a target for each of those that have any.
const HELD: [(&str, &str); 5] = [
    ("levels", "pages, level 9: of the library's rate"),
    ("hostile", "all of these: peak of the server"),
    ("import", "import: of the bare program's rate"),
    ("cassandra-bulk", "selection: of the bare program's rate"),
    ("cassandra-import", "import: of the bare program's rate"),
];

/// Measures some benchmarks. Returns the report as JSON and as a table.
fn measured(folder: &Path, what: &[&str], repetitions: usize) -> (Value, String) {
    let file = folder.join("figures.json");
    let mut command = Command::new(DATA_DOOR);
    command.args(what).args(["--volumes", "6", "--few", "3", "--pages-per-volume", "4", "--seconds", "0.1"]);
    command.args(["--heap", "384", "--warm-up", "0"]).arg("--repetitions").arg(repetitions.to_string());
    command.arg("--work").arg(folder.join("work")).arg("--json").arg(&file);
    if let Some(program) = built_penates(DATA_DOOR) {
        command.arg("--penates").arg(program);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    (report, String::from_utf8(output.stdout).unwrap())
}

#[test]
fn every_benchmark_is_measured_as_often_as_requested_and_reported_in_table_and_json() {
    let folder = tempfile::tempdir().unwrap();
    // It starts a server for each of its measurements.
    let others: Vec<_> = BENCHMARKS.into_iter().filter(|name| *name != "hostile").collect();
    let (twice, once) = (measured(folder.path(), &others, 2), measured(folder.path(), &["hostile"], 1));
    let left_out: Vec<_> = twice.0["left_out"].as_array().unwrap().iter().map(|why| why.as_str().unwrap()).collect();
    left_out.iter().for_each(|why| not_run(&format!("the data door: {why}")));
    for (name, what) in HELD {
        if left_out.iter().any(|why| why.starts_with(name)) {
            continue;
        }
        let ((report, table), repetitions) = if name == "hostile" { (&once, 1) } else { (&twice, 2) };
        let figure = figure(report, name, what);
        assert_eq!(figure["samples"].as_array().unwrap().len(), repetitions, "{figure}");
        assert!(figure["median"].as_f64().unwrap() > 0.0, "{figure}");
        assert!(figure["target"].is_object() && figure["met"].is_boolean(), "{figure}");
        assert!(table.contains(&format!("| {name} | {what} |")), "{what}: {table}");
        assert!(table.contains(&format!("| {name}: {what} |")), "{what}: {table}");
    }
    let subjects = benches::subject::Subject::ALL;
    let costs =
        subjects.map(|subject| figure(&twice.0, "door-cost", subject.name())["samples"].as_array().unwrap().len());
    assert_eq!(costs, [2; 10]);
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
    let output =
        Command::new(DATA_DOOR).args(["levels", "--volumes", "1", "--penates", "/bin/false"]).output().unwrap();
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
