//! What one user does: the steps of a scenario, one after the other.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::time::{sleep, sleep_until, timeout, timeout_at};

use super::connection::{Connection, Connector, Reached};
use super::failure::Failure;
use super::log::Log;
use crate::event::{Event, Outcome};
use crate::graph::Comparison;
use crate::link::Lack;
use crate::replay::Entry;
use crate::scenario::{Answer, Scenario, UserValues};

/// Timers of tokio count milliseconds and are late by one at most: that is no wait of a request.
const TIMER_GRAIN: Duration = Duration::from_millis(2);

/// The pause before a request is sent again because its check failed.
const AGAIN_AFTER: Duration = Duration::from_millis(1);

/// Bodies of this size and more are checked on another thread: a digest of them takes a tenth of a
/// millisecond or more.
const LARGE_BYTES: usize = 128 << 10;

/// What all users of a worker share.
pub struct Shared {
    /// The scenarios of the plan.
    pub scenarios: Arc<Vec<Scenario>>,
    /// The connections.
    pub connector: Rc<Connector>,
    /// Where events go.
    pub log: Log,
    /// How long a request may take.
    pub timeout: Duration,
    /// The start instant: the end of the warm-up.
    pub start: Instant,
    /// The seed.
    pub seed: u64,
    /// How many users there are in all, in a closed loop.
    pub users: u64,
    /// The scheme and the host of the candidate.
    pub origin: String,
    /// What a longer link to the candidate lacks, if there is one.
    pub link: Option<Lack>,
    /// Places for comparisons of graphs.
    pub comparisons: Arc<Semaphore>,
}

impl Shared {
    /// An instant in microseconds since the start instant.
    pub fn micros(&self, at: Instant) -> i64 {
        let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        match at.checked_duration_since(self.start) {
            Some(after) => micros(after),
            None => -micros(self.start.duration_since(at)),
        }
    }
}

/// A user.
pub struct User {
    shared: Rc<Shared>,
    number: u64,
    scenario: usize,
    connection: Option<Connection>,
    /// The request of an access log that it sends.
    entry: Option<Entry>,
    /// The path of the request before: relative references begin there.
    base: String,
}

impl User {
    /// A user of a scenario of the plan.
    pub fn new(shared: Rc<Shared>, number: u64, scenario: usize, entry: Option<Entry>) -> Self {
        Self { shared, number, scenario, connection: None, entry, base: "/".to_owned() }
    }

    /// Goes through the steps. The first is due at `due`, each later one when the answer to the one before
    /// was checked and the pause is over. A failure or a conflict ends it: what follows would mean nothing.
    pub async fn run(&mut self, round: u64, due: Instant) {
        let shared = self.shared.clone();
        let scenario = &shared.scenarios[self.scenario];
        let mut values = scenario.draw_with(self.number, round, shared.seed, shared.users, self.entry.as_ref());
        let mut due = due;
        for (index, step) in scenario.steps.iter().enumerate() {
            for _ in 0..step.repeat {
                if !step.pause.is_zero() {
                    due += step.pause;
                    sleep_until(due.into()).await;
                }
                let begun = Instant::now();
                if !step.pause.is_zero() && begun - due < TIMER_GRAIN {
                    due = begun;
                }
                let mut event = Event {
                    user: self.number,
                    scenario: self.scenario,
                    step: index,
                    due_us: shared.micros(due),
                    begun_us: shared.micros(begun),
                    sent_us: None,
                    first_byte_us: None,
                    done_us: 0,
                    outcome: Outcome::Done,
                    status: None,
                    sent_bytes: 0,
                    received_bytes: 0,
                };
                loop {
                    let exchange = self.exchange(index, &values, &mut event);
                    let answered = timeout_at((begun + shared.timeout).into(), exchange).await;
                    event.done_us = shared.micros(Instant::now());
                    // A check is the generator's own work: it takes no time of the request, and what follows is
                    // not due meanwhile.
                    event.outcome = match answered {
                        Ok(Ok(answer)) => self.check(index, &mut values, answer).await,
                        Ok(Err(failure)) => failure.outcome(),
                        Err(_) => Outcome::TimeOut,
                    };
                    let is_wrong = matches!(event.outcome, Outcome::Failed(_));
                    if !is_wrong || step.again_within.is_none_or(|within| begun.elapsed() >= within) {
                        break;
                    }
                    sleep(AGAIN_AFTER).await;
                }
                // To this request the link looks like the candidate.
                if let Some(what) = shared.link.as_ref().and_then(Lack::take) {
                    event.outcome = Failure::of_generator(what).outcome();
                }
                due = Instant::now();
                let goes_on = event.outcome == Outcome::Done;
                shared.log.add(event);
                if !goes_on {
                    return;
                }
            }
        }
    }

