//! Measures how far this data center is behind the others.
//!
//! If a keyspace has copies in several data centers, each store writes the time of its clock
//! regularly into one row of its data center, and reads the rows of the others from nearby
//! replicas. Writes made there before the newest time that is visible here are visible here too, as
//! far as one row can show. So the age of that time is reported.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use store::UnixMillis;

/// What is known of the other data centers.
pub(crate) struct Lag {
    pub(crate) datacenter: String,
    pub(crate) others: Vec<String>,
    /// The newest time of each other data center that has been visible here.
    newest: Mutex<BTreeMap<String, UnixMillis>>,
}

impl Lag {
    pub(crate) fn new(datacenter: String, others: Vec<String>) -> Self {
        Self { datacenter, others, newest: Mutex::default() }
    }

    /// Notes a time that is visible here.
    pub(crate) fn saw(&self, datacenter: &str, written_at: UnixMillis) {
        let mut newest = self.newest.lock();
        let known = newest.entry(datacenter.to_owned()).or_insert(written_at);
        *known = (*known).max(written_at);
    }

    /// The age of the newest time of each other data center that has been visible here.
    pub(crate) fn by_datacenter(&self, now: UnixMillis) -> BTreeMap<String, Duration> {
        self.newest.lock().iter().map(|(datacenter, at)| (datacenter.clone(), now.since(*at))).collect()
    }
}

/// The row of a data center, in the table that also holds the format.
pub(crate) fn key(datacenter: &str) -> String {
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
