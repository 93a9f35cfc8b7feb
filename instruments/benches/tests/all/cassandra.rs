//! The benchmarks of a store in Cassandra run, with inputs so small that their figures mean
//! nothing.
use std::process::Command;

use crate::support::{built_penates, not_run};
use serde_json::Value;

const CASSANDRA: &str = env!("CARGO_BIN_EXE_cassandra");

/// A figure that each of them must report.
const TOLD: [(&str, &str); 9] = [
    ("bulk", "selection: of the bare program's rate"),
    ("bulk", "POST of ids: page text"),
    ("import", "import: of the bare program's rate"),
    ("dras-tic", "2 connections: rate"),
    ("points", "20 reads and as many writes per second: mean"),
    ("readers", "cold page cache, key cache and row cache, 1 readers: page text"),
    ("readers", "warm page cache, no cache of its own, 2 readers: page text"),
    ("members", "listing as N-Triples"),
    ("members", "largest partition"),
];

#[test]
fn every_benchmark_is_measured_and_reported_in_table_json_and_chart() {
    if let Err(error) = cluster::prerequisites() {
        return not_run(&format!("benchmarks of a store in Cassandra: {error}"));
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, charts) = (folder.path().join("figures.json"), folder.path().join("charts"));
    let mut command = Command::new(CASSANDRA);
    command.args(["all", "--volumes", "3", "--pages-per-volume", "4", "--repetitions", "1", "--seconds", "0.5"]);
    command.args(["--connections", "2", "--rate", "20", "--readers", "1,2", "--members", "300", "--heap", "384"]);
    command.args(["--warm-up", "0"]);
    command.arg("--work").arg(folder.path().join("work")).arg("--json").arg(&file).arg("--charts").arg(&charts);
    if let Some(program) = built_penates(CASSANDRA) {
        command.arg("--penates").arg(program);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert!(report["peers"][0].as_str().unwrap().starts_with("Apache Cassandra"), "{}", report["peers"]);
    let table = String::from_utf8(output.stdout).unwrap();
    for (name, what) in TOLD {
        let bench = report["benchmarks"].as_array().unwrap().iter().find(|known| known["name"] == name).unwrap();
        let figure = bench["figures"].as_array().unwrap().iter().find(|figure| figure["what"] == what);
        let figure = figure.unwrap_or_else(|| panic!("no {what} in {bench}"));
        assert!(figure["median"].as_f64().unwrap() > 0.0, "{figure}");
        assert!(table.contains(&format!("| {name} | {what} |")), "{what}: {table}");
    }
    let svg = std::fs::read_to_string(charts.join("readers.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("row cache"), "{svg}");
    // Only volumes are kept.
    let kept: Vec<_> =
        std::fs::read_dir(folder.path().join("work")).unwrap().map(|kept| kept.unwrap().file_name()).collect();
    assert_eq!(kept, ["pairtree-3-seed-1-pages-4"]);
}
