//! What one user does: the steps of a scenario, one after the other.

use std::rc::Rc;
use std::time::{Duration, Instant};

use http::StatusCode;
use tokio::time::{sleep_until, timeout_at};

use super::connection::{Connection, Connector, Received};
use super::failure::Failure;
use super::log::Log;
use crate::event::{Event, Outcome};
use crate::scenario::{Answer, Scenario, Step, UserValues};

/// What all users of a worker share.
pub struct Shared {
    /// The scenarios of the plan.
    pub scenarios: Vec<Scenario>,
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
}

impl User {
    /// A user of a scenario of the plan.
    pub fn new(shared: Rc<Shared>, number: u64, scenario: usize) -> Self {
        Self { shared, number, scenario, connection: None }
    }

    /// Goes through the steps. The first is due at `due`, each later one when the one before has
    /// ended and the pause is over. A failure ends it: what follows would mean nothing.
    pub async fn run(&mut self, round: u64, due: Instant) {
        let shared = self.shared.clone();
        let scenario = &shared.scenarios[self.scenario];
        let mut values = scenario.draw(self.number, round, shared.seed);
        let mut due = due;
        for (index, step) in scenario.steps.iter().enumerate() {
            for _ in 0..step.repeat {
                if !step.pause.is_zero() {
                    due += step.pause;
                    sleep_until(due.into()).await;
                }
                let begun = Instant::now();
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
                let exchange = self.exchange(step, &mut values, &mut event);
                let ended = match timeout_at((begun + shared.timeout).into(), exchange).await {
                    Ok(Ok(outcome)) => outcome,
                    Ok(Err(failure)) => failure.outcome(),
                    Err(_) => Outcome::TimeOut,
                };
                due = Instant::now();
                event.done_us = shared.micros(due);
                let goes_on = ended == Outcome::Done;
                event.outcome = ended;
                shared.log.add(event);
                if !goes_on {
                    return;
                }
            }
        }
    }

    /// Sends the request of a step, and looks at the response.
    async fn exchange(&mut self, step: &Step, values: &mut UserValues, event: &mut Event) -> Result<Outcome, Failure> {
        let shared = self.shared.clone();
        let outgoing = values.request(step);
        event.sent_bytes = outgoing.body.len() as u64;
        let request = shared.connector.request(&outgoing)?;
        let (mut connection, was_used) = shared.connector.connection(&mut self.connection).await?;
        event.sent_us = Some(shared.micros(Instant::now()));
        let response = match connection.send(request).await {
            Ok(response) => response,
            // The server has closed it while nobody used it, and has not seen the request: every
            // client sends it again.
            Err(error) if was_used && error.is_canceled() => {
                connection = shared.connector.connect().await?;
                event.sent_us = Some(shared.micros(Instant::now()));
                let again = shared.connector.request(&outgoing)?;
                connection.send(again).await.map_err(Failure::of_http)?
            }
            Err(error) => return Err(Failure::of_http(error)),
        };
        event.first_byte_us = Some(shared.micros(Instant::now()));
        event.status = Some(response.status().as_u16());
        let received = Received::whole(response, step.keeps_body).await?;
        event.received_bytes = received.body_bytes;
        shared.connector.give_back(connection, &mut self.connection);
        let answer = Answer {
            status: received.status.as_u16(),
            headers: &received.headers,
            body: &received.body,
            body_bytes: received.body_bytes,
        };
        Ok(match values.take(step, &answer) {
            Ok(()) => Outcome::Done,
            Err(_) if received.status == StatusCode::SERVICE_UNAVAILABLE => Outcome::Refused,
            Err(kind) if kind.starts_with("status ") => Outcome::Failed(kind),
            Err(kind) => Outcome::Failed(format!("check: {kind}")),
        })
    }
}
