//! Deletes what nobody can read any more: expired rows, and leftovers of interrupted uploads. A
//! broken block ends no sweep: it leaves out what it cannot read, goes on behind that, and reports
//! it.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use store::lifecycle::{self, ToSweep};
use store::{
    ContentId, ContentState, Deadline, Expect, Lane, Outcome, Store, StoreError, StoreResult, Table, UnixMillis,
    WalkPage,
};
use tokio::time::{Instant, sleep};

use crate::blocking::blocking;
use crate::engine::EmbeddedStore;
use crate::header::header_in;
use crate::plan::{Change, Plan};
use crate::space::Space;
use crate::tables::View;
use crate::unread::{self, Unread, is_readable};
use crate::{expiry, read};

/// Expired rows that are removed in one commit. Writes that come meanwhile wait for one such
/// commit, and not for all that has expired.
const ROWS_PER_COMMIT: usize = 256;

/// After a commit the sweep rests so many times as long as that took. Then other writes have the
/// lane.
const REST: u32 = 3;

/// The longest rest. A commit with other writes takes as long as their sync, which is no work of the
/// lane: without this bound more would expire on a slow disk than is removed.
const REST_MAX: Duration = Duration::from_millis(5);

/// After a failure that may pass the sweep waits so long, and then goes on. It waits twice as long
/// after each further one in a row.
const PAUSE_FIRST: Duration = Duration::from_millis(10);

/// The longest such pause. Before it a sweep has waited for 1.27 seconds.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long such a commit may wait for its sync. Nobody sees what a power failure brings back: it
/// has expired.
const SYNC_DELAY: Duration = Duration::from_secs(24 * 3_600);

/// How long counting for the forecast may take in one sweep. It also holds up a shutdown so long.
const COUNTING: Duration = Duration::from_secs(5);

/// Contents that one read checks.
const CONTENTS_PER_PAGE: usize = 1_000;

/// How far a sweep of the rows of a lane has come.
#[derive(Default)]
struct RowSweep {
    /// Rows that were removed.
    rows: u64,
    /// For how long one of them had been expired, at most.
    lag: Duration,
    /// The entry that was read last, or the beginning of those behind what cannot be read.
    after: Option<Bytes>,
    unread: Unread,
}

/// What is found at once of the rows of a lane that have expired.
struct Due {
    /// The entries of rows that can be read, the oldest first.
    entries: Vec<Bytes>,
    /// Where the next ones begin, as in [`RowSweep`].
    after: Option<Bytes>,
    /// Whether there may be others.
    is_more: bool,
    unread: Unread,
}

impl Due {
    /// Finds the next ones. Their rows are read, so that the committer finds them in memory: rows
    /// that have expired are seldom cached, and all writes of the lane would wait meanwhile.
    fn find(view: &View<'_>, now: UnixMillis, after: Option<Bytes>) -> StoreResult<Self> {
        let range = expiry::due(now, after.as_deref());
        let mut due = Self { entries: Vec::new(), after, is_more: false, unread: Unread::default() };
        let mut read = 0;
        for entry in view.range(Space::Expiries, range)?.take(ROWS_PER_COMMIT) {
            let entry = match entry {
                Ok((entry, _)) => entry,
                Err(error @ StoreError::Corrupt { .. }) => {
                    due.is_more = true;
                    if read == 0 {
                        due.unread.add(error);
                        due.skip(view, now)?;
                    }
                    return Ok(due);
                }
                Err(error) => return Err(error),
            };
            read += 1;
            due.after = Some(entry.clone());
            match expiry::decode(&entry).map(|(table, key)| view.raw(Space::Rows(table), &key)) {
                Some(Err(error @ StoreError::Corrupt { .. })) => due.unread.add(error),
                Some(Err(error)) => return Err(error),
                None | Some(Ok(_)) => due.entries.push(entry),
            }
        }
        due.is_more = read == ROWS_PER_COMMIT;
        Ok(due)
    }

    /// Continues behind entries that cannot be read.
    fn skip(&mut self, view: &View<'_>, now: UnixMillis) -> StoreResult<()> {
        let is_due = |place: [u8; 8]| u64::from_be_bytes(place) <= now.0;
        let is_readable = |place| match is_due(place) {
            true => is_readable(view.range(Space::Expiries, expiry::due(now, Some(&place)))?.next().transpose()),
            false => Ok(true),
        };
        let place = unread::behind(self.after.as_deref().unwrap_or_default(), is_readable)?;
        match place.filter(|place| is_due(*place)) {
            Some(place) => self.after = Some(Bytes::copy_from_slice(&place)),
            None => self.is_more = false,
        }
        Ok(())
    }
}

