//! Kill -9 at random moments, repeatedly: nothing acknowledged is lost, and nothing is half
//! visible.
//!
//! `PENATES_CRASH_ROUNDS` sets the number of rounds (1,000 must pass), and `PENATES_CRASH_SEED`
//! repeats the choices of a failed run. Superseded data is collected after seconds here, so that
//! the collector works at the same time.

mod backups;
pub mod corpus;
mod feed;
mod records;
mod repository;
mod transactions;
pub mod tree;
mod volumes;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use penates::client::{Client, ClientError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::harness::TestStore;

/// The life of a plan: a stream that takes longer is cut.
const PLAN_LIFE: Duration = Duration::from_secs(3);
/// The pause between two polls.
const POLL: Duration = Duration::from_millis(5);
/// The origin of resources, whatever port a server gets.
const ORIGIN: &str = "http://crash.test";
/// Superseded data is collected soon, but for a few versions of each volume.
const SETTINGS: [&str; 7] = [
    "--set=store.grace=4s",
    "--set=store.plan_life=3s",
    "--set=store.clock_skew_max=500ms",
    "--set=store.sweep_interval=100ms",
    "--set=history.volumes=3",
    "--set=auth.write=open",
    "--set=ldp.origin=http://crash.test",
];

/// The source of a run's choices, and its number of rounds: `rounds` by default.
fn choices(rounds: u64) -> (StdRng, u64) {
    let seed = number_from("PENATES_CRASH_SEED").unwrap_or_else(rand::random);
    println!("PENATES_CRASH_SEED={seed}");
    (StdRng::seed_from_u64(seed), number_from("PENATES_CRASH_ROUNDS").unwrap_or(rounds))
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")))
}

/// Kills a server during `work`, which ends when it finds no server.
async fn kill_a_server(store: &TestStore, rng: &mut StdRng, work: impl AsyncFnOnce(&Client, &AtomicBool)) {
    let served = store.serve(&SETTINGS);
    let killing = AtomicBool::new(false);
    let client = Client::network(&served.url, None, None).unwrap();
    // This is no wait for an event: the moment of the kill is random.
    let moment = Duration::from_millis(rng.random_range(0..1_500));
    let kill = async {
        tokio::time::sleep(moment).await;
        killing.store(true, Ordering::SeqCst);
        tokio::task::spawn_blocking(move || served.kill()).await.unwrap();
    };
    futures::join!(work(&client, &killing), kill);
}

/// Examines the stored data with a server of its own.
async fn look(store: &TestStore, look: impl AsyncFnOnce(&Client)) {
    let served = store.serve(&SETTINGS);
    look(&Client::network(&served.url, None, None).unwrap()).await;
    tokio::task::spawn_blocking(move || served.kill()).await.unwrap();
}

/// The outcome of a change.
enum Outcome<T> {
    Done(T),
    NotDone,
    Lost,
}

/// The response to a change was lost, so nothing more is known before the next round.
struct Lost;

/// A server responds until it is killed, and every refusal has a reason.
fn outcome<T>(changed: Result<T, ClientError>, killing: &AtomicBool) -> Outcome<T> {
    match changed {
        Ok(answer) => Outcome::Done(answer),
        Err(ClientError::Refused { status: StatusCode::GATEWAY_TIMEOUT, .. }) => Outcome::Lost,
        Err(error) if error.status() == Some(StatusCode::SERVICE_UNAVAILABLE) => Outcome::NotDone,
        Err(error) if error.status().is_none() && killing.load(Ordering::SeqCst) => Outcome::Lost,
        Err(error) => panic!("{error}"),
    }
}
