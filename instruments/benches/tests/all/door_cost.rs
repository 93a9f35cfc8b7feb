//! The benchmark runs, with inputs so small that its figures mean nothing.
use std::process::Command;

use serde_json::Value;

#[test]
fn every_subject_is_measured_as_often_as_requested_and_reported_in_table_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("figures.json");
    let small = ["--volumes", "3", "--pages-per-volume", "4", "--repetitions", "2", "--pages", "2", "--calls", "5"];
    let output = Command::new(env!("CARGO_BIN_EXE_door-cost")).args(small).arg("--json").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!((&report["totals"]["volumes"], &report["totals"]["pages"]), (&3.into(), &12.into()));
    let measured = report["measured"].as_array().unwrap();
    assert_eq!(measured.len(), benches::subject::Subject::ALL.len());
    for subject in measured {
        let samples = subject["samples"].as_array().unwrap();
        assert_eq!(samples.len(), 2, "{subject}");
        assert!(samples.iter().all(|sample| sample["seconds"].as_f64().unwrap() > 0.0), "{subject}");
    }

    let table = String::from_utf8(output.stdout).unwrap();
    for subject in benches::subject::Subject::ALL {
        assert!(table.contains(&format!("| {} |", subject.name())), "{table}");
    }
}
