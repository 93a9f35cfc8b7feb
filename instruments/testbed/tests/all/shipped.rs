//! What comes with the program: candidates, scenarios and plans.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::Full;
use regex::Regex;
use testbed::candidate::{Candidate, CandidateSpec, RunningCandidate};
use testbed::inputs::Inputs;
use testbed::plan::Plan;
use testbed::plans;
use testbed::results::Verdict;

use crate::support::{Run, archiver, has_ended, is_installed, ok, serve, worker, write_program};

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
fn the_configuration_in_the_record_of_penates_is_what_is_in_force_in_the_server() {
    // What comes after `serve` and `config`: options of the command line.
    let of_words = |words: &[String], command: &str| -> Option<Vec<String>> {
        let at = words.iter().position(|word| word == command)?;
        Some(words[at + 1..].iter().filter(|word| *word != "--init").cloned().collect())
    };
    let script_has =
        |name: &str, script: &str, text: &str| fs::read_to_string(folder(name).join(script)).unwrap().contains(text);
    for name in names_of_penates() {
        let spec = spec(name);
        let configuration = spec.configuration.as_deref().unwrap();
        match of_words(&spec.start, "serve") {
            // It is asked of the server itself.
            Some(_) => assert_eq!(of_words(configuration, "config").unwrap(), ["--running", "--store", "${data}"]),
            // By a socket of its own, without a data folder.
            None => {
                let socket = "PENATES_LISTEN__ADMIN=\"unix:server-$3.sock\"\nexec \"$1\" serve ";
                assert!(script_has(name, "serve.sh", socket), "{name}");
                let asked = "\"$2\" config --running --socket \"server-$4.sock\"\n";
                assert!(script_has(name, "configuration.sh", asked), "{name}");
                // And of the first node.
                assert!(script_has(name, "configuration.sh", "\"$1\" testbed cassandra \"$address\"\n"), "{name}");
            }
        }
        // All else is set by variables, which the record has too.
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
    for name in ["growth", "node-added"] {
        let plan = Plan::parse(plans::text(name).unwrap()).unwrap();
        assert_eq!(candidates_of(&plan).len(), 4, "{name}: all candidates with Cassandra over HTTP");
    }
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
        let is_silent = ["community-solid-server", "nginx", "null", "null-redis", "trellis"].contains(&name);
        assert_eq!(spec(name).marks.is_empty(), is_silent, "{name}");
        assert_eq!(spec(name).jolokia.is_some(), name.contains("cassandra"), "{name}");
    }
    let logs = |name: &str| spec(name).marks.into_iter().filter_map(|mark| mark.cassandra).collect::<Vec<_>>();
    let log = |node: &str| format!("${{data}}/{node}/logs/system.log");
    assert_eq!(logs("penates-cassandra-2-servers"), [log("cassandra/node1"), log("further-node/node1")]);
    let of_three = ["cassandra/node1", "cassandra/node2", "cassandra/node3", "further-node/node1"].map(log);
    assert_eq!(logs("penates-cassandra-3"), of_three);
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
    let server = |what: &str| {
        let script = folder("penates-cassandra-2-servers").join("server.sh");
        let mut command = Command::new("sh");
        command.arg(script).arg(what).arg(&program).args([data, "4711"]).output().unwrap()
    };
    let serving =
        "#!/bin/sh\necho \"$@\" > \"$0.said\"\necho 'Listening on http://127.0.0.1:4711/' >&2\nexec sleep 600\n";
    write_program(&program, serving);
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
    write_program(&program, "#!/bin/sh\necho no store\nexit 1\n");
    let refused = server("start");
    assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(1), b"no store\n".as_slice()));
}

#[test]
fn the_configuration_of_the_candidates_with_cassandra_is_what_is_in_force_in_the_server_and_in_the_first_node() {
    let data = tempfile::tempdir().unwrap();
    let program = data.path().join("penates");
    write_program(&program, "#!/bin/sh\necho \"$@\"\n");
    // This process is in place of the first node.
    let pid = std::process::id();
    let nodes = format!(
        "{{\"node\":1,\"cql\":\"127.0.7.1:9042\",\"pid\":{pid},\"log\":\"a\"}}\n\
         {{\"node\":2,\"cql\":\"127.0.7.2:9042\",\"pid\":1,\"log\":\"b\"}}\n"
    );
    fs::write(data.path().join("nodes"), &nodes).unwrap();
    let mut command = Command::new("sh");
    command
        .arg(folder("penates-cassandra-3").join("configuration.sh"))
        .args([&program; 2])
        .arg(data.path())
        .arg("4711");
    let printed = command.output().unwrap();
    assert!(printed.status.success(), "{printed:?}");
    // Ids of processes say nothing in a record.
    let nodes = nodes.replace(&format!(",\"pid\":{pid},"), ",").replace(",\"pid\":1,", ",");
    let java: String = std::env::args().map(|word| word + "\n").collect();
    let asked = ["config --running --socket server-4711.sock\n", "testbed cassandra 127.0.7.1:9042\n"];
    assert_eq!(String::from_utf8(printed.stdout).unwrap(), [asked[0], &nodes, asked[1], &java].concat());
}

