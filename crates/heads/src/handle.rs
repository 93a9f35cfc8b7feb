//! The handle of the kernel: a store with its surroundings and settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use store::{Call, Class, Clock, Deadline, Stamp, Store, UnixMillis};

use crate::chores::Failures;
use crate::due_work::{Due, DueWork};
use crate::options::LibraryOptions;
use crate::positions::Positions;
use crate::queues::Queue;
use crate::revision::RevisionClock;
use crate::rules::{Rule, Rules};
use crate::sampling::Sampling;
use crate::surroundings::Surroundings;

/// Reads and changes heads. Cheap to clone; holds no state that another server would need.
#[derive(Clone)]
pub struct Heads {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) surroundings: Surroundings,
    pub(crate) revisions: RevisionClock,
    pub(crate) options: LibraryOptions,
    pub(crate) failures: Failures,
    pub(crate) due_work: DueWork,
    pub(crate) damage_found: AtomicU64,
    /// Mints positions of the change feed. They have a clock of their own, because revisions are
    /// minted long before they are switched in.
    pub(crate) feed_clock: RevisionClock,
    pub(crate) positions: Positions,
}

impl Heads {
    /// The heads in a store. The caller has checked the options.
    pub fn new(store: Arc<dyn Store>, surroundings: Surroundings, options: LibraryOptions) -> Self {
        let revisions = RevisionClock::new(surroundings.clock.clone(), &*surroundings.random);
        let feed_clock = revisions.of_the_same_writer();
        let (failures, positions) = (Failures::default(), Positions::default());
        let (due_work, damage_found) = (DueWork::default(), AtomicU64::new(0));
        Self {
            inner: Arc::new(Inner {
                store,
                surroundings,
                revisions,
                options,
                failures,
                due_work,
                damage_found,
                feed_clock,
                positions,
            }),
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Time, randomness and threads.
    pub fn surroundings(&self) -> &Surroundings {
        &self.inner.surroundings
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.surroundings.clock
    }

    /// The present time.
    pub fn now(&self) -> UnixMillis {
        self.clock().now()
    }

    /// The source of new revisions.
    pub fn revisions(&self) -> &RevisionClock {
        &self.inner.revisions
    }

    /// The settings.
    pub fn options(&self) -> &LibraryOptions {
        &self.inner.options
    }

    /// Whether a rule of the protocols is in force.
    pub fn keeps(&self, rule: Rule) -> bool {
        self.rules().keep(rule)
    }

    /// The rules in force.
    pub fn rules(&self) -> Rules {
        self.inner.surroundings.rules
    }

    /// A stamp for a head that is about to be written.
    pub fn stamp(&self) -> Stamp {
        Stamp::drawn(&*self.inner.surroundings.random)
    }

    /// Whether heads are changed from here. Elsewhere reads of heads lag, and nothing is repaired,
    /// collected or rewritten.
    pub fn is_home(&self) -> bool {
        self.inner.store.check_home().is_ok()
    }

    /// Selects the children that are samples.
    pub fn sampling(&self) -> Sampling {
        Sampling { one_of: self.inner.options.sample_one_of }
    }

    /// Counts damage of a volume or a resource that is found, for monitors.
    pub fn note_damage(&self) {
        self.inner.damage_found.fetch_add(1, Ordering::Relaxed);
    }

    /// How often damage was found since this library was opened.
    pub fn damage_found(&self) -> u64 {
        self.inner.damage_found.load(Ordering::Relaxed)
    }

    /// What the last complete pass over a queue found to be due.
    pub fn due_work(&self, queue: Queue) -> Due {
        self.inner.due_work.of(queue)
    }

    /// A call for a class of data, with the usual deadline.
    pub fn call(&self, class: Class) -> Call {
        Call::new(class, Deadline::within(self.inner.options.call_timeout))
    }
}