/// A page of contents that are not sealed.
struct ContentPage {
    unsealed: Vec<ContentId>,
    /// Where the next page begins.
    next: Option<Bytes>,
    /// Why the page ends early, and the next one begins behind a place.
    unread: Option<StoreError>,
}

impl EmbeddedStore {
    /// Deletes expired rows (and counts them as the list of expiries does), condemned contents, and
    /// leftovers of interrupted uploads. Of the contents and their files it checks the next ones in
    /// turn. It is no failure if the time is over before all is done, unless a lane refused to
    /// remove any row, nor if what will expire cannot be counted.
    pub(crate) async fn reclaim(&self, deadline: Deadline) -> StoreResult<u64> {
        // Each lane has all of the time, and is swept even if another fails.
        let lanes = Lane::ALL.into_iter().filter(|lane| lane.is_in(self.level()));
        let rows = join_all(lanes.map(|lane| self.sweep_rows(deadline, lane)));
        // They end early, so that only rows that have expired are left when the time is over.
        let early = Deadline::within(deadline.remaining() / 2);
        let leftovers = async {
            let contents = self.sweep_contents(early).await;
            let files = self.sweep_files(early).await;
            Ok::<u64, StoreError>(contents? + files?)
        };
        let counting = async {
            match Lane::Records.is_in(self.level()) {
                true => self.count_expiring(Deadline::within(COUNTING.min(deadline.remaining()))).await,
                false => Ok(()),
            }
        };
        let (rows, leftovers, counted) = tokio::join!(rows, leftovers, counting);
        // Nothing is kept longer because of that.
        if let Err(error) = counted {
            tracing::warn!(%error, "how many records expire in the coming hours cannot be counted");
        }
        Ok(rows.into_iter().sum::<StoreResult<u64>>()? + leftovers?)
    }

