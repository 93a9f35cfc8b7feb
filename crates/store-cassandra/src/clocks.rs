//! Compares the clock of this machine with those of the nodes.
//!
//! The protocols above assume that the clocks of two servers differ by at most
//! `store.clock_skew_max`. A server does not know the clocks of others, but all know the nodes. A
//! clock is *right* if it differs by at most half of that time from those of more than half of the
//! nodes that answer. If the same nodes answer both, two servers with right clocks have such a node
//! in common, so they differ by no more than the whole.
//!
//! A store is not opened with a wrong clock, and the clocks are compared again with each renewal of
//! its lease. While its clock is wrong an open store switches no heads, as away from their home,
//! and writes nothing that counts by the clock. Reads go on.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;
use store::{Clock, Measure, Measured, StoreError, StoreResult};

use crate::at_node;
use crate::connect::Connected;
use crate::engine::Engine;
use crate::failure::{Failure, readable};
use crate::options::CassandraOptions;

/// How long a node may take to tell its time, while the store is open.
const PATIENCE: Duration = Duration::from_secs(5);

/// What an open store knows of its clock.
pub(crate) struct Clocks {
    /// The greatest difference between two servers; `None`: clocks are not compared.
    max: Option<Duration>,
    /// The difference from most nodes, as of the last comparison.
    found: Mutex<Duration>,
}

impl Clocks {
    /// Compares the clocks for the first time.
    ///
    /// Errors: [`StoreError::Invalid`] if this machine's clock is wrong, and those of a read if no
    /// node answers.
    pub(crate) async fn compare(
        connected: &Connected,
        options: &CassandraOptions,
        clock: &dyn Clock,
    ) -> StoreResult<Self> {
        let clocks = Self { max: options.clock_skew_max, found: Mutex::default() };
        if let Some(max) = clocks.max {
            let differences = differences(&connected.session, clock, max / 2, options.connect_timeout).await?;
            *clocks.found.lock() = differences.of_most().unwrap_or_default();
        }
        match clocks.refusal() {
            Some(why) => Err(StoreError::Invalid(why)),
            None => Ok(clocks),
        }
    }

    /// The greatest difference between two servers; zero if that is not known.
    pub(crate) fn max(&self) -> Duration {
        self.max.unwrap_or_default()
    }

    /// Why no head is switched by this machine's clock. `None`: it is right, as far as is known.
    pub(crate) fn refusal(&self) -> Option<String> {
        let (most, found) = (self.max? / 2, *self.found.lock());
        (found > most).then(|| {
            format!(
                "this machine's clock and those of most nodes differ by {found:?}, at most {most:?} are allowed \
                 (half of store.clock_skew_max): set the clocks"
            )
        })
    }

    /// Fails with [`StoreError::ReadOnly`] if no head is switched by this machine's clock.
    pub(crate) fn check(&self) -> StoreResult<()> {
        self.refusal().map_or(Ok(()), |why| Err(StoreError::ReadOnly(why)))
    }

    /// Notes a difference, and says in the log what follows from it.
    fn learn(&self, found: Duration) {
        let was_wrong = self.refusal().is_some();
        *self.found.lock() = found;
        match self.refusal() {
            Some(why) => tracing::error!("no head is switched here until the clock is right: {why}"),
            None if was_wrong => tracing::info!("the clock is right again, and heads are switched here"),
            None => {}
        }
    }

    /// The difference, for monitors.
    pub(crate) fn measure(&self) -> Option<Measure> {
        self.max?;
        let found = Measured::Gauge(self.found.lock().as_secs_f64());
        let help = "Difference of this machine's clock from those of most nodes, when they were compared last";
        Some(Measure::new("penates_cassandra_clock_difference_seconds", help, found))
    }
}

impl Engine {
    /// Compares the clocks again. If no node answers, or as many for this machine's clock as against
    /// it, what was found before counts.
    pub(crate) async fn compare_clocks(&self) {
        let Some(max) = self.clocks.max else { return };
        match differences(self.requests.session(), self.clock.as_ref(), max / 2, PATIENCE).await {
            Ok(differences) if differences.are_undecided(max / 2) => {}
            Ok(differences) => self.clocks.learn(differences.of_most().unwrap_or_default()),
            Err(error) => tracing::warn!(%error, "the clock of this machine could not be compared with those of nodes"),
        }
    }
}

/// How far a clock is from those of nodes, in order.
struct Differences(Vec<Duration>);

impl Differences {
    fn new(mut differences: Vec<Duration>) -> Self {
        differences.sort_unstable();
        Self(differences)
    }

    /// The least difference by which more than half of the nodes differ at most; `None`: there are
    /// none.
    fn of_most(&self) -> Option<Duration> {
        self.0.get(self.0.len() / 2).copied()
    }

    /// Whether exactly half of the nodes differ by at most `most`, as where one of three nodes has a
    /// wrong clock and another one is down.
    fn are_undecided(&self, most: Duration) -> bool {
        !self.0.is_empty() && 2 * self.0.iter().filter(|difference| **difference <= most).count() == self.0.len()
    }
}

