//! Work without a request: collecting superseded data, ending selections, deleting expired
//! attributes, auditing fixity.

use std::sync::Arc;
use std::time::Duration;

use audit::Pruned;
use bytes::Bytes;
use fixity::{Auditor, Step};
use heads::ObjectsResult;
use library::Library;
use metrics::{counter, gauge};
use records::{Mode, Records, RecordsError};
use serde::Serialize;
use store::{Call, Class, Deadline, Store, StoreError, StoreResult};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::task::AbortOnDropHandle;
use volumes::CollectLimits;

use crate::telemetry;
use crate::tokens::Tokens;

/// The time limit of one sweep of the store; the next one continues.
const STORE_SWEEP_MAX: Duration = Duration::from_secs(30);

/// How long a token that another server made or revoked may be unknown here.
const TOKENS_INTERVAL: Duration = Duration::from_secs(5);

/// How long another server may work on a deletion before this one continues it.
const JOB_AGE_MIN: Duration = Duration::from_secs(60);

/// How long after a start the fixity auditor begins.
const FIXITY_DELAY: Duration = Duration::from_secs(600);

/// How long the fixity auditor waits before it looks again whether there is something to do.
const FIXITY_PAUSE: Duration = Duration::from_secs(60);

/// The time limit of one step of the walk over all records.
const STEP_MAX: Duration = Duration::from_secs(30);

/// What the walk over all records does in each round. With the default interval of a minute, a pass
/// over a billion records of 400 bytes takes about four days, in which it reads about a MB/s.
const ROUND: Round = Round {
    step: (1_000, 1 << 20),
    read_bytes: 64 << 20,
    written_bytes: 8 << 20,
    time: Duration::from_secs(30),
    rest: 9,
};

/// The same of a store that servers share. There a step looks up each of 64 records by itself, and
/// a write is decided by several nodes. If a step takes 10 ms, a pass over a million records takes
/// about an hour.
const SHARED_ROUND: Round = Round { step: (1_000, 4 << 20), written_bytes: 1 << 20, ..ROUND };

/// A round there begins no sooner after the one before it, because to take a turn costs two writes.
const SHARED_INTERVAL_MIN: Duration = Duration::from_secs(10);

/// Runs until the handles are dropped. Each step may be interrupted: any prefix of it does no harm.
pub(crate) fn start(library: Library, interval: Duration) -> [AbortOnDropHandle<()>; 2] {
    [keep_reclaiming(library.store().clone(), interval), keep_collecting(library, interval)]
}

/// Deletes expired rows from the store. Nothing else that the background does delays it, such as
/// the deletion of a large tree.
fn keep_reclaiming(store: Arc<dyn Store>, interval: Duration) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let mut is_behind = true;
            while is_behind {
                let deleted;
                (deleted, is_behind) = reclaim(store.as_ref(), STORE_SWEEP_MAX).await;
                telemetry::record_task("reclaim", &deleted);
                match deleted {
                    Ok(deleted) => tracing::debug!(deleted, is_behind, "reclaimed in the store"),
                    Err(error) => tracing::warn!(%error, "reclaiming in the store failed; the next pass tries again"),
                }
            }
        }
    }))
}

/// Continues interrupted deletions, and collects what nothing names any more.
fn keep_collecting(library: Library, interval: Duration) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The work of an earlier process need not wait. If servers share a store, another one may
        // still be working on it: every step of a deletion may be done twice.
        let mut job_age_min = Duration::ZERO;
        loop {
            ticks.tick().await;
            let resumed = resume(&library, std::mem::replace(&mut job_age_min, JOB_AGE_MIN)).await;
            telemetry::record_task("deletions", &resumed);
            match resumed {
                Ok(0) => {}
                Ok(deletions) => tracing::info!(deletions, "resumed interrupted deletions"),
                Err(error) => tracing::warn!(%error, "a deletion could not be resumed; the next pass tries again"),
            }
            let collected = collect(&library).await;
            telemetry::record_task("sweep", &collected);
            match collected {
                Ok(collected) => tracing::debug!(?collected, "swept"),
                Err(error) => tracing::warn!(%error, "sweeping failed; the next pass tries again"),
            }
        }
    }))
}

