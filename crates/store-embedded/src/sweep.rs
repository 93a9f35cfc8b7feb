//! Deletes what nobody can read any more: expired rows, and leftovers of interrupted uploads. A
//! broken block ends no sweep: it leaves out what it cannot read, goes on behind that, and reports
//! it.

use std::mem;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use store::lifecycle::{self, ToSweep};
use store::{
    ContentId, ContentState, Deadline, Expect, Lane, Outcome, StoreError, StoreResult, Table, UnixMillis, WalkPage,
};
use tokio::time::{Instant, sleep};

use crate::blocking::blocking;
use crate::engine::EmbeddedStore;
use crate::files::io_error;
use crate::first_due::Unswept;
use crate::header::header_in;
use crate::plan::{Change, Plan};
use crate::room::Use;
use crate::space::Space;
use crate::tables::{Tables, View};
use crate::unread::{self, Unread, is_readable};
use crate::{expiry, priority, read};

/// Expired rows that are removed in one commit. Writes that come meanwhile wait for one such
/// commit, and not for all that has expired.
const ROWS_PER_COMMIT: usize = 256;

/// After a step the sweep rests so many times as long as that took. Then others have the lane and
/// the processors.
const REST: u32 = 9;

/// The longest rest. A commit with other writes takes as long as their sync, which is no work of
/// the lane: without this bound more would expire on a slow disk than is removed.
const REST_MAX: Duration = Duration::from_millis(20);

/// A sweep that comes to rows that expired longer ago than this is late: more may expire than it
/// removes.
const LAG_MAX: Duration = Duration::from_mins(5);

/// Then it rests so many times as long as the commit took, and so long at most.
const REST_LATE: u32 = 3;
const REST_LATE_MAX: Duration = Duration::from_millis(5);

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
struct RowSweep {
    unswept: Unswept,
    /// Rows that were removed.
    rows: u64,
    /// For how long one of them had been expired, at most.
    lag: Duration,
    /// The entry that was read last, or the beginning of those behind what cannot be read.
    after: Option<Bytes>,
    unread: Unread,
}

impl RowSweep {
    fn begin(tables: &Tables) -> Self {
        let unswept = tables.first_due().begin();
        let after = Some(unswept.behind());
        Self { unswept, rows: 0, lag: Duration::ZERO, after, unread: Unread::default() }
    }

    /// Takes note of what was found and deleted. The next sweep begins there, unless something was
    /// left out.
    fn come_behind(&mut self, due: Due) {
        self.unread.append(due.unread);
        self.after = due.after;
        let time = match due.is_more {
            true => self.after.as_deref().and_then(expiry::time),
            false => Some(due.now),
        };
        if let Some(time) = time.filter(|_| self.unread.is_empty()) {
            self.unswept.come_to(time);
        }
    }
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
    /// When it was looked for.
    now: UnixMillis,
}

