//! Fills before a load, loads as in an access log, and loads over a longer link.
use std::fs;
use std::sync::Arc;

use crate::support::{Run, ok, runner_of, serve, worker};
use bytes::Bytes;
use http::{Request, StatusCode};
use parking_lot::Mutex;
use testbed::event::EventReader;
use testbed::inputs::Inputs;
use testbed::plan::Plan;
use testbed::scenario::Scenario;
use testbed::wire::Progress;

/// What a server has seen, in its order.
type Seen = Arc<Mutex<Vec<String>>>;

/// A server that answers with 500 where the path ends with `wrong`.
async fn recorder(wrong: &'static str) -> (std::net::SocketAddr, Seen) {
    let seen = Seen::default();
    let into = seen.clone();
    let address = serve(move |request: Request<Bytes>| {
        into.lock().push(format!("{} {}", request.method(), request.uri()));
        let mut answer = ok();
        if request.uri().path().ends_with(wrong) {
            *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        }
        async { answer }
    })
    .await;
    (address, seen)
}

const UNIT: &str = "[[steps]]\nname = \"make\"\nmethod = \"PUT\"\npath = \"/unit-${user}-\"\n\
                    [[steps]]\nname = \"look\"\npath = \"/unit-${user}-/\"\n";

fn filling(units: u32) -> String {
    format!(
        "name = \"fill\"\nscenarios = [{{ scenario = \"get\" }}]\nworkers = 2\n\
         load = {{ shape = \"constant\", rate = 20, duration = \"500ms\" }}\n\
         fill = {{ scenario = \"unit.toml\", units = {units}, concurrency = 5 }}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fill_makes_each_unit_once_before_the_load_begins() {
    let (address, seen) = recorder("wrong").await;
    let run = Run::new(&filling(50), &[("unit", UNIT)]);
    let collected = run.collect(address, vec![worker(), worker()]).await;
    assert_eq!(collected.lost, None);
    let fill = collected.fill.unwrap();
    assert_eq!(fill.units, 50);
    let seen = seen.lock();
    let (made, loaded) = seen.split_at(100);
    let mut puts: Vec<_> = made.iter().filter(|line| line.starts_with("PUT")).cloned().collect();
    puts.sort();
    let mut wanted: Vec<_> = (0..50).map(|user| format!("PUT /unit-{user}-")).collect();
    wanted.sort();
    assert_eq!(puts, wanted);
    assert_eq!(loaded, vec!["GET /"; 10]);
    // Its requests are apart from those of the load.
    assert_eq!(run.count(&collected.events).summary.all.due, 10);
    let names = vec![run.inputs.compiled_fill().unwrap().unwrap().names()];
    let of_fill = |file| EventReader::new(fs::File::open(file).unwrap(), names.clone()).map(Result::unwrap).count();
    assert_eq!(fill.events.iter().map(of_fill).sum::<usize>(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unit_that_fails_ends_the_fill_and_there_is_no_load() {
    let (address, seen) = recorder("unit-20-").await;
    let run = Run::new(&filling(1_000_000), &[("unit", UNIT)]);
    let collected = run.collect(address, vec![worker(), worker()]).await;
    assert!(collected.lost.unwrap().contains("the fill is not whole"));
    assert!(!seen.lock().iter().any(|line| line == "GET /"));
    assert!(collected.fill.unwrap().units < 1_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fill_ends_when_its_time_is_over() {
    let (address, _) = recorder("wrong").await;
    let plan = filling(u32::MAX).replace("concurrency = 5", "concurrency = 1, within = \"100ms\"");
    let run = Run::new(&plan, &[("unit", UNIT)]);
    let collected = run.collect(address, vec![worker(), worker()]).await;
    assert!(collected.lost.unwrap().contains("the fill is not whole"));
    let units = collected.fill.unwrap().units;
    assert!(units > 0 && units < u64::from(u32::MAX), "{units}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_access_log_is_replayed_with_its_distances_by_all_workers() {
    let (address, seen) = recorder("wrong").await;
    let folder = tempfile::tempdir().unwrap();
    let line = |second: u32, request: &str| {
        format!("h - - [10/Oct/2000:13:55:{second:02} +0000] \"{request} HTTP/1.1\" 200 1\n")
    };
    let log = [
        line(10, "GET /a?b=c"),
        line(10, "POST /form"),
        "nonsense\n".to_owned(),
        line(12, "HEAD /d"),
        line(14, "GET /e"),
    ];
    fs::write(folder.path().join("access.log"), log.concat()).unwrap();
    let plan = "name = \"replay\"\nscenarios = [{ scenario = \"replay\" }]\nworkers = 2\n\
                load = { shape = \"replay\", file = \"access.log\", speed = 10, duration = \"60s\" }\n";
    let inputs = Inputs::of_plan(Plan::parse(plan).unwrap(), folder.path()).unwrap();
    assert!(inputs.digests().iter().any(|input| input.name == "access log"));
    let (archive, ignore) = (folder.path().join("archive"), |_: u32, _: Progress| {});
    let filed = runner_of(&inputs, address, &archive, &ignore).run(vec![worker(), worker()]).await.unwrap();
    // A run looks for the name of the server, too.
    let is_of_log = |line: &&String| !["GET /", "GET /metrics"].contains(&line.as_str());
    let seen: Vec<_> = seen.lock().iter().filter(is_of_log).cloned().collect();
    assert_eq!(seen, ["GET /a?b=c", "HEAD /d", "GET /e"], "{:?}", filed.outcome.judgement);
    let replay = filed.record.beside.replay.unwrap();
    assert_eq!((replay.lines, replay.requests, replay.unreadable, replay.other_methods), (5, 3, 1, 1));
    assert!(replay.first_unreadable.unwrap().starts_with("line 3: "));
    // The log ends before the load of the plan. Its three requests are due in 200 ms each.
    assert_eq!((replay.is_cut, replay.duration_s, filed.outcome.summary.duration_s), (false, 0.6, 0.6));
    let names: Vec<_> = inputs.compiled().unwrap().iter().map(Scenario::names).collect();
    let files = [0, 1].map(|worker| filed.folder.join(format!("data/events/worker-{worker:03}.csv.gz")));
    let events = files.iter().flat_map(|file| EventReader::new(fs::File::open(file).unwrap(), names.clone()));
    let mut due: Vec<_> = events.map(Result::unwrap).map(|event| (event.user, event.due_us)).collect();
    due.sort_unstable();
    assert_eq!(due, [(0, 0), (1, 200_000), (2, 400_000)]);
}

#[test]
fn a_replay_needs_its_shape_and_its_scenario_together() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("access.log"), "").unwrap();
    let error = |scenario: &str, load: &str| {
        let plan = format!(
            "name = \"x\"\nscenarios = [{{ scenario = \"{scenario}\" }}]\nload = {{ {load}, duration = \"1s\" }}\n"
        );
        let inputs = Plan::parse(&plan).map_err(|error| error.to_string())?;
        let inputs = Inputs::of_plan(inputs, folder.path()).map_err(|error| error.to_string())?;
        inputs.compiled().map(drop).map_err(|error| error.to_string())
    };
    let replay = "shape = \"replay\", file = \"access.log\"";
    assert_eq!(error("replay", replay), Ok(()));
    assert!(error("get", replay).unwrap_err().contains("no feed of the kind `replay`"));
    assert!(error("replay", "shape = \"constant\", rate = 1").unwrap_err().contains("a load of the shape `replay`"));
    assert!(error("replay", &replay.replace("access", "../access")).unwrap_err().contains("below the folder"));
    assert!(error("replay", &format!("{replay}, methods = [\"PATCH\"]")).unwrap_err().contains("`PATCH` is none of"));
    assert!(error("replay", &format!("{replay}, speed = 0")).unwrap_err().contains("load.speed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_link_delays_each_request_by_its_round_trip() {
    let (address, _) = recorder("wrong").await;
    let plan = "name = \"link\"\nscenarios = [{ scenario = \"get\" }]\nworkers = 1\n\
                load = { shape = \"constant\", rate = 10, duration = \"500ms\" }\n\
                link = { mbit_per_s = 100, round_trip_ms = 40 }\n";
    let (measured, _) = Run::new(plan, &[]).measure(address).await;
    assert_eq!(measured.summary.all.done, 5);
    // The connection takes a round trip, too.
    assert!(measured.response_us.min() >= 80_000, "{}", measured.response_us.min());
    let refused =
        |link: &str| Plan::parse(&plan.replace("mbit_per_s = 100, round_trip_ms = 40", link)).unwrap_err().to_string();
    assert!(refused("").contains("plan: link: a rate"));
    assert!(refused("round_trip_ms = 99999").contains("plan: link.round_trip_ms"));
}
