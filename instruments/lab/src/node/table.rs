//! The table of the load: as cassandra-stress makes it, a key and five columns of bytes. Partitions of
//! several records have a column more, by which these are in order.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use scylla::client::session::Session;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::CqlValue;
use walkdir::WalkDir;

use super::views::{CqlError, Views, doing};
use crate::deployment::Levels;
use crate::load::records::{COLUMNS, Columns, Place};
use crate::load::{Asked, Door};
use crate::workload::{Data, Partitions};

/// The keyspace.
pub(super) const KEYSPACE: &str = "lab";

/// The table.
pub(super) const NAME: &str = "standard1";

/// A table that was just made.
pub(super) struct Table {
    /// The end of its folder's name, which no other table has.
    id: String,
    /// When it was made, in milliseconds since 1970.
    pub made_ms: i64,
    /// Writes a record to all nodes that keep it, before the load.
    fill: PreparedStatement,
    /// Writes a record.
    write: PreparedStatement,
    /// Reads one.
    read: PreparedStatement,
    /// Deletes one.
    delete: PreparedStatement,
    session: Arc<Session>,
    partitions: Partitions,
}

impl Table {
    /// Drops the table and makes it again, with so many copies of each record.
    pub async fn create(
        views: &Views,
        data: &Data,
        (copies, levels): (u8, Levels),
        options: &[String],
    ) -> Result<Self, CqlError> {
        let made_ms = jiff::Timestamp::now().as_millisecond();
        let replication = format!("replication = {{'class': 'SimpleStrategy', 'replication_factor': {copies}}}");
        views.run(&format!("CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH {replication}")).await?;
        views.run(&format!("DROP TABLE IF EXISTS {KEYSPACE}.{NAME}")).await?;
        if views.copies().await? != Some(copies) {
            views.run(&format!("ALTER KEYSPACE {KEYSPACE} WITH {replication}")).await?;
        }
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
        let prepare = async |text: String, level| {
            let mut prepared = doing(&text, views.session.prepare(text.as_str()).await)?;
            prepared.set_consistency(level);
            Ok::<_, CqlError>(prepared)
        };
        let insert = format!("INSERT INTO {KEYSPACE}.{NAME} ({primary}, {names}) VALUES ({places}){ttl}");
        let select = format!("SELECT {names} FROM {KEYSPACE}.{NAME} WHERE key = ?{is_record}{limit}");
        let delete = format!("DELETE FROM {KEYSPACE}.{NAME} WHERE key = ?{is_record}");
        Ok(Self {
            id: views.id_of(KEYSPACE, NAME).await?,
            made_ms,
            fill: prepare(insert.clone(), Consistency::All).await?,
            write: prepare(insert, levels.write).await?,
            read: prepare(select, levels.read).await?,
            delete: prepare(delete, levels.write).await?,
            session: views.session.clone(),
            partitions: data.partitions,
        })
    }

    /// How many nodes have to answer, as its statements say it.
    pub fn levels(&self) -> Option<Levels> {
        Some(Levels { write: self.write.get_consistency()?, read: self.read.get_consistency()? })
    }

    /// Bytes of its files, below the folder of its node.
    pub fn bytes(&self, node: &Path) -> u64 {
        bytes(node, |table| table.ends_with(&self.id))
    }

    /// Its files, below the folder of its node.
    pub fn files(&self, node: &Path) -> impl Iterator<Item = PathBuf> {
        let id = self.id.as_str();
        files(node, move |table| table.ends_with(id)).map(|(path, _)| path)
    }

    /// Bytes of files of earlier tables.
    pub fn left_bytes(&self, node: &Path) -> u64 {
        bytes(node, |table| !table.ends_with(&self.id))
    }
}

impl Door for Table {
    async fn make(self: Arc<Self>, asked: Asked) -> Result<(), String> {
        let (statement, values) = match asked {
            Asked::Write(place, columns) => (&self.write, row(place, columns)),
            Asked::Read(place) => (&self.read, named(place, self.partitions)),
            Asked::Delete(place) => (&self.delete, named(place, self.partitions)),
        };
        let done = self.session.execute_unpaged(statement, values).await;
        done.map(drop).map_err(|error| error.to_string())
    }

    async fn fill(&self, place: Place, columns: Columns) -> Result<(), String> {
        let done = self.session.execute_unpaged(&self.fill, row(place, columns)).await;
        done.map(drop).map_err(|error| error.to_string())
    }
}

/// The values by which a record is written: its place, and its columns.
fn row(Place { key, at }: Place, columns: Columns) -> Vec<CqlValue> {
    let place = std::iter::once(CqlValue::Blob(key.into_bytes())).chain(at.map(CqlValue::BigInt));
    place.chain(columns.map(CqlValue::Blob)).collect()
}

/// The values by which a record is read or deleted. A series is read by its key alone.
fn named(Place { key, at }: Place, partitions: Partitions) -> Vec<CqlValue> {
    let at = at.filter(|_| matches!(partitions, Partitions::Wide { .. }));
    std::iter::once(CqlValue::Blob(key.into_bytes())).chain(at.map(CqlValue::BigInt)).collect()
}

/// The files of tables that are chosen by the name of their folder, with their bytes.
fn files(node: &Path, is_chosen: impl Fn(&str) -> bool) -> impl Iterator<Item = (PathBuf, u64)> {
    let keyspace = node.join("data").join(KEYSPACE);
    let tables = std::fs::read_dir(keyspace).into_iter().flatten().flatten();
    let chosen = tables.filter(move |table| table.file_name().to_str().is_some_and(&is_chosen));
    let files = chosen.flat_map(|table| WalkDir::new(table.path()).into_iter().flatten());
    // Files may be deleted meanwhile.
    files.filter_map(|file| {
        let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some((file.into_path(), metadata.len()))
    })
}

fn bytes(node: &Path, is_chosen: impl Fn(&str) -> bool) -> u64 {
    files(node, is_chosen).map(|(_, bytes)| bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_read_by_its_key_and_a_record_of_a_wide_partition_by_its_place() {
        let asked = |partitions| named(Place::of(partitions, 17), partitions);
        assert_eq!(asked(Partitions::Single), [CqlValue::Blob(b"0000000017".to_vec())]);
        assert_eq!(asked(Partitions::TimeSeries { series: 5, read: 10 }), [CqlValue::Blob(b"0000000002".to_vec())]);
        let wide = [CqlValue::Blob(b"0000000001".to_vec()), CqlValue::BigInt(7)];
        assert_eq!(asked(Partitions::Wide { rows: 10 }), wide);
    }
}