/// Deletes expired attributes of records that nobody changes, in rounds, until the handle is
/// dropped. Each step may be interrupted. In mode fast each attribute is a row, which expires by
/// itself.
pub(crate) fn drop_expired_attributes(
    library: &Library,
    records: Arc<Records>,
    interval: Duration,
) -> AbortOnDropHandle<()> {
    let server: [u8; 16] = library.heads.surroundings().random.bytes();
    let (round, interval) = match records.is_shared() {
        true => (SHARED_ROUND, interval.max(SHARED_INTERVAL_MIN)),
        false => (ROUND, interval),
    };
    let round = round.of(interval);
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A server that has just started serves first.
        ticks.tick().await;
        let mut walk = AttributeWalk::of(Bytes::copy_from_slice(&server), interval);
        while records.mode() == Mode::Atomic {
            ticks.tick().await;
            if records.drops_expired() {
                walk.in_turn(&records, &round).await;
            }
        }
    }))
}

/// Runs the fixity auditor until the handle is dropped. Each step may be interrupted.
pub(crate) fn audit_fixity(auditor: Arc<Auditor>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        // A server that has just started serves first, and its caches fill.
        tokio::time::sleep(FIXITY_DELAY.min(auditor.options().every)).await;
        let mut was_prevented = None;
        loop {
            match auditor.step().await {
                Ok(Step::Read(_) | Step::Moved) => continue,
                Ok(Step::Rests { .. } | Step::OthersRead) => was_prevented = None,
                Ok(Step::Prevented(why)) => {
                    if was_prevented.as_ref() != Some(&why) {
                        tracing::info!(why, "the fixity auditor does not read");
                    }
                    was_prevented = Some(why);
                }
                Err(error) => {
                    counter!(telemetry::FIXITY_ERRORS).increment(1);
                    tracing::warn!(%error, "a fixity pass was interrupted, and is tried again");
                }
            }
            tokio::time::sleep(FIXITY_PAUSE.min(auditor.options().every)).await;
        }
    }))
}

/// Reads the tokens regularly: if several servers share a store, another one may have made or
/// revoked a token.
pub(crate) fn keep_fresh(tokens: Arc<Tokens>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(TOKENS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let read = tokens.list().await;
            // A damaged row is a failure until its token is revoked.
            let whole = if read.is_ok() && !tokens.are_damaged() { Ok(()) } else { Err(()) };
            telemetry::record_task("tokens", &whole);
            if let Err(error) = read {
                tracing::warn!(%error, "reading the tokens failed; known tokens stay valid, and the next pass tries again");
            }
        }
    }))
}

/// Continues deletions on which nobody works, and deletes leftovers of earlier ones. A failure does
/// not stop the rest.
async fn resume(library: &Library, job_age_min: Duration) -> ObjectsResult<u64> {
    let resumed = library.repository.resume_deletions(job_age_min).await;
    let ended = library.repository.end_transactions(job_age_min).await;
    library.repository.empty_deleted_containers().await?;
    ended?;
    resumed
}

/// The result of one round.
#[derive(Debug, Serialize)]
pub(crate) struct Swept {
    #[serde(flatten)]
    collected: Collected,
    /// Expired rows and leftovers of uploads that the store deleted.
    store_reclaimed: u64,
}

/// What was collected in one round.
#[derive(Debug, Serialize)]
struct Collected {
    /// Ended selections.
    selections_ended: u64,
    /// Volumes of which data was condemned.
    volumes_condemned: u64,
    /// Superseded generations that were removed.
    generations_removed: u64,
    /// Volumes that must wait: for the grace period, a selection, or an import.
    volumes_waiting: u64,
    /// Volumes that could not be processed; the log has the reasons.
    volumes_failed: u64,
    /// Resources of which old versions were removed.
    versions_removed: u64,
    /// Contents that nothing names any more.
    contents_collected: u64,
    /// Containers that got more shards, or new shards without former members.
    containers_grown: u64,
    /// Buckets of the change feed that were dropped.
    feed_buckets_dropped: u64,
    /// Partitions of the audit that were deleted.
    audit_parts_dropped: u64,
}

