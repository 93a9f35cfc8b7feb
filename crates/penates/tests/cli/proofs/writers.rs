//! Writers that change the same resources by two servers over one keyspace, while the servers are
//! killed at random moments, and consumers of the change feed that resume at either of them.
//!
//! Each request has a name of its own, which it gives as its `User-Agent` and as the title that it
//! writes. An event of the feed names the program of its change. So each request has its event or
//! has none, whatever the order in which two servers made the changes.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use http::{Method, Request, StatusCode};
use penates::client::{self, Client, ClientError, empty, full};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use store_cassandra::testing;

use crate::harness::*;

/// How often both servers are started and killed. A run of them is longer than an event takes to
/// appear.
const ROUNDS: u64 = 24;

/// Longest life of a server.
const LIFE_MAX: Duration = Duration::from_secs(6);

/// Names that are created, changed and deleted again and again, by all writers.
const NAMES: u64 = 3;

/// Writers of each server.
const WRITERS: usize = 2;

/// How long the last events may take to appear.
const APPEAR_WITHIN: Duration = Duration::from_secs(600);

const ORIGIN: &str = "http://writers.test";

/// Superseded data is collected soon, but no version is: the rows of all versions are compared.
const SETTINGS: [&str; 8] = [
    "--set=store.grace=4s",
    "--set=store.plan_life=3s",
    "--set=store.clock_skew_max=500ms",
    "--set=store.sweep_interval=100ms",
    "--set=ldp.origin=http://writers.test",
    "--set=history.resources=all",
    "--set=feed.actors=true",
    "--set=feed.keep=1day",
];

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    /// It was acknowledged, as an event of this type.
    Done(&'static str),
    /// It was refused, so there must be no event of it.
    Refused,
    /// Its answer was lost.
    Unknown,
}

/// A request that changes a resource.
#[derive(Debug)]
struct Asked {
    resource: u64,
    begun: Instant,
    ended: Instant,
    outcome: Outcome,
}

/// All requests, by the names that they gave themselves.
#[derive(Default)]
struct Journal {
    next: AtomicU64,
    asked: Mutex<BTreeMap<String, Asked>>,
}

impl Journal {
    /// Asks for a change, and notes what came of it.
    async fn ask(&self, server: &Running, resource: u64, deletes: bool) -> Result<StatusCode, Lost> {
        let name = format!("request-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let request = Request::builder().header("user-agent", &name).header("content-type", "text/turtle");
        let (method, body) = match deletes {
            true => (Method::DELETE, empty()),
            false => (Method::PUT, full(format!("<> <http://purl.org/dc/terms/title> \"{name}\" ."))),
        };
        let begun = Instant::now();
        let answer = server.client.send(&path(resource), request.method(method), body).await;
        let answer = server.status(answer);
        let outcome = match answer {
            Ok(StatusCode::CREATED) => Outcome::Done("Create"),
            Ok(status) if status.is_success() => Outcome::Done(if deletes { "Delete" } else { "Update" }),
            Ok(StatusCode::GATEWAY_TIMEOUT) | Err(Lost) => Outcome::Unknown,
            Ok(_) => Outcome::Refused,
        };
        let asked = Asked { resource, begun, ended: Instant::now(), outcome };
        self.asked.lock().unwrap().insert(name, asked);
        answer
    }
}

/// The server was killed before it answered.
#[derive(Debug)]
struct Lost;

fn path(resource: u64) -> String {
    format!("/rest/name-{resource}")
}

/// A server that is about to be killed.
struct Running {
    client: Client,
    killing: AtomicBool,
}

impl Running {
    /// The status of an answer. A server answers until it is killed.
    fn status(&self, answer: Result<http::Response<client::Body>, ClientError>) -> Result<StatusCode, Lost> {
        match answer {
            Ok(answer) => Ok(answer.status()),
            Err(error) if error.status().is_none() && self.killing.load(Ordering::SeqCst) => Err(Lost),
            Err(error) => panic!("{error}"),
        }
    }

