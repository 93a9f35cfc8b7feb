//! What one user does: the steps of a scenario, one after the other.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::time::{sleep_until, timeout, timeout_at};

use super::connection::{Connection, Connector, Reached};
use super::failure::Failure;
use super::log::Log;
use crate::event::{Event, Outcome};
use crate::graph::Comparison;
use crate::replay::Entry;
use crate::scenario::{Answer, Scenario, UserValues};

/// Timers of tokio count milliseconds and are late by one at most: that is no wait of a request.
const TIMER_GRAIN: Duration = Duration::from_millis(2);

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
    /// Places for comparisons of graphs.
    pub comparisons: Semaphore,
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
    /// When the last answer was there.
    answered: Option<Instant>,
    /// The graph of the last answer, if it is to be compared.
    comparison: Option<Comparison>,
    /// The request of an access log that it sends.
    entry: Option<Entry>,
    /// The path of the request before: relative references begin there.
    base: String,
}

impl User {
    /// A user of a scenario of the plan.
    pub fn new(shared: Rc<Shared>, number: u64, scenario: usize, entry: Option<Entry>) -> Self {
        Self {
            shared,
            number,
            scenario,
            connection: None,
            answered: None,
            comparison: None,
            entry,
            base: "/".to_owned(),
        }
    }

    /// Goes through the steps. The first is due at `due`, each later one when the one before has
    /// ended and the pause is over. A failure ends it: what follows would mean nothing.
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
                let exchange = self.exchange(index, &mut values, &mut event);
                let ended = match timeout_at((begun + shared.timeout).into(), exchange).await {
                    Ok(Ok(outcome)) => outcome,
                    Ok(Err(failure)) => failure.outcome(),
                    Err(_) => Outcome::TimeOut,
                };
                // An answer ended when it was there, and not when it had been checked.
                due = self.answered.take().unwrap_or_else(Instant::now);
                event.done_us = shared.micros(due);
                let ended = match self.comparison.take() {
                    Some(comparison) if ended == Outcome::Done => {
                        let compared = compared(comparison, &shared).await;
                        // What follows is not due while graphs are compared: that is no wait of the candidate.
                        due = Instant::now();
                        compared
                    }
                    _ => ended,
                };
                let goes_on = ended == Outcome::Done;
                event.outcome = ended;
                shared.log.add(event);
                if !goes_on {
                    return;
                }
            }
        }
    }

    /// Sends the request of a step, and looks at the answer.
    async fn exchange(&mut self, index: usize, values: &mut UserValues, event: &mut Event) -> Result<Outcome, Failure> {
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
        self.answered = Some(Instant::now());
        event.received_bytes = answer.body_bytes;
        if let Some(path) = shared.connector.path(&outgoing, &self.base) {
            self.base = path;
        }
        drop(outgoing);
        shared.connector.give_back(connection, &mut self.connection);
        let (answer, taken) = match answer.body.len() >= LARGE_BYTES {
            true => self.take_elsewhere(index, values, answer).await?,
            false => {
                let taken = values.take(step, &answer);
                (answer, taken)
            }
        };
        Ok(match taken {
            Ok(()) => {
                self.comparison = values.comparison(step, &answer, || format!("{}{}", shared.origin, self.base));
                Outcome::Done
            }
            Err(_) if answer.is_refusal() => Outcome::Refused,
            Err(kind) => Outcome::Failed(kind),
        })
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
async fn compared(comparison: Comparison, shared: &Shared) -> Outcome {
    let comparing = async {
        let _place = shared.comparisons.acquire().await.map_err(|_| "check: isomorphic_to: no place")?;
        let compared = tokio::task::spawn_blocking(move || comparison.compare()).await;
        compared.unwrap_or(Err("check: isomorphic_to: no place"))
    };
    match timeout(shared.timeout, comparing).await {
        Ok(Ok(())) => Outcome::Done,
        Ok(Err(kind)) => Outcome::Failed(kind.to_owned()),
        Err(_) => Outcome::Failed("check: isomorphic_to: too many at once".to_owned()),
    }
}