/// One round of all of it. A failure does not stop the rest.
pub(crate) async fn sweep(library: &Library) -> ObjectsResult<Swept> {
    let collected = collect(library).await;
    let (deleted, _) = reclaim(library.store().as_ref(), STORE_SWEEP_MAX).await;
    Ok(Swept { collected: collected?, store_reclaimed: deleted? })
}

/// Deletes expired rows and leftovers of uploads from the store, for so long at most. Returns how
/// many, and whether the time was over before all expired rows were deleted, perhaps because
/// something else failed.
async fn reclaim(store: &dyn Store, time: Duration) -> (StoreResult<u64>, bool) {
    let deadline = Deadline::within(time);
    let deleted = store.sweep(Call::new(Class::Record, deadline)).await;
    // An engine that deletes expired rows by itself has no lag.
    let is_behind = deadline.passed() && store.health().await.reclaim_lag.is_some();
    (deleted, is_behind)
}

/// One round of collecting. A failure does not stop the rest.
async fn collect(library: &Library) -> ObjectsResult<Collected> {
    let selections_ended = library.volumes.sweep_selections().await;
    let collected = library.volumes.collect_once(CollectLimits::default()).await;
    let versions_removed = library.repository.collect_versions().await;
    let contents_collected = library.repository.collect_contents().await;
    let containers_grown = library.heads.grow_containers().await;
    let feed_buckets_dropped = library.feed.drop_old().await;
    let audit_parts_dropped = prune_audit(library).await;
    let collected = collected?;
    Ok(Collected {
        selections_ended: selections_ended?,
        volumes_condemned: collected.condemned,
        generations_removed: collected.removed,
        volumes_waiting: collected.waiting,
        volumes_failed: collected.failed,
        versions_removed: versions_removed?,
        contents_collected: contents_collected?,
        containers_grown: containers_grown?,
        feed_buckets_dropped: feed_buckets_dropped?,
        audit_parts_dropped: audit_parts_dropped?,
    })
}

/// Deletes records of the audit that are older than they are kept, and reports the oldest.
async fn prune_audit(library: &Library) -> ObjectsResult<u64> {
    let Some(Pruned { parts, oldest }) = library.audit.prune().await? else { return Ok(0) };
    let now = library.clock().now();
    let age = oldest.map_or(Duration::ZERO, |oldest| now.since(oldest));
    gauge!(telemetry::AUDIT_OLDEST).set(age.as_secs_f64());
    Ok(parts)
}

/// How much the walk over all records does before it waits for the next round.
struct Round {
    /// The most records, and about the most bytes, of a step.
    step: (usize, usize),
    /// After so many bytes were read, or written, it begins no other step.
    read_bytes: u64,
    written_bytes: u64,
    /// Nor after so much time.
    time: Duration,
    /// After a step it rests so many times as long as that took. Then others have the disk.
    rest: u32,
}

impl Round {
    /// It begins no step in the second half of an interval. So the walk is at rest for some of each,
    /// however short they are.
    fn of(self, interval: Duration) -> Self {
        Self { time: self.time.min(interval / 2), ..self }
    }
}

/// The walk over all records that deletes expired attributes.
#[derive(Default)]
struct AttributeWalk {
    /// The number that this server drew when it started.
    server: Bytes,
    /// For how long the other servers that share a store leave the walk to this one after a round.
    lease: Duration,
    /// It goes on here; `None`: at the first record. In a data folder it is kept in memory: a
    /// server that starts begins again.
    from: Option<Bytes>,
    /// Whether the log has a failure since all records were seen last.
    has_warned: bool,
}

impl AttributeWalk {
    /// That of a server that begins a round in each interval.
    fn of(server: Bytes, interval: Duration) -> Self {
        Self { server, lease: 2 * interval + ROUND.time + STEP_MAX, ..Self::default() }
    }

    /// One round, if it is the turn of this server: of those that share a store one walks at a
    /// time, and the store keeps where it is.
    async fn in_turn(&mut self, records: &Records, round: &Round) {
        if !records.is_shared() {
            let rest = self.round(records, round).await;
            return tokio::time::sleep(rest).await;
        }
        let turn = match records.take_walk(Deadline::within(STEP_MAX), &self.server, self.lease).await {
            Ok(Some(turn)) => turn,
            Ok(None) => return,
            Err(error) => return self.stopped(&error),
        };
        self.from = turn.from.clone();
        let rest = self.round(records, round).await;
        if let Err(error) = records.keep_walk(Deadline::within(STEP_MAX), turn, self.from.clone()).await {
            self.stopped(&error);
        }
        // Not before: of a server that rests for long, another one would have taken the turn.
        tokio::time::sleep(rest).await;
    }

