//! What happens beside the load: commands of the candidate at stated instants, and marks.
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::support::{TOKEN, is_installed, worker};
use testbed::candidate::Candidate;
use testbed::inputs::Inputs;
use testbed::monitor::{RemoteMonitor, Settings};
use testbed::plan::Plan;
use testbed::record::{Machine, Program};
use testbed::results::Verdict;
use testbed::runner::{Filed, Measured, Runner, RunnerError};
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
    let candidate = format!(
        "name = \"files\"\nversion = [\"echo\", \"1\"]\n\
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
    let filed = run(folder.path(), plan, &format!("{stop}{candidate}")).await.unwrap();

    let [look, add] = filed.record.beside.events.as_slice() else { panic!("{:?}", filed.record.beside) };
    assert_eq!((look.run.as_slice(), look.exit_code, &look.failure), (["look".to_owned()].as_slice(), Some(0), &None));
    assert_eq!((add.run.join(" "), add.exit_code), ("add-node n2".to_owned(), Some(0)));
    assert!(add.begun_s.unwrap() >= 0.3 && add.ended_s.unwrap() >= add.begun_s.unwrap(), "{add:?}");
    assert_eq!(add.output, format!("adding n2 to {}", filed.record.candidate.url));
    let marks = fs::read_to_string(filed.folder.join("data/marks.csv")).unwrap();
    assert!(marks.contains("add-node n2\n") && marks.contains("add-node n2: done after"), "{marks}");
    assert!(marks.contains(",read of /\n"), "{marks}");
    let report = fs::read_to_string(filed.folder.join("data/report.html")).unwrap();
    assert!(report.contains("add-node n2: done after") && report.contains("Beside the load"));
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
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let monitor = RemoteMonitor {
        token: token.to_owned(),
        program: Program::default(),
        machine: Machine { name: "node-2/../x".to_owned(), ..Machine::find(None) },
        settings: Settings {
            data: None,
            watches: Vec::new(),
            cgroups: Vec::new(),
            metrics: None,
            interval: Duration::from_millis(100),
        },
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
    // Two clocks that are one: a sample is a tenth of a second after the start instant or the one before.
    assert!(samples.rows.len() >= 2 && samples.rows[0].0 > -1.0, "{:?}", samples.rows.len());
    assert!(fs::read_to_string(filed.folder.join("data/report.html")).unwrap().contains("Monitor 0-node-2x"));

    // It dies while the load runs.
    let (mortal, address) = monitor(TOKEN).await;
    let void = run_with(folder.path(), "", "", std::slice::from_ref(&address), &|_, _| mortal.abort()).await.unwrap();
    assert_eq!(void.outcome.judgement.verdict, Verdict::Void);
    let reasons = void.outcome.judgement.reasons.join("\n");
    assert!(reasons.contains(&format!("The monitor {address} was lost: ")), "{reasons}");

    let (_kept, stranger) = monitor("another token").await;
    let refused = run_with(folder.path(), "", "", &[stranger], &|_, _| {}).await;
    let Err(error) = refused else { panic!("a stranger is let in") };
    assert!(error.to_string().ends_with("the token is wrong"), "{error}");
}
