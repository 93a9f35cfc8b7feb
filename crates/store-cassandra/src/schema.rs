//! What is made in Cassandra, and why so.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use store::Table;
use thiserror::Error;

use crate::connect::{self, Connected};
use crate::engine::CassandraStore;
use crate::options::CassandraOptions;

/// The version of all of the schema; another one is refused.
pub(crate) const FORMAT: &str = "4";

/// The table that tells the version of the others, and the times of data centers (`lag.rs`).
pub(crate) const META: &str = "meta";

/// The table of the chunks of contents.
pub(crate) const CHUNKS: &str = "content_chunks";

/// The row of [`META`] with the version.
pub(crate) const FORMAT_KEY: &str = "format";

const DAY_S: u32 = 24 * 3600;

/// Size-tiered: rows are written once and read in runs. Rewriting megabytes of text to keep files apart by key ranges would cost more
/// than it saves.
const WRITTEN_ONCE: &str = "{'class': 'SizeTieredCompactionStrategy'}";

/// Leveled: small rows are added to a partition for as long as it lives, and it is read as one range; it should lie in few files.
const ADDED_TO: &str = "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '160'}";

/// Time windows: a partition is a stretch of time and is not touched afterwards.
const BY_TIME: &str =
    "{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', 'compaction_window_size': '1'}";

/// Text is compressed when it is imported; compressing it again only costs.
const STORED_AS_IT_IS: &str = "{'enabled': 'false'}";

/// What is not compressed yet.
const COMPRESSED: &str = "{'class': 'LZ4Compressor', 'chunk_length_in_kb': '16'}";

/// When a node that is read from asks one replica more: 99 % are answered by then, but at the latest after 50 ms. By the percentile alone, which is
/// the default, a replica that stands still makes it wait ever longer, because those waits count as well.
const ASKED_ONCE_MORE: &str = "MIN(99PERCENTILE,50MS)";

struct Storage {
    compaction: &'static str,
    compression: &'static str,
    /// How long tombstones are kept. Every replica must have been repaired within this time, or what was removed comes back.
    gc_grace_s: u32,
    comment: &'static str,
}

fn storage(table: Table) -> Storage {
    let usual = 10 * DAY_S;
    let (compaction, compression, gc_grace_s, comment) = match table {
        // Heads change, and are looked up one by one.
        Table::Objects => (ADDED_TO, COMPRESSED, usual, "objects: head, log, directories"),
        Table::Packs => (WRITTEN_ONCE, STORED_AS_IT_IS, usual, "packs of frames, and what is kept of members besides"),
        Table::Children => (ADDED_TO, COMPRESSED, usual, "what containers contain"),
        Table::Selections => (ADDED_TO, COMPRESSED, usual, "stored plans"),
        Table::Audit => (BY_TIME, COMPRESSED, usual, "who asked for what"),
        Table::Tokens => (ADDED_TO, COMPRESSED, usual, "hashes of access tokens"),
        // Records of work come and go. One that comes back is done again and finds nothing to do, so its tombstone may go early, and
        // looking for work reads past few.
        Table::Work => (ADDED_TO, COMPRESSED, DAY_S, "what is to be collected"),
        Table::Contents => (ADDED_TO, COMPRESSED, usual, "headers of large contents"),
        Table::Damage => (ADDED_TO, COMPRESSED, usual, "marks on what is damaged"),
        Table::Pins => (ADDED_TO, COMPRESSED, usual, "what selections keep from being collected"),
    };
    Storage { compaction, compression, gc_grace_s, comment }
}

fn options(storage: &Storage) -> String {
    let Storage { compaction, compression, gc_grace_s, comment } = storage;
    format!(
        "compaction = {compaction} AND compression = {compression} AND gc_grace_seconds = {gc_grace_s} \
         AND speculative_retry = '{ASKED_ONCE_MORE}' AND comment = '{comment}'"
    )
}

/// How many copies are kept in which data center: `dc1=3,dc2=3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication(BTreeMap<String, u32>);

/// Why a text is no replication.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no replication: write DATACENTER=COPIES, several with commas between, such as dc1=3,dc2=3")]
pub struct ReplicationError(String);

impl Replication {
    /// A number of copies in one data center.
    pub fn one(datacenter: impl Into<String>, copies: u32) -> Self {
        Self(BTreeMap::from([(datacenter.into(), copies)]))
    }

    /// The data centers, each with its number of copies.
    pub fn datacenters(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(name, copies)| (name.as_str(), *copies))
    }
}

impl FromStr for Replication {
    type Err = ReplicationError;

    fn from_str(text: &str) -> Result<Self, ReplicationError> {
        let wrong = || ReplicationError(text.to_owned());
        let mut datacenters = BTreeMap::new();
        for part in text.split(',') {
            let (name, copies) = part.split_once('=').ok_or_else(wrong)?;
            let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
            let copies = copies.parse().ok().filter(|copies| (1..=100).contains(copies)).ok_or_else(wrong)?;
            // `class` and `replication_factor` would be read as options of the strategy.
            let option = matches!(name, "class" | "replication_factor");
            if name.is_empty()
                || option
                || !name.chars().all(fits)
                || datacenters.insert(name.to_owned(), copies).is_some()
            {
                return Err(wrong());
            }
        }
        Ok(Self(datacenters))
    }
}

impl fmt::Display for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<_> = self.0.iter().map(|(name, copies)| format!("{name}={copies}")).collect();
        f.write_str(&parts.join(","))
    }
}

/// The statements that make a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaPlan {
    /// Statements of CQL, in order; each does nothing where its work is done already.
    pub statements: Vec<String>,
}

