//! The home of heads.
//!
//! If several data centers have copies and one of them decides heads (`LOCAL_SERIAL`), a row of the
//! store names it: the heads' home. Every open store reads the row repeatedly. It switches heads
//! only if the row names its own data center, and only if it read the row within the last seconds.
//! So the home can be moved while servers run, and two data centers never decide at the same time:
//!
//! 1. The row names no data center ([`CassandraStore::leave_home`]). A quorum of each data center
//!    acknowledges that. So every store learns it from nearby replicas, or cannot read the row.
//! 2. An administrator brings everything that was decided to the new home: a repair.
//! 3. The row names the new home ([`CassandraStore::settle_home`]).
//!
//! A lost home cannot acknowledge anything. Then a quorum of the new home is enough
//! ([`CassandraStore::take_home`]). A store in the old home reads the row from all data centers if
//! they answer, so it learns of the new home when the data centers reach each other again.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use scylla::statement::{Consistency, SerialConsistency};
use store::{Deadline, StoreError, StoreResult};
use tokio::time::{Instant, MissedTickBehavior};

use crate::connect::{self, Connected};
use crate::engine::{CassandraStore, Engine};
use crate::failure::Failure;
use crate::levels::Serial;
use crate::options::CassandraOptions;
use crate::requests::applied;
use crate::schema::META;

/// The key of the row in [`META`].
const KEY: &str = "home";

/// How often the row is read.
const LOOK: Duration = Duration::from_secs(2);

/// The time limit of one try at one level.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long the last value counts while the row cannot be read.
const TRUSTED: Duration = Duration::from_secs(10);

/// The levels at which the row is read. If the other data centers do not answer, this one counts.
const LEVELS: [Consistency; 2] = [Consistency::EachQuorum, Consistency::LocalQuorum];

/// Where heads are decided, as the store records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// Heads have no home: all data centers decide them together, or there is only one.
    Unset,
    /// Nowhere: the home is being moved.
    Nowhere,
    /// In this data center.
    At(String),
}

impl Home {
    fn of_value(value: Option<String>) -> Self {
        match value {
            None => Self::Unset,
            Some(name) if name.is_empty() => Self::Nowhere,
            Some(name) => Self::At(name),
        }
    }

    fn value(&self) -> &str {
        match self {
            Self::Unset | Self::Nowhere => "",
            Self::At(name) => name,
        }
    }

    /// Why a store in this data center switches no heads. `None`: it does.
    fn refusal(&self, serial: Serial, datacenter: &str) -> Option<String> {
        match (self, serial) {
            (Self::Unset, Serial::Serial) => None,
            (Self::At(home), Serial::LocalSerial) if home == datacenter => None,
            (Self::At(home), Serial::LocalSerial) => {
                Some(format!("heads have their home in the data center `{home}`, and this is `{datacenter}`"))
            }
            (Self::Nowhere, Serial::LocalSerial) => {
                Some(format!("the heads' home is being moved, and no data center is it now; this is `{datacenter}`"))
            }
            (Self::Unset, Serial::LocalSerial) => Some(NO_HOME.to_owned()),
            (Self::Nowhere | Self::At(_), Serial::Serial) => Some(HAS_HOME.to_owned()),
        }
    }

    /// Refuses a setting that contradicts the record.
    pub(crate) fn check_serial(&self, serial: Serial) -> StoreResult<()> {
        match (self, serial) {
            (Self::Unset, Serial::LocalSerial) => Err(StoreError::Invalid(NO_HOME.to_owned())),
            (Self::Nowhere | Self::At(_), Serial::Serial) => Err(StoreError::Invalid(HAS_HOME.to_owned())),
            _ => Ok(()),
        }
    }
}

const NO_HOME: &str = "with cassandra.serial = \"LOCAL_SERIAL\" and copies in several data centers, one of them must be the heads' home: \
                       name it with `penates home DATACENTER`";

const HAS_HOME: &str = "the heads of this store have a home (`penates home` says where): set cassandra.serial = \"LOCAL_SERIAL\" for all \
                        servers";

impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str("heads have no home"),
            Self::Nowhere => f.write_str("no data center is the heads' home: it is being moved"),
            Self::At(name) => write!(f, "the heads' home is the data center `{name}`"),
        }
    }
}

/// What an open store knows of the home.
pub(crate) struct KnownHome {
    serial: Serial,
    datacenter: String,
    /// The last value and when it was requested. `None`: only one data center has copies.
    last: Option<Mutex<(Home, Instant)>>,
}

impl KnownHome {
    pub(crate) fn new(serial: Serial, datacenter: String, home: Option<Home>) -> Self {
        Self { serial, datacenter, last: home.map(|home| Mutex::new((home, Instant::now()))) }
    }

