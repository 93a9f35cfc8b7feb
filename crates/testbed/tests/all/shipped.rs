//! What comes with the program: candidates, scenarios and plans.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use http_body_util::Full;
use regex::Regex;
use testbed::candidate::{Candidate, CandidateSpec, RunningCandidate};
use testbed::plan::Plan;
use testbed::plans;

use crate::support::{Run, has_ended, is_installed, ok, serve, worker};

fn spec(name: &str) -> CandidateSpec {
    Candidate::shipped(name).unwrap().spec
}

fn names_of_penates() -> impl Iterator<Item = &'static str> {
    Candidate::shipped_names().filter(|name| name.starts_with("penates"))
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("candidates").join(name)
}

#[test]
fn the_configuration_in_the_record_of_penates_is_what_it_runs_with() {
    // What comes after `serve` and `config`: options of the command line.
    let of_words = |words: &[String], command: &str| -> Option<Vec<String>> {
        let at = words.iter().position(|word| word == command)?;
        Some(words[at + 1..].iter().filter(|word| *word != "--init").cloned().collect())
    };
    let of_script = |name: &str, script: &str, command: &str| {
        let text = fs::read_to_string(folder(name).join(script)).unwrap();
        let lines: Vec<_> = text.lines().filter_map(|line| line.split_once(command)).collect();
        let [(_, options)] = lines.as_slice() else { panic!("{name}: {script}: {text}") };
        (*options).to_owned()
    };
    for name in names_of_penates() {
        let spec = spec(name);
        let configuration = spec.configuration.as_deref().unwrap();
        match of_words(&spec.start, "serve") {
            // It is asked of the server itself.
            Some(_) if configuration.iter().any(|word| word == "--running") => {}
            Some(options) => assert_eq!(of_words(configuration, "config"), Some(options), "{name}"),
            None => {
                let [serve, config] = [("serve.sh", " serve "), ("configuration.sh", " config ")]
                    .map(|(script, command)| of_script(name, script, command));
                assert_eq!(serve, config, "{name}");
            }
        }
        // All else is set where both find it, and the record has it.
        let variables: Vec<_> = spec.environment.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(variables, [("PENATES_AUTH__WRITE", "open"), ("PENATES_LIMITS__DRAIN", "0s")], "{name}");
        for file in fs::read_dir(folder(name)).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            let given = text.lines().filter(|line| !line.starts_with("setting = ") && line.contains("--set"));
            assert_eq!(given.count(), 0, "{name}: {text}");
        }
    }
    assert!(names_of_penates().count() >= 7);
}

/// The candidates that have the commands of a plan.
fn candidates_of(plan: &Plan) -> Vec<&'static str> {
    let has_all = |name: &&'static str| {
        let candidate = Candidate::shipped(name).unwrap();
        candidate.spec.not_run.is_none() && candidate.check_events(&plan.events).is_ok()
    };
    Candidate::shipped_names().filter(has_all).collect()
}

#[test]
fn each_event_of_a_shipped_plan_is_a_command_of_the_candidates_that_the_plan_names() {
    let word = Regex::new("`([a-z0-9-]+)`").unwrap();
    for plan in plans::names().map(|name| Plan::parse(plans::text(name).unwrap()).unwrap()) {
        let candidates = candidates_of(&plan);
        assert!(!candidates.is_empty(), "{}", plan.name);
        for name in word.captures_iter(&plan.description).map(|found| found[1].to_owned()) {
            let is_candidate = Candidate::shipped_names().any(|known| known == name);
            assert!(!is_candidate || candidates.contains(&name.as_str()), "{}: {name}", plan.name);
        }
    }
    let growth = Plan::parse(plans::text("growth").unwrap()).unwrap();
    assert_eq!(candidates_of(&growth).len(), 4, "all candidates with Cassandra");
}

/// What a mark of a candidate says of a line of its log.
fn marks_of(name: &str, line: &str) -> Vec<String> {
    let marks = spec(name).marks.into_iter().filter_map(|mark| Some((Regex::new(&mark.log?).unwrap(), mark.what?)));
    let said = marks.filter_map(|(pattern, what)| {
        let mut said = String::new();
        pattern.captures(line)?.expand(&what, &mut said);
        Some(said)
    });
    said.collect()
}

#[test]
fn every_candidate_that_shows_flushes_compactions_or_pauses_has_marks() {
    for name in Candidate::shipped_names() {
        let is_silent = ["community-solid-server", "nginx", "null", "trellis"].contains(&name);
        assert_eq!(spec(name).marks.is_empty(), is_silent, "{name}");
    }
    let logs = |name: &str| spec(name).marks.into_iter().filter_map(|mark| mark.cassandra).collect::<Vec<_>>();
    assert_eq!(logs("penates-cassandra-2-servers"), ["${data}/cassandra/node1/logs/system.log"]);
    assert_eq!(logs("penates-cassandra-3").last().unwrap(), "${data}/cassandra/node3/logs/system.log");
    assert_eq!(logs("penates-cassandra-3").len(), 3);
    let counter = spec("penates").marks[0].counter.clone().unwrap();
    let metrics = fs::read_to_string(folder("../../../docs/metrics.md")).unwrap();
    assert!(metrics.contains(&format!("| `{counter}` | counter |")), "{counter}");
}

