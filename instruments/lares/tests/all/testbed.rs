//! `lares testbed`: real workers against real servers.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use testbed::inputs::Inputs;

use crate::harness::{Ran, SMALL, Served, penates, sample_folder, wait_until};
use crate::lares;

/// The candidate of the benchmarks with volumes.
const VOLUMES: &str = "../benches/candidates/penates-volumes/candidate.toml";

fn testbed(folder: &Path, args: &[&str]) -> Ran {
    let mut command = lares(&[&["testbed"], args].concat());
    command.current_dir(folder);
    Ran::of(command)
}

/// The digest of a file.
fn sha256_of(file: &Path) -> String {
    hex::encode(Sha256::digest(fs::read(file).unwrap()))
}

/// The exit code of a run with this verdict.
fn code_of(verdict: &str) -> i32 {
    match verdict {
        "held" => 0,
        "void" => 4,
        _ => 1,
    }
}

/// A plan in a folder, for a few users.
fn plan(folder: &Path, scenario: &str) {
    let text = format!(
        "name = \"few\"\nscenarios = [{{ scenario = \"{scenario}\" }}]\nworkers = 2\n\
         objectives = [\"late share at 10s <= 100%\"]\n\
         load = {{ shape = \"even\", users_per_worker = 10, duration = \"1s\" }}\n"
    );
    fs::write(folder.join("plan.toml"), text).unwrap();
}

/// Runs a scenario against a candidate that keeps its data in the folder `data`. Returns what it showed.
fn measured(folder: &Path, scenario: &str, users: u32, candidate: &str) -> Value {
    measured_among(folder, &[scenario], users, candidate)
}

/// The same with several scenarios, each of which has an equal share of the users.
fn measured_among(folder: &Path, scenarios: &[&str], users: u32, candidate: &str) -> Value {
    let scenarios: Vec<_> = scenarios.iter().map(|scenario| format!("{{ scenario = \"{scenario}\" }}")).collect();
    let text = format!(
        "name = \"few\"\nscenarios = [{}]\nworkers = 2\n\
         load = {{ shape = \"even\", users_per_worker = {}, duration = \"1s\" }}\n",
        scenarios.join(", "),
        users / 2
    );
    fs::write(folder.join("plan.toml"), text).unwrap();
    let args = ["run", "plan.toml", "--candidate", candidate, "--data", "data", "--untraceable", "--busy", "--json"];
    testbed(folder, &args).json()["summary"].take()
}

/// Fails the test unless every request of a scenario was done.
#[track_caller]
fn assert_done(summary: &Value, requests: u64) {
    let all = &summary["all"];
    assert_eq!((all["due"].as_u64(), all["done"].as_u64()), (Some(requests), Some(requests)), "{summary}");
}

#[test]
fn the_scenarios_of_the_repository_and_of_volumes_are_understood_by_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let import = ["import", "--store", "data", "--init", sample_folder(SMALL).to_str().unwrap()].map(str::to_owned);
    let mut command = penates(&import);
    command.current_dir(here);
    Ran::of(command).ends_with(0);
    fs::write(here.join("ids.txt"), format!("{SMALL}\n")).unwrap();
    // Later scenarios ask for what the first 1,000 users have created.
    assert_done(&measured(here, "ingest", 1_000, "penates"), 2_000);
    // One run has all others: the users of each are drawn by the seed, so they are always the same.
    let of_each: [(&str, u64); 11] = [
        ("read", 2),
        ("update", 2),
        ("patch", 1),
        ("memento", 2),
        ("super-node", 3),
        ("large-binary", 2),
        ("transaction", 12),
        ("without-transaction", 10),
        ("bulk", 1),
        ("bulk-grid", 27),
        ("records-http-write", 1),
    ];
    let users: u32 = 88;
    let summary = measured_among(here, &of_each.map(|(scenario, _)| scenario), users, "penates");
    assert_eq!(summary["errors"].as_array().map(Vec::len), Some(0), "{summary}");
    let mut users_seen = 0;
    for (scenario, requests) in of_each {
        let steps = summary["steps"].as_array().unwrap().iter().filter(|step| step["scenario"] == scenario);
        let tallies: Vec<_> = steps.map(|step| &step["tally"]).collect();
        let sum = |what: &str| tallies.iter().map(|tally| tally[what].as_u64().unwrap()).sum::<u64>();
        let due = sum("due");
        assert!(due > 0 && due.is_multiple_of(requests) && sum("done") == due, "{scenario}: {summary}");
        users_seen += due / requests;
    }
    assert_eq!(users_seen, u64::from(users), "{summary}");
}

#[test]
fn the_scenarios_of_records_are_understood_by_the_server() {
    let folder = tempfile::tempdir().unwrap();
    assert_done(&measured(folder.path(), "records-fill", 1_000, "penates-records"), 1_000);
    assert_done(&measured(folder.path(), "records-write", 100, "penates-records"), 200);
    // Only one of a hundred records is there, but those are asked for more often than others.
    let read = measured(folder.path(), "records-read", 200, "penates-records");
    assert_eq!(read["all"]["due"], 200, "{read}");
    assert!(read["all"]["done"].as_u64() >= Some(50), "{read}");
    let errors = read["errors"].as_array().unwrap();
    assert!(errors.iter().all(|error| error["kind"] == "check: contains"), "{read}");
}