    /// Why no head can be switched from here. `None`: heads can be switched.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refusal_at(Instant::now())
    }

    fn refusal_at(&self, now: Instant) -> Option<String> {
        let last = self.last.as_ref()?.lock();
        let (home, read_at) = &*last;
        if now.duration_since(*read_at) > TRUSTED {
            return Some(format!("for more than {TRUSTED:?} it could not be read where the heads' home is"));
        }
        home.refusal(self.serial, &self.datacenter)
    }

    /// Fails with [`StoreError::ReadOnly`] if no head can be switched from here.
    pub(crate) fn check(&self) -> StoreResult<()> {
        self.refusal().map_or(Ok(()), |why| Err(StoreError::ReadOnly(why)))
    }

    fn learn(&self, home: Home, asked_at: Instant) {
        let Some(last) = &self.last else { return };
        let mut last = last.lock();
        if last.0 != home {
            tracing::warn!(before = %last.0, now = %home, "the heads' home was moved");
        }
        *last = (home, asked_at);
    }
}

/// Reads the row until the engine is closed.
pub(crate) fn watch(engine: &Arc<Engine>) {
    if engine.home.last.is_none() {
        return;
    }
    let engine: Weak<Engine> = Arc::downgrade(engine);
    tokio::spawn(async move {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let Some(engine) = engine.upgrade() else { return };
            engine.look_for_home().await;
        }
    });
}

impl Engine {
    async fn look_for_home(&self) {
        for level in LEVELS {
            let (asked_at, statement) = (Instant::now(), &self.statements.meta.get);
            let rows = self.requests.rows(Deadline::within(PATIENCE), level, statement, (KEY,)).await;
            match rows.map(|rows| rows.maybe_first_row::<(String,)>()) {
                Ok(Ok(row)) => return self.home.learn(Home::of_value(row.map(|(value,)| value)), asked_at),
                Ok(Err(error)) => tracing::warn!(%error, "where the heads' home is cannot be read"),
                Err(error) => tracing::debug!(%error, ?level, "where the heads' home is cannot be read"),
            }
        }
    }
}

impl Connected {
    /// The home according to all data centers, or to this one if the others do not answer.
    pub(crate) async fn home(&self, keyspace: &str) -> StoreResult<Home> {
        match self.home_at(keyspace, LEVELS[0]).await {
            Err(error) if error.is_passing() => self.home_at(keyspace, LEVELS[1]).await,
            home => home,
        }
    }

    async fn home_at(&self, keyspace: &str, level: Consistency) -> StoreResult<Home> {
        let home = format!("SELECT value FROM {keyspace}.{META} WHERE key = '{KEY}'");
        self.first_text(&home, level).await.map(Home::of_value)
    }

    /// Records another home in all data centers if the recorded one is `from`. Returns whether it
    /// was.
    async fn move_home(&self, keyspace: &str, from: &Home, to: &Home) -> StoreResult<bool> {
        let (key, to) = (KEY.to_owned(), to.value().to_owned());
        let (change, parameters) = match from {
            Home::Unset => {
                (format!("INSERT INTO {keyspace}.{META} (key, value) VALUES (?, ?) IF NOT EXISTS"), vec![key, to])
            }
            from => (
                format!("UPDATE {keyspace}.{META} SET value = ? WHERE key = ? IF value = ?"),
                vec![to, key, from.value().to_owned()],
            ),
        };
        let mut change = self.statement(&change, Consistency::EachQuorum);
        change.set_is_idempotent(false);
        change.set_serial_consistency(Some(SerialConsistency::Serial));
        let answer = self.session.query_unpaged(change, parameters).await;
        applied(answer.map_err(|error| Failure::from(error).of_read())?)
    }
}

impl CassandraStore {
    /// Where heads are decided, as the store records it.
    ///
    /// Errors: as of [`CassandraStore::open`].
    pub async fn home(options: &CassandraOptions) -> StoreResult<Home> {
        connect::store(options).await?.0.home(options.address.keyspace()).await
    }

    /// Records that no data center is the home. Within seconds, every open store learns this or
    /// stops switching heads.
    ///
    /// Errors: as of [`CassandraStore::open`]; also [`StoreError::Unavailable`] if a data center
    /// cannot acknowledge it. It may be repeated.
    pub async fn leave_home(options: &CassandraOptions) -> StoreResult<()> {
        let (connected, keyspace) = (connect::store(options).await?.0, options.address.keyspace());
        connected.several_datacenters(options)?;
        let from = connected.home_at(keyspace, Consistency::EachQuorum).await?;
        match from == Home::Nowhere || connected.move_home(keyspace, &from, &Home::Nowhere).await? {
            true => Ok(()),
            false => Err(changed_meanwhile()),
        }
    }

