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
//!
//! What is found also corrects a clock that is right: servers that need the same time more exactly
//! take that of the nodes ([`Store::clock_correction_ms`](store::Store::clock_correction_ms)). A wrong
//! clock is corrected by what was found when it was right.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
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
    /// By how many milliseconds the nodes were ahead when the clock was right.
    correction_ms: AtomicI64,
}

/// What a comparison found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    /// The least difference by which more than half of the nodes differ at most.
    difference: Duration,
    /// By how many milliseconds the node in the middle is ahead of this machine. Negative: behind.
    ahead_ms: i64,
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
        let clocks = Self { max: options.clock_skew_max, found: Mutex::default(), correction_ms: AtomicI64::new(0) };
        if let Some(max) = clocks.max {
            let differences = differences(&connected.session, clock, max / 2, options.connect_timeout).await?;
            clocks.note(differences.found());
        }
        match clocks.refusal() {
            Some(why) => Err(StoreError::Invalid(why)),
            None => Ok(clocks),
        }
    }

    /// What to add to this machine's clock for the time of the nodes, in milliseconds.
    pub(crate) fn correction_ms(&self) -> i64 {
        self.correction_ms.load(Ordering::Relaxed)
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

    /// Notes what was found.
    fn note(&self, found: Found) {
        *self.found.lock() = found.difference;
        if self.refusal().is_none() {
            self.correction_ms.store(found.ahead_ms, Ordering::Relaxed);
        }
    }

    /// Notes what was found, and says in the log what follows from it.
    fn learn(&self, found: Found) {
        let was_wrong = self.refusal().is_some();
        self.note(found);
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
            Ok(differences) => self.clocks.learn(differences.found()),
            Err(error) => tracing::warn!(%error, "the clock of this machine could not be compared with those of nodes"),
        }
    }
}

/// By how many milliseconds the clocks of nodes are ahead of this machine's, in order. Negative:
/// behind.
struct Differences(Vec<i64>);

impl Differences {
    fn new(mut ahead_ms: Vec<i64>) -> Self {
        ahead_ms.sort_unstable();
        Self(ahead_ms)
    }

    /// Nothing if there are no nodes.
    fn found(&self) -> Found {
        let mut differences: Vec<Duration> = self.0.iter().map(|ahead_ms| difference(*ahead_ms)).collect();
        differences.sort_unstable();
        let middle = self.0.len() / 2;
        let (difference, ahead_ms) = (differences.get(middle), self.0.get(middle));
        Found { difference: difference.copied().unwrap_or_default(), ahead_ms: ahead_ms.copied().unwrap_or_default() }
    }

    /// Whether exactly half of the nodes differ by at most `most`, as where one of three nodes has a
    /// wrong clock and another one is down.
    fn are_undecided(&self, most: Duration) -> bool {
        !self.0.is_empty() && 2 * within(most, &self.0) == self.0.len()
    }
}

/// A difference in either direction.
fn difference(ahead_ms: i64) -> Duration {
    Duration::from_millis(ahead_ms.unsigned_abs())
}

/// How many nodes differ by at most `most`.
fn within(most: Duration, ahead_ms: &[i64]) -> usize {
    ahead_ms.iter().filter(|ahead_ms| difference(**ahead_ms) <= most).count()
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
            Ok(ahead_ms) if difference(ahead_ms) > most => {
                let (node, difference) = (&node.address, difference(ahead_ms));
                tracing::warn!(%node, ?difference, "the clocks of a node and of this machine differ by too much");
                found.push(ahead_ms);
            }
            Ok(ahead_ms) => found.push(ahead_ms),
            Err(error) => failure = Some(error),
        }
        if 2 * within(most, &found) > nodes.len() {
            break;
        }
    }
    if found.is_empty() {
        let unknown = || StoreError::Unavailable("no node of the cluster is known".to_owned());
        return Err(failure.unwrap_or_else(unknown));
    }
    Ok(Differences::new(found))
}