/// Runs a plan against a candidate. Returns what it showed, and the folder of the run.
fn run_of(folder: &Path, plan: &str, candidate: &str) -> (Value, std::path::PathBuf) {
    fs::write(folder.join("plan.toml"), plan).unwrap();
    let args = ["run", "plan.toml", "--candidate", candidate, "--untraceable", "--busy", "--json"];
    let shown = testbed(folder, &args).json();
    let run = folder.join(shown["folder"].as_str().unwrap()).join("data");
    (shown["summary"].clone(), run)
}

#[test]
fn fills_replays_and_interruptions_are_understood_by_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |scenario: &str, more: &str| {
        format!(
            "name = \"few\"\nscenarios = [{{ scenario = \"{scenario}\" }}]\nworkers = 1\n{more}\n\
             load = {{ shape = \"constant\", rate = 4, duration = \"1s\" }}\n"
        )
    };
    let fill = |scenario: &str, units: u32| format!("fill = {{ scenario = \"{scenario}\", units = {units} }}");
    let (grown, run) = run_of(folder.path(), &plan("super-node-grown", &fill("super-node-fill", 1_000)), "penates");
    assert_done(&grown, 16);
    let record: Value = serde_json::from_slice(&fs::read(run.join("record.json")).unwrap()).unwrap();
    assert_eq!(record["beside"]["fill"]["units"], 1_000, "{record}");

    let many = plan("records-http-read", &fill("records-http-fill", 1_000)).replace("rate = 4", "rate = 40");
    let (read, _) = run_of(folder.path(), &many, "penates");
    // Only one of a hundred records is there, but those are asked for more often than others. All requests
    // are answered.
    let of_all = |what: &str| read["all"][what].as_u64().unwrap();
    assert_eq!((of_all("due"), of_all("done") + of_all("failed")), (40, 40), "{read}");
    assert!(of_all("done") >= 10, "{read}");
    let errors = read["errors"].as_array().unwrap();
    assert!(errors.iter().all(|error| error["kind"] == "status 404"), "{read}");

    let lines = ["GET / HTTP/1.1", "HEAD /readyz HTTP/1.1", "GET /nothing HTTP/1.1"];
    let line = |request: &&str| format!("h - - [10/Oct/2000:13:55:36 +0000] \"{request}\" 200 1\n");
    fs::write(folder.path().join("access.log"), lines.iter().map(line).collect::<String>()).unwrap();
    let replay = "load = { shape = \"replay\", file = \"access.log\", duration = \"1s\" }";
    let replay = format!("name = \"few\"\nscenarios = [{{ scenario = \"replay\" }}]\nworkers = 1\n{replay}\n");
    assert_done(&run_of(folder.path(), &replay, "penates").0, 3);

    let events = "events = [{ at = \"100ms\", run = \"pause\" }, { at = \"700ms\", run = \"resume\" }]";
    let (interrupted, run) = run_of(folder.path(), &plan("ingest", events), "penates");
    assert_done(&interrupted, 8);
    assert!(interrupted["all"]["response"]["max_ms"].as_f64() >= Some(200.0), "{interrupted}");
    assert!(fs::read_to_string(run.join("marks.csv")).unwrap().contains("resume: done"));
}

/// The plans of the benchmarks in a folder, with few and small things.
fn benchmarks(folder: &Path) {
    let plans = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/plans");
    let smaller = [
        ("from = 0, to = 999 ", "from = 0, to = 9 "),
        ("to = 4999", "to = 11"),
        ("10000000", "20"),
        ("count = 100000,", "count = 20,"),
        ("268435456", "1000"),
        ("16777216", "1000"),
        ("repeat = 100", "repeat = 2"),
        ("repeat = 200", "repeat = 2"),
    ];
    for entry in fs::read_dir(&plans).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name.ends_with(".toml") {
            let text = fs::read_to_string(entry.path()).unwrap();
            let text = smaller.iter().fold(text, |text, (from, to)| text.replace(from, to));
            fs::write(folder.join(name), text).unwrap();
        }
    }
    let ids: String = (0..12).map(|n| format!("synth.ark:/99999/s1v{n}\n")).collect();
    for name in ["ids-500", "ids-5000"] {
        fs::create_dir(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("0"), &ids).unwrap();
    }
}

