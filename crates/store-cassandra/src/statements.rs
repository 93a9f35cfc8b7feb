//! The prepared statements of each table.

use futures::future::try_join_all;
use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::prepared::PreparedStatement;
use store::{Deadline, Direction, StoreError, StoreResult, Table};
use tokio::sync::OnceCell;
use tokio::time::timeout_at;

use crate::schema::{CHUNKS, META};

/// What a walk reads of the first row of a partition.
const FIRSTS: &str = "SELECT token(partition), partition, TTL(value) FROM";

/// All statements of a keyspace.
pub(crate) struct Statements {
    /// In the order of [`Table::ALL`].
    tables: Vec<TableStatements>,
    pub(crate) chunks: ChunkStatements,
    pub(crate) meta: MetaStatements,
}

/// The statements of one table. Two columns make a key: `partition` and `sort`.
pub(crate) struct TableStatements {
    /// Reads a row by its key.
    pub(crate) get: PreparedStatement,
    /// Reads rows from a key to a key, or from a key on; forward and backward.
    scans: [PreparedStatement; 4],
    /// Writes a plain row, with its time to live.
    pub(crate) put: PreparedStatement,
    /// Writes a plain row as of a write time, with its time to live.
    pub(crate) put_at: PreparedStatement,
    /// Reads value and write time of rows by their keys.
    pub(crate) see: PreparedStatement,
    /// Writes a plain row in place of one with a value, or where there is no value. Like `put` it
    /// leaves no trace once the value has expired, as an `INSERT` without a time to live would.
    pub(crate) replace: PreparedStatement,
    /// Removes a plain row with a value.
    pub(crate) remove_if: PreparedStatement,
    /// Writes a guarded row where there is none.
    pub(crate) make: PreparedStatement,
    /// Writes a guarded row in place of one with a stamp.
    pub(crate) change: PreparedStatement,
    /// Deletes a guarded row with a stamp.
    pub(crate) unmake: PreparedStatement,
    /// Reads stamp and write time of rows by their keys.
    pub(crate) look_at: PreparedStatement,
    /// Reads stamp and write time of the rows of a range; to a key, or from a key on.
    look_over: [PreparedStatement; 2],
    /// Removes a plain row as of a write time.
    pub(crate) remove: PreparedStatement,
    /// Removes a range as of a write time; to a key, or from a key on.
    remove_range: [PreparedStatement; 2],
    /// Reads the first row of each partition, from one token to another.
    pub(crate) walk: PreparedStatement,
    /// See the function of this name.
    walk_in_parts: OnceCell<[PreparedStatement; 2]>,
    /// The name of the table, with its keyspace.
    name: String,
}

/// The statements for the chunks of contents.
pub(crate) struct ChunkStatements {
    pub(crate) get: PreparedStatement,
    pub(crate) put: PreparedStatement,
    /// Reads the write times of all chunks of a part.
    pub(crate) look_over: PreparedStatement,
    /// Removes a part as of a write time.
    pub(crate) remove: PreparedStatement,
}

/// The statements for the other rows beside the format: the times of data centers (`lag.rs`),
/// the heads' home (`home.rs`) and leases (`lease.rs`).
pub(crate) struct MetaStatements {
    /// Writes a row. Parameters: key, value.
    pub(crate) put: PreparedStatement,
    /// Reads a row. Parameter: key.
    pub(crate) get: PreparedStatement,
    /// Writes a row that Cassandra deletes. Parameters: key, value, seconds.
    pub(crate) put_for: PreparedStatement,
}

impl Statements {
    pub(crate) async fn prepare(session: &Session, keyspace: &str) -> StoreResult<Self> {
        let tables = Table::ALL.into_iter().map(|table| TableStatements::prepare(session, keyspace, table));
        let (chunks, meta) = (ChunkStatements::prepare(session, keyspace), MetaStatements::prepare(session, keyspace));
        let (tables, chunks, meta) = futures::try_join!(try_join_all(tables), chunks, meta).map_err(cannot_prepare)?;
        Ok(Self { tables, chunks, meta })
    }

