//! The schema in Cassandra, and the reasons for it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use store::{FormatLevel, Table};
use thiserror::Error;

/// The name of the format. The number behind it is the store's level.
const FORMAT_NAME: &str = "penates-keyspace";

/// The format of a level.
pub(crate) fn format_of(level: FormatLevel) -> String {
    format!("{FORMAT_NAME} {level}")
}

/// The formats up to a level, for messages.
pub(crate) fn formats(newest: FormatLevel) -> String {
    match newest {
        FormatLevel::FIRST => format_of(newest),
        _ => format!("{} to {newest}", format_of(FormatLevel::FIRST)),
    }
}

/// The level of a format; `None` if it is none that any program reads.
pub(crate) fn level_of(format: &str) -> Option<FormatLevel> {
    let level = format.strip_prefix(FORMAT_NAME)?.strip_prefix(' ')?;
    level.parse().ok().and_then(FormatLevel::of_number)
}

/// Whether a build before 0.1.0 wrote a format: a number alone, which is no level.
pub(crate) fn is_unreleased(format: &str) -> bool {
    format.parse::<u32>().is_ok()
}

/// The table with the version of the others, the times of data centers (`lag.rs`) and the heads'
/// home (`home.rs`).
pub(crate) const META: &str = "meta";

/// The table of the chunks of contents.
pub(crate) const CHUNKS: &str = "content_chunks";

/// The row of [`META`] with the version.
pub(crate) const FORMAT_KEY: &str = "format";

/// Size-tiered: rows are written once and read in sequence. Rewriting megabytes of text to separate
/// files by key ranges would cost more than it saves.
const WRITTEN_ONCE: &str = "{'class': 'SizeTieredCompactionStrategy'}";

/// Leveled: small rows are added to a partition during its whole life, and it is read as one range,
/// so it should lie in few files.
const ADDED_TO: &str = "{'class': 'LeveledCompactionStrategy', 'sstable_size_in_mb': '160'}";

/// Time windows: a partition covers a period and does not change afterwards.
const BY_TIME: &str =
    "{'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', 'compaction_window_size': '1'}";

/// Text is compressed at import; compressing it again only costs.
const UNCOMPRESSED: &str = "{'enabled': 'false'}";

/// For data that is not compressed yet.
const COMPRESSED: &str = "{'class': 'LZ4Compressor', 'chunk_length_in_kb': '16'}";

/// When a node that coordinates a read asks one more replica: after the time in which 99 % are
/// answered, but at most after 50 ms. With the percentile alone, which is the default, a replica
/// that hangs makes it wait longer and longer, because those waits count too.
const ASKED_ONCE_MORE: &str = "MIN(99PERCENTILE,50MS)";

/// How long tombstones are kept, in seconds. Every replica must be repaired within this time, or
/// removed rows come back.
///
/// `work` needs it as well: a reason for being read-only, or the state of a transaction, would
/// count if it came back. Its queues have most tombstones. A collector is slow only where a node
/// reads no more of them at once (`parts.rs`). A bucket is read for about an hour until its queue's
/// mark is past it, and for so long Cassandra keeps a tombstone in any case. More of them are read
/// only if a mark stays behind, or if a walk looks for a lost one. The lists of the search index
/// have tombstones too, which searches read: `docs/limits.md` says what that costs.
const TOMBSTONES_KEPT_S: u32 = 10 * 24 * 3600;

struct Storage {
    compaction: &'static str,
    compression: &'static str,
    comment: &'static str,
}

fn storage(table: Table) -> Storage {
    let (compaction, compression, comment) = match table {
        // Heads change, and are read one by one.
        Table::Objects => (ADDED_TO, COMPRESSED, "objects: head, log, directories"),
        Table::Packs => (WRITTEN_ONCE, UNCOMPRESSED, "packs of frames, and what is kept of members besides"),
        Table::Children => (ADDED_TO, COMPRESSED, "what containers contain"),
        Table::Selections => (ADDED_TO, COMPRESSED, "stored plans"),
        Table::Audit => (BY_TIME, COMPRESSED, "who asked for what"),
        Table::Tokens => (ADDED_TO, COMPRESSED, "hashes of access tokens"),
        Table::Work => (ADDED_TO, COMPRESSED, "what is to be collected"),
        Table::Contents => (ADDED_TO, COMPRESSED, "headers of large contents"),
        Table::Damage => (ADDED_TO, COMPRESSED, "marks on what is damaged"),
        Table::Pins => (ADDED_TO, COMPRESSED, "what selections keep from being collected"),
        // A record is read as a whole, and one that is changed often should lie in few files.
        Table::Records => (ADDED_TO, COMPRESSED, "records that expire"),
    };
    Storage { compaction, compression, comment }
}

