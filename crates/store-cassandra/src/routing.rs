//! Chooses the node for a request. No request for rows leaves the data center or lowers its level.
//! Only nodes that are asked themselves may be in another one: for their clocks (`clocks.rs`), or
//! for their copies.
//!
//! The driver repeats reads by itself, and nothing else: see the head of `requests.rs`.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::cluster::{ClusterState, NodeRef};
use scylla::policies::load_balancing::{DefaultPolicy, FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::policies::retry::{FallthroughRetryPolicy, RetryPolicy};
use scylla::policies::speculative_execution::{SimpleSpeculativeExecutionPolicy, SpeculativeExecutionPolicy};
use scylla::routing::Shard;

/// How many replicas are tried in turn.
const IN_TURN: usize = 3;

/// Routing of each kind of request.
pub(crate) struct Routes {
    /// Any replica; a slow read is also sent to a second node.
    reads: ExecutionProfileHandle,
    /// Any replica.
    writes: ExecutionProfileHandle,
    /// The first, the second, the third of a row's replicas.
    in_turn: [ExecutionProfileHandle; IN_TURN],
}

/// Nodes of one data center, replicas first.
fn nodes_of(datacenter: &str, shuffled: bool) -> Arc<dyn LoadBalancingPolicy> {
    DefaultPolicy::builder()
        .prefer_datacenter(datacenter.to_owned())
        .permit_dc_failover(false)
        .token_aware(true)
        .enable_shuffling_replicas(shuffled)
        .build()
}

/// A profile that leads requests to nodes of one data center.
pub(crate) fn nearby(datacenter: &str) -> ExecutionProfileHandle {
    ExecutionProfile::builder().load_balancing_policy(nodes_of(datacenter, true)).build().into_handle()
}

/// A policy by which the driver sends a request once. The usual one repeats what a node refuses as
/// unavailable, even if it is marked as not idempotent. A lightweight transaction may have been
/// decided by then, and its second try would find its own decision and report it as refused.
pub(crate) fn sent_once() -> Arc<dyn RetryPolicy> {
    Arc::new(FallthroughRetryPolicy::new())
}

impl Routes {
    pub(crate) fn new(datacenter: &str, speculative_after: Option<Duration>) -> Self {
        let replicas = |shuffled| nodes_of(datacenter, shuffled);
        let speculative = speculative_after.map(|retry_interval| -> Arc<dyn SpeculativeExecutionPolicy> {
            Arc::new(SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval })
        });
        let profile = |policy| ExecutionProfile::builder().load_balancing_policy(policy);
        // All from one policy, so that they agree on the order.
        let ordered = replicas(false);
        let write =
            |policy: Arc<dyn LoadBalancingPolicy>| profile(policy).retry_policy(sent_once()).build().into_handle();
        let nth = |nth| write(Arc::new(Nth { ordered: ordered.clone(), nth }));
        Self {
            reads: profile(replicas(true)).speculative_execution_policy(speculative).build().into_handle(),
            writes: write(replicas(true)),
            in_turn: std::array::from_fn(nth),
        }
    }

    /// For reads.
    pub(crate) fn read(&self) -> ExecutionProfileHandle {
        self.reads.clone()
    }

    /// For the nth try (from 0) of a plain write. Successive tries go to different nodes, so a node
    /// that hangs gets at most every third.
    pub(crate) fn write(&self, nth: usize) -> ExecutionProfileHandle {
        if nth == 0 { self.writes.clone() } else { self.in_turn(nth) }
    }

    /// For the nth try (from 0) of a lightweight transaction. All first tries go to the same
    /// replica while it is up, because two coordinators would compete.
    pub(crate) fn transaction(&self, nth: usize) -> ExecutionProfileHandle {
        self.in_turn(nth)
    }

    fn in_turn(&self, nth: usize) -> ExecutionProfileHandle {
        self.in_turn[nth % IN_TURN].clone()
    }
}

/// The nodes in a fixed order, beginning with the nth, if there are so many.
#[derive(Debug)]
struct Nth {
    ordered: Arc<dyn LoadBalancingPolicy>,
    nth: usize,
}

impl LoadBalancingPolicy for Nth {
    fn pick<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> Option<(NodeRef<'a>, Option<Shard>)> {
        self.ordered.fallback(request, cluster).nth(self.nth)
    }

    /// All nodes: the driver leaves out the picked one. If none was picked, it takes the first of
    /// these.
    fn fallback<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> FallbackPlan<'a> {
        self.ordered.fallback(request, cluster)
    }

    fn name(&self) -> String {
        "NthReplica".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cassandra refuses a transaction as unavailable also after it has decided it.
    #[test]
    fn the_driver_repeats_no_write_and_no_transaction_by_itself() {
        let routes = Routes::new("dc1", None);
        let policy = |route: ExecutionProfileHandle| format!("{:?}", route.to_profile().get_retry_policy());
        for nth in 0..2 * IN_TURN {
            assert_eq!(policy(routes.transaction(nth)), "FallthroughRetryPolicy", "try {nth} of a transaction");
            assert_eq!(policy(routes.write(nth)), "FallthroughRetryPolicy", "try {nth} of a write");
        }
        assert_eq!(policy(routes.read()), "DefaultRetryPolicy");
    }
}
