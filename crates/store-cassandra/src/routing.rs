//! Chooses the node for a request. No request ever leaves the data center or lowers its level.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::cluster::{ClusterState, NodeRef};
use scylla::policies::load_balancing::{DefaultPolicy, FallbackPlan, LoadBalancingPolicy, RoutingInfo};
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
