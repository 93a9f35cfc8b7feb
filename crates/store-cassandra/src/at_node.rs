//! Reads tables at one node apart, range by range of the ring.
//!
//! A node is asked at level `ONE`, for ranges of which it has a copy. It reads them itself if its
//! snitch sorts replicas by their distance, unless its dynamic snitch finds another node much faster.
//! `SimpleSnitch` does not sort: there the first replica of a range answers, whichever node is asked.

use std::fmt;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::cluster::{ClusterState, Node};
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::routing::Token;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use store::{StoreError, StoreResult, Table};
use tokio::time::Instant;

use crate::connect::Connected;
use crate::failure::{Failure, readable};
use crate::schema::META;

/// How long a page is tried. A cold node may need longer than its own time limit at first, and a node
/// that starts again is back by then.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time limit of one try, longer than those of the nodes themselves.
const TRY_MAX: Duration = Duration::from_secs(15);

/// How often a page is tried that the node itself cannot read.
const READ_TRIES_MAX: u32 = 3;

/// The pause before a further try.
const PAUSE: Duration = Duration::from_secs(1);

/// Why a page cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageError {
    /// The node cannot read its own files.
    Unreadable(String),
    /// The node does not answer, or refuses for a reason that may pass.
    Unanswered(String),
}

impl PageError {
    fn of(error: ExecutionError) -> Self {
        let is_read_failure = matches!(
            &error,
            ExecutionError::LastAttemptError(RequestAttemptError::DbError(DbError::ReadFailure { .. }, _))
        );
        match Failure::from(error) {
            failure @ Failure::TooManyRemoved(_) => Self::Unanswered(failure.reason()),
            failure if is_read_failure => Self::Unreadable(failure.reason()),
            failure => Self::Unanswered(failure.reason()),
        }
    }
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unreadable(why) | Self::Unanswered(why)) = self;
        f.write_str(why)
    }
}

/// A part of the ring: tokens after the first, up to and with the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) after: i64,
    pub(crate) to: i64,
}

/// The ranges of a keyspace's ring, each with the nodes that have a copy of it. All tables of the
/// keyspace have the same.
pub(crate) fn ranges(state: &ClusterState, keyspace: &str) -> Vec<(Range, Vec<Arc<Node>>)> {
    let tokens: Vec<i64> = state.replica_locator().ring().iter().map(|(token, _)| token.value()).collect();
    let with_nodes = |range: Range| {
        let replicas = state.get_token_endpoints(keyspace, META, Token::new(range.to));
        (range, replicas.into_iter().map(|(node, _)| node).collect())
    };
    between(&tokens).into_iter().map(with_nodes).collect()
}

/// These tables, or all if there are none.
pub(crate) fn tables(wanted: &[Table]) -> Vec<Table> {
    if wanted.is_empty() { Table::ALL.to_vec() } else { wanted.to_vec() }
}

/// Refuses a node that may let others answer for it. A node that is alone has no others.
pub(crate) async fn check_that_it_answers_itself(
    connected: &Connected,
    node: &Arc<Node>,
    may_be_dynamic: bool,
) -> Result<(), NotItself> {
    if connected.session.get_cluster_state().get_nodes_info().len() == 1 {
        return Ok(());
    }
    let setting = async |name: &str| -> Result<String, NotItself> {
        let query = format!("SELECT value FROM system_views.settings WHERE name = '{name}'");
        let read = PagedRead::prepare(connected, node, &query, 1).await.map_err(unanswered)?;
        let (page, _) = read.page((), &PagingState::start()).await.map_err(unanswered)?;
        let value = page.maybe_first_row::<(Option<String>,)>().map_err(unanswered)?;
        Ok(value.and_then(|(value,)| value).unwrap_or_default())
    };
    let change = |what: &str| {
        let address = address(node);
        NotItself::OthersAnswer(StoreError::Invalid(format!(
            "node {address} may let another node answer for it: set {what} in cassandra.yaml of each node, and start \
             the nodes again"
        )))
    };
    if setting("endpoint_snitch").await?.ends_with("SimpleSnitch") {
        return Err(change("`endpoint_snitch: GossipingPropertyFileSnitch`"));
    }
    if !may_be_dynamic && setting("dynamic_snitch").await? != "false" {
        return Err(change("`dynamic_snitch: false`"));
    }
    Ok(())
}

