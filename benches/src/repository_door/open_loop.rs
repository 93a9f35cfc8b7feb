//! Requests over many connections, one thread each, in an open loop: each is due at a fixed time.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;

use crate::rig::client::{Client, Request};
use crate::rig::load::Load;

/// An open loop gives a step up when a request is later than this.
const LATE_MAX: Duration = Duration::from_secs(5);

/// The results; latencies count from the time at which a request was due.
pub struct Arrivals {
    /// The responses.
    pub load: Load,
    /// Requests that failed.
    pub errors: u64,
    /// How late the last request was sent; a growing value means a queue.
    pub last_late: Duration,
}

/// The results of one connection.
struct Part {
    latencies_us: Histogram<u64>,
    errors: u64,
    last_late: Duration,
}

/// Sends a number of requests per second for a while, over a limited number of connections.
/// `request` makes the request of a given number.
pub fn open(
    address: SocketAddr,
    connections: usize,
    rate: f64,
    duration: Duration,
    request: impl Fn(u64) -> Request + Sync,
) -> Result<Arrivals> {
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
                // All later requests would be later still.
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

fn run(connections: usize, begun: Instant, work: impl Fn(usize) -> Result<Part> + Sync) -> Result<Arrivals> {
    let parts = std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..connections).map(|connection| scope.spawn(move || work(connection))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a client panicked"))?)
            .collect::<Result<Vec<_>>>()
    })?;
    let load = Load { answers: 0, seconds: begun.elapsed().as_secs_f64(), latencies_us: Histogram::new(3)? };
    let mut arrivals = Arrivals { load, errors: 0, last_late: Duration::ZERO };
    for part in parts {
        arrivals.load.latencies_us.add(&part.latencies_us)?;
        arrivals.errors += part.errors;
        arrivals.last_late = arrivals.last_late.max(part.last_late);
    }
    arrivals.load.answers = arrivals.load.latencies_us.len().saturating_sub(arrivals.errors);
    Ok(arrivals)
}
