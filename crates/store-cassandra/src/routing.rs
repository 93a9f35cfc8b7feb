//! Which node is asked. No request ever leaves the data center, and none lowers its level.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::cluster::{ClusterState, NodeRef};
use scylla::policies::load_balancing::{DefaultPolicy, FallbackPlan, LoadBalancingPolicy, RoutingInfo};
use scylla::policies::speculative_execution::{SimpleSpeculativeExecutionPolicy, SpeculativeExecutionPolicy};
use scylla::routing::Shard;

/// How many replicas are asked in turn.
const IN_TURN: usize = 3;

/// How requests of each kind find their nodes.
pub(crate) struct Routes {
    /// Any replica; a second node is asked when the first is slow.
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

impl Routes {
    pub(crate) fn new(datacenter: &str, speculative_after: Option<Duration>) -> Self {
        let replicas = |shuffled| nodes_of(datacenter, shuffled);
        let speculative = speculative_after.map(|retry_interval| -> Arc<dyn SpeculativeExecutionPolicy> {
            Arc::new(SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval })
        });
        let profile = |policy| ExecutionProfile::builder().load_balancing_policy(policy);
        // All from one policy, so that they agree on the order.
        let ordered = replicas(false);
        let nth = |nth| profile(Arc::new(Nth { ordered: ordered.clone(), nth })).build().into_handle();
        Self {
            reads: profile(replicas(true)).speculative_execution_policy(speculative).build().into_handle(),
            writes: profile(replicas(true)).build().into_handle(),
            in_turn: std::array::from_fn(nth),
        }
    }

    /// Of reads.
    pub(crate) fn read(&self) -> ExecutionProfileHandle {
        self.reads.clone()
    }

    /// Of the plain write that is tried for the nth time, from 0. Tries one after the other go to different nodes: one that stands still
    /// takes no more than every third.
    pub(crate) fn write(&self, nth: usize) -> ExecutionProfileHandle {
        if nth == 0 { self.writes.clone() } else { self.in_turn(nth) }
    }

    /// Of the lightweight transaction that is tried for the nth time, from 0. The first try of each goes to the same replica, while that is
    /// there: two coordinators would get into each other's way.
    pub(crate) fn transaction(&self, nth: usize) -> ExecutionProfileHandle {
        self.in_turn(nth)
    }

    fn in_turn(&self, nth: usize) -> ExecutionProfileHandle {
        self.in_turn[nth % IN_TURN].clone()
    }
}

/// The nodes in an order that stays the same, beginning with the nth of them, if there are so many.
#[derive(Debug)]
struct Nth {
    ordered: Arc<dyn LoadBalancingPolicy>,
    nth: usize,
}

impl LoadBalancingPolicy for Nth {
    fn pick<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> Option<(NodeRef<'a>, Option<Shard>)> {
        self.ordered.fallback(request, cluster).nth(self.nth)
    }

    /// All of them: the one that was picked is left out by who asks, and if none was picked the first of these is taken.
    fn fallback<'a>(&'a self, request: &'a RoutingInfo, cluster: &'a ClusterState) -> FallbackPlan<'a> {
        self.ordered.fallback(request, cluster)
    }

    fn name(&self) -> String {
        "NthReplica".to_owned()
    }
}