    /// Sends the request of a step, and receives the answer.
    async fn exchange(&mut self, index: usize, values: &UserValues, event: &mut Event) -> Result<Answer, Failure> {
        let shared = self.shared.clone();
        let step = &shared.scenarios[self.scenario].steps[index];
        let outgoing = values.request(step);
        event.sent_bytes = outgoing.bytes();
        let request = shared.connector.request(&outgoing, &self.base)?;
        let (mut connection, was_used) = shared.connector.connection(&mut self.connection).await?;
        let mut on = |reached| {
            let now_us = Some(shared.micros(Instant::now()));
            match reached {
                Reached::Sent => event.sent_us = now_us,
                Reached::Head(status) => (event.first_byte_us, event.status) = (now_us, status),
            }
        };
        let answer = match connection.exchange(request, step.keeps_body, &mut on).await {
            // Every client sends such a request again.
            Err(Failure::Unseen) if was_used => {
                connection = shared.connector.another().await?;
                let again = shared.connector.request(&outgoing, &self.base)?;
                connection.exchange(again, step.keeps_body, &mut on).await?
            }
            answer => answer?,
        };
        event.received_bytes = answer.body_bytes;
        if let Some(path) = shared.connector.path(&outgoing, &self.base) {
            self.base = path;
        }
        shared.connector.give_back(connection, &mut self.connection);
        Ok(answer)
    }

    /// Checks an answer, and keeps what later steps need of it.
    async fn check(&self, index: usize, values: &mut UserValues, answer: Answer) -> Outcome {
        let step = &self.shared.scenarios[self.scenario].steps[index];
        if step.met_conflict(&answer) {
            return Outcome::Conflict;
        }
        let (answer, taken) = match answer.body.len() >= LARGE_BYTES {
            true => match self.take_elsewhere(index, values, answer).await {
                Ok(looked) => looked,
                Err(failure) => return failure.outcome(),
            },
            false => {
                let taken = values.take(step, &answer);
                (answer, taken)
            }
        };
        match taken {
            Ok(()) => {
                let base = || format!("{}{}", self.shared.origin, self.base);
                match values.comparison(step, &answer, base) {
                    Some(comparison) => compared(comparison, &self.shared).await,
                    None => Outcome::Done,
                }
            }
            Err(_) if answer.is_refusal() => Outcome::Refused,
            Err(kind) => Outcome::Failed(kind),
        }
    }

    /// Looks at an answer on another thread, so that other users are not late meanwhile. Gives it
    /// back.
    async fn take_elsewhere(
        &self,
        index: usize,
        values: &mut UserValues,
        answer: Answer,
    ) -> Result<(Answer, Result<(), String>), Failure> {
        let (scenarios, scenario) = (self.shared.scenarios.clone(), self.scenario);
        let mut moved = std::mem::take(values);
        let look = move || {
            let taken = moved.take(&scenarios[scenario].steps[index], &answer);
            (moved, answer, taken)
        };
        let looked = tokio::task::spawn_blocking(look).await;
        let (moved, answer, taken) = looked.map_err(|_| Failure::Other("a check that broke off".to_owned()))?;
        *values = moved;
        Ok((answer, taken))
    }
}

