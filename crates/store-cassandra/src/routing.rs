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

use crate::requests::TRY_MAX;

/// How many replicas are tried in turn.
const IN_TURN: usize = 3;

/// How many nodes a read asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// One, and a second one if the first takes long.
    TwoIfSlow,
    /// One. This is for a read that probably meets too many removed rows. Where two nodes may be
    /// asked, the driver keeps that failure back: it waits for as long as for a slow node, and then
    /// for the second node.
    One,
}

/// Routing of each kind of request.
pub(crate) struct Routes {
    /// Any replica; a slow read is also sent to a second node.
    reads: ExecutionProfileHandle,
    /// Any replica, and no second node.
    single_reads: ExecutionProfileHandle,
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
        // A try ends before a later time. The driver would keep failures back until then, and
        // nobody would learn of them.
        let speculative_after = speculative_after.filter(|after| *after < TRY_MAX);
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
            single_reads: profile(replicas(true)).build().into_handle(),
            writes: write(replicas(true)),
            in_turn: std::array::from_fn(nth),
        }
    }

    /// For reads.
    pub(crate) fn read(&self, asks: Asks) -> ExecutionProfileHandle {
        match asks {
            Asks::TwoIfSlow => self.reads.clone(),
            Asks::One => self.single_reads.clone(),
        }
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
        for asks in [Asks::TwoIfSlow, Asks::One] {
            assert_eq!(policy(routes.read(asks)), "DefaultRetryPolicy", "{asks:?}");
        }
    }

    #[test]
    fn a_read_asks_a_second_node_only_if_it_may_and_within_a_try() {
        let asks_two = |speculative_after, asks| {
            let route = Routes::new("dc1", speculative_after).read(asks);
            route.to_profile().get_speculative_execution_policy().is_some()
        };
        let soon = Some(Duration::from_millis(200));
        assert!(asks_two(soon, Asks::TwoIfSlow));
        assert!(!asks_two(soon, Asks::One));
        assert!(!asks_two(None, Asks::TwoIfSlow));
        assert!(!asks_two(Some(TRY_MAX), Asks::TwoIfSlow));
    }
}
