//! The open keyspace: what its modules share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use store::{Clock, FormatLevel, StoreResult, Table, UnixMillis};

use crate::address::Address;
use crate::clocks::Clocks;
use crate::home::KnownHome;
use crate::lag::Lag;
use crate::lease::Lease;
use crate::levels::InForce;
use crate::requests::Requests;
use crate::row_sizes::RowSizes;
use crate::statements::Statements;
use crate::turns::Turns;
use crate::write_times::WriteTimes;

/// The open keyspace.
pub(crate) struct Engine {
    pub(crate) requests: Requests,
    pub(crate) statements: Arc<Statements>,
    pub(crate) levels: InForce,
    pub(crate) home: KnownHome,
    /// Write times of plain rows. After a removal they follow what was removed, however wrong the
    /// clock of its writer was.
    pub(crate) write_times: WriteTimes,
    /// Write times of lists that count by the clock. Others win or lose by them, so no other list
    /// moves them.
    pub(crate) clock_times: WriteTimes,
    pub(crate) row_sizes: RowSizes,
    pub(crate) turns: Turns,
    pub(crate) lag: Lag,
    pub(crate) clocks: Clocks,
    pub(crate) content_lease: Duration,
    /// Where the last sweep of contents ended.
    pub(crate) swept_until: Mutex<Option<Bytes>>,
    pub(crate) level: Mutex<FormatLevel>,
    pub(crate) lease: Lease,
    pub(crate) address: Address,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Engine {
    pub(crate) fn now(&self) -> UnixMillis {
        self.clock.now()
    }

    /// The time by which the rows of a table expire. Clients see records expire, on whichever server
    /// they ask, so those go by the clocks of the nodes.
    pub(crate) fn now_for(&self, table: Table) -> UnixMillis {
        let now = self.now();
        match table {
            Table::Records => UnixMillis(now.0.saturating_add_signed(self.clocks.correction_ms())),
            _ => now,
        }
    }

    /// A time that is past by the clock of every server.
    pub(crate) fn now_everywhere(&self) -> UnixMillis {
        let skew = u64::try_from(self.clocks.max().as_millis()).unwrap_or(u64::MAX);
        UnixMillis(self.now().0.saturating_sub(skew))
    }

    /// Fails with [`StoreError::ReadOnly`](store::StoreError::ReadOnly) if no head can be switched
    /// from here: they are decided elsewhere, or the clock is wrong.
    pub(crate) fn may_switch(&self) -> StoreResult<()> {
        self.home.check()?;
        self.clocks.check()
    }

    /// The store's level, as far as this program knows: it may have risen.
    pub(crate) fn level(&self) -> FormatLevel {
        *self.level.lock()
    }
}
