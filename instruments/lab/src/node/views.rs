//! What a node says of itself over CQL.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::deserialize::row::DeserializeRow;
use scylla::policies::host_filter::AllowListHostFilter;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::Consistency;
use scylla::value::{CqlTimestamp, CqlValue};
use thiserror::Error;

use super::table;
use crate::catalogue;
use crate::rig::Counters;

/// The property of Java with its version.
const JAVA_VERSION: &str = "java.version";

/// What is kept of the Java of a node, as Java names it.
const JAVA: [&str; 3] = ["java.home", JAVA_VERSION, "java.vm.name"];

/// The pools in which flushes and compactions run and wait.
const POOLS: [&str; 4] =
    ["CompactionExecutor", "MemtableFlushWriter", "MemtablePostFlush", "PerDiskMemtableFlushWriter_0"];

/// A compaction that has ended: its keyspace and table, the bytes that it read, and when it ended.
type Compaction = (Option<String>, Option<String>, Option<i64>, Option<CqlTimestamp>);

/// A task as the view has it: its keyspace and table, its kind, how much of how much is done, and in
/// what.
type TaskRow = (String, String, Option<String>, Option<i64>, Option<i64>, Option<String>);

/// A flush, a compaction or another task that reads or writes files of tables.
pub(crate) struct Task {
    pub keyspace: String,
    pub table: String,
    /// In small letters: `compaction`.
    pub kind: String,
    /// How much is done.
    pub progress: Option<i64>,
    /// Of how much.
    pub total: Option<i64>,
    /// In what: `bytes`.
    pub unit: String,
}

/// A node that cannot be asked.
#[derive(Debug, Error)]
#[error("{doing}: {why}")]
pub struct CqlError {
    /// What was to be done.
    doing: String,
    /// Why it was not.
    why: String,
}

/// Adds to an error what was to be done.
pub(super) fn doing<T, E: std::fmt::Display>(what: &str, done: Result<T, E>) -> Result<T, CqlError> {
    done.map_err(|error| CqlError { doing: what.to_owned(), why: error.to_string() })
}

/// What is in force in a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The versions of `cassandra` and of `java`.
    pub versions: BTreeMap<String, String>,
    /// All settings that have a value.
    pub settings: BTreeMap<String, String>,
}

/// Asks a node what is in force in it. It may be any node that wants no password and no TLS.
///
/// # Errors
/// It does not answer.
pub async fn in_force(node: SocketAddr) -> Result<InForce, CqlError> {
    let views = Views::connect(&[node]).await?;
    Ok(InForce { versions: views.versions().await?, settings: views.settings().await? })
}

/// A connection to nodes.
pub(crate) struct Views {
    /// The session. It does not repeat what failed, and asks at level ONE.
    pub session: Arc<Session>,
}

impl Views {
    /// Connects to these nodes, and to no other one of their cluster: what a view says is of one.
    pub async fn connect(nodes: &[SocketAddr]) -> Result<Self, CqlError> {
        let profile = ExecutionProfile::builder()
            .consistency(Consistency::One)
            .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
            .build();
        let only = doing("connecting", AllowListHostFilter::new(nodes))?;
        let builder = SessionBuilder::new().known_nodes_addr(nodes).host_filter(Arc::new(only));
        let session = builder.default_execution_profile_handle(profile.into_handle()).build().await;
        Ok(Self { session: Arc::new(doing("connecting", session)?) })
    }

    /// Runs a statement without an answer.
    pub async fn run(&self, statement: &str) -> Result<(), CqlError> {
        doing(statement, self.session.query_unpaged(statement, ()).await).map(drop)
    }

    async fn rows<R: for<'frame, 'metadata> DeserializeRow<'frame, 'metadata>>(
        &self,
        query: &str,
    ) -> Result<Vec<R>, CqlError> {
        let answer = doing(query, self.session.query_unpaged(query, ()).await)?;
        let rows = doing(query, answer.into_rows_result())?;
        let rows = doing(query, rows.rows::<R>())?.collect::<Result<_, _>>();
        doing(query, rows)
    }

