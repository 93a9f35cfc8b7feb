//! Kill -9 at random moments, again and again: nothing acknowledged is lost, nothing is half visible.
//!
//! `PENATES_CRASH_ROUNDS` says how many rounds (it must stand 1,000), `PENATES_CRASH_SEED` repeats the choices of a run that
//! failed. What was superseded is collected after seconds here, so that the collector is at work among all this.

mod repository;
mod tree;
mod volumes;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use penates::client::{Client, ClientError};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::harness::TestStore;

/// How long a plan lives: a stream that takes longer is cut.
const PLAN_LIFE: Duration = Duration::from_secs(3);
/// How resources are called, whatever port a server gets.
const ORIGIN: &str = "http://crash.test";
/// What is superseded is collected soon.
const SETTINGS: [&str; 6] = [
    "--set=store.grace=4s",
    "--set=store.plan_life=3s",
    "--set=store.clock_skew_max=500ms",
    "--set=store.sweep_interval=100ms",
    "--set=auth.write=open",
    "--set=ldp.origin=http://crash.test",
];

/// Where a run's choices come from, and how many rounds it has: `rounds` when nobody says how many.
fn choices(rounds: u64) -> (StdRng, u64) {
    let seed = number_from("PENATES_CRASH_SEED").unwrap_or_else(rand::random);
    println!("PENATES_CRASH_SEED={seed}");
    (StdRng::seed_from_u64(seed), number_from("PENATES_CRASH_ROUNDS").unwrap_or(rounds))
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// A server is killed while `work` goes on, which ends when it finds no server any more.
async fn kill_a_server(store: &TestStore, rng: &mut StdRng, work: impl AsyncFnOnce(&Client, &AtomicBool)) {
    let served = store.serve(&SETTINGS);
    let killing = AtomicBool::new(false);
    let client = Client::network(&served.url, None, None).unwrap();
    // Not a wait for anything: the moment of the kill is what is drawn.
    let moment = Duration::from_millis(rng.random_range(0..1_500));
    let kill = async {
        tokio::time::sleep(moment).await;
        killing.store(true, Ordering::SeqCst);
        tokio::task::spawn_blocking(move || served.kill()).await.unwrap();
    };
    futures::join!(work(&client, &killing), kill);
}

/// Looks at what is there, with a server of its own.
async fn look(store: &TestStore, look: impl AsyncFnOnce(&Client)) {
    let served = store.serve(&SETTINGS);
    look(&Client::network(&served.url, None, None).unwrap()).await;
    tokio::task::spawn_blocking(move || served.kill()).await.unwrap();
}

/// How a change ended.
enum Outcome<T> {
    Done(T),
    NotDone,
    Lost,
}

/// The answer to a change got lost, so that nothing more can be known before the next round.
struct Lost;

/// Before it is killed, a server answers; and what it refuses, it has a reason to refuse.
fn outcome<T>(changed: Result<T, ClientError>, killing: &AtomicBool) -> Outcome<T> {
    match changed {
        Ok(answer) => Outcome::Done(answer),
        Err(ClientError::Refused { status: StatusCode::GATEWAY_TIMEOUT, .. }) => Outcome::Lost,
        Err(error) if error.status() == Some(StatusCode::SERVICE_UNAVAILABLE) => Outcome::NotDone,
        Err(error) if error.status().is_none() && killing.load(Ordering::SeqCst) => Outcome::Lost,
        Err(error) => panic!("{error}"),
    }
}