    /// The statements of a table.
    pub(crate) fn of(&self, table: Table) -> &TableStatements {
        &self.tables[table as usize]
    }
}

fn cannot_prepare(error: PrepareError) -> StoreError {
    StoreError::Unavailable(format!("cannot prepare statements: {error}"))
}

/// The statements of a cell, which are prepared when they are first needed. The driver waits for
/// all nodes, however long one of them does not answer, so the deadline is kept here.
async fn prepared_by<T, F>(deadline: Deadline, cell: &OnceCell<T>, prepare: impl FnOnce() -> F) -> StoreResult<&T>
where
    F: Future<Output = Result<T, PrepareError>>,
{
    match timeout_at(deadline.0, cell.get_or_try_init(prepare)).await {
        Ok(prepared) => prepared.map_err(cannot_prepare),
        Err(_) => Err(StoreError::DeadlinePassed),
    }
}

impl TableStatements {
    async fn prepare(session: &Session, keyspace: &str, table: Table) -> Result<Self, PrepareError> {
        const KEY: &str = "WHERE partition = ? AND sort = ?";
        const BETWEEN: &str = "WHERE partition = ? AND sort >= ? AND sort < ?";
        const FROM: &str = "WHERE partition = ? AND sort >= ?";
        const ROWS: &str = "SELECT sort, value, stamp, tag FROM";
        const SEEN: &str = "SELECT sort, stamp, WRITETIME(value) FROM";
        let name = format!("{keyspace}.{table}");
        let prepare = |text: String| session.prepare(text);
        // One after the other within a table: opening is rare, and all tables are prepared at the
        // same time.
        Ok(Self {
            get: prepare(format!("SELECT value, stamp, tag FROM {name} {KEY}")).await?,
            scans: [
                prepare(format!("{ROWS} {name} {BETWEEN}")).await?,
                prepare(format!("{ROWS} {name} {FROM}")).await?,
                prepare(format!("{ROWS} {name} {BETWEEN} ORDER BY sort DESC")).await?,
                prepare(format!("{ROWS} {name} {FROM} ORDER BY sort DESC")).await?,
            ],
            put: prepare(format!("UPDATE {name} USING TTL ? SET value = ? {KEY}")).await?,
            put_at: prepare(format!("UPDATE {name} USING TTL ? AND TIMESTAMP ? SET value = ? {KEY}")).await?,
            see: prepare(format!("SELECT sort, value, WRITETIME(value) FROM {name} WHERE partition = ? AND sort IN ?"))
                .await?,
            replace: prepare(format!("UPDATE {name} USING TTL ? SET value = ? {KEY} IF value = ?")).await?,
            remove_if: prepare(format!("DELETE FROM {name} {KEY} IF value = ?")).await?,
            make: prepare(format!(
                "INSERT INTO {name} (partition, sort, value, stamp, tag) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS"
            ))
            .await?,
            change: prepare(format!("UPDATE {name} SET value = ?, stamp = ?, tag = ? {KEY} IF stamp = ?")).await?,
            unmake: prepare(format!("DELETE FROM {name} {KEY} IF stamp = ?")).await?,
            look_at: prepare(format!("{SEEN} {name} WHERE partition = ? AND sort IN ?")).await?,
            look_over: [
                prepare(format!("{SEEN} {name} {BETWEEN}")).await?,
                prepare(format!("{SEEN} {name} {FROM}")).await?,
            ],
            remove: prepare(format!("DELETE FROM {name} USING TIMESTAMP ? {KEY}")).await?,
            remove_range: [
                prepare(format!("DELETE FROM {name} USING TIMESTAMP ? {BETWEEN}")).await?,
                prepare(format!("DELETE FROM {name} USING TIMESTAMP ? {FROM}")).await?,
            ],
            walk: prepare(format!(
                "{FIRSTS} {name} WHERE token(partition) >= ? AND token(partition) <= ? PER PARTITION LIMIT 1 LIMIT ?"
            ))
            .await?,
            walk_in_parts: OnceCell::new(),
            name,
        })
    }

