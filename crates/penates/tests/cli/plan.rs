//! `penates plan`

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::*;

/// Bytes of the files below a folder.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let bytes = |path: &Path| if path.is_dir() { bytes_below(path) } else { fs::metadata(path).unwrap().len() };
    entries.map(|entry| bytes(&entry.path())).sum()
}

fn part(plan: &Value, what: &str) -> f64 {
    let parts = plan["disk"].as_array().unwrap();
    parts.iter().find(|part| part["what"] == what).unwrap()["bytes"].as_f64().unwrap()
}

#[test]
fn a_plan_says_what_the_files_of_such_a_store_take() {
    let store = TestStore::vacant();
    store.run(&["synth", "--volumes", "40", "--pages", "60"]).ends_with(0);
    let stat = store.run(&["stat", "--json"]).ends_with(0).json();
    let [text, pages] = ["size_bytes", "pages"].map(|count| stat[count].as_u64().unwrap());
    let page_bytes = (text / pages).to_string();
    let wanted = ["--volumes", "40", "--pages", "60", "--page-bytes", &page_bytes, "--json"];
    let plan = Ran::of(penates(&[&["plan"], &wanted[..]].concat())).ends_with(0).json();
    // METS of synthetic volumes are much smaller than those of scans.
    let planned = part(&plan, "text of pages") + part(&plan, "directories and digests of pages");
    let stored = bytes_below(&store.path().join("db/text/keyspaces")) as f64;
    assert!((0.8..1.4).contains(&(stored / planned)), "{stored} bytes are stored, {planned} were planned");
}

#[test]
fn a_plan_names_what_a_machine_has_too_little_of_and_refuses_what_is_no_number() {
    let load = ["plan", "--volumes", "1e6", "--pages-per-second", "1e5"];
    let output = Ran::of(penates(&[&load[..], &["--disk", "100GB", "--memory", "1TB"]].concat())).ends_with(0);
    assert!(output.text().contains("too little: disk.") && output.text().contains("too little: processor cores."));
    assert!(!output.text().contains("too little: memory."), "{}", output.text());
    Ran::of(penates(&["plan", "--volumes", "many"])).ends_with(2);
    let costs = Ran::of(penates(&["plan", "--show-costs"])).ends_with(0);
    assert!(costs.text().contains("frame_ratio"));
}

#[test]
fn a_plan_says_what_goes_over_the_network_and_how_many_nodes_there_are() {
    let load = ["plan", "--resources", "1e6", "--binary-bytes", "10KB", "--reads-per-second", "100", "--copies", "2"];
    let plan = Ran::of(penates(&[&load[..], &["--json"]].concat())).ends_with(0).json();
    // Each answer has the content, and a head of 500 bytes.
    assert_eq!(plan["network"]["out_bytes_per_second"], 100.0 * 10_500.0);
    assert_eq!(plan["network"]["in_bytes_per_second"], 100.0 * 500.0);
    assert_eq!(plan["cassandra"]["nodes"], 2);
    assert_eq!(plan["cassandra"]["limit"], "copies");
    assert!(plan["cassandra"]["network"]["out_bytes_per_second"].as_f64().unwrap() > 1e6);
    // Twelve rows of a binary.
    assert_eq!(part(&plan, "search index"), 1e6 * 12.0 * 60.0);
    let without = Ran::of(penates(&[&load[..], &["--json", "--no-search"]].concat())).ends_with(0);
    assert!(!without.text().contains("search index"), "{}", without.text());
    let shown = Ran::of(penates(&load)).ends_with(0);
    for line in ["network out", "ON CASSANDRA", "nodes", "between nodes"] {
        assert!(shown.text().contains(line), "{line}: {}", shown.text());
    }
}
