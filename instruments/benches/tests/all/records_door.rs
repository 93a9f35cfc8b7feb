//! The benchmarks of the records door run, with inputs so small that their figures mean nothing.
//! Those beside Redis and over Cassandra are left out.
use std::process::Command;

use crate::support::built_penates;
use serde_json::Value;

const RECORDS_DOOR: &str = env!("CARGO_BIN_EXE_records-door");

/// A figure that each of them must report.
const TOLD: [(&str, &str); 13] = [
    ("fill", "Penates: written"),
    ("mixes", "Penates: 50/50 uniform: operations"),
    ("expiring", "Penates: reads p99 while records expire"),
    ("expiring", "Penates: writes p99 while records expire"),
    ("expiring", "Penates: all reclaimed after the last record expired"),
    ("exporting", "Penates: exported"),
    ("exporting", "Penates: verified"),
    ("exporting", "Penates: copied"),
    ("exporting", "Penates: imported"),
    ("exporting", "Penates: replaced"),
    ("costs", "Penates: resident"),
    ("over-time", "Penates: operations"),
    ("over-time", "Penates: on disk"),
];

/// Where the time that the disk alone takes is a figure too. Of a file in memory it may be none.
const SYNCED: [(&str, &str); 3] = [
    ("mixes", "Penates: 50/50 uniform: p99 of a sync of the disk"),
    ("expiring", "Penates: p99 of a sync of the disk"),
    ("over-time", "Penates: p99 of a sync of the disk"),
];

#[test]
fn benchmarks_over_the_embedded_engine_are_measured_and_reported_in_table_json_and_chart() {
    let folder = tempfile::tempdir().unwrap();
    let (file, charts) = (folder.path().join("figures.json"), folder.path().join("charts"));
    let mut command = Command::new(RECORDS_DOOR);
    command.args(["fill", "mixes", "expiring", "exporting", "costs", "over-time"]);
    command.args(["--subjects", "penates", "--records", "500", "--rate", "200", "--repetitions", "1"]);
    command.args(["--seconds", "0.5"]).arg("--work").arg(folder.path().join("work"));
    command.arg("--charts").arg(&charts).arg("--json").arg(&file);
    if let Some(program) = built_penates(RECORDS_DOOR) {
        command.arg("--penates").arg(program);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    for (name, what) in TOLD.into_iter().chain(SYNCED) {
        let bench = report["benchmarks"].as_array().unwrap().iter().find(|known| known["name"] == name).unwrap();
        let figure = bench["figures"].as_array().unwrap().iter().find(|figure| figure["what"] == what);
        let figure = figure.unwrap_or_else(|| panic!("no {what} in {bench}"));
        assert!(figure["median"].as_f64().unwrap() > 0.0 || SYNCED.contains(&(name, what)), "{figure}");
        assert!(table.contains(&format!("| {name} | {what} |")), "{what}: {table}");
    }
    let svg = std::fs::read_to_string(charts.join("over-time-penates.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("later than 10 ms, %"), "{svg}");
    assert!(svg.contains("Penates: 500 records, 200 operations/s"), "{svg}");
    // Stores are deleted.
    assert_eq!(std::fs::read_dir(folder.path().join("work/running")).unwrap().count(), 0);
}
