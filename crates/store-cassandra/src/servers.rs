//! The servers that have a store open, and the raising of its level.
//!
//! A store is raised to a level only if every server that has it open knows that level. Each open
//! store has a *lease*: a row of [`META`] with the newest level that its program knows, and with a
//! time at which the lease ends. Joining and raising exclude each other, because each first writes
//! and then reads what the other writes:
//!
//! - A store that is opened, or whose lease has ended, writes its lease and then reads the level
//!   and the level that is intended. If it does not know one of them, it withdraws and is refused.
//! - Raising writes the level that is intended and then reads all leases. If one of them does not
//!   know that level, the intention is withdrawn. Otherwise the format, which is the level,
//!   changes.
//!
//! Leases are written and levels read at the levels of descriptions, usually a quorum of the local
//! data center, so that a server can join whenever it can work. Raising uses a quorum of each data
//! center, or all replicas where the other side uses less than a quorum, and so meets every lease.
//! A lightweight transaction for each lease would need a majority of all replicas instead.
//!
//! A call whose lease has ended renews it before it goes on, so a process that was suspended reads
//! nothing that it does not know. A server that caches an earlier level writes what all know.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use scylla::statement::{Consistency, SerialConsistency};
use store::{Class, Clock, Deadline, FormatLevel, StoreError, StoreResult, Strength, UnixMillis};
use tokio::time::{Instant, MissedTickBehavior, timeout_at};

use crate::connect::{self, Connected};
use crate::engine::{CassandraStore, Engine};
use crate::failure::{Failure, readable};
use crate::levels::Level;
use crate::options::CassandraOptions;
use crate::requests::{Parameter, applied};
use crate::schema::{self, FORMAT_KEY, META};

/// How long a lease lasts.
const LEASE: Duration = Duration::from_secs(300);

/// How often it is renewed.
const RENEWAL: Duration = Duration::from_secs(100);

/// The time limit of each request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Cassandra deletes the row of a lease this much later than the lease ends.
const TTL_MARGIN: Duration = Duration::from_secs(3600);

/// The key of the row with the level to which a store is being raised.
const INTENT_KEY: &str = "raising";

/// What the keys of leases begin with.
const LEASE_PREFIX: &str = "server/";

/// A server that has a store open, as its lease says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Machine and process.
    pub name: String,
    /// The newest level that its program knows.
    pub newest: FormatLevel,
    /// When its lease ends.
    pub lease_until: UnixMillis,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (knows level {})", self.name, self.newest)
    }
}

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

/// The lease of an open store.
pub(crate) struct Lease {
    key: String,
    name: String,
    newest: FormatLevel,
    /// Until when it lasts: by the processor's clock, which stops while the machine sleeps, and by
    /// the store's. `None`: the store has not joined yet.
    until: Mutex<Option<(Instant, UnixMillis)>>,
    /// Held while it is renewed.
    turn: tokio::sync::Mutex<()>,
}