    /// All settings that have a value. The caches are not followed at run time.
    pub async fn settings(&self) -> Result<BTreeMap<String, String>, CqlError> {
        let rows = self.rows::<(String, Option<String>)>("SELECT name, value FROM system_views.settings").await?;
        Ok(rows.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
    }

    /// An option of the load's table, as CQL writes it; that of memtables without quotes.
    pub async fn table_option(&self, name: &str) -> Result<Option<String>, CqlError> {
        let (keyspace, table) = (table::KEYSPACE, table::NAME);
        self.option_of(keyspace, table, name).await
    }

    /// The same of any table.
    pub async fn option_of(&self, keyspace: &str, table: &str, name: &str) -> Result<Option<String>, CqlError> {
        let query = format!(
            "SELECT {name} FROM system_schema.tables WHERE keyspace_name = '{keyspace}' AND table_name = '{table}'"
        );
        if name == catalogue::MEMTABLE {
            let rows = self.rows::<(Option<String>,)>(&query).await?;
            let named = rows.into_iter().next();
            return Ok(named.map(|(named,)| named.unwrap_or_else(|| catalogue::MEMTABLE_DEFAULT.to_owned())));
        }
        let rows = self.rows::<(Option<BTreeMap<String, String>>,)>(&query).await?;
        let map = rows.into_iter().next().and_then(|(map,)| map);
        Ok(map.map(|map| {
            let pairs: Vec<_> = map.iter().map(|(key, value)| format!("'{key}': '{value}'")).collect();
            format!("{{{}}}", pairs.join(", "))
        }))
    }

    /// How many nodes the cluster has, as this one knows it.
    pub async fn nodes(&self) -> Result<usize, CqlError> {
        let others = self.rows::<(IpAddr,)>("SELECT peer FROM system.peers_v2").await?;
        Ok(others.len() + 1)
    }

    /// How many copies the load's keyspace has.
    pub async fn copies(&self) -> Result<Option<u8>, CqlError> {
        let keyspace = table::KEYSPACE;
        let query = format!("SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = '{keyspace}'");
        let rows = self.rows::<(BTreeMap<String, String>,)>(&query).await?;
        let replication = rows.into_iter().next().map(|(replication,)| replication);
        Ok(replication.and_then(|map| map.get("replication_factor")?.parse().ok()))
    }

    /// The id of a table, as its folder has it.
    pub async fn id_of(&self, keyspace: &str, table: &str) -> Result<String, CqlError> {
        let query = format!(
            "SELECT id FROM system_schema.tables WHERE keyspace_name = '{keyspace}' AND table_name = '{table}'"
        );
        let id = match self.rows::<(CqlValue,)>(&query).await?.into_iter().next() {
            Some((CqlValue::Uuid(id),)) => Ok(id.simple().to_string()),
            _ => Err("there is no such table"),
        };
        doing(&query, id)
    }

    /// The statement that makes the load's table, with all its options.
    pub async fn described(&self) -> Result<String, CqlError> {
        let describe = format!("DESCRIBE TABLE {}.{}", table::KEYSPACE, table::NAME);
        let rows = self.rows::<(String, String, String, String)>(&describe).await?;
        Ok(rows.into_iter().map(|(.., statement)| statement + "\n").collect())
    }

    /// How many snapshots there are.
    pub async fn snapshots(&self) -> Result<u64, CqlError> {
        let rows = self.rows::<(String,)>("SELECT name FROM system_views.snapshots").await?;
        Ok(rows.len() as u64)
    }

    /// The tasks of flushes and compactions that run.
    pub async fn tasks(&self) -> Result<Vec<Task>, CqlError> {
        let query = "SELECT keyspace_name, table_name, kind, progress, total, unit FROM system_views.sstable_tasks";
        let rows = self.rows::<TaskRow>(query).await?;
        let task = |(keyspace, table, kind, progress, total, unit): TaskRow| {
            let (kind, unit) = (kind.unwrap_or_default().to_ascii_lowercase(), unit.unwrap_or_default());
            Task { keyspace, table, kind, progress, total, unit }
        };
        Ok(rows.into_iter().map(task).collect())
    }

    /// Whether no flush and no compaction runs or waits.
    pub async fn is_idle(&self) -> Result<bool, CqlError> {
        let tasks = self.rows::<(String,)>("SELECT keyspace_name FROM system_views.sstable_tasks").await?;
        let query = "SELECT name, active_tasks, pending_tasks FROM system_views.thread_pools";
        let pools = self.rows::<(String, i32, i32)>(query).await?;
        let is_busy =
            |(name, active, pending): &(String, i32, i32)| POOLS.contains(&name.as_str()) && active + pending > 0;
        Ok(tasks.is_empty() && !pools.iter().any(is_busy))
    }

    /// The counters of the load's table. Compactions are those that have ended since an instant, in
    /// milliseconds since 1970: those of earlier tables have the same name.
    pub async fn counters(&self, since_ms: i64) -> Result<Counters, CqlError> {
        let history = "SELECT keyspace_name, columnfamily_name, bytes_in, compacted_at FROM system.compaction_history";
        let history = self.rows::<Compaction>(history).await?;
        let is_own = |(keyspace, table, _, at): &Compaction| {
            (keyspace.as_deref(), table.as_deref()) == (Some(table::KEYSPACE), Some(table::NAME))
                && at.is_some_and(|at| at.0 >= since_ms)
        };
        let own = history.into_iter().filter(is_own);
        let own: Vec<_> = own.map(|(_, _, bytes, _)| bytes.unwrap_or_default() as f64).collect();
        Ok(Counters {
            nodes: 1,
            at_s: 0.0,
            compacted_bytes: own.iter().sum(),
            compactions: own.len() as f64,
            writes: self.count("local_write_latency").await?,
            reads: self.count("local_read_latency").await?,
            used: BTreeMap::new(),
        })
    }

    /// How many operations of the load's table a view has counted.
    async fn count(&self, view: &str) -> Result<f64, CqlError> {
        let (keyspace, table) = (table::KEYSPACE, table::NAME);
        let query = format!(
            "SELECT \"count\" FROM system_views.{view} WHERE keyspace_name = '{keyspace}' AND table_name = '{table}'"
        );
        let rows = self.rows::<(Option<i64>,)>(&query).await?;
        Ok(rows.into_iter().next().and_then(|(count,)| count).unwrap_or_default() as f64)
    }

    /// The Java that runs the node: its home, version and machine, by the names that Java has for them.
    pub async fn java(&self) -> Result<BTreeMap<String, String>, CqlError> {
        let query = "SELECT name, value FROM system_views.system_properties";
        let rows = self.rows::<(String, Option<String>)>(query).await?;
        let of_java = rows.into_iter().filter(|(name, _)| JAVA.contains(&name.as_str()));
        Ok(of_java.filter_map(|(name, value)| Some((name, value?))).collect())
    }

    /// The versions of Cassandra and of Java.
    pub async fn versions(&self) -> Result<BTreeMap<String, String>, CqlError> {
        let cassandra = self.rows::<(String,)>("SELECT release_version FROM system.local").await?;
        let cassandra = cassandra.into_iter().next().map(|(version,)| version);
        let all = [("cassandra", cassandra), ("java", self.java().await?.remove(JAVA_VERSION))];
        Ok(all.into_iter().filter_map(|(name, version)| Some((name.to_owned(), version?))).collect())
    }
}
