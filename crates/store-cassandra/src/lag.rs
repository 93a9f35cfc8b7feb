//! Measures how far this data center is behind the others.
//!
//! If a keyspace has copies in several data centers, each store writes the time of its clock
//! regularly into one row of its data center, and reads the rows of the others from nearby
//! replicas. Writes made there before the newest time that is visible here are visible here too, as
//! far as one row can show. So the age of that time is reported.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use scylla::statement::Consistency;
use store::{Deadline, UnixMillis};
use tokio::time::MissedTickBehavior;

use crate::engine::Engine;
use crate::requests::Parameter;

/// How often a time is written, and the others are read.
const BEAT: Duration = Duration::from_secs(1);

/// The time limit for either, including retries; the next ones follow soon.
const PATIENCE: Duration = Duration::from_secs(3);

/// A quorum of nearby replicas, so that a replica that was down does not report old times.
const LEVEL: Consistency = Consistency::LocalQuorum;

/// What is known of the other data centers.
pub(crate) struct Lag {
    datacenter: String,
    others: Vec<String>,
    /// The newest time of each other data center that has been visible here.
    newest: Mutex<BTreeMap<String, UnixMillis>>,
}

impl Lag {
    pub(crate) fn new(datacenter: String, others: Vec<String>) -> Self {
        Self { datacenter, others, newest: Mutex::default() }
    }

    fn saw(&self, datacenter: &str, written_at: UnixMillis) {
        let mut newest = self.newest.lock();
        let known = newest.entry(datacenter.to_owned()).or_insert(written_at);
        *known = (*known).max(written_at);
    }

    /// The age of the newest time of each other data center that has been visible here.
    pub(crate) fn by_datacenter(&self, now: UnixMillis) -> BTreeMap<String, Duration> {
        self.newest.lock().iter().map(|(datacenter, at)| (datacenter.clone(), now.since(*at))).collect()
    }
}

/// Writes and reads times until the engine is closed.
pub(crate) fn watch(engine: &Arc<Engine>) {
    if engine.lag.others.is_empty() {
        return;
    }
    let engine: Weak<Engine> = Arc::downgrade(engine);
    tokio::spawn(async move {
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            let Some(engine) = engine.upgrade() else { return };
            let read = futures::future::join_all(engine.lag.others.iter().map(|other| engine.read_time(other)));
            futures::join!(engine.write_time(), read);
        }
    });
}

impl Engine {
    async fn write_time(&self) {
        let now = self.now();
        let at = i64::try_from(now.0.saturating_mul(1_000)).ok();
        let row = [key(&self.lag.datacenter), now.0.to_string()].map(Parameter::Text).to_vec();
        let bound = vec![(&self.statements.meta.put, row)];
        if let Err(failure) = self.requests.write(Deadline::within(PATIENCE), LEVEL, at, bound).await {
            tracing::debug!("the time of this data center could not be written: {}", failure.reason());
        }
    }

    async fn read_time(&self, datacenter: &str) {
        let (deadline, statement) = (Deadline::within(PATIENCE), &self.statements.meta.get);
        // A row that cannot be read shows as lag.
        let Ok(rows) = self.requests.rows(deadline, LEVEL, statement, (key(datacenter),)).await else { return };
        let Ok(Some((time,))) = rows.maybe_first_row::<(String,)>() else { return };
        if let Ok(time) = time.parse() {
            self.lag.saw(datacenter, UnixMillis(time));
        }
    }
}

/// The row of a data center, in the table that also holds the format.
fn key(datacenter: &str) -> String {
    format!("time/{datacenter}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_lag_is_the_age_of_the_newest_visible_time() {
        let lag = Lag::new("dc1".to_owned(), vec!["dc2".to_owned(), "dc3".to_owned()]);
        assert!(lag.by_datacenter(UnixMillis(9_000)).is_empty(), "nothing has shown yet, so nothing is known");
        lag.saw("dc2", UnixMillis(4_000));
        assert_eq!(
            lag.by_datacenter(UnixMillis(5_500)),
            BTreeMap::from([("dc2".to_owned(), Duration::from_millis(1_500))])
        );
        // Nothing more arrives.
        assert_eq!(lag.by_datacenter(UnixMillis(64_000))["dc2"], Duration::from_secs(60));
        // A replica that is behind does not undo what another has reported.
        lag.saw("dc2", UnixMillis(60_000));
        lag.saw("dc2", UnixMillis(5_000));
        assert_eq!(lag.by_datacenter(UnixMillis(64_000))["dc2"], Duration::from_secs(4));
    }

    #[test]
    fn a_clock_that_is_ahead_there_shows_as_no_lag() {
        let lag = Lag::new("dc1".to_owned(), vec!["dc2".to_owned()]);
        lag.saw("dc2", UnixMillis(7_000));
        assert_eq!(lag.by_datacenter(UnixMillis(5_000))["dc2"], Duration::ZERO);
    }
}