    /// One round. It ends early behind the last record, and if the store refuses something. Returns
    /// how long to rest behind its last step.
    async fn round(&mut self, records: &Records, round: &Round) -> Duration {
        let ends_at = Instant::now() + round.time;
        let (mut read_bytes, mut written_bytes) = (0, 0);
        loop {
            let begun = Instant::now();
            let dropped = records.drop_expired(Deadline::within(STEP_MAX), self.from.clone(), round.step).await;
            // Also behind the last record and after a failure: the step may have passed over very many
            // marks of deleted records.
            let rest = begun.elapsed() * round.rest;
            match dropped {
                Ok(dropped) => {
                    counter!(telemetry::ATTRIBUTES_RECLAIMED).increment(dropped.freed_bytes);
                    self.from = dropped.next;
                    if let Some(error) = &dropped.stopped_by {
                        self.stopped(error);
                        return rest;
                    }
                    read_bytes += dropped.read_bytes;
                    written_bytes += dropped.written_bytes;
                }
                Err(error) => {
                    // Behind rows that cannot be read, nothing is found.
                    if !matches!(&error, RecordsError::Store(error) if error.is_passing()) {
                        self.from = None;
                    }
                    self.stopped(&error);
                    return rest;
                }
            }
            if self.from.is_none() {
                self.has_warned = false;
                return rest;
            }
            let is_enough = read_bytes >= round.read_bytes || written_bytes >= round.written_bytes;
            if is_enough || Instant::now() + rest >= ends_at {
                return rest;
            }
            tokio::time::sleep(rest).await;
        }
    }

    /// A round has ended early; the next one continues. A store that is busy, full or read-only
    /// reports it elsewhere.
    fn stopped(&mut self, error: &RecordsError) {
        let is_refusal = match error {
            RecordsError::Store(StoreError::Full(_) | StoreError::ReadOnly(_) | StoreError::Poisoned(_))
            | RecordsError::Unknown(_) => true,
            RecordsError::Store(error) => error.is_passing(),
            _ => false,
        };
        if is_refusal || self.has_warned {
            tracing::debug!(%error, "the walk over all records rests");
        } else {
            self.has_warned = true;
            tracing::warn!(%error, "expired attributes of some records cannot be deleted; the next pass tries again");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use records::{Attribute, Draft, Record};
    use store::faults::{Damage, Fault, Faults, Harm, Kind};
    use store::{Capabilities, Clock, ManualClock, Table, UnixMillis};
    use store_embedded::{EmbeddedOptions, EmbeddedStore};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// One step in each round.
    const STEP: Round = Round { step: (3, usize::MAX), read_bytes: 1, written_bytes: 1, time: HOUR, rest: 0 };

    /// Ten records that last, with an attribute that expires within an hour.
    struct Subject {
        _folder: tempfile::TempDir,
        clock: Arc<ManualClock>,
        store: Arc<Faults>,
        records: Records,
        walk: AttributeWalk,
        /// How often servers that share the store wrote beside the records.
        kept: Arc<AtomicUsize>,
    }

    impl Subject {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
            let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), clock.clone()).unwrap();
            let store = Arc::new(Faults::new(store));
            let records = Records::new(store.clone(), clock.clone()).synced_within(HOUR);
            let (walk, kept) = (AttributeWalk::default(), Arc::default());
            let subject = Self { _folder: folder, clock, store, records, walk, kept };
            for number in 0..10 {
                subject.put(number).await;
            }
            subject.clock.advance(HOUR);
            subject
        }