/// Compares graphs on another thread. How long that takes is bounded, and so is the wait for a place.
/// A comparison keeps its place until it has ended, also when nobody waits for it any more.
async fn compared(comparison: Comparison, shared: &Shared) -> Outcome {
    let comparing = async {
        let place = shared.comparisons.clone().acquire_owned().await;
        let place = place.map_err(|_| "check: isomorphic_to: no place")?;
        let compare = move || {
            let _place = place;
            comparison.compare()
        };
        tokio::task::spawn_blocking(compare).await.unwrap_or(Err("check: isomorphic_to: no place"))
    };
    match timeout(shared.timeout, comparing).await {
        Ok(Ok(())) => Outcome::Done,
        Ok(Err(kind)) => Outcome::Failed(kind.to_owned()),
        Err(_) => Outcome::Failed("check: isomorphic_to: too many at once".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs::File;

    use rustix::io::Errno;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::super::target::Target;
    use super::*;
    use crate::event::EventReader;
    use crate::inputs::Files;
    use crate::plan::Connections;
    use crate::scenario::ScenarioSpec;

    /// A user of a server that answers one request with four bytes. They are not what the step wants.
    async fn user(folder: &std::path::Path, link: Option<Lack>) -> User {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut request).await.unwrap();
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhere").await.unwrap();
        });
        let step = "[[steps]]\nname = \"get\"\npath = \"/\"\ncheck = { contains = \"there\" }\n";
        let scenario = Scenario::new(ScenarioSpec::parse("get", step).unwrap(), &Files::default()).unwrap();
        let target = Target::of_url(&origin).unwrap();
        let shared = Shared {
            log: Log::create(&folder.join("events.csv.gz"), vec![scenario.names()]).unwrap(),
            scenarios: Arc::new(vec![scenario]),
            connector: Connector::new(target, None, Vec::new(), Connections::default()),
            timeout: Connections::default().timeout,
            start: Instant::now(),
            seed: 1,
            users: 0,
            origin,
            link,
            comparisons: Arc::new(Semaphore::new(1)),
        };
        User::new(Rc::new(shared), 0, 0, None)
    }

    #[tokio::test]
    async fn a_request_has_ended_when_its_answer_is_there_and_before_that_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let ending = async {
            let mut user = user(folder.path(), None).await;
            let mut values = user.shared.scenarios[0].draw(0, 0, 1, 0);
            let mut event = Event {
                user: 0,
                scenario: 0,
                step: 0,
                due_us: 0,
                begun_us: 0,
                sent_us: None,
                first_byte_us: None,
                done_us: 0,
                outcome: Outcome::Done,
                status: None,
                sent_bytes: 0,
                received_bytes: 0,
            };
            // Only this may take as long as the time-out.
            let answer = user.exchange(0, &values, &mut event).await.unwrap();
            assert_eq!((event.status, event.received_bytes), (Some(200), 4));
            let outcome = user.check(0, &mut values, answer).await;
            assert_eq!(outcome, Outcome::Failed("check: contains".to_owned()));
        };
        LocalSet::new().run_until(ending).await;
    }

    #[tokio::test]
    async fn what_the_link_lacked_is_a_failure_of_the_generator() {
        let folder = tempfile::tempdir().unwrap();
        let ending = async {
            let lack = Lack::default();
            let mut user = user(folder.path(), Some(lack.clone())).await;
            lack.note(&Errno::ADDRNOTAVAIL.into());
            user.run(0, Instant::now()).await;
            user.shared.log.finish().await.unwrap();
            let file = File::open(folder.path().join("events.csv.gz")).unwrap();
            let events = EventReader::new(file, vec![user.shared.scenarios[0].names()]);
            let outcomes: Vec<_> = events.map(|event| event.unwrap().outcome).collect();
            assert_eq!(outcomes, [Outcome::Failed("generator: no port is free".to_owned())]);
            assert_eq!(lack.take(), None);
        };
        LocalSet::new().run_until(ending).await;
    }
}