/// The differences of a clock from those of the nodes that answer. It waits for no more of them once
/// more than half of all differ by at most `most`. The log names each node that differs by more.
///
/// Errors: those of a read if no node answers.
async fn differences(
    session: &Session,
    clock: &dyn Clock,
    most: Duration,
    limit: Duration,
) -> StoreResult<Differences> {
    let state = session.get_cluster_state();
    let nodes = state.get_nodes_info();
    let asked = nodes.iter().map(|node| async move { (node, from_node(session, node, clock, limit).await) });
    let mut asked: FuturesUnordered<_> = asked.collect();
    let (mut found, mut failure) = (Vec::with_capacity(nodes.len()), None);
    while let Some((node, answer)) = asked.next().await {
        match answer {
            Ok(difference) if difference > most => {
                let node = &node.address;
                tracing::warn!(%node, ?difference, "the clocks of a node and of this machine differ by too much");
                found.push(difference);
            }
            Ok(difference) => found.push(difference),
            Err(error) => failure = Some(error),
        }
        if 2 * found.iter().filter(|difference| **difference <= most).count() > nodes.len() {
            break;
        }
    }
    if found.is_empty() {
        let unknown = || StoreError::Unavailable("no node of the cluster is known".to_owned());
        return Err(failure.unwrap_or_else(unknown));
    }
    Ok(Differences::new(found))
}

/// The difference between a clock and that of a node, in either direction.
async fn from_node(session: &Session, node: &Arc<Node>, clock: &dyn Clock, limit: Duration) -> StoreResult<Duration> {
    // `now()` would not go back with a clock that was ahead: it never returns a time twice.
    let mut statement = Statement::new("SELECT toUnixTimestamp(currentTimestamp()) FROM system.local");
    statement.set_consistency(Consistency::One);
    statement.set_is_idempotent(true);
    statement.set_request_timeout(Some(limit));
    statement.set_execution_profile_handle(Some(at_node::only_at(node)));
    let asked_at = clock.now().0;
    let answer = session.query_unpaged(statement, ()).await.map_err(|error| Failure::from(error).of_read())?;
    let answered_at = clock.now().0;
    let rows = readable(answer.into_rows_result())?;
    let (told,): (i64,) = readable(rows.first_row())?;
    let told = u64::try_from(told).unwrap_or(0);
    // The node read its clock at some time between question and answer.
    Ok(Duration::from_millis(asked_at.saturating_sub(told).max(told.saturating_sub(answered_at))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_clock_is_as_far_from_most_nodes_as_from_the_farthest_of_those_nearest_ones_that_are_more_than_half() {
        let cases: [(&[u32], Option<u32>); 6] = [
            (&[], None),
            (&[7], Some(7)),
            // One of two is not most of them.
            (&[0, 9], Some(9)),
            (&[9, 0, 2], Some(2)),
            (&[0, 0, 9, 9], Some(9)),
            (&[9, 0, 0, 9, 1], Some(1)),
        ];
        for (differences, found) in cases {
            assert_eq!(seconds(differences).of_most(), found.map(|seconds| seconds * SECOND));
        }
    }

    fn seconds(differences: &[u32]) -> Differences {
        Differences::new(differences.iter().map(|seconds| *seconds * SECOND).collect())
    }

    #[test]
    fn as_many_nodes_for_a_clock_as_against_it_decide_nothing() {
        let cases: [(&[u32], bool); 6] = [
            (&[0, 9], true),
            (&[9, 1, 9, 0], true),
            (&[0, 0, 9], false),
            (&[9, 0, 9], false),
            (&[9], false),
            (&[], false),
        ];
        for (differences, undecided) in cases {
            assert_eq!(seconds(differences).are_undecided(5 * SECOND), undecided, "{differences:?}");
        }
    }

    #[test]
    fn a_clock_is_wrong_beyond_half_of_what_two_servers_may_differ_by_and_heads_wait_until_it_is_right() {
        let clocks = Clocks { max: Some(10 * SECOND), found: Mutex::default() };
        for (found, is_right) in [(5 * SECOND, true), (5 * SECOND + Duration::from_millis(1), false), (SECOND, true)] {
            clocks.learn(found);
            assert_eq!(clocks.check().is_ok(), is_right, "{found:?}");
            assert_eq!(clocks.measure().unwrap().value, Measured::Gauge(found.as_secs_f64()));
        }
        clocks.learn(6 * SECOND);
        let refused = clocks.check().unwrap_err();
        let says = |why: &str| why.contains("clock") && why.contains("differ by 6s");
        assert!(matches!(&refused, StoreError::ReadOnly(why) if says(why)), "{refused}");
        let unknown = Clocks { max: None, found: Mutex::new(100 * SECOND) };
        assert!(unknown.check().is_ok() && unknown.measure().is_none(), "it is not compared");
    }
}