    /// Removes the rows of a lane that have expired, the oldest first, until the deadline. After a
    /// failure that may pass it goes on where it is. If such failures let it remove no row until the
    /// deadline, it fails with the last of them. So it does earlier in lanes other than that of
    /// records, because the next sweep of all lanes begins when this one has ended in each.
    async fn sweep_rows(&self, deadline: Deadline, lane: Lane) -> StoreResult<u64> {
        let (mut sweep, mut pause, mut failure) = (RowSweep::default(), PAUSE_FIRST, None);
        let swept = loop {
            match self.sweep_some(deadline, lane, &mut sweep).await {
                Ok(true) => pause = PAUSE_FIRST,
                Ok(false) => {
                    self.note_lag(lane, sweep.lag);
                    break Ok(sweep.rows);
                }
                Err(error) if is_late(deadline, &error) => {
                    // The next sweep continues.
                    break match failure {
                        Some(failure) if sweep.rows == 0 => Err(failure),
                        _ => Ok(sweep.rows),
                    };
                }
                Err(error) => {
                    // A store that is closed stays closed.
                    let may_pass = error.is_passing() && self.database().is_ok();
                    let holds_up = lane != Lane::Records && sweep.rows == 0 && pause == PAUSE_MAX;
                    if !may_pass || holds_up {
                        break Err(error);
                    }
                    tracing::debug!(%lane, %error, ?pause, "the sweep of expired rows waits");
                    failure = Some(error);
                    sleep(pause.min(deadline.remaining())).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        };
        sweep.unread.report(lane.name());
        swept
    }

    /// Removes the next expired rows of a lane in one commit, and rests if more may be left.
    /// Returns whether more may be left.
    async fn sweep_some(&self, deadline: Deadline, lane: Lane, sweep: &mut RowSweep) -> StoreResult<bool> {
        let (now, after) = (self.now(), sweep.after.clone());
        let due = self.read(deadline, lane, move |view| Due::find(view, now, after)).await?;
        let took = match due.entries.is_empty() {
            true => Duration::ZERO,
            false => self.reclaim_entries(deadline, lane, sweep, due.entries).await?,
        };
        sweep.unread.append(due.unread);
        sweep.after = due.after;
        if due.is_more {
            sleep((took * REST).min(REST_MAX).min(deadline.remaining())).await;
        }
        Ok(due.is_more)
    }

    /// Removes rows by their entries, the oldest first. Returns how long that took.
    async fn reclaim_entries(
        &self,
        deadline: Deadline,
        lane: Lane,
        sweep: &mut RowSweep,
        entries: Vec<Bytes>,
    ) -> StoreResult<Duration> {
        let (count, first) = (entries.len() as u64, entries.first().and_then(|first| expiry::time(first)));
        let plan = Plan::of(lane, vec![Change::Reclaim { entries }]).synced_within(SYNC_DELAY);
        let begun = Instant::now();
        let submitted = self.submit(deadline, Plan { is_touched: true, ..plan }).await;
        let took = begun.elapsed();
        // A commit that fails shows as well how late the sweep is.
        let lag = first.map_or(Duration::ZERO, |first| self.now().since(first));
        sweep.lag = sweep.lag.max(lag);
        self.note_lag(lane, sweep.lag);
        match submitted? {
            Outcome::Unknown { reason } => return Err(StoreError::Unavailable(reason)),
            Outcome::Applied | Outcome::Refused { .. } => sweep.rows += count,
        }
        Ok(took)
    }

    fn note_lag(&self, lane: Lane, lag: Duration) {
        if lane == Lane::Records {
            *self.reclaim_lag.lock() = Some(lag);
        }
    }

    /// Counts the records that expire in the coming hours.
    async fn count_expiring(&self, deadline: Deadline) -> StoreResult<()> {
        let (database, now) = (self.database()?, self.now());
        let count = move || database.tables.of(Lane::Records)?.count_expiring(now, deadline);
        match blocking(deadline, count).await {
            // The next sweep continues.
            Err(StoreError::DeadlinePassed) => Ok(()),
            counted => counted,
        }
    }

    /// Checks some contents, the next ones in turn.
    async fn sweep_contents(&self, deadline: Deadline) -> StoreResult<u64> {
        let mut unread = Unread::default();
        let swept = self.sweep_next_contents(deadline, &mut unread).await;
        unread.report(Table::Contents.name());
        swept
    }

    async fn sweep_next_contents(&self, deadline: Deadline, unread: &mut Unread) -> StoreResult<u64> {
        let (mut swept, mut left) = (0, self.options().contents_per_sweep);
        while left > 0 {
            let from = self.sweep_position.lock().content.clone();
            let max = left.min(CONTENTS_PER_PAGE);
            left -= max;
            let page = match self.unsealed_contents(deadline, from, max).await {
                Err(StoreError::DeadlinePassed) => return Ok(swept),
                page => page?,
            };
            page.unread.into_iter().for_each(|error| unread.add(error));
            for id in page.unsealed {
                match self.sweep_content(deadline, id).await {
                    Ok(is_swept) => swept += u64::from(is_swept),
                    Err(error) if is_late(deadline, &error) => return Ok(swept),
                    // It does not prevent others from being swept.
                    Err(error @ StoreError::Corrupt { .. }) => {
                        tracing::warn!(content = %id, %error, "a content cannot be swept");
                    }
                    Err(error) => return Err(error),
                }
                self.sweep_position.lock().content = Some(Bytes::copy_from_slice(&id.0));
            }
            let is_over = page.next.is_none();
            self.sweep_position.lock().content = page.next;
            if is_over {
                break;
            }
        }
        Ok(swept)
    }

    async fn unsealed_contents(&self, deadline: Deadline, from: Option<Bytes>, max: usize) -> StoreResult<ContentPage> {
        let now = self.now();
        let read = self.read(deadline, Table::Contents.lane(), move |view| {
            let (page, unread) = readable_contents(view, from, max, now, deadline)?;
            let ids = page.partitions.iter().filter_map(|id| id[..].try_into().ok().map(ContentId));
            let is_sealed = |id| {
                let header = header_in(view, id, now);
                matches!(header, Ok(Some((_, header))) if header.state == ContentState::Sealed)
            };
            let unsealed = ids.filter(|id| !is_sealed(*id)).collect();
            Ok(ContentPage { unsealed, next: page.next, unread })
        });
        read.await
    }

    /// Sweeps one content, and returns whether it was deleted.
    async fn sweep_content(&self, deadline: Deadline, id: ContentId) -> StoreResult<bool> {
        match lifecycle::to_sweep(self.header(deadline, id).await?, self.now()) {
            ToSweep::Leave => Ok(false),
            ToSweep::Condemn(stamp, header) => {
                match self.change_header(deadline, id, Expect::Stamp(stamp), &header, Vec::new()).await? {
                    Some(_) => self.delete(deadline, id).await,
                    None => Ok(false),
                }
            }
            ToSweep::Delete => self.delete(deadline, id).await,
        }
    }
}

/// A page of contents. Before a place that cannot be read it ends, and the next one begins behind
/// that. Then the error is returned too.
fn readable_contents(
    view: &View<'_>,
    from: Option<Bytes>,
    max: usize,
    now: UnixMillis,
    deadline: Deadline,
) -> StoreResult<(WalkPage, Option<StoreError>)> {
    const TABLE: Table = Table::Contents;
    let mut page = WalkPage::default();
    match read::walk_into(&mut page, view, TABLE, from.clone(), max, now, deadline) {
        Ok(()) => Ok((page, None)),
        Err(error @ StoreError::Corrupt { .. }) => {
            let last = page.partitions.last().or(from.as_ref()).map(|last| &last[..]).unwrap_or_default();
            let is_readable = |place: [u8; 8]| {
                let place = Bytes::copy_from_slice(&place);
                is_readable(read::walk(view, TABLE, Some(place), 1, now, deadline))
            };
            page.next = unread::behind(last, is_readable)?.map(|place| Bytes::copy_from_slice(&place));
            Ok((page, Some(error)))
        }
        Err(error) => Err(error),
    }
}

/// Whether something failed because the time of the sweep is over.
fn is_late(deadline: Deadline, error: &StoreError) -> bool {
    matches!(error, StoreError::DeadlinePassed) || (deadline.passed() && error.is_passing())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ops::Bound;
    use std::sync::{Arc, mpsc};

    use store::{Call, Class, Clock, ManualClock, Measure, Measured, NewRow, PlainValue, Removal, Step};
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;
    use crate::options::EmbeddedOptions;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// The longest time that a test waits.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn call() -> Call {
        Call::new(Class::Record, Deadline::within(PATIENCE))
    }

    /// A store with a clock that shows the beginning of an hour.
    struct Subject {
        folder: tempfile::TempDir,
        clock: Arc<ManualClock>,
        store: Arc<EmbeddedStore>,
        /// The table in which rows are put: that of records, if a test changes nothing.
        table: Table,
    }

    impl Subject {
        fn new() -> Self {
            Self::with(EmbeddedOptions::default())
        }

        fn with(options: EmbeddedOptions) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let clock = Arc::new(ManualClock::new(UnixMillis(1_000 * 3_600_000)));
            let store = EmbeddedStore::open(folder.path(), options, clock.clone()).unwrap();
            Self { folder, clock, store, table: Table::Records }
        }

        /// Closes the store and opens it again.
        async fn reopen(&mut self) {
            self.store.close().await.unwrap();
            let options = EmbeddedOptions::default();
            self.store = EmbeddedStore::open(self.folder.path(), options, self.clock.clone()).unwrap();
        }

        async fn run(&self, step: Step) {
            assert!(self.store.run(call().synced_within(HOUR), vec![step]).await.unwrap().is_applied());
        }

        /// Puts a record that expires so much later; `None`: never.
        async fn put(&self, id: &'static str, life: Option<Duration>) {
            let expires_at = life.map(|life| self.clock.now().plus(life));
            let rows = vec![NewRow { sort: Bytes::new(), value: "v".into(), expires_at }];
            self.run(Step::Put { table: self.table, partition: id.into(), rows }).await;
        }

        /// Puts so many records that expire after an hour.
        async fn put_many(&self, count: usize) {
            let ids: Vec<&'static str> = (0..count).map(|id| &*id.to_string().leak()).collect();
            join_all(ids.into_iter().map(|id| self.put(id, Some(HOUR)))).await;
        }

        async fn remove(&self, id: &'static str) {
            let rows = Removal::Rows(vec![Bytes::new()]);
            self.run(Step::Remove { table: Table::Records, partition: id.into(), rows }).await;
        }

        async fn sweep(&self) -> u64 {
            self.store.sweep(call()).await.unwrap()
        }

        async fn lag(&self) -> Option<Duration> {
            self.store.health().await.reclaim_lag
        }

        /// Until the value is dropped, the committer of the table's lane halts before it writes.
        fn halted(&self) -> mpsc::Sender<()> {
            let tables = self.store.database().unwrap().tables.of(self.table.lane()).unwrap().clone();
            let ((release, released), (hold, held)) = (mpsc::channel(), mpsc::channel());
            std::thread::spawn(move || {
                let _held = tables.hold();
                hold.send(()).unwrap();
                // It fails when the other end is dropped.
                let _: Result<(), _> = released.recv();
            });
            held.recv().unwrap();
            release
        }

        /// A measure of the table's lane.
        fn measured(&self, family: &str) -> Measured {
            let lane = ("lane", self.table.lane().name().to_owned());
            let is_it = |measure: &Measure| measure.family == family && measure.labels.contains(&lane);
            self.store.measures().into_iter().find(is_it).unwrap().value
        }

        fn gauge(&self, family: &str) -> f64 {
            match self.measured(family) {
                Measured::Gauge(value) => value,
                other => panic!("{family} is {other:?}"),
            }
        }

        /// The number of writes that were refused because others waited too long.
        fn refused(&self) -> u64 {
            match self.measured("penates_store_writes_refused_total") {
                Measured::Counter(value) => value,
                other => panic!("it is {other:?}"),
            }
        }

        /// Puts a row that lasts, in a task of its own.
        fn putting(&self, id: &'static str) -> JoinHandle<StoreResult<Outcome>> {
            let rows = vec![NewRow::new("", "v")];
            let put = Step::Put { table: self.table, partition: id.into(), rows };
            let store = self.store.clone();
            tokio::spawn(async move { store.run(call(), vec![put]).await })
        }

        /// Waits until so many writes of the table's lane wait for the committer, and until it has
        /// others in its hands or has none.
        async fn until(&self, waiting: f64, is_at_work: bool) {
            let begun = Instant::now();
            while self.gauge("penates_store_writes_waiting") != waiting
                || (self.gauge("penates_store_writes_admitted_bytes") > 0.0) != is_at_work
            {
                assert!(begun.elapsed() < PATIENCE, "{waiting} writes do not wait");
                tokio::task::yield_now().await;
            }
        }

        fn entries(&self, space: Space) -> usize {
            let database = self.store.database().unwrap();
            let view = database.tables.of(Lane::Records).unwrap().view();
            view.range(space, (Bound::Unbounded, Bound::Unbounded)).unwrap().count()
        }

        async fn expiring(&self) -> Vec<u64> {
            self.store.health().await.expiring
        }
    }

