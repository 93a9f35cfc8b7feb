//! Writers that change the same resources and volumes by two servers over one keyspace, while the
//! servers are killed at random moments, and consumers of the change feed that resume at either of
//! them.
//!
//! Each request has a name of its own, which it gives as its `User-Agent`, and as the title or in the
//! METS that it writes. An event of the feed names the program of its change. So each request has its
//! event or has none, whatever the order in which two servers made the changes.
//!
//! In the end the past is what the events say: each is a version, and at any second the versions in
//! force, the members of the root and an archive of it are those after the changes until then. So are
//! archives of all volumes as of any millisecond (`volumes.rs`).
//!
//! Records are kept meanwhile: none of them is lost, and nothing that has expired is read
//! (`records.rs`).

mod records;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use penates::client::{self, Client, ClientError, empty, full};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use store_cassandra::testing;

use crate::crash::corpus::{Asking, now};
use crate::crash::tree::{address, second_of, see, version_at, versions, written};
use crate::harness::*;

/// How often both servers are started and killed. A run of them is longer than an event takes to
/// appear.
const ROUNDS: u64 = 24;

/// Longest life of a server.
const LIFE_MAX: Duration = Duration::from_secs(6);

/// Names that are created, changed and deleted again and again, by all writers.
const NAMES: u64 = 3;

/// Writers of resources of each server. One more imports volumes.
const WRITERS: usize = 2;

/// So many seconds of the whole run are looked at in the end, also some between its rounds, and so
/// many versions of each resource.
const SAMPLED: usize = 32;

/// How long the last events may take to appear.
const APPEAR_WITHIN: Duration = Duration::from_secs(600);

const ORIGIN: &str = "http://writers.test";

/// Superseded data is collected soon, but no version is: the rows of all versions are compared.
const SETTINGS: [&str; 9] = [
    "--set=store.grace=4s",
    "--set=store.plan_life=3s",
    "--set=store.clock_skew_max=500ms",
    "--set=store.sweep_interval=100ms",
    "--set=ldp.origin=http://writers.test",
    "--set=history.resources=all",
    "--set=history.volumes=all",
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

/// A request that changes a resource or a volume.
#[derive(Debug)]
struct Asked {
    /// The path of the object in events.
    object: String,
    begun: Instant,
    ended: Instant,
    /// The milliseconds of the clock in which it began and ended.
    moments: [i64; 2],
    outcome: Outcome,
}

impl Asked {
    /// The first and the last millisecond in which the change can have been made. One whose answer
    /// was lost may have been made later.
    fn window(&self) -> [i64; 2] {
        let [first, ended] = self.moments;
        [first, if self.outcome == Outcome::Unknown { i64::MAX } else { ended }]
    }
}

/// All requests, by the names that they gave themselves.
#[derive(Default)]
struct Journal {
    next: AtomicU64,
    asked: Mutex<BTreeMap<String, Asked>>,
}

impl Journal {
    /// Asks for a change of an object, and notes what came of it. `change` makes the request, and
    /// gets its name.
    async fn ask(
        &self,
        server: &Running,
        object: String,
        change: impl FnOnce(&str) -> Asking,
    ) -> Result<StatusCode, Lost> {
        let name = format!("request-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let (path, request, body) = change(&name);
        let deletes = request.method_ref() == Some(&Method::DELETE);
        let (begun, first) = (Instant::now(), now());
        let answer = server.client.send(&path, request.header("user-agent", &name), body).await;
        let answer = server.status(answer);
        let outcome = match answer {
            Ok(StatusCode::CREATED) => Outcome::Done("Create"),
            Ok(status) if status.is_success() => Outcome::Done(if deletes { "Delete" } else { "Update" }),
            Ok(StatusCode::GATEWAY_TIMEOUT) | Err(Lost) => Outcome::Unknown,
            Ok(_) => Outcome::Refused,
        };
        let asked = Asked { object, begun, ended: Instant::now(), moments: [first, now()], outcome };
        self.asked.lock().unwrap().insert(name, asked);
        answer
    }
}

/// The server was killed before it answered.
#[derive(Debug)]
struct Lost;

fn name(resource: u64) -> String {
    format!("name-{resource}")
}

fn path(resource: u64) -> String {
    address(&name(resource))
}

/// The request that writes a resource, with the name of the request as its title, or deletes it.
fn change(resource: u64, deletes: bool, name: &str) -> Asking {
    let request = Request::builder().header("content-type", "text/turtle");
    let (method, body) = match deletes {
        true => (Method::DELETE, empty()),
        false => (Method::PUT, full(format!("<> <http://purl.org/dc/terms/title> \"{name}\" ."))),
    };
    (path(resource), request.method(method), body)
}

/// A server that is about to be killed.
struct Running {
    client: Client,
    /// The address of the Redis protocol.
    records: String,
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
            let deletes = rng.random_ratio(1, 5);
            let asked = journal.ask(self, path(resource), |name| change(resource, deletes, name)).await;
            let Ok(status) = asked else { return };
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
    let name = name(resource);
    let listed = Ran::of(penates(&["history", &name, "--json", "--server", &server.url])).ends_with(0);
    let mut titles = Vec::new();
    let versions = listed.json_lines();
    for version in &versions[versions.len().saturating_sub(count)..] {
        let memento = format!("{name}/fcr:versions/{}", version["version"].as_str().unwrap());
        titles.push(title_of(client, &memento).await);
    }
    titles
}

/// The title of a version.
async fn title_of(client: &Client, version: &str) -> String {
    let graph = client.get(&address(version), "application/n-triples").await.unwrap();
    title_in(&client::whole(graph).await.unwrap())
}

/// The title in a graph: the only literal that is the name of a request.
fn title_in(graph: &[u8]) -> String {
    let graph = std::str::from_utf8(graph).unwrap();
    let title = graph.split('"').find(|part| part.starts_with("request-"));
    title.unwrap_or_else(|| panic!("it has no title: {graph}")).to_owned()
}

/// The titles of the resources in an archive of a version of the root, by their names.
async fn archived(client: &Client, root: &str) -> BTreeMap<String, String> {
    let archive = client.get(&address(root), "application/zip").await.unwrap();
    let mut entries = unzip(&client::whole(archive).await.unwrap());
    let left_out = entries.remove("ERROR.err").unwrap();
    assert_eq!(String::from_utf8(left_out).unwrap(), "sent by the data door: /volumes\n");
    let titled = entries.iter().filter_map(|(entry, graph)| {
        let name = entry.strip_prefix("repository/")?.strip_suffix("/fcr%3Ametadata.ttl")?;
        Some((name.to_owned(), title_in(graph)))
    });
    titled.collect()
}

/// A change of a resource.
struct Change<'a> {
    /// The title that it wrote. `None`: it deleted the resource.
    title: Option<&'a str>,
    /// The first and the last second in which it can have been made.
    seconds: [i64; 2],
}

/// The past of a resource: all its changes, and the paths of its versions, both oldest first.
struct Past<'a> {
    name: String,
    changes: Vec<Change<'a>>,
    versions: Vec<String>,
}

