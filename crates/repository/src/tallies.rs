//! Counts of the transactions of one server.

use std::sync::atomic::AtomicU64;

use crate::open_count::OpenCount;

/// What this server knows about open transactions, and what it did.
#[derive(Default)]
pub(crate) struct Tallies {
    pub(crate) open: OpenCount,
    pub(crate) committed: AtomicU64,
    pub(crate) rolled_back: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) conflicts: AtomicU64,
}
