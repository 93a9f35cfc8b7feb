//! Transactions: after each kill, each has happened as a whole or not at all.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http::header::{CONTENT_TYPE, LOCATION};
use http::{Method, Request, StatusCode};
use penates::client::{Client, empty, full, whole};

use super::{Outcome, POLL, choices, kill_a_server, look, outcome};
use crate::harness::TestStore;

/// Rounds by default.
const ROUNDS: u64 = 4;
/// The greatest number of additional rounds, until a transaction was committed.
const MORE_ROUNDS: u64 = 50;
/// Resources of a transaction.
const RESOURCES: usize = 8;
/// How long a server may take to carry out what was decided.
const PATIENCE: Duration = Duration::from_secs(60);

/// How far the client came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    /// It did not ask to commit.
    Open,
    /// It asked, and had no answer.
    Asked,
    /// It had an answer.
    Committed,
}

struct Tried {
    name: String,
    /// The path of the transaction.
    address: String,
    came: Came,
}

/// Makes one transaction after the other until the server is killed.
async fn transact(client: &Client, killing: &AtomicBool, round: u64, tried: &mut Vec<Tried>) {
    for nth in 0.. {
        let begun = client.ask("/rest/fcr:tx", Request::builder().method(Method::POST), empty()).await;
        let begun = match outcome(begun, killing) {
            Outcome::Done(begun) => begun,
            Outcome::NotDone => continue,
            Outcome::Lost => return,
        };
        let id = begun.headers()[LOCATION].to_str().unwrap().to_owned();
        let address = id[id.find("/rest/").unwrap()..].to_owned();
        let name = format!("t{round}-{nth}");
        tried.push(Tried { name: name.clone(), address: address.clone(), came: Came::Open });
        for resource in 0..RESOURCES {
            let put =
                Request::builder().method(Method::PUT).header("atomic-id", &id).header(CONTENT_TYPE, "text/turtle");
            let put = client.ask(&format!("/rest/{name}/{resource}"), put, full("")).await;
            let Outcome::Done(_) = outcome(put, killing) else { return };
        }
        let last = tried.len() - 1;
        tried[last].came = Came::Asked;
        let committed = client.ask(&address, Request::builder().method(Method::PUT), empty()).await;
        let Outcome::Done(_) = outcome(committed, killing) else { return };
        tried[last].came = Came::Committed;
    }
}

/// How many resources of a transaction there are.
async fn count(client: &Client, name: &str) -> usize {
    let mut there = 0;
    for resource in 0..RESOURCES {
        let got = client.send(&format!("/rest/{name}/{resource}"), Request::builder(), empty()).await.unwrap();
        there += usize::from(got.status() == StatusCode::OK);
    }
    there
}

async fn check(client: &Client, tried: &Tried) {
    let settled = async {
        loop {
            let state = client.send(&tried.address, Request::builder(), empty()).await.unwrap();
            let state = String::from_utf8_lossy(&whole(state).await.unwrap()).into_owned();
            if !state.contains("is being committed") {
                return;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(PATIENCE, settled).await.unwrap_or_else(|_| panic!("{} is never carried out", tried.name));
    let there = count(client, &tried.name).await;
    let is_right = match tried.came {
        Came::Open => there == 0,
        Came::Asked => there == 0 || there == RESOURCES,
        Came::Committed => there == RESOURCES,
    };
    assert!(is_right, "{}, {:?}: {there} of {RESOURCES}", tried.name, tried.came);
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_9_leaves_no_transaction_done_in_part() {
    let (mut rng, rounds) = choices(ROUNDS);
    let store = TestStore::vacant();
    let (mut round, mut committed) = (0, 0);
    // On a busy machine a few rounds may commit nothing.
    while round < rounds || committed == 0 {
        assert!(round < rounds + MORE_ROUNDS, "no transaction was committed");
        let mut tried = Vec::new();
        kill_a_server(&store, &mut rng, async |client, killing| {
            transact(client, killing, round, &mut tried).await;
        })
        .await;
        look(&store, async |client| {
            for tried in &tried {
                check(client, tried).await;
            }
        })
        .await;
        committed += tried.iter().filter(|tried| tried.came == Came::Committed).count();
        round += 1;
    }
    println!("{committed} transactions were committed");
}
