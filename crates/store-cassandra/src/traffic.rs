//! What is measured of the requests to the cluster: how long they take, how they fail, how many wait.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use metrics::histogram;
use scylla::client::session::Session;
use store::Measure;
use store::Measured::{Counter, Gauge, Recorded};
use store::StoreError;

use crate::failure::Failure;

/// Seconds of a try, with its wait for a place, by operation.
const DURATION: &str = "penates_cassandra_request_duration_seconds";

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
    /// A lightweight transaction.
    Transaction,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Transaction];

    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Transaction => "transaction",
        }
    }
}

/// Why a try has no answer, as monitors tell it apart.
const KINDS: [&str; 6] = ["timeout", "unavailable", "overloaded", "unsure", "refused", "tombstones"];

fn kind_of(failure: &Failure) -> usize {
    match failure {
        Failure::Late => 0,
        Failure::Refused(StoreError::Unavailable(_)) => 1,
        Failure::Refused(StoreError::Overloaded(_)) => 2,
        Failure::Unsure(_) => 3,
        Failure::Refused(_) => 4,
        // Such a range is divided, so no request fails yet.
        Failure::TooManyRemoved(_) => 5,
    }
}

/// Counts of one operation.
#[derive(Default)]
struct Counts {
    retries: AtomicU64,
    failures: [AtomicU64; KINDS.len()],
}

/// The requests of an open store.
#[derive(Default)]
pub(crate) struct Traffic {
    counts: [Counts; Operation::ALL.len()],
    waiting: AtomicUsize,
    /// Whether the last plain write was refused because a disk is full.
    is_full: AtomicBool,
}

impl Traffic {
    /// Notes a try that began at `began`.
    pub(crate) fn tried<T>(&self, operation: Operation, began: Instant, answer: &Result<T, Failure>) {
        histogram!(DURATION, "operation" => operation.name()).record(began.elapsed().as_secs_f64());
        match answer {
            Ok(_) if operation == Operation::Write => self.is_full.store(false, Ordering::Relaxed),
            Err(Failure::Refused(StoreError::Full(_))) => self.is_full.store(true, Ordering::Relaxed),
            _ => {}
        }
        if let Err(failure) = answer {
            self.counts[operation as usize].failures[kind_of(failure)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the last write was refused because a disk is full. Reads succeed meanwhile.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Notes that a request is sent once more.
    pub(crate) fn retried(&self, operation: Operation) {
        self.counts[operation as usize].retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request as waiting until the result is dropped.
    pub(crate) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(&self.waiting)
    }

    /// All of it, while `at_work` requests are being answered.
    pub(crate) fn measures(&self, at_work: usize, session: &Session) -> Vec<Measure> {
        let gauge = |family, help, value: u64| Measure::new(family, help, Gauge(value as f64));
        let mut measures = vec![
            gauge("penates_cassandra_requests_at_work", "Requests that nodes are answering", at_work as u64),
            gauge(
                "penates_cassandra_requests_waiting",
                "Requests that wait because cassandra.requests_max are at work",
                self.waiting.load(Ordering::Relaxed) as u64,
            ),
        ];
        for operation in Operation::ALL {
            let counts = &self.counts[operation as usize];
            let of = |measure: Measure| measure.of("operation", operation.name());
            measures.push(of(Measure::new(
                DURATION,
                "Seconds of each try of a request, with its wait for a place",
                Recorded,
            )));
            let retries = Counter(counts.retries.load(Ordering::Relaxed));
            let help = "Requests that were sent once more after a failure that may pass";
            measures.push(of(Measure::new("penates_cassandra_retries_total", help, retries)));
            for (kind, failures) in KINDS.iter().zip(&counts.failures) {
                let failures = Counter(failures.load(Ordering::Relaxed));
                let failed =
                    Measure::new("penates_cassandra_failures_total", "Tries without an answer, by kind", failures);
                measures.push(of(failed).of("kind", *kind));
            }
        }
        measures.extend(of_driver(session));
        measures
    }
}

/// What the driver knows of its connections and of the nodes.
fn of_driver(session: &Session) -> Vec<Measure> {
    let (driver, cluster) = (session.get_metrics(), session.get_cluster_state());
    let nodes = cluster.get_nodes_info();
    let connected = nodes.iter().filter(|node| node.is_connected()).count();
    let nodes = [("connected", connected), ("not-connected", nodes.len() - connected)].map(|(state, count)| {
        let help = "Nodes of the cluster, by whether the driver has a connection to them";
        Measure::new("penates_cassandra_nodes", help, Gauge(count as f64)).of("state", state)
    });
    let connections = Gauge(driver.get_total_connections() as f64);
    let counter = |family, help, value| Measure::new(family, help, Counter(value));
    let of_driver = [
        Measure::new("penates_cassandra_connections", "Connections of the driver's pool to nodes", connections),
        counter(
            "penates_cassandra_connection_timeouts_total",
            "Connections that the driver could not open in time",
            driver.get_connection_timeouts(),
        ),
        counter(
            "penates_cassandra_driver_retries_total",
            "Requests that the driver itself sent once more",
            driver.get_retries_num(),
        ),
    ];
    nodes.into_iter().chain(of_driver).collect()
}

/// A request that waits.
pub(crate) struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_failure_is_counted_apart() {
        let unavailable = || Failure::Refused(StoreError::Unavailable(String::new()));
        let overloaded = Failure::Refused(StoreError::Overloaded(String::new()));
        let full = Failure::Refused(StoreError::Full(String::new()));
        let too_many = Failure::TooManyRemoved(String::new());
        let failures = [Failure::Late, unavailable(), overloaded, Failure::Unsure(String::new()), full, too_many];
        assert_eq!(failures.each_ref().map(kind_of), [0, 1, 2, 3, 4, 5]);

        let traffic = Traffic::default();
        traffic.tried::<()>(Operation::Write, Instant::now(), &Err(unavailable()));
        traffic.tried(Operation::Write, Instant::now(), &Ok(()));
        let failed = |operation: Operation| traffic.counts[operation as usize].failures[1].load(Ordering::Relaxed);
        assert_eq!(Operation::ALL.map(failed), [0, 1, 0]);
        assert!(!traffic.is_full());
        traffic.tried::<()>(Operation::Write, Instant::now(), &Err(Failure::Refused(StoreError::Full(String::new()))));
        traffic.tried(Operation::Read, Instant::now(), &Ok(()));
        assert!(traffic.is_full(), "reads say nothing of writes");
        traffic.tried(Operation::Write, Instant::now(), &Ok(()));
        assert!(!traffic.is_full());
    }

    #[test]
    fn a_request_waits_until_it_has_a_place() {
        let traffic = Traffic::default();
        let waiting = traffic.wait();
        assert_eq!(traffic.waiting.load(Ordering::Relaxed), 1);
        drop(waiting);
        assert_eq!(traffic.waiting.load(Ordering::Relaxed), 0);
    }
}