#[test]
fn the_pauses_of_fedora_from_fifty_milliseconds_on_and_the_rewrites_of_redis_are_marks() {
    let pause = |ms: &str| {
        let line = format!("[2.345s][gc] GC(3) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) {ms}ms");
        let marks = ["fedora", "fedora-postgresql"].map(|name| marks_of(name, &line));
        assert_eq!(marks[0], marks[1]);
        marks[0].clone()
    };
    assert_eq!(pause("50.000"), ["GC Young (Normal) (G1 Evacuation Pause): 50 ms"]);
    assert_eq!(pause("1204.321"), ["GC Young (Normal) (G1 Evacuation Pause): 1204 ms"]);
    for short in ["49.999", "5.100", "0.050"] {
        assert!(pause(short).is_empty(), "{short}");
    }
    assert!(marks_of("fedora", "[2.345s][gc,start] GC(3) Pause Young (Normal) (G1 Evacuation Pause)").is_empty());
    let begun = "4711:M 15 Jan 2026 09:30:00.000 * Background append only file rewriting started by pid 4712";
    let ended = "4711:M 15 Jan 2026 09:30:02.000 * Background AOF rewrite finished successfully";
    for name in ["redis", "redis-everysec"] {
        assert_eq!(marks_of(name, begun), ["rewrite of the log begins"]);
        assert_eq!(marks_of(name, ended), ["rewrite of the log ends"]);
        assert!(marks_of(name, "4711:M 15 Jan 2026 09:30:02.000 * Ready to accept connections tcp").is_empty());
    }
}

#[tokio::test]
async fn a_further_server_starts_stops_and_is_killed_by_the_script_of_the_candidates_with_cassandra() {
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("store"), "cassandra://127.0.7.1:9042/testbed\n").unwrap();
    let (program, data) = (data.path().join("penates"), data.path().to_str().unwrap());
    // A shell writes it: another thread that starts a process just now could hold it open.
    let write = |text: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", "printf %s \"$1\" > \"$2\" && chmod +x \"$2\"", "sh", text]).arg(&program);
        assert!(command.status().unwrap().success());
    };
    let server = |what: &str| {
        let script = folder("penates-cassandra-2-servers").join("server.sh");
        let mut command = Command::new("sh");
        command.arg(script).arg(what).arg(&program).args([data, "4711"]).output().unwrap()
    };
    write("#!/bin/sh\necho \"$@\" > \"$0.said\"\necho 'Listening on http://127.0.0.1:4711/' >&2\nexec sleep 600\n");
    for end in ["stop", "kill"] {
        assert!(server("start").status.success());
        let said = fs::read_to_string(program.with_extension("said")).unwrap();
        let wanted = "serve --store cassandra://127.0.7.1:9042/testbed --listen 127.0.0.1:4711 --tls-listen off\n";
        assert_eq!(said, wanted);
        let id = fs::read_to_string(format!("{data}/server-4711.pid")).unwrap();
        assert!(Path::new(&format!("/proc/{}", id.trim())).exists());
        assert!(server(end).status.success());
        has_ended(&id).await;
    }
    // What says why it has ended is shown.
    write("#!/bin/sh\necho no store\nexit 1\n");
    let refused = server("start");
    assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(1), b"no store\n".as_slice()));
}

/// What the plan `large-file` would send to a server: few users.
const FEW: &str = "name = \"few\"\nscenarios = [{ scenario = \"large-file\" }]\nworkers = 1\n\
                   load = { shape = \"constant\", rate = 4, duration = \"500ms\" }\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_counts_only_if_all_of_its_bytes_have_come() {
    let with = async |bytes: usize| {
        let address = serve(move |request| {
            let mut answer = ok();
            let body = if request.uri().path() == "/large" { vec![0; bytes] } else { Vec::new() };
            *answer.body_mut() = Full::new(Bytes::from(body));
            std::future::ready(answer)
        });
        let all = Run::new(FEW, &[]).measure(address.await).await.0.summary.all;
        (all.due, all.done)
    };
    assert_eq!(with(8 << 20).await, (2, 2));
    assert_eq!(with((8 << 20) - 1).await, (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nginx_has_the_large_file_that_its_plan_reads() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let (data, candidate) = (work.path().join("data"), Candidate::shipped("nginx").unwrap());
    let running = RunningCandidate::start(&candidate, &data, work.path(), Path::new("/bin/false")).await.unwrap();
    let address = running.url().strip_prefix("http://").unwrap().parse().unwrap();
    let run = Run::new(FEW, &[]);
    let collected = run.collect(address, vec![worker()]).await;
    let all = run.count(&collected.events).summary.all;
    assert_eq!((all.due, all.done), (2, 2));
    assert_eq!(all.received_bytes, 2 * (8 << 20));
    running.end().await;
}