impl Lease {
    pub(crate) fn new(newest: FormatLevel) -> Self {
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let machine = machine.split_whitespace().next().unwrap_or("unknown").to_owned();
        Self {
            key: format!("{LEASE_PREFIX}{}", store::ContentId::fresh()),
            name: format!("{machine}:{}", std::process::id()),
            newest,
            until: Mutex::new(None),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn holds(&self, now: UnixMillis) -> bool {
        self.until.lock().is_some_and(|(until, by_clock)| Instant::now() < until && now < by_clock)
    }

    /// Renews the lease if it does not hold, after the renewals before this one.
    async fn hold(
        &self,
        deadline: Deadline,
        now: impl Fn() -> UnixMillis,
        renewal: impl Future<Output = StoreResult<()>>,
    ) -> StoreResult<()> {
        if self.holds(now()) {
            return Ok(());
        }
        let renewed = async {
            let _turn = self.turn.lock().await;
            if self.holds(now()) { Ok(()) } else { renewal.await }
        };
        timeout_at(deadline.0, renewed).await.unwrap_or(Err(StoreError::DeadlinePassed))
    }
}

/// The value of a lease's row: newest level, end, name.
fn lease_value(newest: FormatLevel, until: UnixMillis, name: &str) -> String {
    format!("{newest} {} {name}", until.0)
}

fn server_of(value: &str) -> Option<Server> {
    let mut parts = value.splitn(3, ' ');
    let newest = FormatLevel::of_number(parts.next()?.parse().ok()?)?;
    let lease_until = UnixMillis(parts.next()?.parse().ok()?);
    Some(Server { name: parts.next()?.to_owned(), newest, lease_until })
}

/// Renews the lease until the engine is closed, and learns whether the level has risen.
pub(crate) fn watch(engine: &Arc<Engine>) {
    let engine: Weak<Engine> = Arc::downgrade(engine);
    tokio::spawn(async move {
        let mut renewals = tokio::time::interval_at(Instant::now() + RENEWAL, RENEWAL);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            renewals.tick().await;
            let Some(engine) = engine.upgrade() else { return };
            if let Err(error) = engine.renew_lease().await {
                tracing::warn!(%error, "the lease of this server could not be renewed");
            }
        }
    });
}

impl Engine {
    /// Makes sure that the lease holds. A call that waits for its turn, or for nodes, ends with
    /// [`StoreError::DeadlinePassed`] at its deadline.
    pub(crate) async fn hold_lease(&self, deadline: Deadline) -> StoreResult<()> {
        self.lease.hold(deadline, || self.now(), self.renew_lease()).await
    }

    /// Writes the lease, and then checks that this program knows the store's level.
    pub(crate) async fn renew_lease(&self) -> StoreResult<()> {
        // Taken before the request, so that the lease ends here no later than others see.
        let (began, until) = (Instant::now(), self.now().plus(LEASE));
        self.put_lease(&lease_value(self.lease.newest, until, &self.lease.name), LEASE + TTL_MARGIN).await?;
        let intent = self.meta(INTENT_KEY).await?.and_then(|value| schema::level_of(&value));
        let format = self.meta(FORMAT_KEY).await?.unwrap_or_default();
        let level = schema::level_of(&format).filter(|level| *level <= self.lease.newest);
        // While the earlier lease holds, it keeps the level from being raised further.
        let is_known = intent.is_none_or(|intent| intent <= self.lease.newest) || self.lease.holds(self.now());
        let Some(level) = level.filter(|_| is_known) else {
            self.leave().await;
            *self.lease.until.lock() = None;
            return Err(StoreError::Format {
                location: self.keyspace.clone(),
                found: intent.map_or(format, |intent| schema::format_of(intent).to_string()),
                expected: schema::formats(self.lease.newest),
            });
        };
        *self.level.lock() = level;
        *self.lease.until.lock() = Some((began + LEASE, until));
        Ok(())
    }

    /// Withdraws the lease, so that it hinders no upgrade. If that fails, the lease ends by itself.
    pub(crate) async fn leave(&self) {
        let ended = lease_value(self.lease.newest, UnixMillis(0), &self.lease.name);
        if let Err(error) = self.put_lease(&ended, TTL_MARGIN).await {
            tracing::debug!(%error, "the lease of this server could not be withdrawn");
        }
    }

    async fn put_lease(&self, value: &str, ttl: Duration) -> StoreResult<()> {
        let ttl = i32::try_from(ttl.as_secs()).unwrap_or(i32::MAX);
        let row = vec![Parameter::Text(self.lease.key.clone()), Parameter::Text(value.to_owned()), Parameter::Int(ttl)];
        let bound = vec![(&self.statements.meta.put_for, row)];
        let at = Some(self.write_times.next());
        let level = self.levels.write(Class::Description).consistency();
        self.requests.write(Deadline::within(PATIENCE), level, at, bound).await.map_err(Failure::of_read)
    }

