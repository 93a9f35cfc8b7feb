//! Creates the keyspace and the tables of a store.

use futures::FutureExt;
use futures::future::BoxFuture;
use thiserror::Error;

use crate::cassandra_store::CassandraStore;
use crate::connect::{self, Connected};
use crate::options::CassandraOptions;
use crate::schema::{Replication, SchemaPlan};

/// Why a store could not be created.
#[derive(Debug, Error)]
pub enum InitError {
    /// The cluster cannot be reached, or holds a store of another format.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// No replication was given, and a guess could lose data.
    #[error(
        "the cluster has {nodes} nodes (data centers: {datacenters}): choose the number of copies per data center, for example with --replication {example}"
    )]
    ReplicationNeeded {
        /// The number of nodes.
        nodes: usize,
        /// The names of its data centers.
        datacenters: String,
        /// An example of a replication.
        example: String,
    },
    /// A data center that does not exist, or has fewer nodes than copies.
    #[error(
        "{copies} copies are requested in the data center `{datacenter}`, which has {nodes} nodes (data centers: {datacenters})"
    )]
    TooFewNodes {
        /// The data center.
        datacenter: String,
        /// The requested number of copies.
        copies: u32,
        /// The number of nodes in it.
        nodes: usize,
        /// The names of all data centers.
        datacenters: String,
    },
    /// A statement failed.
    #[error("`{statement}` failed: {reason}")]
    Statement {
        /// The statement.
        statement: String,
        /// The cluster's error.
        reason: String,
    },
}

/// The result of creating a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initialised {
    /// The keyspace and its tables were created.
    Made,
    /// They existed, in this program's format.
    WasThere,
    /// Nothing was done: these statements would run.
    Planned(SchemaPlan),
}

impl CassandraStore {
    /// Creates the keyspace and the tables of a store, unless they exist. With `dry_run` it only
    /// returns the statements. If the cluster has a single node, the default is one copy; otherwise
    /// `replication` is required.
    ///
    /// An existing keyspace keeps its replication: a change requires a repair afterwards, which is
    /// an administrator's task.
    pub fn initialise<'a>(
        options: &'a CassandraOptions,
        replication: Option<&'a Replication>,
        dry_run: bool,
    ) -> BoxFuture<'a, Result<Initialised, InitError>> {
        async move {
            let connected = connect::session(options).await?;
            let keyspace = options.address.keyspace();
            if connected.recorded_level(options).await?.is_some() && !dry_run {
                return Ok(Initialised::WasThere);
            }
            let replication = settled(&connected, replication)?;
            let plan = SchemaPlan::new(keyspace, &replication, options.newest_level);
            if dry_run {
                return Ok(Initialised::Planned(plan));
            }
            for statement in &plan.statements {
                connected.run_schema(statement).await.map_err(|error| InitError::Statement {
                    statement: statement.clone(),
                    reason: error.to_string(),
                })?;
            }
            Ok(Initialised::Made)
        }
        .boxed()
    }
}

/// The requested replication, if the cluster can keep it, or the only sensible one.
fn settled(connected: &Connected, asked: Option<&Replication>) -> Result<Replication, InitError> {
    let nodes = connected.nodes_by_datacenter();
    let datacenters = nodes.keys().cloned().collect::<Vec<_>>().join(", ");
    let Some(asked) = asked else {
        let count = nodes.values().sum();
        return match nodes.keys().next() {
            Some(only) if count == 1 => Ok(Replication::one(only, 1)),
            _ => {
                let example = nodes.iter().map(|(name, nodes)| format!("{name}={}", (*nodes).min(3)));
                let example = example.collect::<Vec<_>>().join(",");
                Err(InitError::ReplicationNeeded { nodes: count, datacenters, example })
            }
        };
    };
    for (datacenter, copies) in asked.datacenters() {
        let nodes = nodes.get(datacenter).copied().unwrap_or(0);
        if (copies as usize) > nodes {
            return Err(InitError::TooFewNodes { datacenter: datacenter.to_owned(), copies, nodes, datacenters });
        }
    }
    Ok(asked.clone())
}