impl SchemaPlan {
    /// What makes `keyspace` with its tables.
    pub fn new(keyspace: &str, replication: &Replication) -> Self {
        let replicas = replication.datacenters().map(|(name, copies)| format!(", '{name}': '{copies}'"));
        let replicas: String = replicas.collect();
        let mut statements = vec![format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy'{replicas}}}"
        )];
        statements.extend(Table::ALL.map(|table| {
            format!(
                "CREATE TABLE IF NOT EXISTS {keyspace}.{table} (partition blob, sort blob, value blob, stamp blob, tag blob, \
                 PRIMARY KEY (partition, sort)) WITH {}",
                options(&storage(table))
            )
        }));
        let chunks = Storage {
            compaction: WRITTEN_ONCE,
            compression: STORED_AS_IT_IS,
            gc_grace_s: 10 * DAY_S,
            comment: "chunks of large contents, 32 MiB a partition",
        };
        statements.push(format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.{CHUNKS} (content blob, part int, number int, chunk blob, \
             PRIMARY KEY ((content, part), number)) WITH {}",
            options(&chunks)
        ));
        statements.push(format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.{META} (key text PRIMARY KEY, value text) WITH comment = 'the format of the tables'"
        ));
        // Last: who finds it finds all the others.
        statements.push(format!(
            "INSERT INTO {keyspace}.{META} (key, value) VALUES ('{FORMAT_KEY}', '{FORMAT}') IF NOT EXISTS"
        ));
        Self { statements }
    }
}

impl fmt::Display for SchemaPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statements.iter().try_for_each(|statement| writeln!(f, "{statement};"))
    }
}

/// Why a store could not be made.
#[derive(Debug, Error)]
pub enum InitError {
    /// The cluster cannot be reached, or holds a store of another format.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// Nothing was said about replication where a guess could lose data.
    #[error(
        "the cluster has {nodes} nodes (data centers: {datacenters}): say how many copies to keep where, such as --replication {example}"
    )]
    ReplicationNeeded {
        /// Nodes of the cluster.
        nodes: usize,
        /// Names of its data centers.
        datacenters: String,
        /// What could be said.
        example: String,
    },
    /// A data center that is not there, or has fewer nodes than copies.
    #[error(
        "{copies} copies are asked for in data center `{datacenter}`, which has {nodes} nodes (data centers: {datacenters})"
    )]
    TooFewNodes {
        /// The data center.
        datacenter: String,
        /// Copies asked for.
        copies: u32,
        /// Nodes in it.
        nodes: usize,
        /// Names of all data centers.
        datacenters: String,
    },
    /// A statement failed.
    #[error("`{statement}` failed: {reason}")]
    Statement {
        /// The statement.
        statement: String,
        /// What the cluster said.
        reason: String,
    },
}

/// What making a store did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initialised {
    /// The keyspace and its tables were made.
    Made,
    /// They were there, in this program's format.
    WasThere,
    /// Nothing was done: these statements would be run.
    Planned(SchemaPlan),
}

impl CassandraStore {
    /// Makes the keyspace and the tables of a store, unless they are there; `dry_run` only says how. Where the cluster is one node
    /// alone, one copy is kept if nothing is said; otherwise `replication` is needed.
    ///
    /// An existing keyspace keeps its replication: changing it needs a repair afterwards, which is an administrator's work.
    pub async fn initialise(
        options: &CassandraOptions,
        replication: Option<&Replication>,
        dry_run: bool,
    ) -> Result<Initialised, InitError> {
        let connected = connect::session(options).await?;
        let keyspace = options.address.keyspace();
        if connected.check_format(options).await? && !dry_run {
            return Ok(Initialised::WasThere);
        }
        let replication = settled(&connected, replication)?;
        let plan = SchemaPlan::new(keyspace, &replication);
        if dry_run {
            return Ok(Initialised::Planned(plan));
        }
        for statement in &plan.statements {
            connected
                .run_schema(statement)
                .await
                .map_err(|error| InitError::Statement { statement: statement.clone(), reason: error.to_string() })?;
        }
        Ok(Initialised::Made)
    }
}

/// The replication that was asked for, if the cluster can keep it; or the only one that makes sense.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn replication_is_read_as_it_is_written() {
        let replication: Replication = "dc1=3,eu-west.2=2".parse().unwrap();
        assert_eq!(replication.to_string(), "dc1=3,eu-west.2=2");
        for text in
            ["", "3", "dc1", "dc1=", "dc1=0", "dc1=-1", "dc1=x", "=3", "dc1=3,dc1=2", "a'b=3", "class=3", "dc1=101"]
        {
            assert!(text.parse::<Replication>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_plan_makes_every_table_and_says_its_format_last() {
        let plan = SchemaPlan::new("books", &"dc1=3,dc2=2".parse().unwrap());
        assert!(plan.statements[0].contains("'dc1': '3', 'dc2': '2'"), "{}", plan.statements[0]);
        for table in Table::ALL {
            let makes = format!("books.{table} (");
            assert_eq!(plan.statements.iter().filter(|statement| statement.contains(&makes)).count(), 1, "{table}");
        }
        assert!(plan.statements.last().unwrap().contains("books.meta"));
    }

    #[test]
    fn nothing_that_does_not_scale_is_made() {
        let plan = SchemaPlan::new("books", &Replication::one("dc1", 1)).to_string().to_uppercase();
        for word in ["INDEX", "MATERIALIZED", "ALLOW FILTERING", "SIMPLESTRATEGY", "COUNTER"] {
            assert!(!plan.contains(word), "{word}");
        }
    }
}
