//! The generators run, with loads so small that their figures mean nothing.
use std::process::Command;

use crate::support::built_penates;
use serde_json::Value;

const GENERATORS: &str = env!("CARGO_BIN_EXE_generators");

#[test]
fn each_generator_has_a_row_with_its_rate_and_cost_or_with_the_reason_why_it_was_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    let mut command = Command::new(GENERATORS);
    command.args(["--generators", "penates-closed,wrk,hey", "--connections", "2", "--seconds", "1"]);
    command.args(["--repetitions", "1"]).arg("--json").arg(&file);
    if let Some(program) = built_penates(GENERATORS) {
        command.arg("--penates").arg(program);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let tools: Vec<_> = rows.iter().map(|row| row["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["penates-closed", "wrk", "hey"]);
    assert!(rows[0]["not_run"].is_null(), "{}", rows[0]);
    let sample = &rows[0]["samples"][0];
    assert!(sample["load_cpu_us"].is_f64() && sample["lateness_p99_ms"].is_f64(), "{sample}");
    assert!(sample["verdict"].is_string(), "{sample}");
    let table = String::from_utf8(output.stdout).unwrap();
    for (row, name) in rows.iter().zip(["Penates", "wrk", "hey"]) {
        match row["not_run"].as_str() {
            None => {
                let positive = ["per_s", "cpu_us"].map(|what| row["samples"][0][what].as_f64().unwrap() > 0.0);
                assert_eq!(positive, [true; 2], "{row}");
                assert!(table.contains(&format!("| {name} | closed | ")), "{table}");
            }
            Some(why) => {
                assert!(why.starts_with(&format!("{name} is not installed (Debian: {name})")), "{why}");
                assert!(table.contains(&format!("| {name} | closed | not run: {why} |")), "{table}");
            }
        }
    }
}
