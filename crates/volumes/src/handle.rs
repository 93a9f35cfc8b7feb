//! The handle of volumes.

use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use audit::Audit;
use budget::{Load, Memory, Unseen};
use heads::handle::Heads;

use crate::bulk::fairness::Fairness;
use crate::bulk::shared_plans::SharedPlans;
use crate::pins;
use crate::unwritten_marks::UnwrittenMarks;

/// Reads and changes volumes. Cheap to clone; holds no state that another server would need.
#[derive(Clone)]
pub struct Volumes {
    pub(crate) heads: Heads,
    pub(crate) audit: Audit,
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) memory: Memory,
    pub(crate) fairness: Arc<Fairness>,
    pub(crate) plans: SharedPlans,
    pub(crate) unwritten_marks: UnwrittenMarks,
    /// How many pins this server has put on volumes without a look at how many there are.
    pub(crate) unseen_pins: Unseen,
    /// The shard that the collector visits next.
    pub(crate) shard_in_turn: AtomicU16,
}

impl Volumes {
    /// The volumes of a store. Downloads are recorded in `audit`; plans and lists take shares of
    /// `memory`.
    pub fn new(heads: Heads, audit: Audit, memory: Memory) -> Self {
        let fairness = Fairness::new(heads.options(), heads.surroundings().compute);
        let inner = Inner {
            memory,
            fairness,
            plans: SharedPlans::default(),
            unwritten_marks: UnwrittenMarks::default(),
            unseen_pins: pins::unseen(),
            shard_in_turn: AtomicU16::new(0),
        };
        Self { heads, audit, inner: Arc::new(inner) }
    }

    /// The same volumes, for a caller that reads everything once: see [`Heads::once`].
    pub fn once(&self) -> Self {
        Self { heads: self.heads.once(), ..self.clone() }
    }

    /// How many bulk requests are streaming.
    pub fn bulk_requests(&self) -> usize {
        self.inner.fairness.active()
    }

    /// How busy the turns of bulk requests are, by what they are for.
    pub fn turns(&self) -> impl Iterator<Item = (&'static str, Load)> {
        self.inner.fairness.loads().into_iter()
    }
}