/// Why a node cannot be asked for its own copies.
pub(crate) enum NotItself {
    /// It may let others answer.
    OthersAnswer(StoreError),
    /// It does not answer.
    Unanswered(String),
}

fn unanswered(error: impl fmt::Display) -> NotItself {
    NotItself::Unanswered(error.to_string())
}

/// The ranges between the tokens of a ring, which are in ascending order. The range that goes over the
/// end of the ring is two: both belong to the first token.
fn between(tokens: &[i64]) -> Vec<Range> {
    let ends: Vec<i64> = [&[i64::MIN], tokens, &[i64::MAX]].concat();
    let range = |pair: &[i64]| Range { after: pair[0], to: pair[1] };
    ends.windows(2).map(range).filter(|range| range.after < range.to).collect()
}

/// The address of a node.
pub(crate) fn address(node: &Node) -> SocketAddr {
    SocketAddr::new(node.address.ip(), node.address.port())
}

/// A read page by page.
pub(crate) struct PagedRead<'a> {
    connected: &'a Connected,
    statement: PreparedStatement,
}

impl<'a> PagedRead<'a> {
    /// Prepares a read that one node answers, with so many rows per page.
    pub(crate) async fn prepare(
        connected: &'a Connected,
        node: &Arc<Node>,
        query: &str,
        page_rows: i32,
    ) -> StoreResult<Self> {
        let prepared = connected.session.prepare(query).await;
        let mut statement = prepared.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        statement.set_consistency(Consistency::One);
        statement.set_is_idempotent(true);
        statement.set_page_size(page_rows);
        statement.set_request_timeout(Some(TRY_MAX));
        statement.set_execution_profile_handle(Some(only_at(node)));
        Ok(Self { connected, statement })
    }

    /// A page, and where the next one begins; `None`: it was the last one. A page that fails is tried
    /// again. The error says why the last try failed.
    pub(crate) async fn page(
        &self,
        parameters: impl SerializeRow,
        from: &PagingState,
    ) -> Result<(QueryRowsResult, Option<PagingState>), PageError> {
        let (begun, mut read_failures) = (Instant::now(), 0);
        loop {
            let page = self.connected.session.execute_single_page(&self.statement, &parameters, from.clone()).await;
            let error = match page {
                Ok((rows, next)) => {
                    let rows = readable(rows.into_rows_result());
                    let rows = rows.map_err(|error| PageError::Unanswered(error.to_string()))?;
                    let next = match next.into_paging_control_flow() {
                        ControlFlow::Continue(next) => Some(next),
                        ControlFlow::Break(()) => None,
                    };
                    return Ok((rows, next));
                }
                Err(error) => PageError::of(error),
            };
            read_failures += u32::from(matches!(error, PageError::Unreadable(_)));
            if read_failures == READ_TRIES_MAX || begun.elapsed() >= PATIENCE {
                return Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A profile that leads each request to this node.
pub(crate) fn only_at(node: &Arc<Node>) -> ExecutionProfileHandle {
    let policy = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(node.clone()), None);
    ExecutionProfile::builder().load_balancing_policy(policy).build().into_handle()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranges_of_a_ring_have_each_token_once() {
        let range = |after, to| Range { after, to };
        assert_eq!(between(&[-7, 5]), [range(i64::MIN, -7), range(-7, 5), range(5, i64::MAX)]);
        assert_eq!(between(&[5, i64::MAX]), [range(i64::MIN, 5), range(5, i64::MAX)]);
        assert_eq!(between(&[]), [range(i64::MIN, i64::MAX)]);
    }
}
