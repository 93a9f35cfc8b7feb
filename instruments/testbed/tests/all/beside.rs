//! What happens beside the load: commands of the candidate at stated instants, marks, and what is known of
//! the candidate.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::{TOKEN, is_installed, ok, runner_of, serve, worker};
use testbed::candidate::{Candidate, Given};
use testbed::inputs::Inputs;
use testbed::monitor::{RemoteMonitor, Settings, Watch};
use testbed::plan::Plan;
use testbed::record::{Machine, ProcessRecord, Program};
use testbed::results::Verdict;
use testbed::runner::{Filed, Measured, Runner, RunnerError};
use testbed::saturation::Saturation;
use testbed::wire::Progress;

/// Makes a whole run of a plan for `get`, with further keys, on a candidate of Python whose file has
/// further keys.
async fn run(folder: &Path, of_plan: &str, of_candidate: &str) -> Result<Filed, RunnerError> {
    run_with(folder, of_plan, of_candidate, &[], &|_, _| {}).await
}

/// The same, with monitors on other machines.
async fn run_with(
    folder: &Path,
    of_plan: &str,
    of_candidate: &str,
    monitors: &[String],
    on_progress: &(dyn Fn(u32, Progress) + Sync),
) -> Result<Filed, RunnerError> {
    fs::write(folder.join("version"), "1\n").unwrap();
    let candidate = format!(
        "name = \"files\"\nversion = [\"cat\", \"${{folder}}/version\"]\n\
         start = [\"python3\", \"-u\", \"-m\", \"http.server\", \"--bind\", \"127.0.0.1\", \"--directory\", \"${{data}}\", \
         \"${{port}}\"]\n{of_candidate}"
    );
    fs::write(folder.join("candidate.toml"), candidate).unwrap();
    let plan = format!(
        "name = \"beside\"\nscenarios = [{{ scenario = \"get\" }}]\nworkers = 1\n\
         load = {{ shape = \"constant\", rate = 5, duration = \"1500ms\" }}\n{of_plan}"
    );
    let inputs = Inputs::of_plan(Plan::parse(&plan).unwrap(), folder).unwrap();
    let runner = Runner {
        inputs: &inputs,
        measured: Measured::Candidate(Box::new(Candidate::read(folder).unwrap())),
        archive: &folder.join("archive"),
        data: None,
        cgroup: None,
        given: Given::default(),
        expect_version: None,
        who: "a test".to_owned(),
        program: Program::default(),
        program_path: Path::new("/bin/false"),
        token: TOKEN,
        monitors,
        is_untraceable: true,
        may_be_busy: true,
        on_progress,
    };
    runner.run(vec![worker()]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn events_run_at_their_instants_and_are_marks_beside_those_of_the_log() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script =
        "#!/bin/sh\necho \"adding $1 to $TESTBED_URL\"\nsleep 600 &\necho $! > \"$TESTBED_DATA/../../child\"\n";
    let script = script.replace("$TESTBED_DATA/../../child", &folder.path().join("child").to_string_lossy());
    fs::write(folder.path().join("add-node"), script).unwrap();
    fs::set_permissions(folder.path().join("add-node"), fs::Permissions::from_mode(0o755)).unwrap();
    let plan = "[[events]]\nat = \"300ms\"\nrun = \"add-node\"\narguments = [\"n2\"]\n\
                [[events]]\nat = \"100ms\"\nrun = \"look\"\n";
    // The log of the candidate has a line for each request.
    let stop = format!("stop = [\"touch\", \"{}\"]\n", folder.path().join("stopped").display());
    let candidate = "[[marks]]\nlog = '\"GET (\\S+) HTTP'\nwhat = \"read of $1\"\n\
                     [commands]\nlook = [\"test\", \"-d\", \"/proc/${pid}\"]\n";
    let jolokia = "jolokia = [\"printf\", \"node1 no agent can be had\\nnode2 http://127.0.0.1:1/jolokia\\n\"]\n";
    let filed = run(folder.path(), plan, &format!("{stop}{jolokia}{candidate}")).await.unwrap();

    let [look, add] = filed.record.beside.events.as_slice() else { panic!("{:?}", filed.record.beside) };
    assert_eq!((look.run.as_slice(), look.exit_code, &look.failure), (["look".to_owned()].as_slice(), Some(0), &None));
    assert_eq!((add.run.join(" "), add.exit_code), ("add-node n2".to_owned(), Some(0)));
    assert!(add.begun_s.unwrap() >= 0.3 && add.ended_s.unwrap() >= add.begun_s.unwrap(), "{add:?}");
    assert_eq!(add.output, format!("adding n2 to {}", filed.record.candidate.url));
    assert_eq!(filed.record.preparation, "none: the candidate began with an empty folder");
    let marks = fs::read_to_string(filed.folder.join("data/marks.csv")).unwrap();
    assert!(marks.contains("add-node n2\n") && marks.contains("add-node n2: done after"), "{marks}");
    assert!(marks.contains(",read of /\n"), "{marks}");
    let report = fs::read_to_string(filed.folder.join("data/report.html")).unwrap();
    assert!(report.contains("add-node n2: done after") && report.contains("Beside the load"));
    let [of_first, of_second] = filed.record.beside.not_sampled.as_slice() else { panic!("{:?}", filed.record.beside) };
    assert_eq!(of_first, "node1: no agent can be had");
    assert!(of_second.starts_with("node2: the request failed: ") && report.contains(of_first), "{of_second}");
    // What an event has started ends with the candidate, which is asked to end first.
    assert!(folder.path().join("stopped").exists());
    let child = fs::read_to_string(folder.path().join("child")).unwrap();
    crate::support::has_ended(&child).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_fails_or_does_not_end_makes_the_run_void() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plan =
        "[[events]]\nat = \"0s\"\nrun = \"fail\"\n[[events]]\nat = \"100ms\"\nrun = \"hang\"\nwithin = \"50ms\"\n";
    let candidate = "[commands]\nfail = [\"sh\", \"-c\", \"echo no such node; exit 3\"]\nhang = [\"sleep\", \"600\"]\n";
    let filed = run(folder.path(), plan, candidate).await.unwrap();
    let judgement = &filed.outcome.judgement;
    assert_eq!(judgement.verdict, Verdict::Void);
    let reasons = judgement.reasons.join("\n");
    assert!(reasons.contains("The event `fail` at 0 s failed: exit status: 3 (it says: no such node)."), "{reasons}");
    assert!(reasons.contains("The event `hang` at 0 s failed: it has not ended within 50ms."), "{reasons}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_runs_only_commands_that_the_candidate_has() {
    let folder = tempfile::tempdir().unwrap();
    let missing = run(folder.path(), "[[events]]\nat = \"1s\"\nrun = \"add-node\"\n", "").await;
    let Err(error) = missing else { panic!("it has run") };
    assert!(
        error.to_string().starts_with("plan: events[0].run: the candidate files has no command `add-node`"),
        "{error}"
    );
    let plan = "name = \"x\"\nscenarios = [{ scenario = \"get\" }]\n\
                load = { shape = \"constant\", rate = 1, duration = \"10s\" }\n[[events]]\n";
    let refused = |event: &str| Plan::parse(&format!("{plan}{event}")).unwrap_err().to_string();
    assert!(refused("at = \"1s\"\nrun = \"../elsewhere\"\n").contains("without a path"));
    assert!(refused("at = \"10s\"\nrun = \"late\"\n").contains("before the load ends"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_with_more_addresses_than_workers_is_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let candidate =
        "further_urls = [\"http://127.0.0.1:${port2}\"]\nprepare = [[\"touch\", \"${folder}/is-prepared\"]]\n";
    let Err(error) = run(folder.path(), "", candidate).await else { panic!("it has run") };
    assert_eq!(error.to_string(), "plan: workers: at least 2: the candidate has 2 addresses");
    assert!(!folder.path().join("is-prepared").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fill_is_recorded_apart_and_one_that_fails_makes_the_run_void() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let filled = run(folder.path(), "fill = { scenario = \"get\", units = 20 }\n", "").await.unwrap();
    let fill = filled.record.beside.fill.as_ref().unwrap();
    assert_eq!((fill.units, fill.summary.all.done), (20, 20));
    assert_eq!(filled.outcome.summary.all.due, 8, "only the load counts");
    assert!(filled.folder.join("data/fill/worker-000.csv.gz").is_file());

    fs::write(folder.path().join("missing.toml"), "[[steps]]\nname = \"get\"\npath = \"/missing\"\n").unwrap();
    let void =
        run(folder.path(), "fill = { scenario = \"missing.toml\", units = 20, concurrency = 1 }\n", "").await.unwrap();
    assert_eq!(void.outcome.judgement.verdict, Verdict::Void);
    let reasons = void.outcome.judgement.reasons.join("\n");
    assert!(
        reasons.contains("The fill failed: 1 of 1 requests, first with \"status 404\" in missing/get."),
        "{reasons}"
    );
    assert!(testbed::archive::ArchivedRun::at(&void.folder).outcome().is_ok(), "it is read again");
}

/// A monitor, and its address.
async fn monitor(token: &str) -> (tokio::task::JoinHandle<()>, String) {
    monitor_of(token, Machine::find(None), false).await
}

/// A monitor of a machine that is described so, and its address. `others`: it samples what others use.
async fn monitor_of(token: &str, machine: Machine, others: bool) -> (tokio::task::JoinHandle<()>, String) {
    monitor_with(token, machine, others, Vec::new(), Vec::new()).await
}

/// The same of a monitor that watches processes and follows logs.
async fn monitor_with(
    token: &str,
    machine: Machine,
    others: bool,
    watches: Vec<Watch>,
    logs: Vec<PathBuf>,
) -> (tokio::task::JoinHandle<()>, String) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let monitor = RemoteMonitor {
        token: token.to_owned(),
        program: Program::default(),
        machine: Machine { name: "node-2/../x".to_owned(), ..machine },
        settings: Settings {
            data: None,
            watches,
            cgroups: Vec::new(),
            others,
            metrics: None,
            nodes: Vec::new(),
            // So its samples are longer than what a stranger may send.
            interval: Duration::from_millis(20),
        },
        logs,
    };
    (tokio::spawn(async move { match monitor.serve(listener, |_| {}).await {} }), address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_elsewhere_samples_the_same_time_and_one_that_is_lost_makes_the_run_void() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_kept, address) = monitor(TOKEN).await;
    let filed = run_with(folder.path(), "", "", std::slice::from_ref(&address), &|_, _| {}).await.unwrap();
    let watched = &filed.record.beside.monitors[0];
    assert_eq!((watched.address.as_str(), watched.machine.as_str()), (address.as_str(), "node-2/../x"));
    assert!(filed.record.machines.iter().any(|machine| machine.roles == [format!("monitor {address}")]));
    let csv = fs::read(filed.folder.join("data/monitor/0-node-2x.csv")).unwrap();
    let samples = testbed::monitor::read("x", csv.as_slice()).unwrap();
    // Two clocks that are one: samples begin at the start instant.
    assert!(samples.rows.len() >= 2 && samples.rows[0].0 > -1.0, "{:?}", samples.rows.len());
    assert!(fs::read_to_string(filed.folder.join("data/report.html")).unwrap().contains("Monitor 0-node-2x"));

    // It dies while the load runs. The monitor of this machine loses its file.
    let (mortal, address) = monitor(TOKEN).await;
    let plan = "[[events]]\nat = \"100ms\"\nrun = \"lose\"\n";
    let lose = "[commands]\nlose = [\"rm\", \"${data}/../monitor-candidate.csv\"]\n";
    let abort = |_: u32, _: Progress| mortal.abort();
    let void = run_with(folder.path(), plan, lose, std::slice::from_ref(&address), &abort).await.unwrap();
    assert_eq!(void.outcome.judgement.verdict, Verdict::Void);
    let reasons = void.outcome.judgement.reasons.join("\n");
    for lost in [format!("The monitor {address} was lost: "), "The monitor was lost: ".to_owned()] {
        assert!(reasons.contains(&lost), "{lost}{reasons}");
    }
    assert_eq!(void.record.beside.events[0].failure, None);

    let (_kept, stranger) = monitor("another token").await;
    let refused = run_with(folder.path(), "", "", &[stranger], &|_, _| {}).await;
    let Err(error) = refused else { panic!("a stranger is let in") };
    assert!(error.to_string().ends_with("the token is wrong"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn further_logs_of_a_candidate_have_what_was_logged_around_the_first_error() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\necho 'the disk is full' >> \"$TESTBED_DATA/database.log\"\nkill -KILL \"$TESTBED_PID\"\n";
    fs::write(folder.path().join("break"), script).unwrap();
    fs::set_permissions(folder.path().join("break"), fs::Permissions::from_mode(0o755)).unwrap();
    let plan = "[[events]]\nat = \"300ms\"\nrun = \"break\"\n";
    let candidate = "logs = [\"${data}/never.log\", \"${data}/database.log\"]\n";
    let filed = run(folder.path(), plan, candidate).await.unwrap();
    assert_ne!(filed.outcome.judgement.verdict, Verdict::Held);
    let [found] = filed.outcome.logs_elsewhere.as_slice() else { panic!("{:?}", filed.outcome.logs_elsewhere) };
    assert_eq!(
        (found.source.as_deref(), found.lines.as_slice()),
        (Some("database.log"), ["the disk is full".to_owned()].as_slice())
    );
    let report = fs::read_to_string(filed.folder.join("data/report.html")).unwrap();
    assert!(report.contains(" (database.log)</h3><pre>the disk is full</pre>"));
}

/// Makes a run of a server that answers nothing but 404. Monitors watch it elsewhere.
async fn run_elsewhere(folder: &Path, monitors: &[String]) -> Filed {
    run_elsewhere_with(folder, monitors, || {}).await
}

/// The same of a server that does something at each request.
async fn run_elsewhere_with(
    folder: &Path,
    monitors: &[String],
    at_request: impl Fn() + Clone + Send + Sync + 'static,
) -> Filed {
    let address = serve(move |_| {
        at_request();
        let mut answer = ok();
        *answer.status_mut() = http::StatusCode::NOT_FOUND;
        std::future::ready(answer)
    })
    .await;
    let plan = "name = \"elsewhere\"\nscenarios = [{ scenario = \"get\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 5, duration = \"1500ms\" }\n";
    let inputs = Inputs::of_plan(Plan::parse(plan).unwrap(), folder).unwrap();
    let (archive, ignore) = (folder.join("archive"), |_: u32, _: Progress| {});
    let runner = Runner { monitors, may_be_busy: false, ..runner_of(&inputs, address, &archive, &ignore) };
    runner.run(vec![worker()]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_saturated_on_the_machine_of_a_monitor_elsewhere_is_named_with_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let unknown = run_elsewhere(folder.path(), &[]).await;
    let reasons = unknown.outcome.judgement.reasons.join("\n");
    // A void run needs no such reason.
    let is_void = unknown.outcome.judgement.verdict == Verdict::Void;
    assert!(is_void || reasons.contains("It is not known what was saturated: "), "{reasons}");
    assert_eq!(unknown.outcome.saturated, []);

    // All of one byte is always in use.
    let machine = Machine { memory_bytes: Some(1), ..Machine::find(None) };
    let (_kept, address) = monitor_of(TOKEN, machine, false).await;
    let filed = run_elsewhere(folder.path(), &[address]).await;
    let found = &filed.outcome.saturated;
    let is_memory = |found: &Saturation| found.what == "memory" && found.machine.as_deref() == Some("node-2/../x");
    assert!(found.iter().any(is_memory), "{found:?}");
    let reasons = filed.outcome.judgement.reasons.join("\n");
    assert!(reasons.contains("memory (node-2/../x), from second "), "{reasons}");
    assert_eq!(filed.record.beside.monitors[0].busy_during, None, "this monitor does not tell others apart");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_logs_that_a_monitor_elsewhere_follows_have_what_was_printed_around_the_first_error() {
    let folder = tempfile::tempdir().unwrap();
    let [log, silent, missing] = ["server.log", "silent.log", "missing.log"].map(|name| folder.path().join(name));
    fs::write(&log, "long ago\n").unwrap();
    fs::write(&silent, "long ago\n").unwrap();
    let logs = vec![log.clone(), silent, missing.clone()];
    let (_kept, address) = monitor_with(TOKEN, Machine::find(None), false, Vec::new(), logs).await;
    let path = log.clone();
    let filed = run_elsewhere_with(folder.path(), &[address], move || {
        let mut log = fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut log, b"no such page\n").unwrap();
    })
    .await;
    let [found] = filed.outcome.logs_elsewhere.as_slice() else { panic!("{:?}", filed.outcome.logs_elsewhere) };
    assert_eq!(found.source, Some(format!("node-2/../x: {}", log.display())));
    assert!(!found.lines.is_empty() && found.lines.iter().all(|line| line == "no such page"), "{found:?}");
    let kept = testbed::archive::ArchivedRun::at(&filed.folder).outcome().unwrap();
    assert_eq!((kept.log, kept.logs_elsewhere.as_slice()), (None, std::slice::from_ref(found)));
    let report = fs::read_to_string(filed.folder.join("data/report.html")).unwrap();
    assert!(report.contains(&format!(" (node-2/../x: {})</h3><pre>no such page", log.display())));
    let wanted = format!("{}: No such file or directory", missing.display());
    let not_sampled = &filed.record.beside.monitors[0].not_sampled;
    assert!(not_sampled.len() == 1 && not_sampled[0].starts_with(&wanted), "{not_sampled:?}");
}

/// A process that computes until this value goes, and is no descendant of this one.
struct Stranger(String);

impl Stranger {
    fn start() -> Self {
        let script = "while :; do :; done > /dev/null 2>&1 & echo $!";
        let started = std::process::Command::new("sh").args(["-c", script]).output().unwrap();
        Self(String::from_utf8(started.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        std::process::Command::new("kill").args(["-KILL", &self.0]).status().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_elsewhere_tells_the_candidate_for_the_record_and_others_that_make_a_run_void_apart() {
    let (folder, _stranger) = (tempfile::tempdir().unwrap(), Stranger::start());
    // In place of the process of the candidate.
    let process = tokio::process::Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
    let watch = Watch { name: "server".to_owned(), pid: process.id().unwrap() };
    // For a moment it has no command line.
    let begun = Instant::now();
    let mut known = ProcessRecord::find(watch.pid);
    while known.command.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{known:?}");
        known = ProcessRecord::find(watch.pid);
    }
    // Of no processors all are more than a tenth.
    let machine = Machine { processors: 0, ..Machine::find(None) };
    let (_kept, address) = monitor_with(TOKEN, machine, true, vec![watch], Vec::new()).await;
    let filed = run_elsewhere(folder.path(), std::slice::from_ref(&address)).await;
    let candidate = &filed.record.candidate;
    assert_eq!(candidate.command.as_deref().unwrap(), ["sleep", "600"]);
    assert_eq!((&candidate.program.name, &candidate.program.sha256), (&known.name, &known.sha256));
    assert_eq!(filed.record.beside.monitors[0].processes, [known]);
    let of_candidate = |what: &&String| what.starts_with("the candidate's ") || what.contains("of the candidate");
    let missing: Vec<_> = filed.record.missing.iter().filter(of_candidate).collect();
    let wanted = ["version", "commit", "repository", "configuration", "nodes", "copies", "consistency"];
    assert_eq!(missing, wanted.map(|what| format!("the candidate's {what}")).iter().collect::<Vec<_>>());
    let there = filed.record.machines.iter().find(|machine| machine.name == "node-2/../x").unwrap();
    assert_eq!(there.roles, ["candidate".to_owned(), format!("monitor {address}")]);
    assert!(there.busy_before.is_some_and(|busy| busy >= 0.0), "{there:?}");

    let busy = filed.record.beside.monitors[0].busy_during.unwrap();
    assert_eq!(filed.outcome.judgement.verdict, Verdict::Void);
    let reasons = filed.outcome.judgement.reasons.join("\n");
    let wanted = format!("Others used {busy:.2} of 0 processors on node-2/../x during the run.");
    assert!(reasons.contains(&wanted), "{reasons}");
    let facts = filed.record.beside.facts();
    assert!(facts.iter().any(|(_, fact)| fact.contains("; others used ")), "{facts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_event_has_left_running_is_watched_as_a_part_of_the_candidate() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The link lets the load last for seconds after the event.
    let plan = "link = { round_trip_ms = 3000 }\n[[events]]\nat = \"0s\"\nrun = \"leave\"\n";
    let script = "i=0; while [ $i -lt 50 ]; do sleep 600 & i=$((i + 1)); done";
    let candidate = format!("[commands]\nleave = [\"sh\", \"-c\", \"{script}\"]\n");
    let filed = run(folder.path(), plan, &candidate).await.unwrap();
    let csv = fs::read(filed.folder.join("data/monitor/candidate.csv")).unwrap();
    let samples = testbed::monitor::read("candidate", csv.as_slice()).unwrap();
    let threads = samples.columns.iter().position(|column| column == "server.threads").unwrap();
    let most = samples.rows.iter().filter_map(|(_, values)| values[threads]).fold(0.0, f64::max);
    // The server itself has a few for a few requests.
    assert!(most >= 50.0, "{most}");
}

/// Makes a run of a server of this process. `pid` is its id, if it is known.
async fn run_here(
    folder: &Path,
    pid: Option<u32>,
    data: Option<&Path>,
    expect_version: Option<&str>,
) -> Result<Filed, RunnerError> {
    let address = serve(async |_| ok()).await;
    let plan = "name = \"here\"\nscenarios = [{ scenario = \"get\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 5, duration = \"1500ms\" }\n";
    let inputs = Inputs::of_plan(Plan::parse(plan).unwrap(), folder).unwrap();
    let runner = Runner {
        inputs: &inputs,
        measured: Measured::Url(format!("http://{address}"), pid),
        archive: &folder.join("archive"),
        data,
        cgroup: None,
        given: Given { commit: Some("abc".to_owned()), tag: Some("v1.2".to_owned()), ..Given::default() },
        expect_version,
        who: "a test".to_owned(),
        program: Program::default(),
        program_path: Path::new("/bin/false"),
        token: TOKEN,
        monitors: &[],
        is_untraceable: true,
        may_be_busy: true,
        on_progress: &|_, _| {},
    };
    runner.run(vec![worker()]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_known_process_is_the_candidate_and_only_a_disk_that_is_named_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let this = Some(std::process::id());
    let is_here = |filed: &Filed| filed.record.machines[0].roles.iter().any(|role| role == "candidate");
    let filed = run_here(folder.path(), this, None, None).await.unwrap();
    assert!(is_here(&filed), "{:?}", filed.record.machines);
    // What is judged is the thread of the load until the last user has arrived, and not the process to its end.
    assert_eq!(filed.outcome.summary.worker_cpu_shares, [filed.record.workers[0].load_share]);
    let samples = |filed: &Filed| {
        let csv = fs::read(filed.folder.join("data/monitor/candidate.csv")).unwrap();
        testbed::monitor::read("candidate", csv.as_slice()).unwrap()
    };
    assert_eq!((&filed.record.machines[0].disk, samples(&filed).mean("disk_used")), (&None, None));
    assert!(filed.record.beside.busy_during.is_some());
    assert!(filed.record.beside.facts().iter().any(|(name, _)| name == "processors that others used"));

    let named = run_here(folder.path(), this, Some(folder.path()), None).await.unwrap();
    assert!(named.record.machines[0].disk.is_some() && samples(&named).mean("disk_used").is_some());

    // What neither is started nor has a process may be anywhere: others cannot be distinguished from it.
    let elsewhere = run_here(folder.path(), None, None, None).await.unwrap();
    assert!(!is_here(&elsewhere) && elsewhere.record.beside.busy_during.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_user_says_of_a_server_is_in_the_record_and_a_wrong_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let filed = run_here(folder.path(), None, None, Some("^v1[.]")).await.unwrap();
    let program = &filed.record.candidate.program;
    assert_eq!((program.version.as_str(), program.commit.as_deref()), ("v1.2", Some("abc")));
    let fact = ("given by the user".to_owned(), "commit, tag".to_owned());
    assert!(filed.record.candidate.facts.contains(&fact), "{:?}", filed.record.candidate.facts);
    assert!(!filed.record.missing.iter().any(|what| what.contains("candidate's commit")), "{:?}", filed.record.missing);
    let Err(error) = run_here(folder.path(), None, None, Some("v2")).await else { panic!("it has run") };
    assert_eq!(error.to_string(), "the candidate reports the version `v1.2`, and `v2` is expected");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_of_another_version_than_the_plan_or_its_own_file_expects_is_refused() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (of_plan, of_candidate) in [("expect_version = '^7[.]7$'\n", ""), ("", "expect_version = '^7[.]7$'\n")] {
        let Err(error) = run(folder.path(), of_plan, of_candidate).await else { panic!("it has run") };
        let error = error.to_string();
        assert!(error.starts_with("the candidate reports the version `1, served by SimpleHTTP/"), "{error}");
        assert!(error.ends_with("and `^7[.]7$` is expected"), "{error}");
        assert!(!folder.path().join("archive").exists(), "before any load");
    }
    let filed = run(folder.path(), "expect_version = '^1$'\n", "expect_version = '1'\n").await.unwrap();
    let facts = &filed.record.candidate.facts;
    assert!(facts.iter().any(|(name, _)| name == "version that the server reports"), "{facts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_is_replaced_while_the_load_runs_is_not_the_one_recorded() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plan = "[[events]]\nat = \"100ms\"\nrun = \"replace\"\n";
    let candidate = "[commands]\nreplace = [\"sh\", \"-c\", \"echo 2 > $0/version\", \"${folder}\"]\n";
    let filed = run(folder.path(), plan, candidate).await.unwrap();
    assert_eq!(filed.outcome.judgement.verdict, Verdict::Void);
    let reasons = filed.outcome.judgement.reasons.join("\n");
    assert!(reasons.contains("The candidate is not the one recorded: it reported 1, served by "), "{reasons}");
    assert!(reasons.contains(", and now 2, served by "), "{reasons}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_errors_has_what_the_candidate_printed_around_the_first_of_them() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // From then on the server has nothing to answer with.
    let plan = "[[events]]\nat = \"500ms\"\nrun = \"empty\"\n";
    let filed = run(folder.path(), plan, "[commands]\nempty = [\"rm\", \"-r\", \"${data}\"]\n").await.unwrap();
    let errors = &filed.outcome.summary.errors;
    assert!(errors.iter().any(|error| error.kind == "status 404"), "{errors:?}");
    let log = filed.outcome.log.as_ref().unwrap();
    assert!(log.at_s >= 0.5, "{log:?}");
    assert!(log.lines.len() <= 20 && log.lines.iter().any(|line| line.contains("404")), "{log:?}");
    let kept = testbed::archive::ArchivedRun::at(&filed.folder).outcome().unwrap();
    assert_eq!(kept.log.as_ref(), Some(log));
    let (verdict, reasons) = (filed.outcome.judgement.verdict, filed.outcome.judgement.reasons.join("\n"));
    // On a busy machine a run may be void. Then nothing is said if nothing was the limit.
    assert!(matches!(verdict, Verdict::Failed | Verdict::Void), "{verdict:?}: {reasons}");
    let is_said = verdict == Verdict::Failed || !filed.outcome.saturated.is_empty();
    assert_eq!(reasons.contains("aturated"), is_said, "what was the limit, or that nothing was: {reasons}");
    let quiet = run(folder.path(), "", "").await.unwrap().outcome;
    let has_errors = quiet.judgement.verdict != Verdict::Held && !quiet.summary.errors.is_empty();
    assert_eq!(quiet.log.is_some(), has_errors, "{:?}: {:?}", quiet.judgement, quiet.log);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_measured_is_kept_if_the_fill_cannot_be_counted() {
    if !is_installed("python3", "python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let plan = "fill = { scenario = \"get\", units = 5 }\n[[events]]\nat = \"100ms\"\nrun = \"spoil\"\n";
    let spoil = "[commands]\nspoil = [\"rm\", \"${data}/../fill-000.csv.gz\"]\n";
    let filed = run(folder.path(), plan, spoil).await;
    let Err(RunnerError::NotFiled { events, error }) = filed else { panic!("it is filed") };
    assert!(events.join("worker-000.csv.gz").is_file(), "{error}");
    fs::remove_dir_all(events).unwrap();
}