fn options(storage: &Storage) -> String {
    let Storage { compaction, compression, comment } = storage;
    format!(
        "compaction = {compaction} AND compression = {compression} AND gc_grace_seconds = {TOMBSTONES_KEPT_S} \
         AND speculative_retry = '{ASKED_ONCE_MORE}' AND comment = '{comment}'"
    )
}

/// The statement that creates a table, if there is none.
fn create_table(keyspace: &str, table: Table) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {keyspace}.{table} (partition blob, sort blob, value blob, stamp blob, tag blob, \
         PRIMARY KEY (partition, sort)) WITH {}",
        options(&storage(table))
    )
}

/// The number of copies in each data center: `dc1=3,dc2=3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication(BTreeMap<String, u32>);

/// Why a text is not a replication.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a replication: write DATACENTER=COPIES, separated by commas, such as dc1=3,dc2=3")]
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
            // Cassandra would read `class` and `replication_factor` as options of the strategy.
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

/// The statements that create a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaPlan {
    /// CQL statements, in order; a statement does nothing if its work is done already.
    pub statements: Vec<String>,
}

impl SchemaPlan {
    /// The statements that create `keyspace` with its tables, for a store at `level`.
    pub fn new(keyspace: &str, replication: &Replication, level: FormatLevel) -> Self {
        let replicas = replication.datacenters().map(|(name, copies)| format!(", '{name}': '{copies}'"));
        let replicas: String = replicas.collect();
        let mut statements = vec![format!(
            "CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {{'class': 'NetworkTopologyStrategy'{replicas}}}"
        )];
        statements.extend(Table::ALL.map(|table| create_table(keyspace, table)));
        let chunks = Storage {
            compaction: WRITTEN_ONCE,
            compression: UNCOMPRESSED,
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
        // Last: a server that finds this row finds all tables.
        statements.push(format!(
            "INSERT INTO {keyspace}.{META} (key, value) VALUES ('{FORMAT_KEY}', '{}') IF NOT EXISTS",
            format_of(level)
        ));
        Self { statements }
    }
}

impl fmt::Display for SchemaPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.statements.iter().try_for_each(|statement| writeln!(f, "{statement};"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_number_alone_is_no_level() {
        assert_eq!(format_of(FormatLevel::FIRST), "penates-keyspace 1");
        assert_eq!(level_of("penates-keyspace 1"), Some(FormatLevel::FIRST));
        assert_eq!(level_of("penates-keyspace 2"), Some(FormatLevel::FIRST.next()));
        for number in 0..=11 {
            assert_eq!((level_of(&number.to_string()), is_unreleased(&number.to_string())), (None, true));
        }
        for other in ["penates-keyspace", "penates-keyspace 0", "penates-keyspace x", ""] {
            assert_eq!((level_of(other), is_unreleased(other)), (None, false), "{other}");
        }
    }

    #[test]
    fn a_replication_is_parsed_as_it_is_written() {
        let replication: Replication = "dc1=3,eu-west.2=2".parse().unwrap();
        assert_eq!(replication.to_string(), "dc1=3,eu-west.2=2");
        for text in
            ["", "3", "dc1", "dc1=", "dc1=0", "dc1=-1", "dc1=x", "=3", "dc1=3,dc1=2", "a'b=3", "class=3", "dc1=101"]
        {
            assert!(text.parse::<Replication>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_plan_makes_every_table_and_writes_its_format_last() {
        let plan = SchemaPlan::new("books", &"dc1=3,dc2=2".parse().unwrap(), FormatLevel::NEWEST);
        assert!(plan.statements[0].contains("'dc1': '3', 'dc2': '2'"), "{}", plan.statements[0]);
        for table in Table::ALL {
            let makes = format!("books.{table} (");
            assert_eq!(plan.statements.iter().filter(|statement| statement.contains(&makes)).count(), 1, "{table}");
        }
        assert!(plan.statements.last().unwrap().contains("books.meta"));
    }

    /// What is removed from `work` must not come back either: a reason for being read-only, say.
    #[test]
    fn every_table_keeps_its_tombstones_until_all_replicas_are_repaired() {
        let plan = SchemaPlan::new("books", &Replication::one("dc1", 1), FormatLevel::NEWEST);
        for table in Table::ALL.map(Table::name).into_iter().chain([CHUNKS]) {
            let makes = format!("books.{table} (");
            let made = plan.statements.iter().find(|statement| statement.contains(&makes)).unwrap();
            assert!(made.contains("gc_grace_seconds = 864000 "), "{made}");
        }
    }

    #[test]
    fn the_schema_uses_nothing_that_does_not_scale() {
        let plan =
            SchemaPlan::new("books", &Replication::one("dc1", 1), FormatLevel::NEWEST).to_string().to_uppercase();
        for word in ["INDEX", "MATERIALIZED", "ALLOW FILTERING", "SIMPLESTRATEGY", "COUNTER"] {
            assert!(!plan.contains(word), "{word}");
        }
    }
}