    /// Reads the first row within a range of keys, of each partition of a token; to a key, or from
    /// a key on. A node reads no more than the range. Cassandra counts that as filtering all the
    /// same, which an operator can forbid (`allow_filtering_enabled`). So the statements are
    /// prepared when they are first needed, and a store opens without them.
    pub(crate) async fn walk_in_parts(
        &self,
        session: &Session,
        deadline: Deadline,
    ) -> StoreResult<[&PreparedStatement; 2]> {
        let from = format!("{FIRSTS} {} WHERE token(partition) = ? AND sort >= ?", self.name);
        let prepare = || async {
            let limit = "PER PARTITION LIMIT 1 ALLOW FILTERING";
            Ok::<_, PrepareError>([
                session.prepare(format!("{from} AND sort < ? {limit}")).await?,
                session.prepare(format!("{from} {limit}")).await?,
            ])
        };
        Ok(prepared_by(deadline, &self.walk_in_parts, prepare).await?.each_ref())
    }

    /// Reads rows of a range. A range with an end has one more parameter.
    pub(crate) fn scan(&self, direction: Direction, has_end: bool) -> &PreparedStatement {
        match (direction, has_end) {
            (Direction::Forward, true) => &self.scans[0],
            (Direction::Forward, false) => &self.scans[1],
            (Direction::Backward, true) => &self.scans[2],
            (Direction::Backward, false) => &self.scans[3],
        }
    }

    /// Reads stamps and write times of a range.
    pub(crate) fn look_over(&self, has_end: bool) -> &PreparedStatement {
        &self.look_over[usize::from(!has_end)]
    }

    /// Removes a range.
    pub(crate) fn remove_range(&self, has_end: bool) -> &PreparedStatement {
        &self.remove_range[usize::from(!has_end)]
    }
}

impl ChunkStatements {
    async fn prepare(session: &Session, keyspace: &str) -> Result<Self, PrepareError> {
        let name = format!("{keyspace}.{CHUNKS}");
        let prepare = |text: String| session.prepare(text);
        Ok(Self {
            get: prepare(format!("SELECT chunk FROM {name} WHERE content = ? AND part = ? AND number = ?")).await?,
            put: prepare(format!("INSERT INTO {name} (content, part, number, chunk) VALUES (?, ?, ?, ?)")).await?,
            look_over: prepare(format!("SELECT WRITETIME(chunk) FROM {name} WHERE content = ? AND part = ?")).await?,
            remove: prepare(format!("DELETE FROM {name} USING TIMESTAMP ? WHERE content = ? AND part = ?")).await?,
        })
    }
}

impl MetaStatements {
    async fn prepare(session: &Session, keyspace: &str) -> Result<Self, PrepareError> {
        let name = format!("{keyspace}.{META}");
        let put = session.prepare(format!("INSERT INTO {name} (key, value) VALUES (?, ?)")).await?;
        let get = session.prepare(format!("SELECT value FROM {name} WHERE key = ?")).await?;
        let put_for = session.prepare(format!("INSERT INTO {name} (key, value) VALUES (?, ?) USING TTL ?")).await?;
        Ok(Self { put, get, put_for })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::future::{pending, ready};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_that_does_not_answer_keeps_nobody_beyond_the_deadline_and_the_next_call_prepares_again() {
        let cell = OnceCell::new();
        let within = || Deadline::within(Duration::from_secs(10));
        let late = prepared_by(within(), &cell, pending).await;
        assert!(matches!(late, Err(StoreError::DeadlinePassed)), "{late:?}");
        assert_eq!(prepared_by(within(), &cell, || ready(Ok("prepared"))).await.unwrap(), &"prepared");
        assert_eq!(prepared_by(within(), &cell, pending).await.unwrap(), &"prepared", "once is enough");
    }
}