    /// Changes resources at random until the server is killed.
    async fn write(&self, journal: &Journal, mut rng: StdRng) {
        loop {
            let resource = rng.random_range(0..NAMES);
            let Ok(status) = journal.ask(self, resource, rng.random_ratio(1, 5)).await else { return };
            match status {
                StatusCode::CREATED | StatusCode::NO_CONTENT | StatusCode::OK => {}
                // Its name is used again.
                StatusCode::GONE => {
                    let tombstone = format!("{}/fcr:tombstone", path(resource));
                    let request = Request::builder().method(Method::DELETE);
                    let Ok(_) = self.status(self.client.send(&tombstone, request, empty()).await) else { return };
                }
                // Another writer is at work on it, it is deleted already, or the answer is late.
                StatusCode::CONFLICT
                | StatusCode::NOT_FOUND
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT => {}
                other => panic!("{}: {other}", path(resource)),
            }
        }
    }
}

/// A consumer of the change feed. It notes its cursor only with a complete event.
#[derive(Default)]
struct Consumer {
    cursor: Option<String>,
    seen: Vec<Value>,
}

impl Consumer {
    /// Follows until the stream breaks, or until the event of this request.
    async fn follow(&mut self, client: &Client, until: Option<&str>) {
        let path = format!("/feed?after={}", self.cursor.as_deref().unwrap_or("start"));
        let Ok(lines) = client.get_lines(&path, "text/event-stream").await else { return };
        let (mut lines, mut id) = (pin!(lines), String::new());
        let mut event = None;
        while let Some(Ok(line)) = lines.next().await {
            if let Some(found) = line.strip_prefix("id: ") {
                found.clone_into(&mut id);
            } else if let Some(data) = line.strip_prefix("data: ") {
                event = Some(data.to_owned());
            } else if line.is_empty() {
                self.cursor = Some(id.clone());
                let Some(event) = event.take() else { continue };
                let event: Value = serde_json::from_str(&event).unwrap();
                // The first server that starts makes the root, which nobody asked for.
                if event["object"]["id"] == format!("{ORIGIN}/rest/") {
                    continue;
                }
                self.seen.push(event);
                if until.is_some_and(|until| self.seen.last().is_some_and(|event| program(event) == until)) {
                    return;
                }
            }
        }
    }
}

/// The name of the request that an event is of.
fn program(event: &Value) -> &str {
    event["instrument"]["name"].as_str().unwrap_or_else(|| panic!("it names no program: {event}"))
}

/// Kills the server after a random time, and returns when it has ended.
async fn kill(served: Served, running: &Running, after: Duration) {
    // This is no wait for an event: the moment of the kill is random.
    tokio::time::sleep(after).await;
    running.killing.store(true, Ordering::SeqCst);
    tokio::task::spawn_blocking(move || served.kill()).await.unwrap();
}

/// The titles of the last versions of a resource, oldest first.
async fn titles(server: &Served, client: &Client, resource: u64, count: usize) -> Vec<String> {
    let name = format!("name-{resource}");
    let listed = Ran::of(penates(&["history", &name, "--json", "--server", &server.url])).ends_with(0);
    let mut titles = Vec::new();
    let versions = listed.json_lines();
    for version in &versions[versions.len().saturating_sub(count)..] {
        let memento = format!("{}/fcr:versions/{}", path(resource), version["version"].as_str().unwrap());
        let graph = client::whole(client.get(&memento, "application/n-triples").await.unwrap()).await.unwrap();
        let graph = String::from_utf8(graph.to_vec()).unwrap();
        let title = graph.lines().find(|line| line.contains("/terms/title>")).unwrap_or_else(|| panic!("{graph}"));
        titles.push(title.split('"').nth(1).unwrap().to_owned());
    }
    titles
}

/// Each request has the event that its answer promised, and the events of a resource are in an
/// order in which the requests can have happened.
fn assert_explained(events: &[Value], asked: &BTreeMap<String, Asked>) {
    let mut named = BTreeSet::new();
    let mut of_resources: BTreeMap<u64, Vec<&Value>> = BTreeMap::new();
    for event in events {
        let name = program(event);
        let request = asked.get(name).unwrap_or_else(|| panic!("nobody asked for {event}"));
        assert!(named.insert(name), "{name} has two events: {event}");
        assert_eq!(event["object"]["id"], format!("{ORIGIN}{}", path(request.resource)));
        assert_eq!(event["actor"]["name"], "writer", "{event}");
        match request.outcome {
            Outcome::Done(kind) => assert_eq!(event["type"], kind, "{name}: {request:?}"),
            Outcome::Refused => panic!("{name} was refused, and has an event: {event}"),
            Outcome::Unknown => {}
        }
        of_resources.entry(request.resource).or_default().push(event);
    }
    for (name, request) in asked.iter().filter(|(_, request)| matches!(request.outcome, Outcome::Done(_))) {
        assert!(named.contains(name.as_str()), "{name} was acknowledged, and has no event: {request:?}");
    }
    for (resource, events) in of_resources {
        let mut is_there = false;
        for event in &events {
            assert_eq!(event["type"] != "Create", is_there, "{resource}: {event}");
            is_there = event["type"] != "Delete";
        }
        // No change comes before one that was answered when it began.
        let mut first_answer_behind: Option<Instant> = None;
        for event in events.iter().rev() {
            let request = &asked[program(event)];
            let is_possible = first_answer_behind.is_none_or(|answer| request.begun <= answer);
            assert!(is_possible, "{resource}: {event} is too early");
            if matches!(request.outcome, Outcome::Done(_)) {
                first_answer_behind = first_answer_behind.into_iter().chain([request.ended]).min();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "changes appear after more than a minute: `cargo xtask proofs` runs it"]
async fn every_change_by_two_servers_that_are_killed_is_one_event_and_one_version_in_order() {
    let Some(node) = tokio::task::spawn_blocking(testing::node).await.unwrap() else { return };
    let keyspace = format!("cassandra://{}/writers", node.contact_points()[0]);
    let in_keyspace = |args: &[&str]| penates(&[args, &["--store", &keyspace]].concat());
    Ran::of(in_keyspace(&["init"])).ends_with(0);
    let token = Ran::of(in_keyspace(&["token", "create", "writer"])).ends_with(0).text().trim().to_owned();
    let serve = || {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"];
        Served::start(in_keyspace(&[&arguments[..], &SETTINGS[..]].concat()))
    };
    let client = |served: &Served| Client::network(&served.url, Some(&token), None).unwrap();

    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let journal = Journal::default();
    let mut consumers = [Consumer::default(), Consumer::default()];
    for _ in 0..ROUNDS {
        let served = [serve(), serve()];
        let running =
            served.each_ref().map(|served| Running { client: client(served), killing: AtomicBool::new(false) });
        let writers: Vec<_> = running
            .iter()
            .flat_map(|running| std::iter::repeat_n(running, WRITERS))
            .map(|running| running.write(&journal, StdRng::from_rng(&mut rng)))
            .collect();
        let kills = served.into_iter().zip(&running).map(|(served, running)| {
            let life = Duration::from_millis(rng.random_range(0..LIFE_MAX.as_millis() as u64));
            kill(served, running, life)
        });
        let kills: Vec<_> = kills.collect();
        // A consumer resumes at the other server, or at the same.
        let at = rng.random_range(0..2);
        let [first, second] = &mut consumers;
        futures::join!(
            futures::future::join_all(writers),
            futures::future::join_all(kills),
            first.follow(&running[at].client, None),
            second.follow(&running[1 - at].client, None),
        );
    }
    assert!(consumers.iter().all(|consumer| !consumer.seen.is_empty()), "nobody saw an event meanwhile");

    let served = serve();
    let running = Running { client: client(&served), killing: AtomicBool::new(false) };
    // All that killed servers began is finished or undone by the next change of the resource.
    for resource in 0..NAMES {
        let settled = async {
            while !journal.ask(&running, resource, false).await.unwrap().is_success() {
                let tombstone = format!("{}/fcr:tombstone", path(resource));
                let request = Request::builder().method(Method::DELETE);
                running.client.send(&tombstone, request, empty()).await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, settled).await.unwrap_or_else(|_| panic!("{resource} is never free"));
    }
    let asked = journal.asked.into_inner().unwrap();
    let last = asked.iter().max_by_key(|(_, asked)| asked.begun).map(|(name, _)| name.as_str());
    let mut all = Consumer::default();
    for consumer in consumers.iter_mut().chain([&mut all]) {
        let followed = consumer.follow(&running.client, last);
        tokio::time::timeout(APPEAR_WITHIN, followed).await.expect("the last change never appears");
    }
    assert_explained(&all.seen, &asked);
    for consumer in &consumers {
        let mut ids: Vec<_> = consumer.seen.iter().map(|event| &event["id"]).collect();
        ids.dedup();
        let expected: Vec<_> = all.seen.iter().map(|event| &event["id"]).collect();
        assert_eq!(ids, expected, "a consumer that resumed saw other events");
    }

    for resource in 0..NAMES {
        let object = format!("{ORIGIN}{}", path(resource));
        let of_it: Vec<_> = all.seen.iter().filter(|event| event["object"]["id"] == object.as_str()).collect();
        let live = of_it.iter().rposition(|event| event["type"] == "Create").expect("it is there");
        let expected: Vec<_> = of_it[live..].iter().map(|event| program(event).to_owned()).collect();
        let titles = titles(&served, &running.client, resource, expected.len()).await;
        assert_eq!(titles, expected, "{object}: its last versions");
    }
    let known = asked.values().filter(|asked| asked.outcome != Outcome::Unknown).count();
    println!("{} requests, {} with a known outcome, {} events", asked.len(), known, all.seen.len());
    tokio::task::spawn_blocking(move || served.kill()).await.unwrap();
}