/// By how many milliseconds the clock of a node is ahead, at least. Negative: behind.
async fn from_node(session: &Session, node: &Arc<Node>, clock: &dyn Clock, limit: Duration) -> StoreResult<i64> {
    // `now()` would not go back with a clock that was ahead: it never returns a time twice.
    let mut statement = Statement::new("SELECT toUnixTimestamp(currentTimestamp()) FROM system.local");
    statement.set_consistency(Consistency::One);
    statement.set_is_idempotent(true);
    statement.set_request_timeout(Some(limit));
    statement.set_execution_profile_handle(Some(at_node::only_at(node)));
    let now_ms = || i64::try_from(clock.now().0).unwrap_or(i64::MAX);
    let asked_at = now_ms();
    let answer = session.query_unpaged(statement, ()).await.map_err(|error| Failure::from(error).of_read())?;
    let answered_at = now_ms();
    let rows = readable(answer.into_rows_result())?;
    let (told,): (i64,) = readable(rows.first_row())?;
    Ok(ahead_ms(told, asked_at, answered_at))
}

/// The node read its clock at some time between question and answer.
fn ahead_ms(told: i64, asked_at: i64, answered_at: i64) -> i64 {
    told.saturating_sub(answered_at).max(0) + told.saturating_sub(asked_at).min(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_clock_is_as_far_from_most_nodes_as_from_the_farthest_of_those_nearest_ones_that_are_more_than_half() {
        let cases: [(&[u32], u32); 6] = [
            (&[], 0),
            (&[7], 7),
            // One of two is not most of them.
            (&[0, 9], 9),
            (&[9, 0, 2], 2),
            (&[0, 0, 9, 9], 9),
            (&[9, 0, 0, 9, 1], 1),
        ];
        for (differences, found) in cases {
            assert_eq!(seconds(differences).found().difference, found * SECOND);
        }
    }

    /// Every other node is behind.
    fn seconds(differences: &[u32]) -> Differences {
        let milliseconds = differences.iter().map(|seconds| i64::from(*seconds) * 1_000);
        Differences::new(milliseconds.zip([1, -1].into_iter().cycle()).map(|(ahead, sign)| ahead * sign).collect())
    }

    #[test]
    fn a_clock_is_corrected_by_the_difference_of_the_node_in_the_middle() {
        let cases: [(&[i64], i64); 5] =
            [(&[], 0), (&[-7], -7), (&[9_000, 1, 2], 2), (&[-9_000, -3, -2], -3), (&[-40, 0, 5, 5], 5)];
        for (ahead_ms, found) in cases {
            assert_eq!(Differences::new(ahead_ms.to_vec()).found().ahead_ms, found, "{ahead_ms:?}");
        }
    }

    #[test]
    fn a_node_that_tells_a_time_between_question_and_answer_is_neither_ahead_nor_behind() {
        for (told, ahead) in [(100, 0), (105, 0), (110, 0), (112, 2), (93, -7), (i64::MIN, i64::MIN)] {
            assert_eq!(ahead_ms(told, 100, 110), ahead, "{told}");
        }
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
        let clocks = Clocks { max: Some(10 * SECOND), found: Mutex::default(), correction_ms: AtomicI64::new(0) };
        let found = |ahead_ms| Differences::new(vec![ahead_ms]).found();
        for (ahead_ms, correction_ms) in [(5_000, 5_000), (5_001, 5_000), (-5_001, 5_000), (-1_000, -1_000)] {
            clocks.learn(found(ahead_ms));
            assert_eq!(clocks.check().is_ok(), ahead_ms == correction_ms, "{ahead_ms}");
            assert_eq!(clocks.correction_ms(), correction_ms, "{ahead_ms}");
            let measured = Measured::Gauge(difference(ahead_ms).as_secs_f64());
            assert_eq!(clocks.measure().unwrap().value, measured);
        }
        clocks.learn(found(6_000));
        let refused = clocks.check().unwrap_err();
        let says = |why: &str| why.contains("clock") && why.contains("differ by 6s");
        assert!(matches!(&refused, StoreError::ReadOnly(why) if says(why)), "{refused}");
        let (found, correction_ms) = (Mutex::new(100 * SECOND), AtomicI64::new(0));
        let unknown = Clocks { max: None, found, correction_ms };
        assert!(unknown.check().is_ok() && unknown.measure().is_none(), "it is not compared");
    }
}
