//! The raising of a store's level. The protocol is in `lease.rs`.

use futures::FutureExt;
use futures::future::BoxFuture;
use scylla::statement::Consistency;
use store::{Clock, FormatLevel, StoreError, StoreResult, UnixMillis};

use crate::cassandra_store::CassandraStore;
use crate::clocks::Clocks;
use crate::connect::{self, Connected};
use crate::failure::{Failure, readable};
use crate::lease::{INTENT_KEY, LEASE_PREFIX, Server, server_of};
use crate::levels::Level;
use crate::options::CassandraOptions;
use crate::schema::{self, FORMAT_KEY, META};

/// The level of a store, and the servers that have it open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrading {
    /// The level.
    pub level: FormatLevel,
    /// The servers whose leases have not ended by any clock.
    pub servers: Vec<Server>,
}

impl Upgrading {
    /// The servers that do not know a level.
    pub fn hindering(&self, level: FormatLevel) -> Vec<&Server> {
        self.servers.iter().filter(|server| server.newest < level).collect()
    }
}

/// The level at which raising meets what servers write or read at `level`.
fn meeting(level: Level) -> Consistency {
    match level {
        Level::One | Level::Two | Level::Three | Level::LocalOne => Consistency::All,
        Level::Quorum | Level::All | Level::LocalQuorum | Level::EachQuorum => Consistency::EachQuorum,
    }
}

impl Connected {
    /// The servers whose leases may not have ended by any server's clock.
    async fn servers(&self, options: &CassandraOptions, now: UnixMillis) -> StoreResult<Vec<Server>> {
        let all = format!("SELECT key, value FROM {}.{META}", options.address.keyspace());
        let answer =
            self.session.query_unpaged(self.statement(&all, meeting(options.levels.description.write)), ()).await;
        let rows = readable(answer.map_err(|error| Failure::from(error).of_read())?.into_rows_result())?;
        let skew = options.clock_skew_max.unwrap_or_default();
        let mut servers = Vec::new();
        for row in readable(rows.rows::<(String, String)>())? {
            let (key, value) = readable(row)?;
            if !key.starts_with(LEASE_PREFIX) {
                continue;
            }
            let server = server_of(&value)
                .ok_or_else(|| StoreError::Unavailable(format!("the lease of a server cannot be read: `{value}`")))?;
            if now < server.lease_until.plus(skew) {
                servers.push(server);
            }
        }
        servers.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(servers)
    }

    async fn upgrading(&self, options: &CassandraOptions, now: UnixMillis) -> StoreResult<Upgrading> {
        let level = self.recorded_level(options).await?.unwrap_or(FormatLevel::FIRST);
        Ok(Upgrading { level, servers: self.servers(options, now).await? })
    }

    /// Records the level that is intended. A lightweight transaction, like the withdrawal, so that
    /// none of them hides a later one because the clocks of nodes differ.
    pub(crate) async fn intend(&self, options: &CassandraOptions, level: FormatLevel) -> StoreResult<()> {
        let (keyspace, format) = (options.address.keyspace(), schema::format_of(level));
        let first =
            format!("INSERT INTO {keyspace}.{META} (key, value) VALUES ('{INTENT_KEY}', '{format}') IF NOT EXISTS");
        if !self.transact(options, &first).await? {
            // That of a raising that was interrupted.
            let other = format!("UPDATE {keyspace}.{META} SET value = '{format}' WHERE key = '{INTENT_KEY}' IF EXISTS");
            self.transact(options, &other).await?;
        }
        Ok(())
    }

    /// Withdraws the intention to raise the store to a level. One to another level stays.
    async fn withdraw(&self, options: &CassandraOptions, level: FormatLevel) -> StoreResult<()> {
        let (keyspace, format) = (options.address.keyspace(), schema::format_of(level));
        let delete = format!("DELETE FROM {keyspace}.{META} WHERE key = '{INTENT_KEY}' IF value = '{format}'");
        self.transact(options, &delete).await.map(drop)
    }

    /// Whether servers that join find the intention to raise the store to a level.
    async fn is_intended(&self, options: &CassandraOptions, level: FormatLevel) -> StoreResult<bool> {
        let intent = format!("SELECT value FROM {}.{META} WHERE key = '{INTENT_KEY}'", options.address.keyspace());
        let intent = self.first_text(&intent, meeting(options.levels.description.write)).await?;
        Ok(intent.and_then(|value| schema::level_of(&value)) == Some(level))
    }

    /// Runs a lightweight transaction at the level that meets what servers read. Returns whether it
    /// was applied.
    async fn transact(&self, options: &CassandraOptions, change: &str) -> StoreResult<bool> {
        self.decide(change, meeting(options.levels.description.read), ()).await
    }

    /// Records the next level, if the level is still `from`.
    async fn record_level(&self, options: &CassandraOptions, from: FormatLevel) -> StoreResult<bool> {
        let [from, to] = [from, from.next()].map(schema::format_of);
        let keyspace = options.address.keyspace();
        let raise =
            format!("UPDATE {keyspace}.{META} SET value = '{to}' WHERE key = '{FORMAT_KEY}' IF value = '{from}'");
        self.transact(options, &raise).await
    }
}

impl CassandraStore {
    /// The level of a store and the servers that have it open.
    ///
    /// Errors: as of [`CassandraStore::open`]; also [`StoreError::Unavailable`] if a data center
    /// does not answer.
    pub fn upgrading<'a>(options: &'a CassandraOptions, clock: &'a dyn Clock) -> BoxFuture<'a, StoreResult<Upgrading>> {
        async move {
            let (connected, _) = connect::store(options).await?;
            Clocks::compare(&connected, options, clock).await?;
            connected.upgrading(options, clock.now()).await
        }
        .boxed()
    }

    /// Raises the level of a store by one, unless it is the newest that this program knows or a
    /// server does not know the next one. Returns the level before, and the state afterwards. It
    /// may be repeated, and must be if it was interrupted.
    ///
    /// Errors: as of [`CassandraStore::upgrading`].
    pub fn raise_level<'a>(
        options: &'a CassandraOptions,
        clock: &'a dyn Clock,
    ) -> BoxFuture<'a, StoreResult<(FormatLevel, Upgrading)>> {
        async move {
            let (connected, level) = connect::store(options).await?;
            // It decides which leases have ended.
            Clocks::compare(&connected, options, clock).await?;
            let next = level.next();
            if level == options.newest_level {
                connected.withdraw(options, level).await?;
                return Ok((level, connected.upgrading(options, clock.now()).await?));
            }
            connected.intend(options, next).await?;
            let found = connected.upgrading(options, clock.now()).await?;
            if found.level == level && found.hindering(next).is_empty() {
                // Another process may have withdrawn it, and servers may have joined since.
                if !connected.is_intended(options, next).await? {
                    return Err(StoreError::Unavailable("another process raises the level too: try again".to_owned()));
                }
                if !connected.record_level(options, level).await? {
                    return Err(StoreError::Unavailable(
                        "another process has raised the level: look with --check".to_owned(),
                    ));
                }
            }
            connected.withdraw(options, next).await?;
            Ok((level, connected.upgrading(options, clock.now()).await?))
        }
        .boxed()
    }
}