/// Stands for `lares cluster`. Its node is a shell under the name of Java, with options of a node.
/// As soon as that runs, another program has the name.
const CLUSTER: &str = r#"#!/bin/sh
printf '%s\n' "$*" >> "$0.said"
case $2 in
up)
    ln -s /bin/sh "$0.java"
    exec "$0.java" -c '
        mv -f "$1.nodetool" "$1.java"
        printf "{\"cql\":\"127.0.9.1:9042\",\"jmx\":\"127.0.9.1:7199\",\"pid\":%s}\n" $$ > "$1.status"
        cat "$1.status"
        while [ -e "$1" ]; do sleep 1; done
    ' node "$0" --add-exports=a/b=ALL-UNNAMED --add-opens=c/d=ALL-UNNAMED -cp '/conf:/jars/*'
    ;;
status) cat "$0.status" ;;
down) kill "$(sed -n 's/.*"pid":\([0-9]*\).*/\1/p' "$0.status")" ;;
esac
"#;

#[tokio::test]
async fn a_node_joins_and_leaves_for_good_by_the_script_of_the_candidates_with_cassandra() {
    let data = tempfile::tempdir().unwrap();
    let (program, further) = (data.path().join("penates"), data.path().join("further-node"));
    let nodes = "{\"node\":1,\"cql\":\"127.0.7.1:9042\"}\n{\"node\":2,\"cql\":\"127.0.7.2:9042\"}\n";
    fs::write(data.path().join("nodes"), nodes).unwrap();
    write_program(&program, CLUSTER);
    let nodetool = "#!/bin/sh\nprintf '%s\\n' \"$*\" >> \"$0.said\"\n[ ! -e \"$0.broken\" ]\n";
    write_program(&program.with_extension("nodetool"), nodetool);
    let (of, at) = (program.to_str().unwrap(), data.path().to_str().unwrap());
    let script = |words: &[&str]| {
        let mut command = Command::new("sh");
        command.current_dir(folder("penates-cassandra-3")).args(words).output().unwrap()
    };
    let said = |name: &str| fs::read_to_string(data.path().join(name)).unwrap();

    // Nodes without an agent say why.
    fs::write(data.path().join("jolokia.log"), "no Maven\n").unwrap();
    let agents = || String::from_utf8(script(&["agents.sh", at]).stdout).unwrap();
    assert_eq!(agents(), "node1 no Maven\nnode2 no Maven\n");
    fs::write(data.path().join("jolokia"), "-javaagent:x=y\n").unwrap();
    assert_eq!(agents(), "node1 http://127.0.7.1:8778/jolokia\nnode2 http://127.0.7.2:8778/jolokia\n");

    let added = script(&["node.sh", "add", of, at, "-5"]);
    assert!(added.status.success(), "{added:?}");
    for part in [
        "--nodes 1 ".to_owned(),
        format!("--folder {} ", further.display()),
        "--yaml auto_bootstrap=true --yaml initial_token=\"-5\" --yaml seed_provider=[{\"class_name\":".to_owned(),
        "\"parameters\":[{\"seeds\":\"127.0.7.1:7000\"}]}] --jvm-option ".to_owned(),
        " --jvm-option -javaagent:x=y\n".to_owned(),
    ] {
        assert!(said("penates.said").contains(&part), "{part}: {}", said("penates.said"));
    }
    let again = script(&["node.sh", "add", of, at, "-5"]);
    assert!(!again.status.success() && said("penates.said").lines().count() == 1, "{again:?}");
    // That is another cluster than the one of the candidate.
    let started = script(&["start.sh", of, of, at, "3", "4711"]);
    assert_eq!(started.status.code(), Some(1));
    assert!(String::from_utf8(started.stderr).unwrap().contains("An earlier run has added a node"));

    // A node that cannot leave stays.
    fs::write(program.with_extension("java.broken"), "").unwrap();
    assert!(!script(&["node.sh", "remove", of, at]).status.success());
    assert!(further.exists() && !said("penates.said").contains("cluster down"));
    fs::remove_file(program.with_extension("java.broken")).unwrap();
    let removed = script(&["node.sh", "remove", of, at]);
    assert!(removed.status.success(), "{removed:?}");
    let wanted = format!(
        "--add-exports=a/b=ALL-UNNAMED --add-opens=c/d=ALL-UNNAMED -Xmx128m -cp /conf:/jars/* -Dcassandra.logdir={} \
         org.apache.cassandra.tools.NodeTool -h 127.0.9.1 -p 7199 decommission --force",
        further.display()
    );
    assert_eq!(said("penates.java.said").lines().collect::<Vec<_>>(), [&wanted, &wanted]);
    assert!(!further.exists());
    let pid = said("penates.status").rsplit(':').next().unwrap().trim_end_matches(['}', '\n']).to_owned();
    has_ended(&pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_answered_with_204_or_205_is_one() {
    let plan = "name = \"changes\"\nscenarios = [{ scenario = \"update\" }, { scenario = \"patch\" }]\n\
                workers = 1\nload = { shape = \"constant\", rate = 40, duration = \"500ms\" }\n";
    let with = async |status: u16| {
        let address = serve(move |request| {
            let mut answer = ok();
            answer.headers_mut().insert("etag", "\"a\"".parse().unwrap());
            if request.method() != "GET" {
                *answer.status_mut() = status.try_into().unwrap();
                *answer.body_mut() = Full::new(Bytes::new());
            }
            std::future::ready(answer)
        });
        let all = Run::new(plan, &[]).measure(address.await).await.0.summary.all;
        (all.due, all.done)
    };
    // The seed draws ten users of each scenario. Those of `update` read first.
    let (one, other, refused) = tokio::join!(with(204), with(205), with(409));
    assert_eq!((one, other, refused), ((30, 30), (30, 30), (30, 10)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_only_ever_meets_conflicts_fails_and_one_that_meets_some_does_not() {
    let plan = "name = \"races\"\nscenarios = [{ scenario = \"update\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 40, duration = \"500ms\" }\n";
    // Every so many changes come after one of another user. Fedora says so of each change of a container.
    let with = async |every: usize| {
        let changes = Arc::new(AtomicUsize::new(0));
        let address = serve(move |request| {
            let mut answer = ok();
            answer.headers_mut().insert("etag", "W/\"a\"".parse().unwrap());
            if request.method() == "PUT" {
                let is_conflict = changes.fetch_add(1, Ordering::Relaxed).is_multiple_of(every);
                let status = if is_conflict { StatusCode::PRECONDITION_FAILED } else { StatusCode::NO_CONTENT };
                *answer.status_mut() = status;
                *answer.body_mut() = Full::new(Bytes::new());
            }
            std::future::ready(answer)
        });
        let (measured, judgement) = Run::new(plan, &[]).measure(address.await).await;
        let all = &measured.summary.all;
        ((all.due, all.done, all.conflicts, measured.summary.errors.len()), judgement)
    };
    let ((always, failed), (sometimes, other)) = tokio::join!(with(1), with(4));
    assert_eq!((always, failed.verdict), ((40, 40, 20, 0), Verdict::Failed));
    let reason = "Most requests of update/replace met a conflict and did nothing: 20 of the 20 that were answered as \
                  the step allows it.";
    assert_eq!(failed.reasons, [reason]);
    // Whether it holds depends on the machine here.
    assert_eq!(sometimes, (40, 40, 5, 0));
    assert!(other.verdict != Verdict::Failed && !other.reasons.concat().contains("conflict"), "{other:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_ends_the_steps_of_its_user() {
    let scenario = "[[steps]]\nname = \"change\"\nmethod = \"PUT\"\npath = \"/\"\n\
                    check = { status = [204], conflict = [409] }\nsave = { tag = { header = \"ETag\" } }\n\
                    [[steps]]\nname = \"after\"\npath = \"/${tag}\"\n";
    let plan = "name = \"one\"\nscenarios = [{ scenario = \"one.toml\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 4, duration = \"500ms\" }\n";
    let address = serve(|_| {
        let mut answer = ok();
        *answer.status_mut() = StatusCode::CONFLICT;
        std::future::ready(answer)
    });
    let (measured, _) = Run::new(plan, &[("one", scenario)]).measure(address.await).await;
    let steps: Vec<_> = measured.summary.steps.iter().map(|step| (step.step.as_str(), step.tally.conflicts)).collect();
    assert_eq!(steps, [("change", 2)]);
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
async fn nginx_has_the_large_file_and_the_archive_that_plans_ask_for() {
    if !is_installed("nginx", "nginx-light") {
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let (data, candidate) = (work.path().join("data"), Candidate::shipped("nginx").unwrap());
    let running = RunningCandidate::start(&candidate, &data, work.path(), &archiver(work.path())).await.unwrap();
    let address = running.url().strip_prefix("http://").unwrap().parse().unwrap();
    // The same requests as those that the data door gets.
    let beside = tempfile::tempdir().unwrap();
    fs::write(beside.path().join("ids.txt"), "a.1\na.2\n").unwrap();
    let plan = Plan::parse(&FEW.replace("large-file", "bulk")).unwrap();
    let bulk = Run { inputs: Inputs::of_plan(plan, beside.path()).unwrap(), folder: beside };
    let archive = fs::metadata(data.join("files/volumes")).unwrap().len();
    for (run, bytes) in [(Run::new(FEW, &[]), 8 << 20), (bulk, archive)] {
        let collected = run.collect(address, vec![worker()]).await;
        let measured = run.count(&collected.events);
        let all = &measured.summary.all;
        assert_eq!((all.due, all.done), (2, 2), "{:?}", measured.summary.errors);
        assert_eq!(all.received_bytes, 2 * bytes);
    }
    running.end().await;

    // An archive that is there is kept: it may be one of other volumes.
    assert!(archive > 0 && !data.join("new").exists());
    let mut again = Command::new("sh");
    again.arg(folder("nginx").join("archive.sh")).arg("/bin/false").arg(&data);
    assert!(again.status().unwrap().success());
}
