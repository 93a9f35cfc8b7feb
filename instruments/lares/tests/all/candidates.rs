//! The candidates of the testbed: each that can be had is put under a load, and its record has no
//! gaps. To three nodes of Cassandra a fourth is added meanwhile and removed, and one of them is killed.
//! Servers on them come and go, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use crate::cluster::can_run;
use crate::fedora::{RUNNER, WAR, fetched};
use crate::harness::*;
use crate::lares;
use crate::packages;

/// The candidate that gets a node and loses another one.
const GROWN: &str = "penates-cassandra-3";

/// What happens to it. A node fetches its part of the data, which takes a minute on an idle machine. None
/// of these disturbs another one: each may take until the next one begins.
const GROWTH: &str = r#"
    name = "grown"
    scenarios = [{ scenario = "ingest" }]
    workers = 1
    load = { shape = "constant", rate = 4, duration = "15m" }
    events = [
        { at = "5s", run = "add-server" },
        { at = "65s", run = "remove-server", within = "20s" },
        { at = "85s", run = "kill-server", within = "5s" },
        { at = "90s", run = "start-server" },
        { at = "150s", run = "add-node", within = "5m" },
        { at = "450s", run = "remove-node", within = "3m" },
        { at = "630s", run = "kill-node", within = "20s" },
        { at = "650s", run = "start-node", within = "4m" },
    ]
"#;

/// The commands of [`GROWTH`].
const EVENTS: [&str; 8] = [
    "add-server",
    "remove-server",
    "kill-server",
    "start-server",
    "add-node",
    "remove-node",
    "kill-node",
    "start-node",
];

/// A few users of what a candidate understands. Each server of a candidate has a worker.
fn few(candidate: &str) -> String {
    let understood = scenarios_of(candidate);
    let scenarios: Vec<_> = understood.iter().map(|name| format!("{{ scenario = \"{name}\" }}")).collect();
    let scenarios = scenarios.join(", ");
    // That asks for what the first 1,000 users of `ingest` have made.
    let fill = if understood.contains(&"read") { "fill = { scenario = \"ingest\", units = 1000 }\n" } else { "" };
    format!(
        "name = \"few\"\nscenarios = [{scenarios}]\nworkers = 2\n{fill}\
         load = {{ shape = \"even\", users_per_worker = 10, duration = \"2s\" }}\n"
    )
}

/// What each candidate understands. Of Fedora, of the Community Solid Server and of nginx it is all
/// that the guide names.
fn scenarios_of(candidate: &str) -> &'static [&'static str] {
    match candidate {
        "nginx" => &["get", "large-file", "bulk"],
        "null-redis" | "penates-records" | "penates-records-cassandra" | "redis" | "redis-everysec" => {
            &["records-fill"]
        }
        "fedora" => &["read", "patch", "memento", "transaction", "without-transaction", "large-binary"],
        "community-solid-server" => &["ingest", "without-transaction", "large-binary"],
        _ => &["ingest"],
    }
}

/// The folder with the archives of Fedora and of the program that serves it.
fn jars() -> PathBuf {
    fetched(WAR);
    fetched(RUNNER).parent().unwrap().to_owned()
}

/// A run that was made.
struct Made {
    summary: Value,
    record: Value,
    data: PathBuf,
}

/// Makes a run of a candidate; `None` if nobody can run it.
fn made(folder: &Path, candidate: &str, plan: &str) -> Option<Made> {
    fs::write(folder.join("plan.toml"), plan).unwrap();
    let args = ["testbed", "run", "plan.toml", "--candidate", candidate, "--untraceable", "--busy", "--json"];
    let mut command = lares(&[&args[..], &["--who", "a proof"]].concat());
    command.current_dir(folder).env("TESTBED_FEDORA", jars());
    command.env("TESTBED_CSS", packages::of_npm("@solid/community-server", "7").unwrap());
    let ran = Ran::of(command);
    if ran.stderr.contains(&format!("candidate {candidate} cannot be run: ")) {
        return None;
    }
    assert!(!ran.stdout.is_empty(), "{candidate}: {}", ran.stderr);
    let mut shown = ran.json();
    let data = folder.join(shown["folder"].as_str().unwrap()).join("data");
    let record = serde_json::from_slice(&fs::read(data.join("record.json")).unwrap()).unwrap();
    Some(Made { summary: shown["summary"].take(), record, data })
}