#[test]
fn the_plans_of_the_benchmarks_can_be_run_and_their_scenarios_are_understood_by_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    benchmarks(here);
    let mut of_plans = BTreeSet::new();
    for entry in fs::read_dir(here).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
        if name.ends_with(".toml") && !name.starts_with("users-") {
            let inputs = Inputs::read(&entry).unwrap();
            inputs.compiled().unwrap();
            inputs.compiled_fill().unwrap();
            assert_eq!(format!("{}.toml", inputs.plan.name), name);
            of_plans.extend(inputs.plan.scenarios.iter().map(|of| of.scenario.clone()));
            of_plans.extend(inputs.plan.fill.map(|fill| fill.scenario));
        }
    }
    let volumes = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(VOLUMES)).unwrap();
    fs::create_dir(here.join("volumes")).unwrap();
    fs::write(here.join("volumes/candidate.toml"), volumes.replace("5000", "12 --pages 12")).unwrap();
    let of_each = [
        ("volumes", "", "bulk page pages cold ready"),
        ("volumes", "", "bulk-ids"),
        ("volumes", "", "selection"),
        ("penates", "ingest", "graph binary put large typed search change found transactions without-transactions"),
        ("penates", "users-version.toml", "members audited time-gate"),
        ("penates", "super-node-fill", "listing"),
        ("penates-records", "users-record-fill.toml", "record-read-uniform record-read-zipf record-read-kept"),
        ("penates-records", "", "record-write-uniform record-write-zipf record-write-kept record-expiring"),
    ];
    // The archives of these would have to be large, and these have other candidates.
    let mut tried: BTreeSet<_> = ["range", "slow", "java-0", "java-1"].map(str::to_owned).into();
    let mut memory_peak_bytes = 0.0_f64;
    for (candidate, fill, scenarios) in of_each {
        let names: Vec<_> =
            scenarios.split(' ').map(|name| format!("{{ scenario = \"users-{name}.toml\" }}")).collect();
        let fill = match fill {
            "" => String::new(),
            fill => format!("fill = {{ scenario = \"{fill}\", units = 20, concurrency = 1 }}\n"),
        };
        // Lists of the same ids would be one selection.
        let load = match names.len() {
            1 => "shape = \"closed\", users_per_worker = 1".to_owned(),
            count => format!("shape = \"even\", users_per_worker = {}", 10 * count),
        };
        let plan = format!(
            "name = \"few\"\nscenarios = [{}]\nworkers = 1\n{fill}\
             load = {{ {load}, duration = \"1s\" }}\n",
            names.join(", ")
        );
        let (summary, _) = run_of(here, &plan, candidate);
        assert_eq!(summary["errors"].as_array().map(Vec::len), Some(0), "{candidate}: {summary}");
        let steps = summary["steps"].as_array().unwrap();
        assert!(steps.iter().all(|step| step["tally"]["done"].as_u64() > Some(0)), "{candidate}: {summary}");
        memory_peak_bytes = memory_peak_bytes.max(summary["costs"]["memory_peak_bytes"].as_f64().unwrap());
        tried.extend(scenarios.split(' ').map(str::to_owned));
        tried.extend(
            plan.split('"').filter_map(|word| Some(word.strip_prefix("users-")?.strip_suffix(".toml")?.to_owned())),
        );
    }
    // It is sampled once a second, which a run of a second may not meet.
    assert!(memory_peak_bytes > 1e6, "{memory_peak_bytes}");
    let of_plans: BTreeSet<_> = of_plans
        .iter()
        .filter_map(|name| Some(name.strip_prefix("users-")?.strip_suffix(".toml")?.to_owned()))
        .collect();
    assert_eq!(of_plans, tried);
}

#[test]
fn candidates_and_their_settings_are_compared_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), "get");
    let args = ["compare", "plan.toml", "null", "null", "--repeat", "2", "--times", "2", "--untraceable", "--busy"];
    let shown = testbed(folder.path(), &[&args[..], &["--json"]].concat()).json();
    let all = shown.as_array().unwrap();
    assert_eq!(all.len(), 2, "{shown}");
    for of in all {
        assert_eq!(of["rows"][0]["figures"].as_array().map(Vec::len), Some(2), "{shown}");
        assert!(of["rows"][0]["figures"][1]["requests/s"].as_f64() > Some(0.0), "{shown}");
    }
    let refused = testbed(folder.path(), &["compare", "plan.toml", "null+a=b"]).ends_with(2);
    assert!(refused.stderr.contains("takes no settings"), "{}", refused.stderr);
}

#[test]
fn shipped_plans_are_listed_and_printed_for_copying() {
    let folder = tempfile::tempdir().unwrap();
    let listed = testbed(folder.path(), &["plans", "--json"]).ends_with(0).json_lines();
    let names: Vec<_> = listed.iter().map(|plan| plan["name"].as_str().unwrap()).collect();
    for name in ["ingest", "mixed-70-30", "records-50-50"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let printed = testbed(folder.path(), &["plans", "mixed-70-30"]).ends_with(0);
    for part in ["name = \"mixed-70-30\"", "# The scenario `read`", "# The scenario `update`", "If-Match"] {
        assert!(printed.text().contains(part), "{}", printed.text());
    }
    let refused = testbed(folder.path(), &["plans", "nobody"]).ends_with(2);
    assert!(refused.stderr.contains("records-90-10"), "{}", refused.stderr);
    let refused = testbed(folder.path(), &["run", "nobody", "--candidate", "null"]).ends_with(2);
    assert!(refused.stderr.contains("there is no such file; plans that need none are"), "{}", refused.stderr);
}

#[test]
fn a_plan_of_commands_does_not_run_against_an_address_of_http() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["run", "records-90-10", "--url", "http://127.0.0.1:1", "--untraceable", "--busy"];
    let refused = testbed(folder.path(), &args).ends_with(1);
    assert!(refused.stderr.contains("redis://127.0.0.1:6379"), "{}", refused.stderr);
}

