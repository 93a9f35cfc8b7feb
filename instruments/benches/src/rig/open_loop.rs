//! Requests in an open loop, each due at a fixed time, by the testbed's generator.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use testbed::inputs::{Files, Inputs};
use testbed::plan::Plan;
use testbed::reach::Reach;
use testbed::results::{ErrorTally, Second, Times};
use testbed::tally::LATE_US;
use testbed::worker::here;

use super::client::Request;
use super::figures::{Figures, Goal};
use super::load::Load;

/// An answer later than this is late in [`Arrivals::seconds`].
pub const LATE: Duration = Duration::from_millis(10);

/// How long a user waits for an answer, if nothing else is said.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A run says nothing about the server if the generator took up a request later than this, in
/// milliseconds.
const LATENESS_MAX_MS: f64 = LATE_US as f64 / 1e3;

/// How many users arrive, and when.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Users per second. Each sends its requests one after the other.
    pub rate: f64,
    /// How long users arrive.
    pub duration: Duration,
    /// The greatest number of users at once, each on a connection. One that is due beyond them has
    /// failed.
    pub at_once: usize,
}

/// The results by kind of user; latencies count from the time at which a request was due.
pub struct Arrivals<const KINDS: usize> {
    /// The responses to the requests of each kind, also those that came after the last user had
    /// arrived.
    pub loads: [Load; KINDS],
    /// The requests of each kind that failed or were never sent.
    pub failed: [u64; KINDS],
    /// Those of all kinds.
    pub errors: u64,
    /// Responses per second while users arrived. What came later does not count: a server that is
    /// offered too much would seem to answer it all.
    pub done_per_s: f64,
    /// The requests in each second from the time on at which the first one was due.
    pub seconds: Vec<Second>,
    /// From the time when a request was due until the generator took it up.
    pub lateness: Times,
    /// What went wrong, by kind.
    failures: Vec<ErrorTally>,
}

impl<const KINDS: usize> Arrivals<KINDS> {
    /// The share (0 to 1) of the requests of a kind that were answered later than a time in
    /// milliseconds, or not at all.
    pub fn late_share(&self, kind: usize, ms: f64) -> f64 {
        let (load, failed) = (&self.loads[kind], self.failed[kind]);
        let late = load.share_above_ms(ms) * load.answers as f64 + failed as f64;
        late / (load.answers + failed).max(1) as f64
    }

    /// The requests that failed in one of some ways, such as `time-out` or `error DEADLINE`.
    pub fn failed_by(&self, kinds: &[&str]) -> u64 {
        self.failures.iter().filter(|failure| kinds.contains(&failure.kind.as_str())).map(|failure| failure.count).sum()
    }

    /// Reports how late the generator was, in figures that are named by `what`. Where the longest
    /// misses its target, the other figures of the run are void.
    pub fn report_lateness(&self, figures: &mut Figures, what: impl Fn(&str) -> String) {
        figures.report(what("generator late, p99"), "ms", self.lateness.p99_ms);
        figures.hold(what("generator late, longest"), "ms", Goal::AtMost(LATENESS_MAX_MS), self.lateness.max_ms);
    }
}

/// The number of runs so far. It is the seed of the next one, so that each run draws other values
/// and none finds in a cache what an earlier one left there.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Lets users send these requests over HTTP. Paths, header fields and bodies may name values:
/// `${user}` is the number of the user, and no other run of this process has the same `${seed}`.
pub fn open(address: SocketAddr, pace: Pace, requests: &[Request]) -> Result<Arrivals<1>> {
    let step = |(number, request): (usize, &Request)| request.step(&number.to_string());
    let steps: String = requests.iter().enumerate().map(step).collect();
    open_mix(&format!("http://{address}"), pace, PATIENCE, [(1.0, steps)])
}

/// Lets users of several kinds arrive: each kind has its share of them, which may be 0, and a
/// scenario of the testbed. A request without an answer within `timeout` has failed.
pub fn open_mix<const KINDS: usize>(
    url: &str,
    pace: Pace,
    timeout: Duration,
    kinds: [(f64, String); KINDS],
) -> Result<Arrivals<KINDS>> {
    let kinds = kinds.into_iter().enumerate().filter(|(_, (share, _))| *share > 0.0);
    let kinds: Vec<_> = kinds.map(|(kind, (share, scenario))| (kind.to_string(), share, scenario)).collect();
    let shares = kinds.iter().map(|(name, share, _)| format!("{{ scenario = \"{name}\", share = {share} }}"));
    let inputs = Inputs {
        plan: plan(pace, timeout, &shares.collect::<Vec<_>>().join(", "))?,
        scenarios: kinds.into_iter().map(|(name, _, scenario)| (name, scenario)).collect(),
        fill: None,
        files: Files::default(),
        folder: PathBuf::new(),
        log: None,
    };
    let (measured, _) = here::measure(&inputs, &Reach::at(url))?;
    let (mut failed, empty) = ([0_u64; KINDS], Histogram::<u64>::new(3)?);
    let mut loads: [Load; KINDS] =
        std::array::from_fn(|_| Load { answers: 0, seconds: pace.duration.as_secs_f64(), latencies_us: empty.clone() });
    let summary = measured.summary;
    for (of, response_us) in summary.steps.iter().zip(&measured.step_response_us) {
        let kind = of.scenario.parse::<usize>()?;
        failed[kind] += of.tally.due - of.tally.done;
        loads[kind].latencies_us.add(response_us)?;
        loads[kind].answers += response_us.len();
    }
    Ok(Arrivals {
        loads,
        failed,
        errors: failed.iter().sum(),
        done_per_s: summary.done_per_s,
        seconds: measured.seconds,
        lateness: summary.all.lateness,
        failures: summary.errors,
    })
}