        async fn put(&self, number: u8) {
            let expires_at = Some(self.clock.now().plus(HOUR));
            let put = |drafts: &mut [Draft]| {
                let expiring = Attribute { value: Bytes::from(vec![b'x'; 2_000]), expires_at };
                let attributes = [("lasts", Attribute::lasting("1".into())), ("expires", expiring)];
                let attributes = attributes.map(|(name, attribute)| (Bytes::from(name), attribute));
                drafts[0].put(Record::attributes(attributes.into_iter().collect()));
            };
            self.records.change(Deadline::within(HOUR), &[id(number)], put).await.unwrap();
        }

        async fn round(&mut self) {
            self.walk.in_turn(&self.records, &STEP).await;
        }

        /// One of several servers that share the store, with its walk.
        async fn sharing(&self, server: &'static str) -> (Records, AttributeWalk) {
            let shared = Shared { store: self.store.clone(), kept: self.kept.clone() };
            let records = Records::new(Arc::new(shared), self.clock.clone());
            assert!(!records.drops_expired(), "it knows of no record yet");
            records.check_mode(Deadline::within(HOUR)).await.unwrap();
            assert!(records.drops_expired());
            (records, AttributeWalk { lease: HOUR, ..AttributeWalk::of(server.into(), HOUR) })
        }

