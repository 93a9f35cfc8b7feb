//! The handle of the kernel: a store with its surroundings and settings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use store::{Call, Class, Clock, Deadline, Stamp, Store, UnixMillis};

use crate::chores::Failures;
use crate::due_work::{Due, DueWork};
use crate::options::LibraryOptions;
use crate::positions::Positions;
use crate::queue::Filled;
use crate::queues::Queue;
use crate::revision::RevisionClock;
use crate::rules::{Rule, Rules};
use crate::sampling::Sampling;
use crate::surroundings::Surroundings;

/// Reads and changes heads. Cheap to clone; holds no state that another server would need.
#[derive(Clone)]
pub struct Heads {
    pub(crate) inner: Arc<Inner>,
    /// Whether its caller reads everything once.
    is_once: bool,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) surroundings: Surroundings,
    pub(crate) revisions: RevisionClock,
    pub(crate) options: LibraryOptions,
    pub(crate) failures: Failures,
    pub(crate) due_work: DueWork,
    pub(crate) filled: Filled,
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
        let (due_work, filled, damage_found) = (DueWork::default(), Filled::default(), AtomicU64::new(0));
        Self {
            inner: Arc::new(Inner {
                store,
                surroundings,
                revisions,
                options,
                failures,
                due_work,
                filled,
                damage_found,
                feed_clock,
                positions,
            }),
            is_once: false,
        }
    }

    /// The same heads, for a caller that reads everything once (a check). Its reads replace nothing
    /// in the engine's caches that others read.
    pub fn once(&self) -> Self {
        Self { is_once: true, ..self.clone() }
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

    /// The greatest difference between this server's clock and that of another one that changes the
    /// store; zero if no other one does.
    pub fn clock_skew(&self) -> Duration {
        if self.is_shared() { self.inner.options.clock_skew_max } else { Duration::ZERO }
    }

    /// When this server may end what another one promised to keep until a time: once that is past
    /// by the clock of the other one, too.
    pub fn expires(&self, until: UnixMillis) -> UnixMillis {
        until.plus(self.clock_skew())
    }

    /// When no request is at work any more that drew a revision at a time, or ended an upload that
    /// had a lease until then. What such a request was about to name or to do may be dropped from
    /// then on. That is a grace later, which usually is much longer than a request can take.
    pub fn requests_end(&self, since: UnixMillis) -> UnixMillis {
        let options = &self.inner.options;
        self.expires(since.plus(options.change_max())).max(since.plus(options.grace))
    }

    /// Whether that time has come.
    pub fn requests_passed(&self, since: UnixMillis) -> bool {
        self.now() >= self.requests_end(since)
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
        let call = Call::new(class, Deadline::within(self.inner.options.call_timeout));
        if self.is_once { call.once() } else { call }
    }
}

#[cfg(test)]
mod tests {
    use store::null::NullStore;
    use store::{Capabilities, ManualClock, Wrapper};

    use super::*;

    const START: UnixMillis = UnixMillis(1_750_000_000_000);

    const SECOND: Duration = Duration::from_secs(1);

    /// A store that several servers share.
    struct Shared(NullStore);

    impl Wrapper for Shared {
        fn inner(&self) -> &dyn Store {
            &self.0
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { is_shared: true, ..self.0.capabilities() }
        }
    }

    /// The heads of a store of one server, and those of a shared one.
    fn alone_and_shared(options: &LibraryOptions) -> ([Heads; 2], Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(START));
        let stores: [Arc<dyn Store>; 2] = [Arc::new(NullStore::new()), Arc::new(Shared(NullStore::new()))];
        let over = |store| Heads::new(store, Surroundings::of_this_machine(clock.clone()), options.clone());
        (stores.map(over), clock)
    }

    #[test]
    fn what_another_server_promised_ends_as_much_later_as_clocks_may_differ_and_alone_in_time() {
        let options = LibraryOptions { clock_skew_max: 300 * SECOND, ..LibraryOptions::default() };
        let ([alone, shared], _) = alone_and_shared(&options);
        assert_eq!((alone.clock_skew(), alone.expires(START)), (Duration::ZERO, START));
        assert_eq!((shared.clock_skew(), shared.expires(START)), (300 * SECOND, START.plus(300 * SECOND)));
    }

    #[test]
    fn a_request_may_be_at_work_for_as_long_as_it_may_try_however_short_grace_and_calls_are() {
        let short = LibraryOptions {
            grace: SECOND,
            clock_skew_max: 30 * SECOND,
            switch_within: 60 * SECOND,
            call_timeout: SECOND,
            ..LibraryOptions::default()
        };
        for (options, alone_s, shared_s) in [
            (short.clone(), 74, 104),
            (LibraryOptions { call_timeout: Duration::ZERO, ..short.clone() }, 60, 90),
            (LibraryOptions { grace: 1_000 * SECOND, ..short }, 1_000, 1_000),
        ] {
            let (heads, clock) = alone_and_shared(&options);
            for (heads, seconds) in heads.iter().zip([alone_s, shared_s]) {
                clock.set(UnixMillis(START.0 + 1_000 * seconds - 1));
                assert!(!heads.requests_passed(START), "{seconds}: {options:?}");
                clock.set(UnixMillis(START.0 + 1_000 * seconds));
                assert!(heads.requests_passed(START), "{seconds}: {options:?}");
            }
        }
    }
}