#[test]
fn a_run_starts_the_candidate_and_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), "ingest");
    let args = ["run", "plan.toml", "--candidate", "penates", "--untraceable", "--busy", "--who", "a test", "--json"];
    let ran = testbed(folder.path(), &args);
    let shown = ran.json();
    // A machine that is busy with other tests may make the run void, or durations grow.
    assert_eq!(ran.code, code_of(shown["judgement"]["verdict"].as_str().unwrap()), "{}", ran.stderr);
    let all = &shown["summary"]["all"];
    assert_eq!((all["due"].as_u64(), all["done"].as_u64()), (Some(40), Some(40)), "{shown}");
    let run = Path::new(shown["folder"].as_str().unwrap());
    let data = folder.path().join(run).join("data");
    for file in [
        "plan.toml",
        "scenarios/ingest.toml",
        "summary.json",
        "seconds.csv",
        "latencies.hlog",
        "times.hlog",
        "candidate.log",
        "junit.xml",
        "k6-summary.json",
        "requests.svg",
        "late.svg",
    ] {
        assert!(data.join(file).metadata().unwrap().len() > 0, "{file}");
    }
    let record: Value = serde_json::from_slice(&fs::read(data.join("record.json")).unwrap()).unwrap();
    assert_eq!(record["who"], "a test");
    assert!(record["candidate"]["program"]["version"].as_str().unwrap().starts_with("penates "), "{record}");
    assert_eq!(record["candidate"]["program"]["sha256"], sha256_of(crate::penates_program()));
    let configuration = record["candidate"]["configuration"].as_str().unwrap();
    assert!(configuration.contains("auth.write"), "{configuration}");
    // What is in force in the server has no origin; what another process would read has one.
    assert!(configuration.lines().next().unwrap().split_whitespace().eq(["SETTING", "VALUE"]), "{configuration}");
    // What the server reports, which sends no name of itself.
    let fact = format!("[\"version that the server reports\",\"penates/{}\"]", env!("CARGO_PKG_VERSION"));
    assert!(record["candidate"]["facts"].to_string().contains(&fact), "{record}");
    let worker = record["workers"][1]["command"].to_string();
    assert!(worker.contains("\"testbed\",\"worker\",\"--listen\""), "{worker}");
    // Of this candidate nothing is missing but what this build does not know of itself.
    let missing: Vec<_> = record["missing"].as_array().unwrap().iter().map(|what| what.as_str().unwrap()).collect();
    let of_build = |what: &&str| what.ends_with(" commit") || what.ends_with(" repository");
    assert!(missing.iter().all(|what| of_build(what) || what.contains("machine")), "{missing:?}");
    let report = fs::read_to_string(data.join("report.html")).unwrap();
    assert!(report.contains("Untraceable") && report.contains("ingest"));

    let listed = testbed(folder.path(), &["list", "--verify", "--json"]).ends_with(0).json_lines();
    assert_eq!((listed.len(), &listed[0]["candidate"]), (1, &Value::from("penates")));
    let published = testbed(folder.path(), &["publish", "portal", "--json"]).ends_with(0).json();
    assert_eq!((&published["runs"], &published["refused"]), (&1.into(), &Value::Array(Vec::new())));
    let page = fs::read_to_string(folder.path().join("portal/index.html")).unwrap();
    assert!(page.contains(record["id"].as_str().unwrap()));

    let run = run.to_str().unwrap();
    testbed(folder.path(), &["file", run, "--into", "runs", "--", "--store", "kept", "--init"]).ends_with(0);
    let id = record["id"].as_str().unwrap();
    let mut tree = penates(&["tree", &format!("runs/{id}"), "--store", "kept"]);
    tree.current_dir(folder.path());
    let tree = Ran::of(tree).ends_with(0);
    assert!(tree.text().contains("summary.json") && tree.text().contains("worker-001.csv.gz"), "{}", tree.text());
    is_versioned_found_and_cited(folder.path(), id, &fs::read(data.join("summary.json")).unwrap());

    // A bit flips.
    let events = data.join("events/worker-001.csv.gz");
    let mut bytes = fs::read(&events).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&events, bytes).unwrap();
    let damaged = testbed(folder.path(), &["list", "--verify"]).ends_with(1);
    assert!(damaged.stderr.contains("worker-001.csv.gz"), "{}", damaged.stderr);
    let published = testbed(folder.path(), &["publish", "another", "--json"]).ends_with(0).json();
    assert_eq!(published["runs"], 0);
    assert!(published["refused"][0]["reason"].as_str().unwrap().contains("worker-001.csv.gz"), "{published}");
    testbed(folder.path(), &["file", run, "--into", "again", "--", "--store", "kept"]).ends_with(1);
}

/// Fails the test unless the summary of a run that was filed has versions with addresses of their own, and is
/// found by its address.
fn is_versioned_found_and_cited(folder: &Path, id: &str, summary: &[u8]) {
    let kept = |args: &[&str]| {
        let mut command = penates(&[args, &["--store", "kept"]].concat());
        command.current_dir(folder);
        Ran::of(command).ends_with(0)
    };
    let address = format!("runs/{id}/summary.json");
    let versions = || kept(&["history", &address]).text().lines().map(str::to_owned).collect::<Vec<_>>();
    let filed = versions();
    fs::write(folder.join("other.json"), "{}").unwrap();
    kept(&["put", &address, "other.json", "--type", "application/json"]);
    assert_eq!(versions().len(), filed.len() + 1, "{filed:?}");
    // A paper cites the version that was filed, which stays what it is.
    let version = format!("{address}/fcr:versions/{}", filed.last().unwrap().split('\t').next().unwrap());
    assert_eq!(kept(&["cat", &version]).stdout, summary);
    let mut serve = penates(&["serve", "--store", "kept", "--listen", "127.0.0.1:0", "--tls-listen", "off"]);
    serve.current_dir(folder);
    let served = Served::start(serve);
    let search = format!("/rest/fcr:search?condition=fedora_id%3Druns/{id}/*&fields=fedora_id");
    wait_until(|| answer(&served, "GET", &search).contains("summary.json"));
    assert_eq!(served.stop("TERM").0, 0);
}