/// The plan of a run. Connections stay open, and users share them.
fn plan(Pace { rate, duration, at_once }: Pace, timeout: Duration, shares: &str) -> Result<Plan> {
    let (seed, us, late_ms) = (RUNS.fetch_add(1, Ordering::Relaxed), duration.as_micros(), LATE.as_millis());
    let timeout_us = timeout.as_micros();
    Ok(Plan::parse(&format!(
        "name = \"benchmark\"\nworkers = 1\nseed = {seed}\nscenarios = [{shares}]\n\
         load = {{ shape = \"constant\", rate = {rate}, duration = \"{us}us\" }}\n\
         connections = {{ keep = \"worker\", users_max = {at_once}, timeout = \"{timeout_us}us\" }}\n\
         objectives = [\"late share at {late_ms}ms < 1%\"]\n"
    ))?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A server that answers each command after a while: with an error if its name is `NO`.
    fn server(after: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || {
                    let mut buffer = [0; 1_000];
                    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                        let is_refused = buffer[..bytes].windows(4).any(|words| words == b"NO\r\n");
                        let answer = if is_refused { "-ERR\r\n" } else { "+OK\r\n" };
                        std::thread::sleep(after);
                        stream.write_all(answer.as_bytes()).unwrap();
                    }
                });
            }
        });
        address
    }

    fn command(name: &str) -> String {
        format!("[[steps]]\nname = \"{name}\"\ncommand = [\"{name}\"]\n")
    }

    #[test]
    fn each_kind_has_its_answers_and_what_fails_is_counted() {
        let pace = Pace { rate: 1_000.0, duration: Duration::from_millis(50), at_once: 1_000 };
        let kinds = [(0.0, command("NEVER")), (1.0, command("PING")), (1.0, command("NO"))];
        let url = format!("redis://{}", server(Duration::ZERO));
        let arrivals = open_mix(&url, pace, PATIENCE, kinds).unwrap();
        let [never, done, refused] = arrivals.loads.each_ref().map(|load| load.answers);
        assert_eq!((never, refused, done + arrivals.errors), (0, 0, 50));
        assert!(done > 0 && arrivals.errors > 0, "{done} of 50 were done");
        assert_eq!((arrivals.failed, arrivals.failed_by(&["error ERR"])), ([0, 0, arrivals.errors], arrivals.errors));
        assert_eq!(arrivals.lateness.count, 50);
        // Of the kind that is refused all are late, whatever the bound.
        let hour_ms = 3.6e6;
        assert_eq!([0, 1, 2].map(|kind| arrivals.late_share(kind, hour_ms)), [0.0, 0.0, 1.0]);
        let ended = |of: fn(&Second) -> u64| arrivals.seconds.iter().map(of).sum::<u64>();
        assert_eq!((ended(|second| second.done), ended(|second| second.failed)), (done, arrivals.errors));
        assert_eq!(arrivals.loads[1].latencies_us.len(), done);
    }

    #[test]
    fn what_is_answered_after_the_last_user_has_arrived_is_no_part_of_the_rate() {
        let pace = Pace { rate: 1_000.0, duration: Duration::from_millis(20), at_once: 1_000 };
        let url = format!("redis://{}", server(Duration::from_millis(50)));
        let arrivals = open_mix(&url, pace, PATIENCE, [(1.0, command("PING"))]).unwrap();
        assert_eq!((arrivals.loads[0].answers, arrivals.done_per_s), (20, 0.0));
        assert_eq!(arrivals.late_share(0, 10.0), 1.0, "each took 50 ms or more");
    }

    #[test]
    fn a_user_waits_for_an_answer_no_longer_than_its_time_out() {
        // Connections wait there to be accepted.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pace = Pace { rate: 1_000.0, duration: Duration::from_millis(20), at_once: 1_000 };
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let arrivals = open_mix(&url, pace, Duration::from_millis(20), [(1.0, command("PING"))]).unwrap();
        assert_eq!((arrivals.errors, arrivals.failed_by(&["time-out"])), (20, 20));
    }

    #[test]
    fn what_is_due_is_an_error_even_if_no_connection_takes_it() {
        // Nobody listens there any more.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let pace = Pace { rate: 1_000.0, duration: Duration::from_millis(20), at_once: 1_000 };
        let arrivals = open(address, pace, &[Request::get("/"), Request::get("/")]).unwrap();
        assert_eq!((arrivals.loads[0].answers, arrivals.errors), (0, 20), "a user that fails sends nothing more");
    }
}
