//! Turns: one lightweight transaction at a time in each partition.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use store::{Call, StoreError, Table};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout_at;

use crate::failure::Failure;

/// The greatest number of transactions of this process under way, in different partitions.
const TURNS: usize = 1 << 10;

/// Admits one transaction at a time per partition. Two at once would be decided correctly too, but
/// they would make the cluster start over again and again, until one of them ends with an unknown
/// outcome.
pub(crate) struct Turns {
    hasher: RandomState,
    turns: Vec<Mutex<()>>,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self { hasher: RandomState::new(), turns: (0..TURNS).map(|_| Mutex::new(())).collect() }
    }

    /// Waits for the turn of a partition, at most until the call's deadline.
    pub(crate) async fn enter(
        &self,
        call: Call,
        table: Table,
        partition: &[u8],
    ) -> Result<MutexGuard<'_, ()>, Failure> {
        let turn = self.hasher.hash_one((table, partition)) as usize % self.turns.len();
        let busy = || Failure::Refused(StoreError::Overloaded("too many changes of one object are waiting".to_owned()));
        if call.deadline.passed() {
            return Err(busy());
        }
        timeout_at(call.deadline.0, self.turns[turn].lock()).await.map_err(|_| busy())
    }
}
