//! Leases: which servers have a store open, and which level each of them knows.
//!
//! A store is raised to a level only if every server that has it open knows that level. Each open
//! store has a *lease*: a row of [`META`] with the newest level that its program knows, and with a
//! time at which the lease ends. Joining and raising exclude each other, because each first writes
//! and then reads what the other writes:
//!
//! - A store that is opened, or whose lease has ended, writes its lease and then reads the level
//!   and the level that is intended. If it does not know one of them, it withdraws and is refused.
//! - Raising writes the level that is intended and then reads all leases. If one of them does not
//!   know that level, the intention is withdrawn. Otherwise, if the intention is still there, the
//!   format, which is the level, changes.
//!
//! Leases are written and levels read at the levels of descriptions, usually a quorum of the local
//! data center, so that a server can join whenever it can work. Raising uses a quorum of each data
//! center, or all replicas where the other side uses less than a quorum, and so meets every lease.
//! A lightweight transaction for each lease would need a majority of all replicas instead.
//!
//! A call whose lease has ended renews it before it goes on, so a process that was suspended reads
//! nothing that it does not know. A server that caches an earlier level writes what all know.
//!
//! A store that is closed withdraws its lease. Calls and renewals may still be under way then. Of
//! two writes Cassandra keeps the one with the later write time, and a renewal takes its write time
//! before the withdrawal does, or none. So the withdrawal counts, whichever of them arrives last.

use std::fmt;

use parking_lot::Mutex;
use store::{Deadline, FormatLevel, StoreError, StoreResult, UnixMillis};
use tokio::time::{Instant, timeout_at};

use crate::write_times::WriteTimes;

/// What the keys of leases begin with.
pub(crate) const LEASE_PREFIX: &str = "server/";

/// The key of the row with the level to which a store is being raised.
pub(crate) const INTENT_KEY: &str = "raising";

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

/// The lease of an open store.
pub(crate) struct Lease {
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) newest: FormatLevel,
    /// Until when it lasts: by the processor's clock, which stops while the machine sleeps, and by
    /// the store's. `None`: the store has not joined yet.
    pub(crate) until: Mutex<Option<(Instant, UnixMillis)>>,
    /// Held while it is renewed.
    turn: tokio::sync::Mutex<()>,
    /// Whether the store is closed. It is held while a renewal takes its write time.
    is_ended: Mutex<bool>,
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
            is_ended: Mutex::default(),
        }
    }

    /// Ends it, because the store is closed: no renewal is written after this.
    pub(crate) fn end(&self) {
        *self.is_ended.lock() = true;
    }

    /// Whether the store is closed.
    pub(crate) fn is_ended(&self) -> bool {
        *self.is_ended.lock()
    }

    /// The write time of a renewal; `None`: the lease has ended.
    pub(crate) fn renewed_at(&self, times: &WriteTimes) -> Option<i64> {
        let is_ended = self.is_ended.lock();
        (!*is_ended).then(|| times.next())
    }

    /// Whether it holds.
    pub(crate) fn holds(&self, now: UnixMillis) -> bool {
        self.until.lock().is_some_and(|(until, by_clock)| Instant::now() < until && now < by_clock)
    }

    /// Renews the lease if it does not hold, after the renewals before this one.
    pub(crate) async fn hold(
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
pub(crate) fn lease_value(newest: FormatLevel, until: UnixMillis, name: &str) -> String {
    format!("{newest} {} {name}", until.0)
}

/// The server that a lease's row names; `None` if the value is none of a lease.
pub(crate) fn server_of(value: &str) -> Option<Server> {
    let mut parts = value.splitn(3, ' ');
    let newest = FormatLevel::of_number(parts.next()?.parse().ok()?)?;
    let lease_until = UnixMillis(parts.next()?.parse().ok()?);
    Some(Server { name: parts.next()?.to_owned(), newest, lease_until })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::time::Duration;

    use store::ManualClock;

    use super::*;

    #[test]
    fn a_lease_is_read_as_it_is_written() {
        let newest = FormatLevel::NEWEST;
        let server = server_of(&lease_value(newest, UnixMillis(7), "a b:1")).unwrap();
        assert_eq!(server, Server { name: "a b:1".to_owned(), newest, lease_until: UnixMillis(7) });
        assert_eq!(server_of("2 x a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_wait_for_a_renewal_end_by_their_deadlines() {
        let (lease, began) = (Lease::new(FormatLevel::NEWEST), Instant::now());
        let deadline = Deadline::within(Duration::from_secs(2));
        let calls = (0..12).map(|_| lease.hold(deadline, || UnixMillis(0), std::future::pending()));
        for call in futures::future::join_all(calls).await {
            assert!(matches!(call, Err(StoreError::DeadlinePassed)), "{call:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    }

    #[test]
    fn a_renewal_does_not_count_over_the_withdrawal_of_a_store_that_is_closed() {
        let times = WriteTimes::new(Arc::new(ManualClock::new(UnixMillis(1_000))));
        let lease = Lease::new(FormatLevel::NEWEST);
        let under_way = lease.renewed_at(&times).unwrap();
        lease.end();
        let withdrawn = times.next();
        assert!(under_way < withdrawn);
        assert_eq!(lease.renewed_at(&times), None, "it begins after the end");
    }
}