/// Fails the test unless the nodes of Cassandra were sampled.
fn has_figures_of_nodes(candidate: &str, made: &Made) {
    assert!(made.record["beside"]["not_sampled"].is_null(), "{candidate}: {}", made.record["beside"]);
    let csv = fs::File::open(made.data.join("monitor/candidate.csv")).unwrap();
    let samples = ::testbed::monitor::read("candidate", csv).unwrap();
    let live_bytes = samples.mean("node1.live_bytes");
    // What a few users have written is in memory only.
    assert!(live_bytes.is_some_and(|bytes| bytes > 0.0 || candidate != GROWN), "{candidate}: {live_bytes:?}");
}

/// Fails the test unless the record has what is in force in a node of Cassandra.
fn has_what_is_in_force_in_a_node(candidate: &str, made: &Made) {
    let configuration = made.record["candidate"]["configuration"].as_str().unwrap();
    // The version, the Java, a setting that the candidate has set, and the heap.
    for line in ["cassandra = 5.", "java = ", "gc_log_threshold = 50ms", "-Xmx"] {
        assert!(configuration.lines().any(|known| known.starts_with(line)), "{candidate}: {line}: {configuration}");
    }
}

/// Fails the test unless all events have ended well.
fn has_grown(made: &Made) {
    let events = made.record["beside"]["events"].as_array().unwrap();
    let are_done = events.iter().all(|event| event["failure"].is_null() && event["ended_s"].is_f64());
    assert!(events.len() == EVENTS.len() && are_done, "{events:?}");
    let marks = fs::read_to_string(made.data.join("marks.csv")).unwrap();
    for event in EVENTS {
        assert!(marks.contains(&format!("{event}: done after ")), "{event}: {marks}");
    }
}

#[test]
#[ignore = "it fetches and starts all candidates, which takes 35 minutes: `cargo xtask proofs` runs it"]
fn each_candidate_that_can_be_had_ingests_and_has_a_record_without_gaps() {
    if !can_run() {
        return;
    }
    let (folder, mut not_run) = (tempfile::tempdir().unwrap(), Vec::new());
    // nginx has one archive, whatever volumes are asked for.
    fs::write(folder.path().join("ids.txt"), "a.1\n").unwrap();
    // A program that is built without its commit or its repository does not know it.
    let knows_commit = Ran::of(lares(&["--version"])).text().contains("(commit ");
    let knows_repository = option_env!("PENATES_REPOSITORY").is_some_and(|text| !text.is_empty());
    let unknown = [("commit", knows_commit), ("repository", knows_repository)].into_iter();
    let unknown: Vec<_> = unknown.filter(|(_, is_known)| !is_known).map(|(what, _)| what).collect();
    for candidate in ::testbed::candidate::Candidate::shipped_names() {
        let begun = Instant::now();
        let plan = if candidate == GROWN { GROWTH.to_owned() } else { few(candidate) };
        let Some(made) = made(folder.path(), candidate, &plan) else {
            not_run.push(candidate);
            continue;
        };
        let (all, record) = (&made.summary["all"], &made.record);
        assert!(all["done"].as_u64() > Some(0), "{candidate}: {}", made.summary);
        // Requests to a node or to a server that is killed may fail.
        assert!(candidate == GROWN || all["done"] == all["due"], "{candidate}: {}", made.summary);
        let is_own = candidate.starts_with("penates") || candidate.starts_with("null");
        let whose: &[&str] = if is_own { &["testbed's", "candidate's"] } else { &["testbed's"] };
        let of_each = |whose: &&str| unknown.iter().map(|what| format!("the {whose} {what}")).collect::<Vec<_>>();
        let gaps: Vec<_> = whose.iter().flat_map(of_each).collect();
        let missing: Vec<_> = record["missing"].as_array().unwrap().iter().map(|what| what.as_str().unwrap()).collect();
        assert_eq!(missing, gaps, "{candidate}");
        if candidate.starts_with("penates") {
            assert!(record["candidate"]["facts"].to_string().contains("\"penates/"), "{record}");
        }
        if candidate.contains("cassandra") {
            has_figures_of_nodes(candidate, &made);
            has_what_is_in_force_in_a_node(candidate, &made);
        }
        if candidate == GROWN {
            has_grown(&made);
        }
        eprintln!("{candidate}: {} requests done, within {:.0?}", all["done"], begun.elapsed());
    }
    assert_eq!(not_run, ["trellis"]);
}
