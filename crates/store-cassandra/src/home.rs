//! The home of heads.
//!
//! If several data centers have copies and one of them decides heads (`LOCAL_SERIAL`), a row of the
//! store names it: the heads' home. Every open store reads the row repeatedly. It switches heads
//! only if the row names its own data center, and only if it read the row within the last seconds.
//! So the home can be moved while servers run, and two data centers never decide at the same time:
//!
//! 1. The row names no data center (`CassandraStore::leave_home`). A quorum of each data center
//!    acknowledges that. So every store learns it from nearby replicas, or cannot read the row.
//! 2. An administrator brings everything that was decided to the new home: a repair.
//! 3. The row names the new home ([`CassandraStore::settle_home`]).
//!
//! Whether heads have a home at all depends on which data centers have copies. A store that finds
//! others than when it was opened switches no heads, as if it were away from home.
//!
//! A lost home cannot acknowledge anything. Then a quorum of the new home is enough
//! ([`CassandraStore::take_home`]). A store in the old home reads the row from all data centers if
//! they answer, so it learns of the new home when the data centers reach each other again.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use scylla::errors::ExecutionError;
use scylla::statement::Consistency;
use store::{StoreError, StoreResult};
use tokio::time::Instant;

use crate::connect::Connected;
use crate::levels::Serial;
use crate::schema::META;

/// The key of the row in [`META`].
pub(crate) const KEY: &str = "home";

/// How long the last value counts while the row cannot be read.
const TRUSTED: Duration = Duration::from_secs(10);

/// The levels at which the row is read. If the other data centers do not answer, this one counts.
pub(crate) const LEVELS: [Consistency; 2] = [Consistency::EachQuorum, Consistency::LocalQuorum];

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
    pub(crate) fn of_value(value: Option<String>) -> Self {
        match value {
            None => Self::Unset,
            Some(name) if name.is_empty() => Self::Nowhere,
            Some(name) => Self::At(name),
        }
    }

    pub(crate) fn value(&self) -> &str {
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

pub(crate) const NO_HOME: &str = "with cassandra.serial = \"LOCAL_SERIAL\" and copies in several data centers, one of them must be the heads' home: \
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
    /// The other data centers that have copies now, if they are not those that had some when the
    /// store was opened.
    moved: Mutex<Option<Vec<String>>>,
}

impl KnownHome {
    pub(crate) fn new(serial: Serial, datacenter: String, home: Option<Home>) -> Self {
        let last = home.map(|home| Mutex::new((home, Instant::now())));
        Self { serial, datacenter, last, moved: Mutex::default() }
    }

    /// Whether it is worth knowing: several data centers have copies.
    pub(crate) fn may_move(&self) -> bool {
        self.last.is_some()
    }

    /// Why no head can be switched from here. `None`: heads can be switched.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refusal_at(Instant::now())
    }

    fn refusal_at(&self, now: Instant) -> Option<String> {
        if let Some(others) = &*self.moved.lock() {
            let now = [std::slice::from_ref(&self.datacenter), &others[..]].concat().join(", ");
            return Some(format!(
                "its keyspace has copies in other data centers ({now}) than when this program opened it: start this \
                 program again"
            ));
        }
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

    /// Notes which other data centers have copies now, and had when the store was opened. Levels of
    /// reads and the home were chosen by that. So if it changes, heads are switched only once the
    /// store was opened again.
    pub(crate) fn learn_copies(&self, when_opened: &[String], now: &[String]) {
        let moved = (when_opened != now).then(|| now.to_vec());
        let mut known = self.moved.lock();
        if *known != moved {
            tracing::warn!(?when_opened, ?now, "the data centers that have copies of the keyspace were changed");
            *known = moved;
        }
    }

    /// Notes the value that was requested at a time.
    pub(crate) fn learn(&self, home: Home, asked_at: Instant) {
        let Some(last) = &self.last else { return };
        let mut last = last.lock();
        if last.0 != home {
            tracing::warn!(before = %last.0, now = %home, "the heads' home was moved");
        }
        *last = (home, asked_at);
    }
}

/// Reads the row.
fn query(keyspace: &str) -> String {
    format!("SELECT value FROM {keyspace}.{META} WHERE key = '{KEY}'")
}

impl Connected {
    /// The home according to all data centers, or to this one if the others do not answer.
    pub(crate) async fn home(&self, keyspace: &str) -> StoreResult<Home> {
        match self.home_at(keyspace, LEVELS[0]).await {
            Err(error) if error.is_passing() => self.home_at(keyspace, LEVELS[1]).await,
            home => home,
        }
    }

    /// The home according to a level.
    pub(crate) async fn home_at(&self, keyspace: &str, level: Consistency) -> StoreResult<Home> {
        self.first_text(&query(keyspace), level).await.map(Home::of_value)
    }

    /// The same; the inner error is why there is no answer.
    pub(crate) async fn ask_home(
        &self,
        keyspace: &str,
        level: Consistency,
    ) -> StoreResult<Result<Home, ExecutionError>> {
        Ok(self.ask_text(&query(keyspace), level).await?.map(Home::of_value))
    }

    /// Records another home in all data centers if the recorded one is `from`. Returns whether it
    /// was.
    pub(crate) async fn move_home(&self, keyspace: &str, from: &Home, to: &Home) -> StoreResult<bool> {
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
        self.decide(&change, Consistency::EachQuorum, parameters).await
    }
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
    fn a_store_whose_copies_are_no_longer_where_they_were_when_it_was_opened_switches_no_heads() {
        let (none, added) = (Vec::<String>::new(), vec!["dc2".to_owned(), "dc3".to_owned()]);
        for serial in [Serial::Serial, Serial::LocalSerial] {
            let known = KnownHome::new(serial, "dc1".to_owned(), None);
            known.learn_copies(&none, &none);
            known.check().unwrap();
            known.learn_copies(&none, &added);
            let why = known.refusal().unwrap();
            assert!(why.contains("dc1, dc2, dc3") && why.contains("program again"), "{why}");
            assert!(matches!(known.check(), Err(StoreError::ReadOnly(_))));
            known.learn_copies(&none, &none);
            known.check().unwrap();
        }
    }

    #[test]
    fn a_home_is_stored_as_the_name_of_its_data_center() {
        for (value, home) in [(None, Home::Unset), (Some(""), Home::Nowhere), (Some("dc1"), at("dc1"))] {
            assert_eq!(Home::of_value(value.map(str::to_owned)), home);
            assert_eq!(home.value(), value.unwrap_or_default());
        }
    }
}