/// What there was of a resource when a second ended.
struct Then<'a> {
    /// Where `Accept-Datetime` may lead.
    answers: Vec<String>,
    /// The title of that.
    title: &'a str,
    /// Whether the resource was there. `None`: its deletion may have come before or after.
    is_there: Option<bool>,
}

impl<'a> Past<'a> {
    /// Lists the versions. They must be the changes that the events say, and of their seconds.
    async fn read(client: &Client, resource: u64, events: &[&'a Value], asked: &BTreeMap<String, Asked>) -> Self {
        let name = name(resource);
        let versions = versions(client, &name).await;
        let (mut listed, mut changes) = (versions.iter(), Vec::new());
        for event in events.iter().copied() {
            let title = program(event);
            let request = &asked[title];
            let [first, last] = request.window().map(|moment| moment / 1_000);
            if event["type"] == "Delete" {
                changes.push(Change { title: None, seconds: [first, last] });
                continue;
            }
            let version = listed.next().unwrap_or_else(|| panic!("{name} has no version of {title}"));
            let second = second_of(version);
            assert!((first..=last).contains(&second), "{version} is of {request:?}");
            changes.push(Change { title: Some(title), seconds: [second, second] });
        }
        assert_eq!(listed.next(), None, "{name} has a version that is no change");
        Self { name, changes, versions }
    }

    /// The titles of its versions.
    fn titles(&self) -> impl Iterator<Item = &'a str> {
        self.changes.iter().filter_map(|change| change.title)
    }

    /// What there was when a second ended.
    fn at(&self, second: i64) -> Then<'a> {
        let is_before = |change: &Change<'_>| change.title.is_some() && change.seconds[0] <= second;
        let last = self.changes.iter().rposition(is_before);
        let Some((last, title)) = last.and_then(|last| Some((last, self.changes[last].title?))) else {
            let title = self.titles().next().unwrap();
            return Then { answers: vec![self.versions[0].clone()], title, is_there: Some(false) };
        };
        let is_there = match self.changes.get(last + 1) {
            Some(Change { title: None, seconds: [_, latest] }) if *latest <= second => Some(false),
            Some(Change { title: None, seconds: [earliest, _] }) if *earliest <= second => None,
            _ => Some(true),
        };
        let nth = self.changes[..last].iter().filter(|change| change.title.is_some()).count();
        let version = self.versions[nth].clone();
        // Between its versions a container that is there has a state of each second.
        let state = Timestamp::from_second(second).unwrap().strftime("%Y%m%d%H%M%S");
        let state = format!("{}/fcr:versions/{state}", self.name);
        let answers = match is_there {
            _ if self.changes[last].seconds[0] == second => vec![version],
            Some(true) => vec![state],
            Some(false) => vec![version],
            None => vec![state, version],
        };
        Then { answers, title, is_there }
    }
}