    #[tokio::test]
    async fn a_record_has_one_entry_however_often_its_expiry_changes() {
        let subject = Subject::new();
        for life in 1..2_000_u64 {
            subject.put("session", Some(HOUR + Duration::from_millis(life * 7_919 % 100_000))).await;
        }
        assert_eq!(subject.entries(Space::Expiries), 1);
        subject.put("session", None).await;
        assert_eq!(subject.entries(Space::Expiries), 0);
        subject.put("session", Some(HOUR)).await;
        subject.put("session", Some(HOUR)).await;
        subject.put("other", Some(HOUR)).await;
        assert_eq!(subject.entries(Space::Expiries), 2);
        subject.remove("other").await;
        assert_eq!(subject.entries(Space::Expiries), 1);
        subject.clock.advance(HOUR);
        assert_eq!(subject.sweep().await, 1);
        assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 0));
    }

    #[tokio::test]
    async fn lists_of_one_group_leave_the_entry_of_the_last() {
        let subject = Subject::new();
        let puts = (1..200).map(|life| subject.put("session", Some(HOUR + Duration::from_millis(life))));
        join_all(puts).await;
        assert_eq!(subject.entries(Space::Expiries), 1);
        subject.clock.advance(HOUR * 2);
        subject.sweep().await;
        assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 0));
    }

    #[tokio::test]
    async fn more_than_one_commit_of_expired_rows_are_reclaimed_and_their_lag_is_known() {
        const IDS: usize = 2 * ROWS_PER_COMMIT + 10;
        let subject = Subject::new();
        subject.put_many(IDS).await;
        subject.put("stays", None).await;
        assert_eq!(subject.lag().await, None);
        subject.clock.advance(HOUR + Duration::from_secs(7));
        let mut sweep = RowSweep::default();
        assert!(subject.store.sweep_some(call().deadline, Lane::Records, &mut sweep).await.unwrap());
        assert_eq!(subject.entries(Space::Expiries), IDS - ROWS_PER_COMMIT);
        assert_eq!(subject.lag().await, Some(Duration::from_secs(7)), "it is known after each commit");
        assert_eq!(subject.sweep().await, (IDS - ROWS_PER_COMMIT) as u64);
        assert_eq!(subject.lag().await, Some(Duration::from_secs(7)));
        assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 1));
        assert_eq!(subject.sweep().await, 0);
        assert_eq!(subject.lag().await, Some(Duration::ZERO));
    }

    #[tokio::test]
    async fn a_sweep_that_runs_out_of_time_is_no_failure_and_notes_its_lag() {
        let subject = Subject::new();
        subject.put("session", Some(HOUR)).await;
        subject.clock.advance(HOUR + Duration::from_secs(7));
        let halted = subject.halted();
        // As much time as it takes here to find what has expired.
        let mut time = Duration::from_millis(10);
        while subject.lag().await.is_none() {
            assert!(time < PATIENCE, "nothing is found");
            let call = Call::new(Class::Record, Deadline::within(time));
            assert_eq!(subject.store.sweep(call).await.unwrap(), 0);
            time *= 2;
        }
        assert_eq!(subject.lag().await, Some(Duration::from_secs(7)));
        drop(halted);
        subject.sweep().await;
        assert_eq!(subject.entries(Space::Expiries), 0, "the next sweep continues");
    }

    #[tokio::test]
    async fn a_sweep_that_is_refused_for_the_moment_goes_on_and_one_that_is_refused_all_the_time_has_failed() {
        // A write is refused as long as another one waits.
        let subject = Subject::with(EmbeddedOptions { max_queue_age: Duration::ZERO, ..EmbeddedOptions::default() });
        for id in ["a", "b", "c"] {
            subject.put(id, Some(HOUR)).await;
        }
        subject.clock.advance(HOUR * 2);
        subject.until(0.0, false).await;
        let halted = subject.halted();
        let committed = subject.putting("committed");
        subject.until(0.0, true).await;
        let waiting = subject.putting("waiting");
        subject.until(1.0, true).await;
        // As much time as it takes here to find what has expired.
        let mut time = Duration::from_millis(10);
        let failure = loop {
            match subject.store.sweep(Call::new(Class::Record, Deadline::within(time))).await {
                Ok(swept) => assert_eq!(swept, 0),
                Err(failure) => break failure,
            }
            assert!(time < PATIENCE, "nothing is found");
            time *= 2;
        };
        assert!(matches!(failure, StoreError::Overloaded(_)), "{failure}");
        let (refused, begun) = (subject.refused(), Instant::now());
        let sweep = tokio::spawn({
            let store = subject.store.clone();
            async move { store.sweep(call()).await }
        });
        while subject.refused() < refused + 2 {
            assert!(!sweep.is_finished() && begun.elapsed() < PATIENCE, "it is not tried again");
            tokio::task::yield_now().await;
        }
        drop(halted);
        for write in [committed, waiting] {
            assert!(write.await.unwrap().unwrap().is_applied());
        }
        assert_eq!(sweep.await.unwrap().unwrap(), 3);
        assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 2));
    }

    #[tokio::test]
    async fn a_lane_that_refuses_all_the_time_does_not_hold_up_the_next_sweep_of_records() {
        let options = EmbeddedOptions { max_queue_age: Duration::ZERO, ..EmbeddedOptions::default() };
        let mut subject = Subject::with(options);
        subject.put("record", Some(HOUR)).await;
        subject.table = Table::Selections;
        subject.put("selection", Some(HOUR)).await;
        subject.clock.advance(HOUR * 2);
        subject.until(0.0, false).await;
        let halted = subject.halted();
        let committed = subject.putting("committed");
        subject.until(0.0, true).await;
        let waiting = subject.putting("waiting");
        subject.until(1.0, true).await;
        let sweep = subject.store.sweep(Call::new(Class::Record, Deadline::within(HOUR)));
        let swept = timeout(PATIENCE, sweep).await.unwrap();
        assert!(matches!(swept, Err(StoreError::Overloaded(_))), "{swept:?}");
        assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 0));
        drop(halted);
        for write in [committed, waiting] {
            assert!(write.await.unwrap().unwrap().is_applied());
        }
    }

    #[tokio::test]
    async fn a_sweep_of_a_store_that_is_closed_does_not_wait() {
        let subject = Subject::new();
        subject.store.close().await.unwrap();
        let sweep = subject.store.sweep(Call::new(Class::Record, Deadline::within(HOUR)));
        let swept = timeout(PATIENCE, sweep).await.unwrap();
        assert!(matches!(swept, Err(StoreError::Unavailable(_))), "{swept:?}");
    }

    #[tokio::test]
    async fn a_write_that_comes_during_a_sweep_waits_for_one_of_its_commits_only() {
        const IDS: usize = 2 * ROWS_PER_COMMIT;
        let subject = Subject::new();
        subject.put_many(IDS).await;
        let life = HOUR + Duration::from_millis(1);
        let last = PlainValue { value: "v".into(), expires_at: Some(subject.clock.now().plus(life)) };
        subject.put("last", Some(life)).await;
        subject.clock.advance(HOUR * 2);
        subject.until(0.0, false).await;
        let halted = subject.halted();
        let sweep = tokio::spawn({
            let store = subject.store.clone();
            async move { store.sweep(call()).await }
        });
        subject.until(0.0, true).await;
        // It applies only before the last row is removed.
        let replace = Step::Replace {
            table: Table::Records,
            partition: "last".into(),
            sort: Bytes::new(),
            expect: Some(last),
            then: Some(PlainValue { value: "new".into(), expires_at: None }),
        };
        let write = tokio::spawn({
            let store = subject.store.clone();
            async move { store.run(call(), vec![replace]).await }
        });
        subject.until(1.0, true).await;
        drop(halted);
        assert!(write.await.unwrap().unwrap().is_applied());
        assert_eq!(sweep.await.unwrap().unwrap(), IDS as u64);
        assert_eq!((subject.entries(Space::Expiries), subject.entries(Space::Rows(Table::Records))), (0, 1));
    }

    #[tokio::test]
    async fn what_expires_in_each_coming_hour_is_counted() {
        let mut subject = Subject::new();
        let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
        subject.put("a", minutes(10)).await;
        subject.put("b", minutes(70)).await;
        subject.put("c", minutes(24 * 60)).await;
        subject.put("d", None).await;
        assert!(subject.expiring().await.is_empty(), "nothing was counted yet");
        subject.sweep().await;
        let counts = |first: &[u64]| [first, &vec![0; 24 - first.len()]].concat();
        assert_eq!(subject.expiring().await, counts(&[1, 1]));
        // What changes is counted at once.
        subject.put("a", minutes(80)).await;
        subject.put("d", minutes(130)).await;
        assert_eq!(subject.expiring().await, counts(&[0, 2, 1]));
        subject.remove("b").await;
        subject.put("d", None).await;
        assert_eq!(subject.expiring().await, counts(&[0, 1, 0]));
        // An hour comes within the horizon.
        subject.clock.advance(HOUR);
        subject.sweep().await;
        let mut expected = counts(&[1]);
        expected[23] = 1;
        assert_eq!(subject.expiring().await, expected);
        subject.reopen().await;
        subject.sweep().await;
        assert_eq!(subject.expiring().await, expected);
        subject.clock.advance(HOUR);
        subject.sweep().await;
        assert_eq!(subject.expiring().await[..2], [0, 0]);
    }

    #[tokio::test]
    async fn an_hour_that_was_counted_in_part_is_counted_again_before_its_number_is_too_low() {
        let subject = Subject::new();
        subject.put_many(1_001).await;
        let tables = subject.store.database().unwrap().tables.of(Lane::Records).unwrap().clone();
        // Without any time one hour is counted, and no more of it than between two looks at the deadline.
        let count = || tables.count_expiring(subject.clock.now(), Deadline::within(Duration::ZERO)).unwrap();
        count();
        count();
        assert_eq!(subject.expiring().await, [0, 1_000]);
        let gone = (0..500).map(|id: u32| subject.remove(id.to_string().leak()));
        join_all(gone).await;
        assert_eq!(subject.expiring().await, [0, 500]);
        subject.sweep().await;
        assert_eq!(subject.expiring().await[..3], [0, 501, 0]);
    }
}
