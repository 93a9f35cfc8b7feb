//! The study runs, with inputs so small that its figures mean nothing.
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn study(out: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_study"));
    let output = command.arg("--tiny").args(arguments).arg("--out").arg(out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn outcome(out: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(out.join("study.json")).unwrap()).unwrap()
}

#[test]
fn every_stage_is_measured_as_often_as_requested_and_reported_in_tables_figures_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let tables = study(folder.path(), &["--trials", "1"]);

    let outcome = outcome(folder.path());
    // Readers x cold and warm; layouts x frames and levels; protocols; layouts x levels x
    // protocols; links x clients x levels.
    let stages = [("store", 2 * 2), ("zip", 3 * 11), ("server", 2), ("together", 3 * 5 * 2), ("links", 2 * 2 * 5)];
    for (stage, expected) in stages {
        let points = outcome[stage]["points"].as_array().unwrap();
        assert_eq!(points.len(), expected, "{stage}");
        for point in points {
            let trials = point["trials"].as_array().unwrap();
            assert_eq!(trials.len(), 1, "{stage}: {point}");
            for trial in trials {
                assert!(trial["seconds"].as_f64().unwrap() > 0.0, "{stage}: {point}");
                assert!(trial["text_bytes"].as_u64().unwrap() > 0, "{stage}: {point}");
                assert!(trial["coded_bytes"].as_u64().unwrap() > 0, "{stage}: {point}");
            }
        }
    }
    assert_eq!(outcome["contents"].as_array().unwrap().len(), 33);

    for heading in [
        "## Stage by stage",
        "## Out of the store alone",
        "## Into ZIP alone",
        "## Out of the server alone",
        "## All together",
        "## Over longer links",
        "### What the study's rule would have said",
    ] {
        assert!(tables.contains(heading), "no {heading} in {tables}");
    }
    assert_eq!(tables, std::fs::read_to_string(folder.path().join("study.md")).unwrap());
    for figure in ["store", "zip", "ratios", "together", "links"] {
        let svg = std::fs::read_to_string(folder.path().join(format!("{figure}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{figure}: {svg}");
    }
}

#[test]
fn a_stage_measured_alone_leaves_the_others_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    study(folder.path(), &["--only", "server"]);
    let before = outcome(folder.path());
    for point in before["server"]["points"].as_array().unwrap() {
        assert_eq!(point["trials"].as_array().unwrap().len(), 2, "{point}");
    }
    study(folder.path(), &["--only", "zip"]);
    let after = outcome(folder.path());
    assert_eq!(before["server"], after["server"]);
    assert!(before["zip"].is_null() && after["zip"].is_object());
    study(folder.path(), &["--draw"]);
    assert_eq!(after, outcome(folder.path()));
}
