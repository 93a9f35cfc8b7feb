//! The benchmarks of the repository door run, with inputs so small that their figures mean nothing.
use std::process::Command;

use crate::support::built_penates;
use serde_json::Value;

const REPOSITORY_DOOR: &str = env!("CARGO_BIN_EXE_repository-door");

/// A figure that each of them must report.
const TOLD: [(&str, &str); 8] = [
    ("ingest", "Penates, 2 connections: rate"),
    ("ingest", "bare sync: p99"),
    ("arrivals", "Penates: not held"),
    ("reading", "Penates, binary of 1 KB: rate"),
    ("large", "up, of plain copying"),
    ("members", "listing as N-Triples"),
    ("quads", "N-Quads: rate"),
    ("search", "1,000 changes/s: p99 until a change is found"),
];

#[test]
fn every_benchmark_is_measured_and_reported_in_table_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    let mut command = Command::new(REPOSITORY_DOOR);
    command.args(["all", "--connections", "1,2", "--repetitions", "1", "--seconds", "0.1", "--members", "300"]);
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
    for (name, what) in TOLD {
        let bench = report["benchmarks"].as_array().unwrap().iter().find(|known| known["name"] == name).unwrap();
        let figure = bench["figures"].as_array().unwrap().iter().find(|figure| figure["what"] == what);
        let figure = figure.unwrap_or_else(|| panic!("no {what} in {bench}"));
        assert!(figure["median"].as_f64().unwrap() > 0.0, "{figure}");
        assert!(table.contains(&format!("| {name} | {what} |")), "{what}: {table}");
    }
    // Stores are deleted.
    assert_eq!(std::fs::read_dir(folder.path().join("work/running")).unwrap().count(), 0);
}
