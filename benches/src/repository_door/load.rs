//! Requests over many connections, one thread each: in a closed loop, each sent when its connection has its answer; or in an open loop,
//! each due at its time whatever happens.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;

use crate::rig::client::{Client, Request};

/// Why an open loop gives a step up: its last request is so late.
const LATE_MAX: Duration = Duration::from_secs(5);

/// What came out.
pub struct Load {
    /// Answers.
    pub answers: u64,
    /// Requests that failed.
    pub errors: u64,
    /// In how many seconds.
    pub seconds: f64,
    /// How long each took, in microseconds; in an open loop from the time at which it was due.
    pub latencies_us: Histogram<u64>,
    /// How late the last request was sent: what grows is a queue.
    pub last_late: Duration,
}

impl Load {
    /// Answers a second.
    pub fn rate(&self) -> f64 {
        self.answers as f64 / self.seconds
    }

    /// Milliseconds that so much of all answers took at most (0 to 1).
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        self.latencies_us.value_at_quantile(quantile) as f64 / 1e3
    }
}

/// What one connection did.
struct Part {
    latencies_us: Histogram<u64>,
    errors: u64,
    last_late: Duration,
}

/// Sends requests for a while over so many connections. `requests` makes the next of the connection of this number; an error ends it.
pub fn closed<F>(
    address: SocketAddr,
    connections: usize,
    duration: Duration,
    requests: impl Fn(usize) -> F + Sync,
) -> Result<Load>
where
    F: FnMut() -> Request,
{
    let begun = Instant::now();
    let work = |connection: usize| -> Result<Part> {
        let mut client = Client::connect(address)?;
        let mut next = requests(connection);
        let mut latencies_us = Histogram::new(3)?;
        while begun.elapsed() < duration {
            let request = next();
            let sent = Instant::now();
            client.fetch(&request)?;
            latencies_us.record(sent.elapsed().as_micros() as u64)?;
        }
        Ok(Part { latencies_us, errors: 0, last_late: Duration::ZERO })
    };
    run(connections, begun, work)
}

/// Sends so many requests a second for a while, over at most so many connections. `request` makes the one of this number.
pub fn open(
    address: SocketAddr,
    connections: usize,
    rate: f64,
    duration: Duration,
    request: impl Fn(u64) -> Request + Sync,
) -> Result<Load> {
    let begun = Instant::now();
    let due = AtomicU64::new(0);
    let count = (rate * duration.as_secs_f64()) as u64;
    let work = |_| -> Result<Part> {
        let mut client: Option<Client<TcpStream>> = None;
        let mut part = Part { latencies_us: Histogram::new(3)?, errors: 0, last_late: Duration::ZERO };
        loop {
            let number = due.fetch_add(1, Ordering::Relaxed);
            let at = begun + Duration::from_secs_f64(number as f64 / rate);
            if number >= count {
                return Ok(part);
            }
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            part.last_late = at.elapsed();
            if part.last_late > LATE_MAX {
                // All that are still due would be later still.
                part.errors += 1;
                return Ok(part);
            }
            let sent = client.take().map_or_else(|| Client::connect(address), Ok).and_then(|mut client| {
                client.fetch(&request(number))?;
                Ok(client)
            });
            match sent {
                Ok(answered) => client = Some(answered),
                Err(_) => part.errors += 1,
            }
            part.latencies_us.record(at.elapsed().as_micros() as u64)?;
        }
    };
    run(connections, begun, work)
}

fn run(connections: usize, begun: Instant, work: impl Fn(usize) -> Result<Part> + Sync) -> Result<Load> {
    let parts = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..connections).map(|connection| scope.spawn(move || work(connection))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a client panicked"))?)
            .collect::<Result<Vec<_>>>()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let mut load = Load { answers: 0, errors: 0, seconds, latencies_us: Histogram::new(3)?, last_late: Duration::ZERO };
    for part in parts {
        load.latencies_us.add(&part.latencies_us)?;
        load.errors += part.errors;
        load.last_late = load.last_late.max(part.last_late);
    }
    load.answers = load.latencies_us.len().saturating_sub(load.errors);
    Ok(load)
}