/// A program of the testbed that somebody has started. It ends with this value.
struct Listening {
    process: Child,
    address: String,
}

impl Listening {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let common = ["--listen", "127.0.0.1:0", "--token-file", "token"];
        let mut command = lares(&[&["testbed"], args, &common].concat());
        let mut process = command.current_dir(folder).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.trim().strip_prefix("Listening on ").unwrap().to_owned();
        Self { process, address }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_worker_and_monitors_that_were_started_by_hand_serve_several_runs() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::write(here.join("token"), "only for this test\n").unwrap();
    let (worker, monitor) = (Listening::start(here, &["worker"]), Listening::start(here, &["monitor"]));
    let own = "[[steps]]\nname = \"get\"\npath = \"/\"\ncheck = { contains = \"nothing\" }\n";
    fs::write(here.join("own.toml"), own).unwrap();
    // A server that runs already, as if it were on the machine of its monitor.
    let mut serve = penates(&["serve", "--store", "kept", "--init", "--listen", "127.0.0.1:0", "--tls-listen", "off"]);
    serve.current_dir(here);
    let served = Served::start(serve);
    let pid = served.child.id().to_string();
    let there = Listening::start(here, &["monitor", "--pid", &pid, "--data", "kept"]);
    fs::write(here.join("server.conf"), "listen = \"127.0.0.1:0\"\n").unwrap();
    let null = ["--candidate", "null"];
    let given = ["--commit", "7dd9394", "--configuration", "server.conf", "--repository", "https://example.org/x"];
    let facts = ["--fact", "nodes=1", "--fact", "copies=1", "--fact", "consistency=none", "--preparation", "none"];
    let elsewhere = [&["--url", &served.url][..], &given[..], &facts[..]].concat();
    // The server that does nothing does not answer what the first one wants. A machine that is busy with other
    // tests may make a run void, or durations grow.
    let answered = ["held", "degrading", "void"];
    for (scenario, verdicts, measured, monitor) in [
        ("own.toml", &["failed", "void"][..], &null[..], &monitor),
        ("get", &answered[..], &null[..], &monitor),
        ("get", &answered[..], &elsewhere[..], &there),
    ] {
        let plan = format!(
            "name = \"by-hand\"\nscenarios = [{{ scenario = \"{scenario}\" }}]\n\
             load = {{ shape = \"constant\", rate = 20, duration = \"300ms\" }}\n"
        );
        fs::write(here.join("plan.toml"), plan).unwrap();
        let run = ["run", "plan.toml", "--who", "a test", "--untraceable", "--busy", "--json"];
        let by_hand = ["--worker", &worker.address, "--monitor", &monitor.address, "--token-file", "token"];
        let ran = testbed(here, &[&run[..], measured, &by_hand[..]].concat());
        let shown = ran.json();
        let verdict = shown["judgement"]["verdict"].as_str().unwrap();
        assert!(verdicts.contains(&verdict), "{shown}");
        assert_eq!((ran.code, &shown["summary"]["all"]["due"]), (code_of(verdict), &Value::from(6)), "{shown}");
        let data = here.join(shown["folder"].as_str().unwrap()).join("data");
        let record: Value = serde_json::from_slice(&fs::read(data.join("record.json")).unwrap()).unwrap();
        assert_eq!(record["workers"].as_array().map(Vec::len), Some(1), "{record}");
        assert_eq!(record["workers"][0]["address"], worker.address.as_str());
        assert!(record["workers"][0]["command"].to_string().contains("\"--token-file\""), "{record}");
        assert_eq!(record["beside"]["monitors"][0]["address"], monitor.address.as_str());
        let monitors = fs::read_dir(data.join("monitor")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(monitors.filter(|name| name.to_string_lossy().starts_with("0-")).count(), 1);
        if measured == elsewhere {
            // The build may know neither, whatever is said of the server.
            let missing = record["missing"].as_array().unwrap();
            let of_build = ["the testbed's commit", "the testbed's repository"];
            assert!(missing.iter().all(|what| of_build.contains(&what.as_str().unwrap())), "{missing:?}");
            assert_eq!(record["candidate"]["program"]["sha256"], sha256_of(crate::penates_program()), "{record}");
            assert_eq!(record["beside"]["monitors"][0]["processes"][0]["pid"].to_string(), pid, "{record}");
        }
    }
}

/// A server that answers all requests. Returns its address, and what reports the first request for `/load`.
fn server_that_reports_the_load() -> (String, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (report, reported) = mpsc::channel();
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let mut request = String::new();
            // Up to the empty line behind the header fields.
            let mut lines = BufReader::new(client.try_clone().unwrap());
            while lines.read_line(&mut request).is_ok_and(|bytes| bytes > 2) {}
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
            if request.starts_with("GET /load") {
                let _ = report.send(());
            }
        }
    });
    (address, reported)
}

