//! What workers measure of servers whose behaviour is known.
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Run, TOKEN, ok, runner_of, serve, worker, worker_on};
use bytes::Bytes;
use http::{Request, StatusCode};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use testbed::caller::Host;
use testbed::candidate::Given;
use testbed::coordinator::{Coordinator, WorkerPlace};
use testbed::event::{Event, EventReader, EventWriter, Outcome, StepNames};
use testbed::inputs::Inputs;
use testbed::plan::Plan;
use testbed::reach::Reach;
use testbed::record::{FACTS, Machine, Program};
use testbed::replay::ReplayRecord;
use testbed::results::{Judgement, Verdict};
use testbed::runner::{Runner, RunnerError};
use testbed::tally::Measured;
use testbed::verdict::judge;
use testbed::wire::{Progress, ToCoordinator, ToWorker, Wire};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;

fn events(path: &Path, names: &StepNames) -> Vec<Event> {
    EventReader::new(std::fs::File::open(path).unwrap(), names.clone()).map(Result::unwrap).collect()
}

fn write(path: &Path, names: StepNames, events: &[Event]) {
    let mut writer = EventWriter::new(std::fs::File::create(path).unwrap(), names).unwrap();
    events.iter().for_each(|event| writer.write(event).unwrap());
    writer.finish().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_that_was_due_is_counted_once_over_all_workers() {
    let address = serve(async |_| ok()).await;
    let plan = r#"
        name = "all"
        scenarios = [{ scenario = "get" }]
        load = { shape = "constant", rate = 300, duration = "1s" }
        workers = 3
    "#;
    let run = Run::new(plan, &[]);
    let collected = run.collect(address, (0..3).map(|_| worker()).collect()).await;
    assert_eq!(collected.lost, None);
    let users: BTreeSet<u64> =
        collected.events.iter().flat_map(|file| events(file, &run.names())).map(|event| event.user).collect();
    assert_eq!(users, (0..300).collect());
    let measured = run.count(&collected.events);
    let all = &measured.summary.all;
    assert_eq!((all.due, all.sent, all.done, all.received_bytes), (300, 300, 300, 1_200));
    assert_eq!(measured.seconds.iter().map(|second| second.due).sum::<u64>(), 300);
    assert_eq!(measured.seconds.iter().map(|second| second.done).sum::<u64>(), 300);
    assert!(collected.workers.iter().all(|worker| worker.cpu_s > 0.0 && worker.load_share > 0.0));

    // Counting the files of all workers is the same as counting one file with all events.
    let mut together: Vec<Event> = collected.events.iter().flat_map(|file| events(file, &run.names())).collect();
    together.sort_by_key(|event| event.done_us);
    let file = run.folder.path().join("together.csv.gz");
    write(&file, run.names(), &together);
    let one = run.count(&[file]);
    assert_eq!((one.summary, one.seconds, one.response_us), (measured.summary, measured.seconds, measured.response_us));
}

/// A server that answers nothing while it stalls: from the 50th request on, until the stall is over.
async fn stalling_server(stall: Duration) -> SocketAddr {
    let state = Arc::new((Mutex::new(0_u64), Notify::new()));
    serve(move |_| {
        let state = state.clone();
        async move {
            let number = {
                let mut count = state.0.lock();
                *count += 1;
                *count
            };
            let over = state.1.notified();
            if number == 50 {
                tokio::time::sleep(stall).await;
                *state.0.lock() = 1_000_000;
                state.1.notify_waiters();
            } else if (50..1_000_000).contains(&number) {
                over.await;
            }
            ok()
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_shows_as_the_queue_that_it_makes_and_a_closed_loop_hides_it() {
    let stall = Duration::from_secs(1);
    let with = |load: &str| {
        format!(
            "name = \"stall\"\nscenarios = [{{ scenario = \"get\" }}]\nworkers = 1\n{load}\n\
             objectives = [\"late share at 500ms < 1%\"]\n\
             [connections]\nkeep = \"worker\"\n"
        )
    };
    let open = Run::new(&with("load = { shape = \"constant\", rate = 100, duration = \"3s\" }"), &[]);
    let (open, _) = open.measure(stalling_server(stall).await).await;
    let closed = Run::new(&with("load = { shape = \"closed\", users_per_worker = 1, duration = \"3s\" }"), &[]);
    let (closed, _) = closed.measure(stalling_server(stall).await).await;

    // All requests that were due within the stall waited for its end: a hundred, half a second on average.
    let waited = |measured: &Measured, ms: u64| measured.response_us.count_between(ms * 1_000, u64::MAX / 2);
    assert!(waited(&open, 10) >= 95, "{}", waited(&open, 10));
    assert!(waited(&open, 500) >= 45, "{}", waited(&open, 500));
    assert!(open.summary.all.response.max_ms >= 990.0);
    // They are too late in the seconds in which they end.
    let too_late: u64 = open.seconds.iter().map(|second| second.too_late).sum();
    assert!(too_late.abs_diff(waited(&open, 500)) <= 1, "{too_late}");
    // The closed loop sent one request within the stall.
    assert!(10 * waited(&closed, 500) < waited(&open, 500), "{}", waited(&closed, 500));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_plan_and_seed_send_the_same_requests_byte_for_byte() {
    let scenario = r#"
        feeds = [
            { name = "n", kind = "zipf", count = 1000 },
            { name = "pick", kind = "choice", values = ["a", "b", "c"] },
            { name = "body", kind = "bytes", count = 100 },
        ]
        [[steps]]
        name = "put"
        method = "PUT"
        path = "/${pick}/${n}/${user}?seed=${seed}"
        headers = { Digest = "sha-256=${body.sha256}", X-Client = "${user}" }
        body = { feed = "body" }
    "#;
    let sent_with = async |seed: u64, workers: u32| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        let address = serve(move |request: Request<Bytes>| {
            // The port of the server differs.
            let headers: Vec<_> = request.headers().iter().filter(|(name, _)| name.as_str() != "host").collect();
            let line = format!("{} {} {headers:?} {:?}", request.method(), request.uri(), request.body());
            into.lock().push(line);
            async { ok() }
        })
        .await;
        let plan = format!(
            "name = \"same\"\nscenarios = [{{ scenario = \"put.toml\" }}, {{ scenario = \"get\", share = 0.5 }}]\n\
             workers = {workers}\nseed = {seed}\n\
             load = {{ shape = \"poisson\", rate = 400, duration = \"500ms\" }}\n"
        );
        let run = Run::new(&plan, &[("put", scenario)]);
        run.measure(address).await;
        // They come over several connections, in any order.
        let mut seen = seen.lock().clone();
        seen.sort_unstable();
        assert!(seen.len() > 50, "{}", seen.len());
        seen
    };
    let once = sent_with(7, 2).await;
    let is_put = |line: &&String| line.starts_with("PUT /") && line.contains("digest") && line.contains("x-client");
    assert!(once.iter().filter(is_put).count() > 20, "{once:?}");
    assert_eq!(once, sent_with(7, 2).await);
    assert_ne!(once, sent_with(8, 2).await);
}

/// The first reason about worker 1, which dies as soon as it has something to report.
async fn lost_in(of_plan: &str) -> String {
    let address = serve(async |_| ok()).await;
    let plan = format!(
        "name = \"dies\"\nscenarios = [{{ scenario = \"get\" }}]\nworkers = 2\n\
         load = {{ shape = \"constant\", rate = 10, duration = \"600s\" }}\n{of_plan}"
    );
    let folder = tempfile::tempdir().unwrap();
    let inputs = Inputs::of_plan(Plan::parse(&plan).unwrap(), folder.path()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = WorkerPlace::At(listener.local_addr().unwrap().to_string());
    let WorkerPlace::At(real_address) = worker() else { unreachable!() };
    let dying = tokio::spawn(async move {
        let (mut one, _) = listener.accept().await.unwrap();
        let mut other = TcpStream::connect(real_address).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut one, &mut other).await;
    });
    // The first progress comes with the start: then both sides lose each other.
    let die = |_: u32, _: Progress| dying.abort();
    let archive = folder.path().join("archive");
    let filed = runner_of(&inputs, address, &archive, &die).run(vec![worker(), place]).await.unwrap();
    let Judgement { verdict, reasons } = filed.outcome.judgement;
    assert_eq!(verdict, Verdict::Void);
    let found = reasons.iter().find(|reason| reason.starts_with("worker 1: "));
    found.unwrap_or_else(|| panic!("{reasons:?}")).clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_voids_the_run_in_the_load_and_in_the_fill() {
    assert!(!lost_in("").await.contains("in the fill"));
    let in_fill = lost_in("fill = { scenario = \"get\", units = 1000000000 }\n").await;
    assert!(in_fill.starts_with("worker 1: in the fill: "), "{in_fill}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_say_what_it_is_makes_no_run() {
    let address = serve(async |_| ok()).await;
    let plan = "name = \"x\"\nscenarios = [{ scenario = \"get\" }]\nworkers = 1\npreparation = \"none\"\n\
                load = { shape = \"constant\", rate = 10, duration = \"600s\" }\n";
    let folder = tempfile::tempdir().unwrap();
    let inputs = Inputs::of_plan(Plan::parse(plan).unwrap(), folder.path()).unwrap();
    let archive = folder.path().join("archive");
    let known = |text: &str| Some(text.to_owned());
    let ignore = |_: u32, _: Progress| {};
    let runner = Runner {
        measured: testbed::runner::Measured::Url(format!("http://{address}"), Some(std::process::id())),
        data: Some(folder.path()),
        given: Given {
            commit: known("abc"),
            tag: known("v1.2"),
            configuration: known("none"),
            repository: known("https://example.org/"),
            facts: FACTS.map(|name| (name.to_owned(), "none".to_owned())).to_vec(),
        },
        program: Program {
            name: "penates".to_owned(),
            version: "0.1.0".to_owned(),
            sha256: known("def"),
            commit: known("abc"),
            repository: known("https://example.org/"),
            ..Program::default()
        },
        is_untraceable: false,
        ..runner_of(&inputs, address, &archive, &ignore)
    };
    let Err(RunnerError::Untraceable(missing)) = runner.run(vec![worker()]).await else { panic!("it has run") };
    let wanted = ["name", "version", "digest of the program", "commit", "repository"];
    assert_eq!(missing, wanted.map(|what| format!("worker 0's {what}")));
    assert_eq!(std::fs::read_dir(&archive).unwrap().count(), 0, "nothing is left of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_has_its_command_line_tag_and_repository_and_what_others_use_there_in_the_record() {
    let address = serve(async |_| ok()).await;
    let plan = "name = \"x\"\nscenarios = [{ scenario = \"get\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 10, duration = \"200ms\" }\n";
    let folder = tempfile::tempdir().unwrap();
    let inputs = Inputs::of_plan(Plan::parse(plan).unwrap(), folder.path()).unwrap();
    let (archive, ignore) = (folder.path().join("archive"), |_: u32, _: Progress| {});
    let known = |text: &str| Some(text.to_owned());
    let program = Program { tag: known("v0.1.0"), repository: known("https://example.org/"), ..Program::default() };
    let there = Machine { name: "node-3".to_owned(), ..Machine::find(None) };
    let workers = vec![worker_on(there, program.clone())];
    let filed = runner_of(&inputs, address, &archive, &ignore).run(workers).await.unwrap();
    let own: Vec<_> = std::env::args().collect();
    // As it is kept, and as it is shown.
    let record = testbed::archive::ArchivedRun::at(&filed.folder).record().unwrap();
    let worker = &record.workers[0];
    assert_eq!((&worker.program, worker.command.as_ref()), (&program, Some(&own)));
    let there = record.machines.iter().find(|machine| machine.name == "node-3").unwrap();
    assert_eq!(there.roles, ["worker 0"]);
    assert!(there.busy_before.is_some_and(|busy| busy >= 0.0), "{there:?}");
    let (at_start, peak) = (worker.memory_at_start_bytes.unwrap(), worker.memory_peak_bytes.unwrap());
    assert!(at_start > 1 << 20 && peak >= at_start, "{at_start} {peak}");
    let report = std::fs::read_to_string(filed.folder.join("data/report.html")).unwrap();
    for text in [own[0].as_str(), "<td>v0.1.0</td>", "https://example.org/", "memory at the start", "memory at most"] {
        assert!(report.contains(text), "{text}");
    }
}

/// Judges 40 seconds of 100 requests each, of which thirty put something. They take as long as `put_us` says
/// of those that are due at an instant; the others are fast.
fn judged(put_us: fn(i64) -> i64) -> Judgement {
    measured_of("40s", None, put_us).1
}

/// The same, with what is measured, of a plan for so long that replays a log.
fn measured_of(duration: &str, replay: Option<&ReplayRecord>, put_us: fn(i64) -> i64) -> (Measured, Judgement) {
    let step = |name: &str| format!("[[steps]]\nname = \"{name}\"\npath = \"/\"\n");
    let plan = format!(
        "name = \"mixed\"\nworkers = 1\n\
         scenarios = [{{ scenario = \"read.toml\", share = 0.7 }}, {{ scenario = \"put.toml\", share = 0.3 }}]\n\
         load = {{ shape = \"constant\", rate = 100, duration = \"{duration}\" }}\n"
    );
    let run = Run::new(&plan, &[("read", &step("read")), ("put", &step("put"))]);
    let event = |number: i64| {
        let due_us = number * 10_000;
        let scenario = usize::from(number % 10 >= 7);
        let took_us = if scenario == 1 { put_us(due_us) } else { 1_000 };
        Event {
            user: number.unsigned_abs(),
            scenario,
            step: 0,
            due_us,
            begun_us: due_us,
            sent_us: Some(due_us),
            first_byte_us: None,
            done_us: due_us + took_us,
            outcome: Outcome::Done,
            status: Some(200),
            sent_bytes: 0,
            received_bytes: 0,
        }
    };
    let mut events: Vec<_> = (0..4_000).map(event).collect();
    events.sort_by_key(|event| event.done_us);
    let file = run.folder.path().join("events.csv.gz");
    write(&file, run.names(), &events);
    let measured = run.count_replayed(&[file], replay);
    let judgement = judge(&run.inputs.plan, &measured, Vec::new());
    (measured, judgement)
}

#[test]
fn a_queue_of_one_step_is_degrading_however_many_fast_requests_surround_it() {
    // The last ones wait for nearly as long as the load lasts, which is no time-out yet.
    let Judgement { verdict, reasons } = judged(|due_us| due_us);
    assert_eq!(verdict, Verdict::Degrading);
    assert!(reasons[0].starts_with("Durations of put/put grow: "), "{reasons:?}");
    let backlog = "The backlog grows: 600 requests were under way when the arrivals ended, and 300 after the second \
                   quarter.";
    assert_eq!(reasons[1..], [backlog]);
}

#[test]
fn a_replay_whose_log_ends_early_is_judged_by_the_time_of_the_log() {
    let queue = |due_us: i64| due_us;
    let (wanted, judgement) = measured_of("40s", None, queue);
    assert_eq!((judgement.verdict, wanted.summary.duration_s), (Verdict::Degrading, 40.0));
    let log = ReplayRecord { duration_s: 40.0, ..ReplayRecord::default() };
    let replayed = measured_of("600s", Some(&log), queue);
    assert_eq!((&replayed.0.summary, replayed.1), (&wanted.summary, judgement));
}

#[test]
fn a_queue_that_stays_as_long_as_it_is_holds() {
    let Judgement { verdict, reasons } = judged(|_| 4_000_000);
    assert_eq!((verdict, reasons), (Verdict::Held, Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_counted_by_kind_and_fail_the_run() {
    let address = serve(|request: Request<Bytes>| async move {
        let mut response = ok();
        *response.status_mut() = match request.uri().path() {
            "/gone" => StatusCode::GONE,
            "/busy" => StatusCode::SERVICE_UNAVAILABLE,
            "/silent" => std::future::pending().await,
            _ => StatusCode::OK,
        };
        response
    })
    .await;
    let step = |name: &str, check: &str| format!("[[steps]]\nname = \"{name}\"\npath = \"/{name}\"\n{check}\n");
    let scenarios = [
        ("gone", step("gone", "")),
        ("busy", step("busy", "")),
        ("silent", step("silent", "")),
        ("wrong", step("wrong", "check = { contains = \"there\" }")),
    ];
    let plan = r#"
        name = "errors"
        scenarios = [{ scenario = "gone.toml" }, { scenario = "busy.toml" }, { scenario = "silent.toml" },
                     { scenario = "wrong.toml" }]
        load = { shape = "constant", rate = 40, duration = "1s" }
        workers = 1
        [connections]
        timeout = "300ms"
    "#;
    let texts: Vec<_> = scenarios.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let (measured, judgement) = Run::new(plan, &texts).measure(address).await;
    let kinds: BTreeSet<_> = measured.summary.errors.iter().map(|error| error.kind.as_str()).collect();
    assert_eq!(kinds, BTreeSet::from(["check: contains", "refused", "status 410", "time-out"]));
    let all = &measured.summary.all;
    assert_eq!(all.due, 40);
    assert_eq!(all.done, 0);
    assert_eq!(all.refused + all.failed, 40);
    assert!(measured.seconds.iter().any(|second| second.timed_out > 0));
    assert_eq!(judgement.verdict, Verdict::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_reset_is_an_error_of_its_own_kind() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") && stream.read_buf(&mut request).await.unwrap() > 0 {}
            // What is closed so is reset, and not ended.
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        }
    });
    let plan = "name = \"x\"\nscenarios = [{ scenario = \"get\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 50, duration = \"200ms\" }\n";
    let (measured, _) = Run::new(plan, &[]).measure(address).await;
    let errors: Vec<_> = measured.summary.errors.iter().map(|error| (error.kind.as_str(), error.count)).collect();
    assert_eq!(errors, [("reset", 10)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_is_before_its_step_and_a_header_that_differs_is_a_failure() {
    let address = serve(async |_| {
        let mut answer = ok();
        answer.headers_mut().insert("content-type", "text/turtle".parse().unwrap());
        answer
    })
    .await;
    let plan = "name = \"pauses\"\nscenarios = [{ scenario = \"pauses.toml\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 20, duration = \"200ms\" }\n";
    let scenario = r#"
        [[steps]]
        name = "first"
        path = "/"
        check = { header = { Content-Type = "^text/" } }
        [[steps]]
        name = "second"
        pause = "150ms"
        path = "/"
        check = { header = { Content-Type = "^image/" } }
        [[steps]]
        name = "never"
        path = "/"
    "#;
    let run = Run::new(plan, &[("pauses", scenario)]);
    let collected = run.collect(address, vec![worker()]).await;
    let events = events(&collected.events[0], &run.names());
    assert_eq!(events.len(), 8, "a user whose request fails takes no further step");
    for user in 0..4 {
        let of = |step| events.iter().find(|event| (event.user, event.step) == (user, step)).unwrap();
        let (first, second) = (of(0), of(1));
        assert_eq!(first.outcome, Outcome::Done);
        assert_eq!(second.outcome, Outcome::Failed("check: header content-type".to_owned()));
        // The pause is no part of the time of the request after it.
        assert!(second.due_us - first.done_us >= 150_000, "{first:?} {second:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_answers_is_an_error_of_every_request_and_too_many_users_are_dropped() {
    // No other program can have its port meanwhile.
    let silent = TcpSocket::new_v4().unwrap();
    silent.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = silent.local_addr().unwrap();
    let plan = "name = \"x\"\nscenarios = [{ scenario = \"get\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 50, duration = \"500ms\" }\n";
    let (measured, judgement) = Run::new(plan, &[]).measure(address).await;
    assert_eq!(measured.summary.errors[0].kind, "connection refused");
    assert_eq!((measured.summary.all.failed, measured.summary.all.sent), (25, 0));
    assert_eq!(judgement.verdict, Verdict::Failed);

    let address = serve(async |_| std::future::pending().await).await;
    let plan = format!("{plan}[connections]\nusers_max = 5\ntimeout = \"3s\"\n");
    let (measured, _) = Run::new(&plan, &[]).measure(address).await;
    assert_eq!((measured.summary.all.dropped, measured.summary.all.failed), (20, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_is_checked_like_a_small_one_and_gives_what_later_steps_use() {
    let paths = Arc::new(Mutex::new(Vec::new()));
    let seen = paths.clone();
    let address = serve(move |request| {
        seen.lock().push(request.uri().path().to_owned());
        let body = format!("{}end:42", "x".repeat(300 << 10));
        std::future::ready(http::Response::new(http_body_util::Full::new(Bytes::from(body))))
    })
    .await;
    let plan = "name = \"large\"\nscenarios = [{ scenario = \"large.toml\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 10, duration = \"500ms\" }\n";
    let scenario = r#"
        [[steps]]
        name = "first"
        path = "/"
        check = { contains = "xend:" }
        save = { n = { regex = 'end:(\d+)' } }
        [[steps]]
        name = "second"
        path = "/${n}"
        check = { sha256 = "00" }
    "#;
    let (measured, _) = Run::new(plan, &[("large", scenario)]).measure(address).await;
    let errors: Vec<_> = measured.summary.errors.iter().map(|error| (error.kind.as_str(), error.count)).collect();
    assert_eq!((measured.summary.all.done, errors), (5, vec![("check: sha256", 5)]));
    assert_eq!(paths.lock().iter().filter(|path| *path == "/42").count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_follows_a_check_is_due_when_the_check_is_over() {
    let body = Bytes::from(vec![b'x'; 4 << 20]);
    let sha256 = hex::encode(Sha256::digest(&body));
    let address =
        serve(move |_| std::future::ready(http::Response::new(http_body_util::Full::new(body.clone())))).await;
    let plan = "name = \"large\"\nscenarios = [{ scenario = \"large.toml\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 4, duration = \"500ms\" }\n";
    let scenario = format!(
        "[[steps]]\nname = \"first\"\npath = \"/\"\ncheck = {{ sha256 = \"{sha256}\" }}\n\
         [[steps]]\nname = \"second\"\npath = \"/\"\n"
    );
    let run = Run::new(plan, &[("large", &scenario)]);
    let collected = run.collect(address, vec![worker()]).await;
    let events = events(&collected.events[0], &run.names());
    for user in 0..2 {
        let of = |step| events.iter().find(|event| (event.user, event.step) == (user, step)).unwrap();
        let (first, second) = (of(0), of(1));
        assert_eq!(first.outcome, Outcome::Done);
        // A digest of four megabytes takes some time, which nobody waits for.
        assert!(second.due_us > first.done_us, "{first:?} {second:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_refuses_those_who_do_not_know_its_token() {
    let address = serve(async |_| ok()).await;
    let plan = "name = \"x\"\nscenarios = [{ scenario = \"get\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 50, duration = \"500ms\" }\n";
    let run = Run::new(plan, &[]);
    let url = format!("http://{address}");
    let coordinator = Coordinator {
        inputs: &run.inputs,
        reach: &Reach::at(&url),
        token: "guessed",
        folder: run.folder.path(),
        on_progress: &|_, _| {},
        on_start: &|_| {},
        objections: &|_, _| Vec::new(),
    };
    let Err(error) = coordinator.run(vec![worker()]).await else { panic!("a stranger has a worker") };
    assert_eq!(error.to_string(), "worker 0: the token is wrong");
}

/// Something that keeps to the protocol until it should begin. Its clock makes no sense.
async fn pretends(listener: TcpListener) {
    let mut wire = Wire::new(listener.accept().await.unwrap().0).unwrap();
    let (program, machine) = (Program::default(), Machine::default());
    Host { token: TOKEN, program: &program, machine: &machine }.let_in(&mut wire).await.unwrap();
    loop {
        let answer = match wire.receive::<ToWorker>().await.unwrap() {
            ToWorker::Clock => ToCoordinator::Clock { unix_us: i64::MIN },
            ToWorker::Others => ToCoordinator::Others(None),
            ToWorker::Prepare(_) => ToCoordinator::Ready,
            _ => return,
        };
        wire.send(&answer).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_worker_makes_no_run_and_what_pretends_to_be_one_is_lost() {
    let address = serve(async |_| ok()).await;
    let plan = "name = \"x\"\nscenarios = [{ scenario = \"get\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 50, duration = \"500ms\" }\n";
    let run = Run::new(plan, &[]);
    let url = format!("http://{address}");
    let coordinator = Coordinator {
        inputs: &run.inputs,
        reach: &Reach::at(&url),
        token: TOKEN,
        folder: run.folder.path(),
        on_progress: &|_, _| {},
        on_start: &|_| {},
        objections: &|_, _| Vec::new(),
    };
    // A server of HTTP.
    let Err(error) = coordinator.run(vec![WorkerPlace::At(address.to_string())]).await else { panic!("it has run") };
    assert!(error.to_string().starts_with("worker 0: "), "{error}");

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = WorkerPlace::At(listener.local_addr().unwrap().to_string());
    tokio::spawn(pretends(listener));
    let collected = coordinator.run(vec![place]).await.unwrap();
    assert!(collected.lost.is_some_and(|lost| lost.starts_with("worker 0: ")));
    assert!(collected.workers[0].clock_offset_us < 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_compared_as_a_graph_whatever_its_labels_are() {
    let address = serve(|request: Request<Bytes>| async move {
        let body = match request.uri().path() {
            "/right/0" => "_:z <http://p/b> 1 . <http://HOST/right/0> <http://p/a> _:z .",
            "/wrong/0" => "_:z <http://p/b> 2 . <http://HOST/wrong/0> <http://p/a> _:z .",
            _ => "{}",
        };
        let host = request.headers()["host"].to_str().unwrap();
        let mut answer = http::Response::new(http_body_util::Full::new(Bytes::from(body.replace("HOST", host))));
        let kind = if body == "{}" { "application/json" } else { "application/n-triples; charset=utf-8" };
        answer.headers_mut().insert("content-type", kind.parse().unwrap());
        answer
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("wanted.ttl"), "</${at}/${user}> <http://p/a> [ <http://p/b> 1 ] .").unwrap();
    for at in ["right", "wrong", "other"] {
        let scenario = format!(
            "feeds = [{{ name = \"at\", kind = \"choice\", values = [\"{at}\"] }}]\n[[steps]]\nname = \"get\"\n\
             path = \"/${{at}}/${{user}}\"\ncheck = {{ isomorphic_to = \"wanted.ttl\" }}\n"
        );
        std::fs::write(folder.path().join(format!("{at}.toml")), scenario).unwrap();
    }
    for (at, kinds) in [
        ("right", &[][..]),
        ("wrong", &["check: isomorphic_to"]),
        ("other", &["check: isomorphic_to: no Turtle and no N-Triples"]),
    ] {
        let plan = format!(
            "name = \"x\"\nscenarios = [{{ scenario = \"{at}.toml\" }}]\nworkers = 1\n\
             load = {{ shape = \"constant\", rate = 1, duration = \"1s\" }}\n"
        );
        let inputs = Inputs::of_plan(Plan::parse(&plan).unwrap(), folder.path()).unwrap();
        let run = Run { inputs, folder: tempfile::tempdir().unwrap() };
        let (measured, _) = run.measure(address).await;
        let found: Vec<_> = measured.summary.errors.iter().map(|error| error.kind.as_str()).collect();
        assert_eq!(found, kinds, "{at}");
        assert_eq!(measured.summary.all.done, u64::from(kinds.is_empty()), "{at}");
    }
}
