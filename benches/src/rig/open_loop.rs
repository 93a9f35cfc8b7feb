//! Requests over many connections, one thread each, in an open loop: each is due at a fixed time.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;

use super::client::{Client, Request};
use super::load::Load;

/// An open loop gives a step up when a request is later than this.
const LATE_MAX: Duration = Duration::from_secs(5);

/// How many requests are due, and when.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The greatest number of connections.
    pub connections: usize,
    /// Requests per second.
    pub rate: f64,
    /// How long requests are due.
    pub duration: Duration,
}

/// The results by kind of request; latencies count from the time at which a request was due.
pub struct Arrivals<const KINDS: usize> {
    /// The responses to each kind of request.
    pub loads: [Load; KINDS],
    /// Requests that failed.
    pub errors: u64,
    /// How late the last request was sent; a growing value means a queue.
    pub last_late: Duration,
}

/// How one request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When it ended, from the time on at which the first request was due.
    pub at: Duration,
    /// The time since it was due.
    pub took: Duration,
    /// Whether it was answered as it has to be.
    pub is_done: bool,
}

/// The results of one connection.
struct Part<const KINDS: usize> {
    latencies_us: [Histogram<u64>; KINDS],
    errors: u64,
    last_late: Duration,
}

/// Sends requests by HTTP. `request` makes the request of a given number.
pub fn open(address: SocketAddr, pace: Pace, request: impl Fn(u64) -> Request + Sync) -> Result<Arrivals<1>> {
    let exchange = |client: &mut Client<TcpStream>, number| client.fetch(&request(number)).map(drop);
    open_by(pace, || Client::connect(address), |_| 0, exchange)
}

/// Sends requests by any protocol. `kind` is the kind of a request, and `exchange` sends it and
/// reads the response. A connection on which a request failed is replaced.
pub fn open_by<C, const KINDS: usize>(
    pace: Pace,
    connect: impl Fn() -> Result<C> + Sync,
    kind: impl Fn(u64) -> usize + Sync,
    exchange: impl Fn(&mut C, u64) -> Result<()> + Sync,
) -> Result<Arrivals<KINDS>> {
    open_watched(pace, connect, kind, exchange, |_| ())
}

/// The same. `watch` gets every request when it has ended, on the thread of its connection.
pub fn open_watched<C, const KINDS: usize>(
    pace: Pace,
    connect: impl Fn() -> Result<C> + Sync,
    kind: impl Fn(u64) -> usize + Sync,
    exchange: impl Fn(&mut C, u64) -> Result<()> + Sync,
    watch: impl Fn(Ended) + Sync,
) -> Result<Arrivals<KINDS>> {
    let begun = Instant::now();
    let ended = |due: Instant, is_done| {
        let took = due.elapsed();
        watch(Ended { at: due.saturating_duration_since(begun) + took, took, is_done });
        took
    };
    let due = AtomicU64::new(0);
    let count = (pace.rate * pace.duration.as_secs_f64()) as u64;
    let work = || -> Result<Part<KINDS>> {
        let mut client: Option<C> = None;
        let mut part = Part { latencies_us: histograms()?, errors: 0, last_late: Duration::ZERO };
        loop {
            let number = due.fetch_add(1, Ordering::Relaxed);
            let at = begun + Duration::from_secs_f64(number as f64 / pace.rate);
            if number >= count {
                return Ok(part);
            }
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            part.last_late = at.elapsed();
            if part.last_late > LATE_MAX {
                // All later requests would be later still.
                part.errors += 1;
                ended(at, false);
                return Ok(part);
            }
            let sent = client.take().map_or_else(&connect, Ok).and_then(|mut client| {
                exchange(&mut client, number)?;
                Ok(client)
            });
            match sent {
                Ok(answered) => {
                    client = Some(answered);
                    part.latencies_us[kind(number)].record(ended(at, true).as_micros() as u64)?;
                }
                Err(_) => {
                    ended(at, false);
                    part.errors += 1;
                }
            }
        }
    };
    let parts = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..pace.connections).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a client panicked"))?)
            .collect::<Result<Vec<_>>>()
    })?;
    let (mut latencies_us, mut errors, mut last_late) = (histograms()?, 0, Duration::ZERO);
    for part in &parts {
        latencies_us.iter_mut().zip(&part.latencies_us).try_for_each(|(sum, part)| sum.add(part))?;
        errors += part.errors;
        last_late = last_late.max(part.last_late);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let loads = latencies_us.map(|latencies_us| Load { answers: latencies_us.len(), seconds, latencies_us });
    Ok(Arrivals { loads, errors, last_late })
}

fn histograms<const KINDS: usize>() -> Result<[Histogram<u64>; KINDS]> {
    let empty = Histogram::new(3)?;
    Ok(std::array::from_fn(|_| empty.clone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Mutex;

    use anyhow::bail;

    use super::*;

    #[test]
    fn a_watcher_gets_each_request_once_with_what_became_of_it() {
        let seen = Mutex::new(Vec::new());
        let pace = Pace { connections: 2, rate: 1_000.0, duration: Duration::from_millis(20) };
        let exchange = |_: &mut (), number: u64| if number < 5 { bail!("the first five fail") } else { Ok(()) };
        let watch = |ended: Ended| seen.lock().unwrap().push(ended);
        let arrivals: Arrivals<1> = open_watched(pace, || Ok(()), |_| 0, exchange, watch).unwrap();
        let seen = seen.into_inner().unwrap();
        let done = seen.iter().filter(|ended| ended.is_done).count() as u64;
        assert_eq!((seen.len(), done, arrivals.errors), (20, 15, 5));
        assert_eq!(arrivals.loads[0].answers, 15);
        assert!(seen.iter().all(|ended| ended.at >= ended.took), "none is due before the first: {seen:?}");
    }
}