#[test]
fn a_run_whose_worker_is_killed_in_the_load_is_void_and_not_smaller() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    fs::write(here.join("token"), "only for this test\n").unwrap();
    fs::write(here.join("own.toml"), "[[steps]]\nname = \"get\"\npath = \"/load\"\n").unwrap();
    let plan = "name = \"killed-worker\"\nscenarios = [{ scenario = \"own.toml\" }]\n\
                load = { shape = \"constant\", rate = 20, duration = \"600s\" }\n";
    fs::write(here.join("plan.toml"), plan).unwrap();
    let [stays, mut dies] = [(); 2].map(|()| Listening::start(here, &["worker"]));
    let workers = [&stays.address, &dies.address].map(String::clone);
    let (url, load) = server_that_reports_the_load();
    let killed = thread::spawn(move || {
        load.recv_timeout(Duration::from_secs(120)).unwrap();
        dies.process.kill().unwrap();
    });
    let run = ["run", "plan.toml", "--url", &url, "--who", "a test", "--untraceable", "--busy", "--json"];
    let by_hand = ["--worker", &workers[0], "--worker", &workers[1], "--token-file", "token"];
    let shown = testbed(here, &[&run[..], &by_hand[..]].concat()).ends_with(code_of("void")).json();
    killed.join().unwrap();
    assert_eq!(shown["judgement"]["verdict"], "void");
    let reasons = shown["judgement"]["reasons"].as_array().unwrap();
    assert!(reasons.iter().any(|reason| reason.as_str().unwrap().starts_with("worker 1: ")), "{reasons:?}");
}

#[test]
fn the_greatest_load_is_found_between_one_that_is_held_and_one_that_is_not() {
    let folder = tempfile::tempdir().unwrap();
    // The objective makes the candidate look like one that does 50 requests per second at most.
    let plan = "name = \"limit\"\nscenarios = [{ scenario = \"get\" }]\nworkers = 1\n\
                objectives = [\"rate <= 50\"]\nload = { shape = \"constant\", rate = 20, duration = \"1s\" }\n";
    fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let args = ["find", "plan.toml", "--candidate", "null", "--untraceable", "--busy", "--precision", "2.1"];
    let mut find = lares(&[&["testbed"], &args[..], &["--confirmations", "1", "--json"]].concat());
    let temporary = folder.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    find.current_dir(folder.path()).env("TMPDIR", &temporary);
    let found = Ran::of(find);
    // Neither the runs nor their workers leave anything but what is in the archive.
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    // A machine that is busy with other tests may make the generator late again and again.
    assert!(found.code == 0 || found.code == 4, "{found:?}");
    if found.code == 0 {
        let lines = found.json_lines();
        let last = lines.last().unwrap();
        let [held, not_held] = ["held_users_per_s", "not_held_users_per_s"].map(|end| last[end].as_f64().unwrap());
        // What a busy machine does not hold is below the limit of the objective.
        assert!(not_held <= 80.0 && held < not_held && not_held <= 2.1 * held, "{last}");
        let listed = testbed(folder.path(), &["list", "--json"]).ends_with(0).json_lines();
        assert_eq!(listed.len(), lines.len() - 1);
    }
}

#[test]
fn a_study_has_a_row_for_each_candidate_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let plan = "name = \"limit\"\nscenarios = [{ scenario = \"get\" }]\nworkers = 1\n\
                objectives = [\"rate <= 50\"]\nload = { shape = \"constant\", rate = 20, duration = \"1s\" }\n";
    fs::write(folder.path().join("limit.toml"), plan).unwrap();
    let study = |candidates: &str| {
        let text = format!(
            "name = \"small\"\ncandidates = [{candidates}]\nplans = [{{ plan = \"limit.toml\" }}]\n\
             precision = 2.1\nconfirmations = 1\n"
        );
        fs::write(folder.path().join("small.toml"), text).unwrap();
        testbed(folder.path(), &["study", "small.toml", "--untraceable", "--busy", "--json"])
    };
    let runs = || testbed(folder.path(), &["list", "--json"]).ends_with(0).json_lines().len();
    assert!(study("\"nobody\"").ends_with(2).stderr.contains("candidate.toml"));
    let first = study("\"null\", \"trellis\"");
    // A machine that is busy with other tests may make the generator late again and again.
    assert!(first.code == 0 || first.code == 1, "{first:?}");
    let rows = first.json_lines();
    assert!(rows[1]["found"]["not_run"].as_str().unwrap().contains("Maven Central"), "{rows:?}");
    let table = fs::read_to_string(folder.path().join("small.results.md")).unwrap();
    assert!(table.contains("| limit | 1 | trellis |  | not run |"), "{table}");
    if first.code == 0 {
        let held = rows[0]["found"]["bracket"]["held_requests_per_s"].as_f64().unwrap();
        assert!(held > 0.0 && table.contains(&format!("| {held:.1} |")), "{table}");
        let made = runs();
        assert_eq!(rows[0]["trials"].as_array().unwrap().len(), made);
        // Nothing is left to do, except what could not be run.
        assert_eq!(study("\"null\", \"trellis\"").ends_with(0).json_lines()[0], rows[0]);
        assert_eq!(runs(), made);
        // As if it had been interrupted before its last run: that one is made, and no other.
        let file = folder.path().join("small.results.json");
        let mut results: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        results["rows"][0]["found"] = Value::Null;
        results["rows"][0]["trials"].as_array_mut().unwrap().pop();
        fs::write(&file, results.to_string()).unwrap();
        study("\"null\"");
        assert!(runs() > made);
    }
}

