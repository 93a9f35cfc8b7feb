//! Positions of the change feed that this process gives: which switches are at work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use store::Step;
use tokio::sync::{Notify, OnceCell};

use crate::revision::RevisionId;

/// The positions of the feed, as far as this process announces changes.
#[derive(Default)]
pub(crate) struct Positions {
    /// Switches that are at work, and those that ended and may still be applied.
    pub(crate) open: Mutex<BTreeMap<RevisionId, Open>>,
    /// The newest bucket that is in its list, acknowledged.
    pub(crate) listed: AtomicU32,
    /// Set once positions are above all that earlier processes gave.
    pub(crate) caught_up: OnceCell<()>,
    /// Notified when a switch has ended.
    pub(crate) ended: Notify,
}

/// A switch that may still be applied.
#[derive(Clone)]
pub(crate) struct Open {
    pub(crate) object: Bytes,
    pub(crate) revision: RevisionId,
    /// Whether its writer tries no more.
    pub(crate) is_left: bool,
}

/// The announcement of a switch that is at work.
pub(crate) struct Announcing<'a> {
    pub(crate) positions: &'a Positions,
    /// Its position.
    pub(crate) position: RevisionId,
    /// The bucket of its position.
    pub(crate) bucket: u32,
    /// The steps that announce the change.
    pub(crate) steps: Vec<Step>,
    pub(crate) is_settled: bool,
}

impl Announcing<'_> {
    /// Notes how the switch ended: whether a try of it may still arrive, and whether it was
    /// applied.
    pub(crate) fn ended(mut self, is_settled: bool, is_applied: bool) {
        self.is_settled = is_settled;
        if is_applied {
            self.positions.listed.fetch_max(self.bucket, Ordering::Relaxed);
        }
    }
}

impl Drop for Announcing<'_> {
    /// A switch that is dropped half way may still be applied.
    fn drop(&mut self) {
        let mut open = self.positions.open.lock();
        if self.is_settled {
            open.remove(&self.position);
        } else if let Some(open) = open.get_mut(&self.position) {
            open.is_left = true;
        }
        drop(open);
        self.positions.ended.notify_one();
    }
}