impl Due {
    /// Finds the next ones. Their rows are read, so that the committer finds them in memory: rows
    /// that have expired are seldom cached, and all writes of the lane would wait meanwhile.
    fn find(view: &View<'_>, now: UnixMillis, after: Option<Bytes>) -> StoreResult<Self> {
        let range = expiry::due(now, after.as_deref());
        let mut due = Self { entries: Vec::new(), after, is_more: false, unread: Unread::default(), now };
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

/// A commit of a sweep.
#[derive(Clone, Copy, Debug, Default)]
struct Reclaimed {
    took: Duration,
    /// How long ago the first row had expired.
    lag: Duration,
}

/// How long a sweep rests after a step that took so long, with its commit.
fn rest_after(step: Duration, Reclaimed { took, lag }: Reclaimed) -> Duration {
    if lag > LAG_MAX { (took * REST_LATE).min(REST_LATE_MAX) } else { (step * REST).min(REST_MAX) }
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
        // Before sweeps begin: while they are at work it is not known.
        let first_due = self.database()?.tables.of(Lane::Records).first_due().time();
        // Each lane has all of the time, and is swept even if another fails.
        let rows = join_all(Lane::ALL.map(|lane| self.sweep_rows(deadline, lane)));
        // They end early, so that only rows that have expired are left when the time is over.
        let early = Deadline::within(deadline.remaining() / 2);
        let leftovers = async {
            let contents = self.sweep_contents(early).await;
            let files = self.sweep_files(early).await;
            Ok::<u64, StoreError>(contents? + files?)
        };
        let counting = self.count_expiring(first_due, Deadline::within(COUNTING.min(deadline.remaining())));
        let (rows, leftovers, counted) = tokio::join!(rows, leftovers, counting);
        // Nothing is kept longer because of that.
        if let Err(error) = counted {
            tracing::warn!(%error, "how many records expire in the coming hours cannot be counted");
        }
        if let Err(error) = self.begin_to_merge(deadline).await {
            tracing::debug!(%error, "the next sweep begins to merge files with deleted records");
        }
        Ok(rows.into_iter().sum::<StoreResult<u64>>()? + leftovers?)
    }

    /// Removes the rows of a lane that have expired, the oldest first, until the deadline. After a
    /// failure that may pass it goes on where it is. If such failures let it remove no row until the
    /// deadline, it fails with the last of them. So it does earlier in lanes other than that of
    /// records, because the next sweep of all lanes begins when this one has ended in each.
    async fn sweep_rows(&self, deadline: Deadline, lane: Lane) -> StoreResult<u64> {
        let mut sweep = RowSweep::begin(self.database()?.tables.of(lane));
        let (mut pause, mut failure) = (PAUSE_FIRST, None);
        let swept = loop {
            match self.sweep_some(deadline, lane, &mut sweep).await {
                Ok(true) => pause = PAUSE_FIRST,
                Ok(false) => {
                    if !sweep.unswept.is_with_another() {
                        self.note_lag(lane, sweep.lag);
                    }
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
        if let Ok(database) = self.database() {
            database.tables.of(lane).note_deleted(sweep.rows);
        }
        swept
    }

    /// Removes the next expired rows of a lane in one commit, and rests if more may be left.
    /// Returns whether more may be left.
    async fn sweep_some(&self, deadline: Deadline, lane: Lane, sweep: &mut RowSweep) -> StoreResult<bool> {
        let (begun, now, after) = (Instant::now(), self.now(), sweep.after.clone());
        let mut due = self.read(deadline, lane, move |view| Due::find(view, now, after)).await?;
        let entries = mem::take(&mut due.entries);
        let reclaimed = match entries.is_empty() {
            true => Reclaimed::default(),
            false => self.reclaim_entries(deadline, lane, sweep, entries).await?,
        };
        let is_more = due.is_more;
        sweep.come_behind(due);
        if is_more {
            sleep(rest_after(begun.elapsed(), reclaimed).min(deadline.remaining())).await;
        }
        Ok(is_more)
    }

    /// Removes rows by their entries, the oldest first.
    async fn reclaim_entries(
        &self,
        deadline: Deadline,
        lane: Lane,
        sweep: &mut RowSweep,
        entries: Vec<Bytes>,
    ) -> StoreResult<Reclaimed> {
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
        Ok(Reclaimed { took, lag })
    }

    fn note_lag(&self, lane: Lane, lag: Duration) {
        if lane == Lane::Records {
            *self.reclaim_lag.lock() = Some(lag);
        }
    }

    /// Begins to merge the files of records, if much was deleted of what they hold, and if that
    /// does not go on already. It goes on after the sweep. Closing the store waits for it.
    async fn begin_to_merge(&self, deadline: Deadline) -> StoreResult<()> {
        let (room, is_closed) = (self.room().clone(), self.is_closed.clone());
        let has_room =
            move |bytes| !is_closed.load(Ordering::Acquire) && room.check(room.free_bytes(), bytes, Use::Adds).is_ok();
        let goes_on = self.merging.lock().as_ref().is_some_and(|thread| !thread.is_finished());
        if goes_on || !self.database()?.tables.of(Lane::Records).has_much_deleted(&has_room) {
            return Ok(());
        }
        // It needs a commit. This one deletes an entry that is none.
        let nothing = Change::Reclaim { entries: vec![Bytes::from_static(b"\0")] };
        self.submit(deadline, Plan::of(Lane::Records, vec![nothing])).await?;
        // A store that closes now finds either no database or the thread.
        let mut merging = self.merging.lock();
        let database = self.database()?;
        let merge = move || {
            priority::lower();
            if let Err(error) = database.tables.of(Lane::Records).merge_deleted(has_room) {
                tracing::warn!(%error, "files with deleted records are not merged");
            }
        };
        let started = thread::Builder::new().name("merge-records".to_owned()).spawn(merge);
        let thread =
            started.map_err(|source| io_error("starting a thread that merges files in", self.folder(), source))?;
        *merging = Some(thread);
        Ok(())
    }

    /// Counts the records that expire in the coming hours.
    async fn count_expiring(&self, first_due: UnixMillis, deadline: Deadline) -> StoreResult<()> {
        let (database, now) = (self.database()?, self.now());
        let count = move || database.tables.of(Lane::Records).count_expiring(now, first_due, deadline);
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
mod tests;