    /// Records a new home. The old one must have been left.
    ///
    /// Errors: as of [`CassandraStore::leave_home`]; [`StoreError::Invalid`] if another data center
    /// is the home, or this one has no copies.
    pub async fn settle_home(options: &CassandraOptions, datacenter: &str) -> StoreResult<()> {
        let (connected, keyspace) = (connect::store(options).await?.0, options.address.keyspace());
        let datacenters = connected.several_datacenters(options)?;
        if !datacenters.iter().any(|name| name == datacenter) {
            return Err(StoreError::Invalid(format!(
                "keyspace {keyspace} keeps no copy in the data center `{datacenter}`; it does in: {}",
                datacenters.join(", ")
            )));
        }
        let to = Home::At(datacenter.to_owned());
        match connected.home_at(keyspace, Consistency::EachQuorum).await? {
            from if from == to => Ok(()),
            Home::Nowhere => match connected.move_home(keyspace, &Home::Nowhere, &to).await? {
                true => Ok(()),
                false => Err(changed_meanwhile()),
            },
            from => Err(StoreError::Invalid(format!(
                "{from}; before it can be moved, it must be left: `penates home --leave`, then repair the keyspace"
            ))),
        }
    }

    /// Records the local data center as the home because the old one is lost and cannot acknowledge
    /// that.
    ///
    /// Errors: as of [`CassandraStore::open`]; also [`StoreError::Invalid`] if heads have no home,
    /// or if all data centers answer.
    pub async fn take_home(options: &CassandraOptions) -> StoreResult<()> {
        let (connected, keyspace) = (connect::store(options).await?.0, options.address.keyspace());
        connected.several_datacenters(options)?;
        if let Ok(home) = connected.home_at(keyspace, Consistency::EachQuorum).await {
            return Err(StoreError::Invalid(format!(
                "no data center is lost, all of them answer, and {home}; move it by `penates home --leave`"
            )));
        }
        if connected.home_at(keyspace, Consistency::LocalQuorum).await? == Home::Unset {
            return Err(StoreError::Invalid(NO_HOME.to_owned()));
        }
        let to = Home::At(connected.datacenter.clone());
        let put = format!("INSERT INTO {keyspace}.{META} (key, value) VALUES (?, ?)");
        let put = connected.statement(&put, Consistency::LocalQuorum);
        let answer = connected.session.query_unpaged(put, (KEY, to.value())).await;
        answer.map_err(|error| Failure::from(error).of_read())?;
        // This node's clock may lag behind the clock of the node that wrote the old value.
        match connected.home_at(keyspace, Consistency::LocalQuorum).await? == to {
            true => Ok(()),
            false => Err(changed_meanwhile()),
        }
    }
}

fn changed_meanwhile() -> StoreError {
    StoreError::Unavailable("where the heads' home is has been changed meanwhile; look with `penates home`".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(name: &str) -> Home {
        Home::At(name.to_owned())
    }

    #[test]
    fn heads_are_switched_only_at_their_home_or_where_all_decide_together() {
        for (home, serial, may_change) in [
            (Home::Unset, Serial::Serial, true),
            (Home::Unset, Serial::LocalSerial, false),
            (Home::Nowhere, Serial::Serial, false),
            (Home::Nowhere, Serial::LocalSerial, false),
            (at("dc1"), Serial::Serial, false),
            (at("dc1"), Serial::LocalSerial, true),
            (at("dc2"), Serial::Serial, false),
            (at("dc2"), Serial::LocalSerial, false),
        ] {
            assert_eq!(home.refusal(serial, "dc1").is_none(), may_change, "{home:?}, {serial:?}");
            // A server starts away from home as well, and while the home is moved.
            let starts = matches!((&home, serial), (Home::Unset, Serial::Serial))
                || !matches!(home, Home::Unset) && serial == Serial::LocalSerial;
            assert_eq!(home.check_serial(serial).is_ok(), starts, "{home:?}, {serial:?}");
        }
    }

    #[test]
    fn a_home_that_cannot_be_read_counts_for_a_while() {
        let known = KnownHome::new(Serial::LocalSerial, "dc1".to_owned(), Some(at("dc1")));
        let began = Instant::now();
        assert_eq!(known.refusal_at(began + TRUSTED / 2), None);
        assert!(known.refusal_at(began + 2 * TRUSTED).is_some(), "the home may be elsewhere by now");
        known.learn(at("dc1"), began + 2 * TRUSTED);
        assert_eq!(known.refusal_at(began + 2 * TRUSTED), None);
        known.learn(at("dc2"), began + 2 * TRUSTED);
        let why = known.refusal_at(began + 2 * TRUSTED).unwrap();
        assert!(why.contains("dc1") && why.contains("dc2"), "{why}");
    }

    #[test]
    fn a_store_with_copies_in_one_data_center_needs_no_home() {
        let known = KnownHome::new(Serial::LocalSerial, "dc1".to_owned(), None);
        assert_eq!(known.refusal_at(Instant::now() + 100 * TRUSTED), None);
    }

    #[test]
    fn a_home_is_stored_as_the_name_of_its_data_center() {
        for (value, home) in [(None, Home::Unset), (Some(""), Home::Nowhere), (Some("dc1"), at("dc1"))] {
            assert_eq!(Home::of_value(value.map(str::to_owned)), home);
            assert_eq!(home.value(), value.unwrap_or_default());
        }
    }
}
