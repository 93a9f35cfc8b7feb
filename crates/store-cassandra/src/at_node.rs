//! Reads tables range by range of the ring, at one node apart or at a level.
//!
//! One node alone is asked at level `ONE`, and only for ranges of which it has a copy. It reads them itself,
//! unless its dynamic snitch finds another node much faster.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::response::PagingState;
use scylla::response::query_result::QueryRowsResult;
use scylla::routing::Token;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use store::{StoreError, StoreResult};

use crate::connect::Connected;
use crate::failure::{Failure, readable};

/// How often a page is tried. A cold node may need longer than its own time limit at first.
const TRIES_MAX: u32 = 5;

/// The pause before a further try.
const PAUSE: Duration = Duration::from_millis(500);

/// A part of the ring: tokens after the first, up to and with the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) after: i64,
    pub(crate) to: i64,
}

/// The ranges of a keyspace's ring, each with the nodes that have a copy of it.
pub(crate) fn ranges(connected: &Connected, keyspace: &str, table: &str) -> Vec<(Range, Vec<Arc<Node>>)> {
    let state = connected.session.get_cluster_state();
    let tokens: Vec<i64> = state.replica_locator().ring().iter().map(|(token, _)| token.value()).collect();
    let with_nodes = |range: Range| {
        let replicas = state.get_token_endpoints(keyspace, table, Token::new(range.to));
        (range, replicas.into_iter().map(|(node, _)| node).collect())
    };
    between(&tokens).into_iter().map(with_nodes).collect()
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
    /// A read that one node answers, with so many rows per page.
    pub(crate) async fn at(
        connected: &'a Connected,
        node: &Arc<Node>,
        query: &str,
        page_rows: i32,
    ) -> StoreResult<Self> {
        let mut read = Self::nearby(connected, query, page_rows, Consistency::One).await?;
        read.statement.set_execution_profile_handle(Some(only_at(node)));
        Ok(read)
    }

    /// A read at a level, by way of any node of the data center.
    pub(crate) async fn nearby(
        connected: &'a Connected,
        query: &str,
        page_rows: i32,
        level: Consistency,
    ) -> StoreResult<Self> {
        let prepared = connected.session.prepare(query).await;
        let mut statement = prepared.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        statement.set_consistency(level);
        statement.set_is_idempotent(true);
        statement.set_page_size(page_rows);
        statement.set_execution_profile_handle(Some(connected.nearby()));
        Ok(Self { connected, statement })
    }

    /// A page, and where the next one begins; `None`: it was the last one. A page that fails is tried
    /// again. The error says why the last try failed.
    pub(crate) async fn page(
        &self,
        parameters: impl SerializeRow,
        from: &PagingState,
    ) -> Result<(QueryRowsResult, Option<PagingState>), String> {
        let mut tries = 0;
        loop {
            let page = self.connected.session.execute_single_page(&self.statement, &parameters, from.clone()).await;
            match page {
                Ok((rows, next)) => {
                    let rows = readable(rows.into_rows_result()).map_err(|error| error.to_string())?;
                    let next = match next.into_paging_control_flow() {
                        ControlFlow::Continue(next) => Some(next),
                        ControlFlow::Break(()) => None,
                    };
                    return Ok((rows, next));
                }
                Err(error) => {
                    tries += 1;
                    if tries == TRIES_MAX {
                        return Err(Failure::from(error).reason());
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A profile that leads each request to this node.
fn only_at(node: &Arc<Node>) -> ExecutionProfileHandle {
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