        /// The records whose rows still have what has expired.
        async fn long(&self) -> Vec<u8> {
            let call = Call::new(Class::Record, Deadline::within(HOUR));
            let mut long = Vec::new();
            for number in 0..10 {
                let row = self.store.get(call, Table::Records, &id(number), &Bytes::new()).await.unwrap().unwrap();
                if row.value.len() > 2_000 {
                    long.push(number);
                }
            }
            long
        }
    }

    /// A store that servers share.
    struct Shared {
        store: Arc<Faults>,
        kept: Arc<AtomicUsize>,
    }

    impl store::Wrapper for Shared {
        fn inner(&self) -> &dyn Store {
            &*self.store
        }

        async fn run(&self, call: Call, steps: Vec<store::Step>) -> StoreResult<store::Outcome> {
            let keeps = steps.iter().any(|step| step.table() == Table::Work);
            let outcome = self.inner().run(call, steps).await;
            self.kept.fetch_add(usize::from(keeps), Ordering::SeqCst);
            outcome
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { is_shared: true, ..self.inner().capabilities() }
        }
    }

    fn id(number: u8) -> Bytes {
        Bytes::copy_from_slice(&[b'r', number])
    }

    #[tokio::test]
    async fn a_store_whose_time_to_reclaim_is_over_goes_on_at_once_and_has_not_failed() {
        let subject = Subject::new().await;
        let (deleted, is_behind) = reclaim(&*subject.store, HOUR).await;
        assert!(deleted.is_ok() && !is_behind);
        let (deleted, is_behind) = reclaim(&*subject.store, Duration::ZERO).await;
        assert_eq!((deleted.unwrap(), is_behind), (0, true));
    }

    #[tokio::test]
    async fn the_walk_goes_on_where_it_was_and_begins_again_behind_the_last_record() {
        let mut subject = Subject::new().await;
        assert_eq!(subject.long().await.len(), 10);
        for (left, from) in [(3, Some(2)), (6, Some(5)), (9, Some(8)), (10, None)] {
            subject.round().await;
            assert_eq!(subject.long().await, (left..10).collect::<Vec<u8>>());
            assert_eq!(subject.walk.from, from.map(id));
        }
        subject.put(1).await;
        subject.clock.advance(HOUR);
        assert_eq!(subject.long().await, [1_u8]);
        subject.round().await;
        assert!(subject.long().await.is_empty());
    }

    #[test]
    fn a_walk_begins_no_step_in_the_second_half_of_an_interval() {
        for (interval_ms, time_ms) in [(3_600_000, 30_000), (60_000, 30_000), (5_000, 2_500), (10, 5)] {
            let round = ROUND.of(Duration::from_millis(interval_ms));
            assert_eq!(round.time, Duration::from_millis(time_ms));
        }
    }

    #[tokio::test]
    async fn a_walk_rests_behind_a_slow_step_also_if_that_was_the_last_one_or_failed() {
        let mut subject = Subject::new().await;
        let round = Round { step: (100, usize::MAX), rest: 9, ..STEP };
        // From now on nothing is left to write.
        subject.walk.round(&subject.records, &round).await;
        assert!(subject.long().await.is_empty());
        tokio::time::pause();
        // The second read takes longer than a step may.
        for read in [STEP_MAX / 2, 2 * STEP_MAX] {
            subject.store.next(Kind::Read, Fault::Delay(read));
            let rest = subject.walk.round(&subject.records, &round).await;
            assert!(rest >= 9 * read.min(STEP_MAX), "{rest:?}");
            assert_eq!(subject.walk.from, None);
        }
    }

    #[tokio::test]
    async fn of_servers_that_share_a_store_one_walks_and_the_next_goes_on_where_it_was() {
        let subject = Subject::new().await;
        let (first, mut of_first) = subject.sharing("first").await;
        let (second, mut of_second) = subject.sharing("second").await;
        for left in [3, 6] {
            of_first.in_turn(&first, &STEP).await;
            of_second.in_turn(&second, &STEP).await;
            assert_eq!(subject.long().await, (left..10).collect::<Vec<u8>>());
        }
        // The first one is gone, or was not heard of for too long.
        subject.clock.advance(HOUR);
        of_second.in_turn(&second, &STEP).await;
        of_first.in_turn(&first, &STEP).await;
        assert_eq!(subject.long().await, [9_u8]);
        of_second.in_turn(&second, &STEP).await;
        assert_eq!((subject.long().await.len(), of_second.from), (0, None));
    }

    #[tokio::test]
    async fn what_a_walk_has_done_is_kept_before_it_rests() {
        let subject = Subject::new().await;
        let (first, mut of_first) = subject.sharing("first").await;
        let (second, mut of_second) = subject.sharing("second").await;
        // It takes the turn, and keeps it. Behind its step it rests for days.
        let done = subject.kept.load(Ordering::SeqCst) + 2;
        let resting = Round { rest: 1_000_000_000, ..STEP };
        let kept = async {
            while subject.kept.load(Ordering::SeqCst) < done {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            () = of_first.in_turn(&first, &resting) => panic!("it does not rest"),
            () = kept => {}
            () = tokio::time::sleep(Duration::from_secs(60)) => panic!("it keeps nothing"),
        }
        subject.clock.advance(HOUR);
        of_second.in_turn(&second, &STEP).await;
        assert_eq!(subject.long().await, (6..10).collect::<Vec<u8>>(), "the second one goes on behind the first");
    }

    #[tokio::test]
    async fn a_walk_waits_while_a_store_that_servers_share_takes_no_changes() {
        let subject = Subject::new().await;
        let (records, mut walk) = subject.sharing("server").await;
        subject.store.set_full(true);
        walk.in_turn(&records, &STEP).await;
        assert_eq!((subject.long().await.len(), walk.has_warned), (10, false));
        subject.store.set_full(false);
        walk.in_turn(&records, &STEP).await;
        assert_eq!(subject.long().await.len(), 7);
    }

    #[tokio::test]
    async fn a_full_disk_and_a_busy_store_end_a_round_and_a_later_pass_deletes_the_rest() {
        let mut subject = Subject::new().await;
        subject.store.set_full(true);
        subject.round().await;
        assert_eq!(subject.long().await.len(), 10);
        assert_eq!(subject.walk.from, Some(id(0)), "it goes on behind the record that was refused");
        subject.store.set_full(false);
        subject.store.next(Kind::Read, Fault::Unavailable);
        subject.round().await;
        assert_eq!(subject.walk.from, Some(id(0)), "it tries the same page again");
        for _ in 0..3 {
            subject.round().await;
        }
        assert_eq!((subject.long().await, subject.walk.has_warned), (vec![0], false));
        subject.round().await;
        assert!(subject.long().await.is_empty());
    }

    #[tokio::test]
    async fn a_damaged_record_stays_as_it_is_and_those_behind_it_get_shorter() {
        let mut subject = Subject::new().await;
        let damage = Damage {
            table: Table::Records,
            partition: id(4),
            sort: None,
            harm: Harm::FlippedBit,
            strong_reads_are_whole: false,
        };
        subject.store.damage(damage);
        for _ in 0..4 {
            subject.round().await;
        }
        assert_eq!(subject.walk.from, None);
        assert_eq!(subject.long().await, [4_u8]);
    }
}
