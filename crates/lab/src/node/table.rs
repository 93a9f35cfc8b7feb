//! The table of the load: as cassandra-stress makes it, a key and five columns of bytes. Partitions of
//! several records have a column more, by which these are in order.

use std::path::Path;

use scylla::statement::prepared::PreparedStatement;
use walkdir::WalkDir;

use super::views::{CqlError, Views, doing};
use crate::workload::{Data, Partitions};

/// The keyspace.
pub(super) const KEYSPACE: &str = "lab";

/// The table.
pub(super) const NAME: &str = "standard1";

/// Number of columns beside the key.
pub(super) const COLUMNS: usize = 5;

/// A table that was just made.
pub(super) struct Table {
    /// The end of its folder's name, which no other table has.
    id: String,
    /// When it was made, in milliseconds since 1970.
    pub made_ms: i64,
    /// Writes a record.
    pub write: PreparedStatement,
    /// Reads one.
    pub read: PreparedStatement,
    /// Deletes one.
    pub delete: PreparedStatement,
}

impl Table {
    /// Drops the table and makes it again.
    pub async fn create(views: &Views, data: &Data, options: &[String]) -> Result<Self, CqlError> {
        let made_ms = jiff::Timestamp::now().as_millisecond();
        let keyspace = format!(
            "CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} \
             WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        );
        views.run(&keyspace).await?;
        views.run(&format!("DROP TABLE IF EXISTS {KEYSPACE}.{NAME}")).await?;
        let columns: Vec<_> = (0..COLUMNS).map(|number| format!("\"C{number}\"")).collect();
        let typed: Vec<_> = columns.iter().map(|column| format!("{column} blob")).collect();
        let is_alone = data.partitions == Partitions::Single;
        let (at, primary, is_at) = if is_alone { ("", "key", "") } else { ("at bigint, ", "key, at", " AND at = ?") };
        let order = (!is_alone).then(|| "CLUSTERING ORDER BY (at DESC)".to_owned());
        let with: Vec<_> = order.into_iter().chain(options.iter().cloned()).collect();
        let with = if with.is_empty() { String::new() } else { format!(" WITH {}", with.join(" AND ")) };
        let typed = typed.join(", ");
        views
            .run(&format!("CREATE TABLE {KEYSPACE}.{NAME} (key blob, {at}{typed}, PRIMARY KEY ({primary})){with}"))
            .await?;
        let places = vec!["?"; COLUMNS + if is_alone { 1 } else { 2 }].join(", ");
        let names = columns.join(", ");
        let ttl = data.ttl.map_or_else(String::new, |ttl| format!(" USING TTL {}", ttl.as_secs()));
        let (is_record, limit) = match data.partitions {
            Partitions::Single | Partitions::Wide { .. } => (is_at, String::new()),
            Partitions::TimeSeries { read, .. } => ("", format!(" LIMIT {read}")),
        };
        let prepare = async |text: String| doing(&text, views.session.prepare(text.as_str()).await);
        let write =
            prepare(format!("INSERT INTO {KEYSPACE}.{NAME} ({primary}, {names}) VALUES ({places}){ttl}")).await?;
        let read = prepare(format!("SELECT {names} FROM {KEYSPACE}.{NAME} WHERE key = ?{is_record}{limit}")).await?;
        let delete = prepare(format!("DELETE FROM {KEYSPACE}.{NAME} WHERE key = ?{is_record}")).await?;
        let id = views.id_of(KEYSPACE, NAME).await?;
        Ok(Self { id, made_ms, write, read, delete })
    }

    /// Bytes of its files, below the folder of its node.
    pub fn bytes(&self, node: &Path) -> u64 {
        bytes(node, |table| table.ends_with(&self.id))
    }

    /// Bytes of files of earlier tables.
    pub fn left_bytes(&self, node: &Path) -> u64 {
        bytes(node, |table| !table.ends_with(&self.id))
    }
}

/// Bytes of files of tables that are chosen by the name of their folder.
fn bytes(node: &Path, is_chosen: impl Fn(&str) -> bool) -> u64 {
    let keyspace = node.join("data").join(KEYSPACE);
    let tables = std::fs::read_dir(keyspace).into_iter().flatten().flatten();
    let chosen = tables.filter(|table| table.file_name().to_str().is_some_and(&is_chosen));
    let files = chosen.flat_map(|table| WalkDir::new(table.path()).into_iter().flatten());
    // Files may be deleted meanwhile.
    files.filter_map(|file| file.metadata().ok().filter(std::fs::Metadata::is_file)).map(|file| file.len()).sum()
}