#[test]
fn a_study_can_be_limited_to_workers_and_candidates_and_keeps_its_other_rows() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), "get");
    fs::create_dir(folder.path().join("gone")).unwrap();
    let gone = "name = \"gone\"\nnot_run = \"nobody has it\"\nstart = []\n";
    fs::write(folder.path().join("gone/candidate.toml"), gone).unwrap();
    let text = "name = \"small\"\ncandidates = [\"trellis\", \"gone\"]\nplans = [{ plan = \"plan.toml\" }]\n\
                workers = [1, 2]\n";
    fs::write(folder.path().join("small.toml"), text).unwrap();
    let study = |more: &[&str]| testbed(folder.path(), &[&["study", "small.toml", "--json"], more].concat());
    for (workers, candidate) in [("2", "trellis"), ("1", "trellis"), ("1", "gone")] {
        let rows = study(&["--workers", workers, "--candidates", candidate]).ends_with(0).json_lines();
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!((rows[0]["workers"].to_string().as_str(), &rows[0]["candidate"]), (workers, &candidate.into()));
    }
    let table = fs::read_to_string(folder.path().join("small.results.md")).unwrap();
    assert!(table.contains("| few | 1 | trellis |") && table.contains("| few | 2 | trellis |"), "{table}");
    assert!(table.contains("| few | 1 | gone |") && !table.contains("| few | 2 | gone |"), "{table}");
    assert!(study(&["--workers", "0"]).ends_with(2).stderr.contains("study: workers: numbers of 1 to 1000"));
    let refused = study(&["--candidates", "gone,nobody"]).ends_with(2);
    assert!(refused.stderr.contains("the study has no `nobody`; it has trellis, gone"), "{}", refused.stderr);
}

#[test]
fn a_study_whose_rows_replace_each_other_or_have_no_rate_is_refused_before_its_first_run() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), "get");
    let closed = "name = \"closed\"\nscenarios = [{ scenario = \"get\" }]\n\
                  load = { shape = \"closed\", users_per_worker = 1, duration = \"1s\" }\n";
    fs::write(folder.path().join("closed.toml"), closed).unwrap();
    let refused = |plans: &str, workers: &str| {
        let text = format!("name = \"small\"\ncandidates = [\"trellis\"]\nplans = [{plans}]\nworkers = [{workers}]\n");
        fs::write(folder.path().join("small.toml"), text).unwrap();
        let refused = testbed(folder.path(), &["study", "small.toml"]).ends_with(2).stderr;
        assert!(!folder.path().join("small.results.json").exists(), "{refused}");
        refused
    };
    let one = "{ plan = \"plan.toml\" }";
    let same_name = refused(&format!("{one}, {{ plan = \"plan.toml\", fill = \"ingest\" }}"), "1, 2");
    assert!(same_name.contains("the plan `few`, the candidate trellis and the number of workers 1"), "{same_name}");
    assert!(refused(one, "2, 2").contains("would replace each other"));
    // The first row could be made.
    let no_rate = refused(&format!("{one}, {{ plan = \"closed.toml\" }}"), "1");
    assert!(no_rate.contains("closed: a closed loop or a replay has no rate to be found"), "{no_rate}");
}

#[test]
fn a_candidate_over_https_is_trusted_by_its_own_certificate() {
    let folder = tempfile::tempdir().unwrap();
    assert_done(&measured(folder.path(), "ingest", 10, "penates-tls"), 20);
    let run = fs::read_dir(folder.path().join("testbed-runs")).unwrap().next().unwrap().unwrap().path();
    let record: Value = serde_json::from_slice(&fs::read(run.join("data/record.json")).unwrap()).unwrap();
    let facts = record["candidate"]["facts"].to_string();
    assert!(facts.contains("cert.pem (SHA-256 ") && facts.contains("TLSv1_3, TLS13_"), "{facts}");
}

#[test]
fn a_run_that_could_not_be_traced_is_refused_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), "get");
    let refused = testbed(folder.path(), &["run", "plan.toml", "--candidate", "null", "--who", "a test"]).ends_with(1);
    assert!(refused.stderr.contains("the testbed's commit"), "{}", refused.stderr);
    assert!(refused.stderr.contains("--untraceable"), "{}", refused.stderr);
    assert!(!folder.path().join("testbed-runs").exists());
}

#[test]
fn what_is_not_known_of_a_server_that_runs_already_can_be_given() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), "get");
    fs::write(folder.path().join("server.conf"), "listen = 80\n").unwrap();
    // Nobody answers there, so that the server reports nothing itself.
    let pid = std::process::id().to_string();
    let run = ["run", "plan.toml", "--url", "http://127.0.0.1:1", "--pid", &pid, "--who", "a test", "--busy"];
    let refused = testbed(folder.path(), &run).ends_with(1);
    let wanted = "the candidate's version, the candidate's commit, the candidate's repository";
    assert!(refused.stderr.contains(wanted), "{}", refused.stderr);
    assert!(refused.stderr.contains("the candidate's consistency, how the candidate was prepared"));
    let wanted = "the disk and the file system of the candidate's data; give";
    assert!(refused.stderr.contains(wanted), "{}", refused.stderr);
    let given = ["--commit", "abc", "--tag", "v1.2", "--configuration", "server.conf", "--repository", "https://x/"];
    let facts = ["--fact", "nodes=1", "--fact", "copies=none", "--fact", "consistency=none", "--preparation", "none"];
    let given = [&given[..], &facts, &["--data", "."]].concat();
    let refused = testbed(folder.path(), &[&run[..], &given].concat()).ends_with(1);
    let wanted = "it is not known the testbed's commit, the testbed's repository; give";
    assert!(refused.stderr.contains(wanted), "{}", refused.stderr);
}

/// The answer to a request, with its head.
fn answer(served: &Served, method: &str, path: &str) -> String {
    answer_for("localhost", served, method, path)
}