/// Compares some versions, and what there was when some seconds ended.
async fn check_past(client: &Client, pasts: &[Past<'_>], rng: &mut StdRng, seconds: RangeInclusive<i64>) {
    for past in pasts {
        for _ in 0..SAMPLED {
            let nth = rng.random_range(0..past.versions.len());
            let version = &past.versions[nth];
            assert_eq!(Some(title_of(client, version).await.as_str()), past.titles().nth(nth), "{version}");
        }
    }
    for nth in 0..SAMPLED {
        println!("second {nth} of {SAMPLED}");
        let second = rng.random_range(seconds.clone());
        let datetime = written(second);
        let root = version_at(client, "", &datetime).await;
        let members = see(client, &root).await.unwrap().children;
        let archived = archived(client, &root).await;
        for past in pasts {
            let (then, name) = (past.at(second), &past.name);
            let answer = version_at(client, name, &datetime).await;
            assert!(then.answers.contains(&answer), "{name} at {datetime}: {answer}, not of {:?}", then.answers);
            assert_eq!(title_of(client, &answer).await, then.title, "{name} at {datetime}: {answer}");
            let is_member = members.contains(name);
            let may_be = then.is_there.is_none_or(|is_there| is_there == is_member);
            assert!(may_be, "{name} at {datetime}: {:?}, and the members are {members:?}", then.is_there);
            let title = archived.get(name).map(String::as_str);
            assert_eq!(title, is_member.then_some(then.title), "{name} in an archive of {datetime}");
        }
    }
}

/// Each request has the event that its answer promised, and the events of an object are in an order
/// in which the requests can have happened.
fn assert_explained(events: &[Value], asked: &BTreeMap<String, Asked>) {
    let mut named = BTreeSet::new();
    let mut of_objects: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for event in events {
        let name = program(event);
        let request = asked.get(name).unwrap_or_else(|| panic!("nobody asked for {event}"));
        assert!(named.insert(name), "{name} has two events: {event}");
        assert_eq!(event["object"]["id"], format!("{ORIGIN}{}", request.object));
        assert_eq!(event["actor"]["name"], "writer", "{event}");
        match request.outcome {
            Outcome::Done(kind) => assert_eq!(event["type"], kind, "{name}: {request:?}"),
            Outcome::Refused => panic!("{name} was refused, and has an event: {event}"),
            Outcome::Unknown => {}
        }
        of_objects.entry(&request.object).or_default().push(event);
    }
    for (name, request) in asked.iter().filter(|(_, request)| matches!(request.outcome, Outcome::Done(_))) {
        assert!(named.contains(name.as_str()), "{name} was acknowledged, and has no event: {request:?}");
    }
    for (object, events) in of_objects {
        let mut is_there = false;
        for event in &events {
            assert_eq!(event["type"] != "Create", is_there, "{object}: {event}");
            is_there = event["type"] != "Delete";
        }
        // No change comes before one that was answered when it began.
        let mut first_answer_behind: Option<Instant> = None;
        for event in events.iter().rev() {
            let request = &asked[program(event)];
            let is_possible = first_answer_behind.is_none_or(|answer| request.begun <= answer);
            assert!(is_possible, "{object}: {event} is too early");
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
        let listens = ["--listen", "127.0.0.1:0", "--tls-listen", "off", "--records-listen", "127.0.0.1:0"];
        let arguments = [&["serve"], &listens[..]].concat();
        Served::start(in_keyspace(&[&arguments[..], &SETTINGS[..]].concat()))
    };
    let running = |served: &Served| Running {
        client: Client::network(&served.url, Some(&token), None).unwrap(),
        records: served.records_address(),
        killing: AtomicBool::new(false),
    };

    let seed = rand::random();
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let journal = Journal::default();
    let corpus = volumes::corpus();
    let mut consumers = [Consumer::default(), Consumer::default()];
    let counted = Mutex::new(records::Counted::default());
    let mut texts = [0, 1].map(records::Text::of);
    for round in 0..ROUNDS {
        println!("round {round} of {ROUNDS}");
        let served = [serve(), serve()];
        let running = served.each_ref().map(&running);
        let writers: Vec<_> = running
            .iter()
            .flat_map(|running| std::iter::repeat_n(running, WRITERS))
            .map(|running| running.write(&journal, StdRng::from_rng(&mut rng)))
            .collect();
        let importers = running.iter().map(|running| running.import(&journal, &corpus, StdRng::from_rng(&mut rng)));
        let importers: Vec<_> = importers.collect();
        let kills = served.into_iter().zip(&running).map(|(served, running)| {
            let life = Duration::from_millis(rng.random_range(0..LIFE_MAX.as_millis() as u64));
            kill(served, running, life)
        });
        let kills: Vec<_> = kills.collect();
        // A consumer resumes at the other server, or at the same.
        let at = rng.random_range(0..2);
        let [first, second] = &mut consumers;
        let keepers = texts
            .iter_mut()
            .zip([at, 1 - at])
            .map(|(text, at)| running[at].keep_records(&token, &counted, text, StdRng::from_rng(&mut rng)));
        let keepers: Vec<_> = keepers.collect();
        futures::join!(
            futures::future::join_all(keepers),
            futures::future::join_all(writers),
            futures::future::join_all(importers),
            futures::future::join_all(kills),
            first.follow(&running[at].client, None),
            second.follow(&running[1 - at].client, None),
        );
    }
    assert!(consumers.iter().all(|consumer| !consumer.seen.is_empty()), "nobody saw an event meanwhile");

    let served = serve();
    let running = running(&served);
    records::check(&running, &token, &counted, &mut texts).await;
    // All that killed servers began is finished or undone by the next change of the same.
    volumes::settle(&journal, &running, &corpus).await;
    for resource in 0..NAMES {
        let settled = async {
            let ask = || journal.ask(&running, path(resource), |name| change(resource, false, name));
            while !ask().await.unwrap().is_success() {
                let tombstone = format!("{}/fcr:tombstone", path(resource));
                let request = Request::builder().method(Method::DELETE);
                running.client.send(&tombstone, request, empty()).await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, settled).await.unwrap_or_else(|_| panic!("{resource} is never free"));
    }
    let asked = journal.asked.into_inner().unwrap();
    println!("{} requests; waiting for the last event", asked.len());
    let last = asked.iter().max_by_key(|(_, asked)| asked.begun).map(|(name, _)| name.as_str());
    let mut all = Consumer::default();
    for consumer in consumers.iter_mut().chain([&mut all]) {
        let followed = consumer.follow(&running.client, last);
        tokio::time::timeout(APPEAR_WITHIN, followed).await.expect("the last change never appears");
    }
    println!("{} events; comparing them with the requests", all.seen.len());
    assert_explained(&all.seen, &asked);
    for consumer in &consumers {
        let mut ids: Vec<_> = consumer.seen.iter().map(|event| &event["id"]).collect();
        ids.dedup();
        let expected: Vec<_> = all.seen.iter().map(|event| &event["id"]).collect();
        assert_eq!(ids, expected, "a consumer that resumed saw other events");
    }

    let mut pasts = Vec::new();
    for resource in 0..NAMES {
        let object = format!("{ORIGIN}{}", path(resource));
        println!("comparing the versions of {object}");
        let of_it: Vec<_> = all.seen.iter().filter(|event| event["object"]["id"] == object.as_str()).collect();
        let live = of_it.iter().rposition(|event| event["type"] == "Create").expect("it is there");
        let expected: Vec<_> = of_it[live..].iter().map(|event| program(event).to_owned()).collect();
        let titles = titles(&served, &running.client, resource, expected.len()).await;
        assert_eq!(titles, expected, "{object}: its last versions");
        pasts.push(Past::read(&running.client, resource, &of_it, &asked).await);
    }
    // The root was made in the first second, or before.
    let first = asked.values().map(|asked| asked.moments[0]).min().unwrap();
    let last = asked.values().map(|asked| asked.moments[1]).max().unwrap();
    check_past(&running.client, &pasts, &mut rng, first / 1_000 + 1..=last / 1_000).await;
    // The last event was seen, so all until its request is settled.
    let settled = asked.values().map(|asked| asked.moments[0]).max().unwrap();
    volumes::check_past(&running.client, &corpus, &all.seen, &asked, &mut rng, first..=settled).await;
    let known = asked.values().filter(|asked| asked.outcome != Outcome::Unknown).count();
    println!("{} requests, {} with a known outcome, {} events", asked.len(), known, all.seen.len());
    tokio::task::spawn_blocking(move || served.kill()).await.unwrap();
}
