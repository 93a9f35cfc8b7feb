//! Clients that go on all the time, the server in front of them, and how they fare.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::harness::*;

/// What must go through between one disturbance and the next, of each kind of request.
const REQUESTS_BETWEEN: usize = 5;

/// How long that may take on a busy machine.
const GOES_ON_WITHIN: Duration = Duration::from_secs(300);

/// Clients that have a request under way at the same time; each waits for its turn, so that all
/// kinds go on, however many there are.
const AT_ONCE: usize = 5;

/// What clients do, each kind one request, or a few, after the other.
#[derive(Clone, Copy)]
pub enum Kind {
    Import,
    Make,
    Change,
    Delete,
    DeleteVolume,
    DeleteContainer,
    PutLarge,
    ReadLarge,
    Select,
    Download,
    DownloadListed,
}

impl Kind {
    const ALL: [Kind; 11] = [
        Kind::Import,
        Kind::Make,
        Kind::Change,
        Kind::Delete,
        Kind::DeleteVolume,
        Kind::DeleteContainer,
        Kind::PutLarge,
        Kind::ReadLarge,
        Kind::Select,
        Kind::Download,
        Kind::DownloadListed,
    ];

    fn name(self) -> &'static str {
        match self {
            Kind::Import => "imports",
            Kind::Make => "resources made",
            Kind::Change => "changes of one resource",
            Kind::Delete => "resources made and deleted",
            Kind::DeleteVolume => "volumes imported and deleted",
            Kind::DeleteContainer => "containers filled and deleted, names used again",
            Kind::PutLarge => "large contents put, and read whole and in part",
            Kind::ReadLarge => "large contents read",
            Kind::Select => "selections made and read, some ended",
            Kind::Download => "archives of two volumes",
            Kind::DownloadListed => "listings, and a volume of what is listed",
        }
    }
}

/// The server in front of the cluster, and the one that replaces it.
pub struct Front {
    arguments: Vec<String>,
    server: Mutex<Option<Served>>,
    url: Mutex<String>,
    /// Odd while there is no server; it grows with each change.
    epoch: AtomicUsize,
}

impl Front {
    /// Starts a server with these arguments of `penates serve`.
    pub fn new(arguments: &[&str]) -> Self {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"].iter().chain(arguments);
        let arguments = arguments.map(|argument| (*argument).to_owned()).collect();
        let front = Self { arguments, server: Mutex::default(), url: Mutex::default(), epoch: AtomicUsize::new(1) };
        front.start();
        front
    }

    pub fn start(&self) {
        let server = Served::start(penates(&self.arguments));
        *self.url.lock().unwrap() = server.url.clone();
        *self.server.lock().unwrap() = Some(server);
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    pub fn kill(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.server.lock().unwrap().take().unwrap().kill();
    }

    pub fn url(&self) -> String {
        self.url.lock().unwrap().clone()
    }

    pub fn stop(&self) {
        assert_eq!(self.server.lock().unwrap().take().unwrap().stop("TERM").0, 0);
    }

    /// What it has said since it listened.
    pub fn said(&self) -> String {
        self.server.lock().unwrap().as_ref().map(Served::said).unwrap_or_default()
    }
}

/// How requests of one kind fared.
#[derive(Default)]
struct Tally {
    answered: AtomicUsize,
    /// Since the last disturbance.
    slowest_ms: AtomicUsize,
}

/// Clients that go on all the time, and how they fare.
pub struct Mix {
    pub front: Front,
    stop: AtomicBool,
    turns: Semaphore,
    tallies: [Tally; Kind::ALL.len()],
}

/// Ends the mix also when a part of the test fails, so that all of it does.
pub struct Ending<'a>(pub &'a Mix);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

impl Mix {
    pub fn new(front: Front) -> Self {
        Self { front, stop: AtomicBool::new(false), turns: Semaphore::new(AT_ONCE), tallies: Default::default() }
    }

    /// Makes requests until the end, each with its number and the server's address; answers what
    /// was acknowledged. One that fails while the server was there all the time fails the test;
    /// another one is made again, with the same number.
    pub fn run<T>(&self, kind: Kind, mut request: impl FnMut(usize, &str) -> Result<T, String>) -> Vec<T> {
        let _ending = Ending(self);
        let tally = &self.tallies[kind as usize];
        let mut acknowledged = Vec::new();
        loop {
            let _turn = futures::executor::block_on(self.turns.acquire()).unwrap();
            if self.stop.load(Ordering::SeqCst) {
                return acknowledged;
            }
            let (epoch, began) = (self.front.epoch.load(Ordering::SeqCst), Instant::now());
            match request(acknowledged.len(), &self.front.url()) {
                Ok(answer) => {
                    acknowledged.push(answer);
                    tally.answered.fetch_add(1, Ordering::SeqCst);
                    tally.slowest_ms.fetch_max(began.elapsed().as_millis() as usize, Ordering::SeqCst);
                }
                Err(why) => {
                    let had_a_server = epoch.is_multiple_of(2) && self.front.epoch.load(Ordering::SeqCst) == epoch;
                    let (number, took) = (acknowledged.len(), began.elapsed());
                    assert!(
                        !had_a_server,
                        "{} number {number} failed after {took:?}: {why}\nthe server said: {}",
                        kind.name(),
                        self.front.said()
                    );
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    fn answered(&self) -> [usize; Kind::ALL.len()] {
        Kind::ALL.map(|kind| self.tallies[kind as usize].answered.load(Ordering::SeqCst))
    }

    /// Waits until each kind of request has succeeded several times, and returns how long that
    /// took.
    pub fn goes_on(&self, after: &str) {
        let (began, before) = (Instant::now(), self.answered());
        let is_enough = || self.answered().iter().zip(before).all(|(now, before)| *now >= before + REQUESTS_BETWEEN);
        while !is_enough() {
            assert!(!self.stop.load(Ordering::SeqCst), "a request failed");
            assert!(
                began.elapsed() < GOES_ON_WITHIN,
                "after {after} it does not go on: {before:?}, {:?}",
                self.answered()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{after}: {REQUESTS_BETWEEN} and more of each kind within {:.1?}", began.elapsed());
        for (kind, before) in Kind::ALL.into_iter().zip(before) {
            let tally = &self.tallies[kind as usize];
            let answered = tally.answered.load(Ordering::SeqCst) - before;
            eprintln!("  {answered} {}, the slowest {} ms", kind.name(), tally.slowest_ms.swap(0, Ordering::SeqCst));
        }
    }
}