/// The answer to a request for a host.
fn answer_for(host: &str, served: &Served, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(served.url.strip_prefix("http://").unwrap()).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_pages_of_an_archive_are_served_for_reading_and_follow_it() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("testbed-runs");
    fs::create_dir(&archive).unwrap();
    let temporary = folder.path().join("temporary");
    fs::create_dir(&temporary).unwrap();
    let mut command = lares(&["testbed", "serve", "--listen", "127.0.0.1:0", "--host", "runs.example"]);
    command.current_dir(folder.path()).env("TMPDIR", &temporary);
    let served = Served::start(command);

    let page = answer(&served, "GET", "/");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("0 runs of 0 candidates"), "{page}");
    for field in ["content-type: text/html", "content-security-policy: default-src 'none'", "nosniff"] {
        assert!(page.contains(field), "{field}");
    }
    assert!(answer(&served, "GET", "/runs.json").contains("content-type: application/json"));
    assert!(answer(&served, "POST", "/").starts_with("HTTP/1.1 405"));
    for path in ["/../testbed-runs", "/%2e%2e/%2e%2e/etc/passwd", "/runs/..%2f..%2f..%2fetc/passwd", "//etc/passwd"] {
        assert!(answer(&served, "GET", path).starts_with("HTTP/1.1 404"), "{path}");
    }
    assert!(answer(&served, "GET", "/runs/x/report.html").contains("sandbox allow-scripts"));

    for host in ["127.0.0.1:8091", "[::1]", "LOCALHOST:1", "runs.example:80"] {
        assert!(answer_for(host, &served, "GET", "/").starts_with("HTTP/1.1 200"), "{host}");
    }
    // A page of somebody else whose name has got this address.
    for host in ["evil.example", "evil.example:8091", "localhost.evil.example", "1.evil.example", "a b", ""] {
        assert!(answer_for(host, &served, "GET", "/runs.json").starts_with("HTTP/1.1 421"), "{host}");
    }

    fs::create_dir(archive.join("notes")).unwrap();
    wait_until(|| answer(&served, "GET", "/").contains("notes</th>"));

    // Its pages go with it.
    let kept = || fs::read_dir(&temporary).unwrap().count();
    assert_eq!(kept(), 1);
    assert_eq!(served.stop("TERM").0, 0);
    assert_eq!(kept(), 0);
}

#[test]
fn what_makes_no_sense_is_refused_with_the_place_and_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |plan: &str, args: &[&str]| {
        fs::write(folder.path().join("plan.toml"), plan).unwrap();
        testbed(folder.path(), &[&["run", "plan.toml"], args].concat()).ends_with(2).stderr
    };
    let sound = "name = \"x\"\nscenarios = [{ scenario = \"get\" }]\nload = { shape = \"constant\", rate = 1, duration = \"1s\" }\n";
    let unknown = sound.replace("\"get\"", "\"got\"");
    assert!(refused(&unknown, &["--candidate", "null"]).contains("get, ingest, "));
    assert!(refused(sound, &[]).contains("--candidate or --url"));
    assert!(refused(sound, &["--candidate", "nobody"]).contains("candidate.toml"));
    assert!(refused("name = 3", &["--candidate", "null"]).contains("name"));
    assert!(refused(sound, &["--candidate", "null", "--workers", "0"]).contains("workers: 1 to 1000"));
    let great = ["--candidate", "null", "--seed", "9223372036854775808"];
    assert!(refused(sound, &great).contains("plan: seed: 0 to 9223372036854775807"));
    let url = ["--url", "http://127.0.0.1:1"];
    assert!(refused(sound, &[&url[..], &["--data", "."]].concat()).contains("--data needs --candidate, or --pid"));
    let nowhere = [&url[..], &["--pid", "1", "--data", "nowhere"]].concat();
    assert!(refused(sound, &nowhere).contains("there is no folder nowhere"));
    assert!(refused(sound, &["--candidate", "null", "--commit", "abc"]).contains("--commit"));
}

#[test]
fn a_candidate_of_another_version_than_the_one_expected_is_refused_before_any_load() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), "get");
    let args = ["run", "plan.toml", "--candidate", "null", "--untraceable", "--busy", "--expect-version", "another"];
    let refused = testbed(folder.path(), &args).ends_with(1);
    assert!(refused.stderr.contains("the candidate reports the version `lares "), "{}", refused.stderr);
    assert!(refused.stderr.contains("`another` is expected"), "{}", refused.stderr);
    assert!(!folder.path().join("testbed-runs").exists());
}

#[test]
fn a_worker_without_a_token_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let refused = testbed(folder.path(), &["worker", "--listen", "127.0.0.1:0"]).ends_with(2);
    assert!(refused.stderr.contains("--token-file"), "{}", refused.stderr);
}

#[test]
fn a_candidate_that_does_not_start_is_reported_with_the_end_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    plan(folder.path(), "get");
    fs::create_dir(folder.path().join("broken")).unwrap();
    let spec = "name = \"broken\"\nstart = [\"sh\", \"-c\", \"echo no disk; exit 3\"]\n";
    fs::write(folder.path().join("broken/candidate.toml"), spec).unwrap();
    let failed = testbed(folder.path(), &["run", "plan.toml", "--candidate", "broken"]).ends_with(1);
    assert!(
        failed.stderr.contains("candidate broken has ended") && failed.stderr.contains("no disk"),
        "{}",
        failed.stderr
    );
}
