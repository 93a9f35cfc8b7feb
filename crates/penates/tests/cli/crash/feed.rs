//! The change feed: every acknowledged change is an event, in order, and a consumer that resumes
//! after each kill misses none.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::AtomicBool;

use futures::StreamExt;
use http::{Method, Request, StatusCode};
use penates::client::{Client, empty, full};
use rand::Rng;
use rand::rngs::StdRng;
use serde_json::Value;

use super::{Lost, ORIGIN, Outcome, POLL, choices, kill_a_server, look, outcome};
use crate::harness::*;

/// The default number of rounds.
const ROUNDS: u64 = 4;

/// Names that are created, changed and deleted again and again. Each has a writer of its own.
const NAMES: usize = 3;

/// What was done to a name, and whether it is certain that it was.
#[derive(Debug, Default)]
struct Made {
    /// The types of events, oldest first.
    events: Vec<(&'static str, bool)>,
    /// Whether the name is used, as far as its writer knows.
    is_there: Option<bool>,
}

impl Made {
    /// Whether these events are what was made, with or without what is uncertain.
    fn is_shown_by(&self, events: &[String]) -> bool {
        // How many of the events each prefix of what was made can explain.
        let mut explained = vec![0];
        for (kind, is_certain) in &self.events {
            let with = |count: &usize| events.get(*count).is_some_and(|event| event == kind).then_some(count + 1);
            let mut next: Vec<usize> = explained.iter().filter_map(with).collect();
            next.extend(explained.iter().filter(|_| !is_certain));
            explained = next;
            explained.sort_unstable();
            explained.dedup();
        }
        explained.contains(&events.len())
    }
}

/// The state of a name.
async fn status(client: &Client, name: &str) -> StatusCode {
    let got = client.send(&format!("/rest/{name}"), Request::builder(), empty()).await.unwrap();
    let status = got.status();
    let known = [StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::GONE];
    assert!(known.contains(&status), "{name}: {status}");
    status
}

/// Deletes the tombstone of a name, which is then free. A server refuses this while it is busy, and
/// while it finishes the deletion that a killed server began.
async fn free(client: &Client, killing: &AtomicBool, name: &str) -> Result<(), Lost> {
    let tombstone = format!("/rest/{name}/fcr:tombstone");
    let freed = async {
        loop {
            let freed = client.ask(&tombstone, Request::builder().method(Method::DELETE), empty()).await;
            if freed.as_ref().is_err_and(|error| error.status() == Some(StatusCode::CONFLICT)) {
                tokio::time::sleep(POLL).await;
                continue;
            }
            match outcome(freed, killing) {
                Outcome::Done(_) => return Ok(()),
                Outcome::NotDone => tokio::time::sleep(POLL).await,
                Outcome::Lost => return Err(Lost),
            }
        }
    };
    tokio::time::timeout(PATIENCE, freed).await.unwrap_or_else(|_| panic!("{name} is never free"))
}

/// Changes a name until the server is killed.
async fn change(client: &Client, killing: &AtomicBool, name: &str, made: &mut Made, mut rng: StdRng) {
    loop {
        let is_there = made.is_there.expect("it was looked at");
        let deletes = is_there && rng.random_ratio(1, 3);
        let (method, path) = match deletes {
            true => (Method::DELETE, format!("/rest/{name}")),
            false => (Method::PUT, format!("/rest/{name}")),
        };
        let text = format!("<> <http://purl.org/dc/terms/title> \"{}\" .", rng.random::<u32>());
        let body = if deletes { empty() } else { full(text) };
        let request = Request::builder().method(method).header("content-type", "text/turtle");
        let kind = match (is_there, deletes) {
            (true, true) => "Delete",
            (true, false) => "Update",
            (false, _) => "Create",
        };
        match outcome(client.ask(&path, request, body).await, killing) {
            Outcome::Done(_) => {
                made.events.push((kind, true));
                made.is_there = Some(!deletes);
                // Its name is used again.
                if deletes && free(client, killing, name).await.is_err() {
                    made.is_there = None;
                    return;
                }
            }
            Outcome::NotDone => {}
            Outcome::Lost => {
                made.events.push((kind, false));
                made.is_there = None;
                return;
            }
        }
    }
}

/// Follows until the stream breaks.
async fn follow(client: &Client, cursor: &mut String, seen: &mut Vec<(String, Value)>) {
    let path = format!("/feed?after={cursor}");
    let Ok(lines) = client.get_lines(&path, "text/event-stream").await else { return };
    let mut lines = pin!(lines);
    while let Some(Ok(line)) = lines.next().await {
        if let Some(id) = line.strip_prefix("id: ") {
            id.clone_into(cursor);
        } else if let Some(data) = line.strip_prefix("data: ") {
            // A stream may break within a line. Its event comes again, because the cursor counts
            // only once the event is complete.
            let Ok(event) = serde_json::from_str(data) else { return };
            seen.push((cursor.clone(), event));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_change_is_an_event_and_a_consumer_that_resumes_misses_none() {
    let (mut rng, rounds) = choices(ROUNDS);
    let store = TestStore::vacant();
    let mut names: BTreeMap<String, Made> = (0..NAMES).map(|n| (format!("name-{n}"), Made::default())).collect();
    let (mut cursor, mut seen) = ("start".to_owned(), Vec::new());
    for _ in 0..rounds {
        look(&store, async |client| {
            for (name, made) in &mut names {
                let status = status(client, name).await;
                made.is_there = Some(status == StatusCode::OK);
                // A tombstone keeps its name.
                if status == StatusCode::GONE {
                    let freed = free(client, &AtomicBool::new(false), name).await;
                    assert!(freed.is_ok(), "{name}: its tombstone's deletion has no outcome");
                }
            }
        })
        .await;
        let seeds: Vec<StdRng> = names.keys().map(|_| rand::SeedableRng::from_rng(&mut rng)).collect();
        kill_a_server(&store, &mut rng, async |client, killing| {
            let changes =
                names.iter_mut().zip(seeds).map(|((name, made), rng)| change(client, killing, name, made, rng));
            let changes = futures::future::join_all(changes);
            // The last event that is complete is where the consumer resumes.
            let mut at = cursor.clone();
            futures::join!(changes, follow(client, &mut at, &mut seen));
        })
        .await;
        if let Some((last, _)) = seen.last() {
            cursor.clone_from(last);
        }
    }
    look(&store, async |client| {
        let (mut all, mut path) = (Vec::new(), "/feed?after=start&limit=1000".to_owned());
        loop {
            let page: Value = client.get_json(&path).await.unwrap();
            all.extend(page["orderedItems"].as_array().unwrap().iter().cloned());
            let Some(next) = page["next"].as_str() else { break };
            path = next.strip_prefix(ORIGIN).unwrap().to_owned();
        }
        for (name, made) in &names {
            let id = format!("{ORIGIN}/rest/{name}");
            let of_it = all.iter().filter(|event| event["object"]["id"] == id.as_str());
            let of_it: Vec<String> = of_it.map(|event| event["type"].as_str().unwrap().to_owned()).collect();
            assert!(made.is_shown_by(&of_it), "{name}: {made:?} is not\n{of_it:?}");
            let is_there = of_it.last().is_some_and(|last| last != "Delete");
            assert_eq!(status(client, name).await == StatusCode::OK, is_there, "{name}: {of_it:?}");
        }
        // What came by the streams is the beginning of it, each event once.
        assert!(!seen.is_empty(), "no consumer saw anything");
        for ((_, seen), all) in seen.iter().zip(&all) {
            assert_eq!(seen["id"], all["id"]);
        }
        assert!(seen.len() <= all.len());
    })
    .await;
}