    async fn meta(&self, key: &str) -> StoreResult<Option<String>> {
        let level = self.levels.read(Class::Description, Strength::Usual).consistency();
        let rows = self.requests.rows(Deadline::within(PATIENCE), level, &self.statements.meta.get, (key,)).await?;
        Ok(readable(rows.maybe_first_row::<(String,)>())?.map(|(value,)| value))
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

    /// Records the level that is intended, or none.
    pub(crate) async fn intend(&self, options: &CassandraOptions, level: Option<FormatLevel>) -> StoreResult<()> {
        let keyspace = options.address.keyspace();
        let change = match level {
            Some(level) => {
                let format = schema::format_of(level);
                format!("INSERT INTO {keyspace}.{META} (key, value) VALUES ('{INTENT_KEY}', '{format}')")
            }
            None => format!("DELETE FROM {keyspace}.{META} WHERE key = '{INTENT_KEY}'"),
        };
        let answer =
            self.session.query_unpaged(self.statement(&change, meeting(options.levels.description.read)), ()).await;
        answer.map(drop).map_err(|error| Failure::from(error).of_read())
    }

    /// Records the next level, if the level is still `from`.
    async fn record_level(&self, options: &CassandraOptions, from: FormatLevel) -> StoreResult<bool> {
        let keyspace = options.address.keyspace();
        let raise = format!("UPDATE {keyspace}.{META} SET value = ? WHERE key = ? IF value = ?");
        let mut raise = self.statement(&raise, meeting(options.levels.description.read));
        raise.set_is_idempotent(false);
        raise.set_serial_consistency(Some(SerialConsistency::Serial));
        let [from, to] = [from, from.next()].map(|level| schema::format_of(level).to_string());
        let answer = self.session.query_unpaged(raise, (to, FORMAT_KEY, from)).await;
        applied(answer.map_err(|error| Failure::from(error).of_read())?)
    }
}

impl CassandraStore {
    /// The level of a store and the servers that have it open.
    ///
    /// Errors: as of [`CassandraStore::open`]; also [`StoreError::Unavailable`] if a data center
    /// does not answer.
    pub async fn upgrading(options: &CassandraOptions, clock: &dyn Clock) -> StoreResult<Upgrading> {
        let (connected, _) = connect::store(options).await?;
        connected.upgrading(options, clock.now()).await
    }

    /// Raises the level of a store by one, unless it is the newest that this program knows or a
    /// server does not know the next one. Returns the level before, and the state afterwards. It
    /// may be repeated, and must be if it was interrupted.
    ///
    /// Errors: as of [`CassandraStore::upgrading`].
    pub async fn raise_level(options: &CassandraOptions, clock: &dyn Clock) -> StoreResult<(FormatLevel, Upgrading)> {
        let (connected, level) = connect::store(options).await?;
        let next = level.next();
        if level == options.newest_level {
            connected.intend(options, None).await?;
            return Ok((level, connected.upgrading(options, clock.now()).await?));
        }
        connected.intend(options, Some(next)).await?;
        let found = connected.upgrading(options, clock.now()).await?;
        if found.level == level && found.hindering(next).is_empty() && !connected.record_level(options, level).await? {
            return Err(StoreError::Unavailable("another process has raised the level: look with --check".to_owned()));
        }
        connected.intend(options, None).await?;
        Ok((level, connected.upgrading(options, clock.now()).await?))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_lease_is_read_as_it_is_written() {
        let newest = FormatLevel::KINDS;
        let server = server_of(&lease_value(newest, UnixMillis(7), "a b:1")).unwrap();
        assert_eq!(server, Server { name: "a b:1".to_owned(), newest, lease_until: UnixMillis(7) });
        assert_eq!(server_of("2 x a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_wait_for_a_renewal_end_by_their_deadlines() {
        let (lease, began) = (Lease::new(FormatLevel::KINDS), Instant::now());
        let deadline = Deadline::within(Duration::from_secs(2));
        let calls = (0..12).map(|_| lease.hold(deadline, || UnixMillis(0), std::future::pending()));
        for call in futures::future::join_all(calls).await {
            assert!(matches!(call, Err(StoreError::DeadlinePassed)), "{call:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }
}
