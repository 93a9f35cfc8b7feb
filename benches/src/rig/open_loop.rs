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
use testbed::results::Second;
use testbed::worker::here;

use super::client::Request;
use super::load::Load;

/// An answer later than this is late in [`Arrivals::seconds`].
pub const LATE: Duration = Duration::from_millis(10);

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
    /// The responses to the requests of each kind.
    pub loads: [Load; KINDS],
    /// Requests that failed or were never sent.
    pub errors: u64,
    /// The requests in each second from the time on at which the first one was due.
    pub seconds: Vec<Second>,
}

/// The number of runs so far. It is the seed of the next one, so that each run draws other values
/// and none finds in a cache what an earlier one left there.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Lets users send these requests over HTTP. Paths, header fields and bodies may name values:
/// `${user}` is the number of the user, and no other run of this process has the same `${seed}`.
pub fn open(address: SocketAddr, pace: Pace, requests: &[Request]) -> Result<Arrivals<1>> {
    let step = |(number, request): (usize, &Request)| request.step(&number.to_string());
    let steps: String = requests.iter().enumerate().map(step).collect();
    open_mix(&format!("http://{address}"), pace, [(1.0, steps)])
}

/// Lets users of several kinds arrive: each kind has its share of them, which may be 0, and a
/// scenario of the testbed.
pub fn open_mix<const KINDS: usize>(url: &str, pace: Pace, kinds: [(f64, String); KINDS]) -> Result<Arrivals<KINDS>> {
    let kinds = kinds.into_iter().enumerate().filter(|(_, (share, _))| *share > 0.0);
    let kinds: Vec<_> = kinds.map(|(kind, (share, scenario))| (kind.to_string(), share, scenario)).collect();
    let shares = kinds.iter().map(|(name, share, _)| format!("{{ scenario = \"{name}\", share = {share} }}"));
    let inputs = Inputs {
        plan: plan(pace, &shares.collect::<Vec<_>>().join(", "))?,
        scenarios: kinds.into_iter().map(|(name, _, scenario)| (name, scenario)).collect(),
        fill: None,
        files: Files::default(),
        folder: PathBuf::new(),
        log: None,
    };
    let (measured, took) = here::measure(&inputs, &Reach::at(url))?;
    let all = &measured.summary.all;
    let (errors, empty) = (all.due - all.done, Histogram::<u64>::new(3)?);
    let mut loads: [Load; KINDS] =
        std::array::from_fn(|_| Load { answers: 0, seconds: took.as_secs_f64(), latencies_us: empty.clone() });
    for (of, response_us) in measured.summary.steps.iter().zip(&measured.step_response_us) {
        let load = &mut loads[of.scenario.parse::<usize>()?];
        load.latencies_us.add(response_us)?;
        load.answers += response_us.len();
    }
    Ok(Arrivals { loads, errors, seconds: measured.seconds })
}

/// The plan of a run. Connections stay open, and users share them.
fn plan(Pace { rate, duration, at_once }: Pace, shares: &str) -> Result<Plan> {
    let (seed, us, late_ms) = (RUNS.fetch_add(1, Ordering::Relaxed), duration.as_micros(), LATE.as_millis());
    Ok(Plan::parse(&format!(
        "name = \"benchmark\"\nworkers = 1\nseed = {seed}\nscenarios = [{shares}]\n\
         load = {{ shape = \"constant\", rate = {rate}, duration = \"{us}us\" }}\n\
         connections = {{ keep = \"worker\", users_max = {at_once} }}\n\
         objectives = [\"late share at {late_ms}ms < 1%\"]\n"
    ))?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A server that answers each command at once: with an error if its name is `NO`.
    fn server() -> SocketAddr {
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
        let arrivals = open_mix(&format!("redis://{}", server()), pace, kinds).unwrap();
        let [never, done, refused] = arrivals.loads.each_ref().map(|load| load.answers);
        assert_eq!((never, refused, done + arrivals.errors), (0, 0, 50));
        assert!(done > 0 && arrivals.errors > 0, "{done} of 50 were done");
        let ended = |of: fn(&Second) -> u64| arrivals.seconds.iter().map(of).sum::<u64>();
        assert_eq!((ended(|second| second.done), ended(|second| second.failed)), (done, arrivals.errors));
        assert_eq!(arrivals.loads[1].latencies_us.len(), done);
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
