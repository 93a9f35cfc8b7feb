//! Queues of recorded work (objects to collect, jobs on containers), which any server finds and
//! does.
//!
//! Records come and go, and on Cassandra each removal leaves a tombstone, which every later reader
//! of its partition has to skip. So a queue is spread over *buckets* of time, and each bucket over
//! shards. A partition of [`Table::Work`] is filled for ten minutes, emptied, and never read again.
//!
//! A record is put into the bucket of the time from which it is due. A pass reads all buckets from
//! the queue's *low-water mark* to the present. A record that has to wait longer is moved to a
//! later bucket: it is put there and then removed here. A crash in between leaves it twice, which
//! does no harm. A bucket is *closed* once no server can still put records into it. The mark moves
//! past a closed bucket once a pass finds it empty. The mark is changed by compare-and-write. So no
//! pass undoes what a later one wrote, and a server away from the heads' home, which may see too
//! little, cannot change it.
//!
//! Where there is no mark, a *walk* over the whole table finds the closed buckets with records. The
//! pass reads these, and all that are not closed. It leaves a mark, even if it moves past no bucket
//! or ends at a limit. So the next pass does not walk, unless the mark is far behind.
//!
//! A server whose clock is ahead can move the mark into the future. Once the clock is right, new
//! records are put below such a mark. So a mark that no right clock can have written counts as lost:
//! a walk finds the buckets with records, and the pass writes the mark again. What a walk finds
//! counts more than a mark: if there are records below the mark, the pass reads them, and the mark
//! goes back.
//!
//! On a store that several processes share, each of them puts a bounded number of bytes into a
//! partition ([`SHARE_BYTES`]). What has no room in its shard goes to another one of the bucket. If
//! none has room, it is due in a later bucket. Passes read all shards, so a record may be in any.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use store::{
    Class, Expect, Guard, NewRow, Outcome, Removal, Rows, Scan, Step, StoreError, Table, UnixMillis, ValueKind, boxed,
    envelope,
};

use crate::chores::Tally;
use crate::due_work::Due;
use crate::error::ObjectsResult;
use crate::handle::Heads;
use crate::keys;
use crate::queues::Queue;
use crate::retries::TRIES_MAX;
use crate::sampling::row_bytes;

/// How long a bucket is filled.
pub const BUCKET: Duration = Duration::from_secs(600);

/// The most bytes of records that one process puts into one partition of a shared store. Sixteen
/// processes that fill the same one make less than the 100 MB that Cassandra should read.
pub const SHARE_BYTES: u64 = 6_000_000;

/// Bytes of one page of a scan over the records of a shard.
const SCAN_BYTES: usize = 64 << 10;

/// Partitions of one page of a walk.
const WALKED_AT_ONCE: usize = 1_000;

/// The bucket of a time: units of ten minutes since the Unix epoch.
pub(crate) fn bucket_of(time: UnixMillis) -> u32 {
    u32::try_from(u128::from(time.0) / BUCKET.as_millis()).unwrap_or(u32::MAX)
}

/// When a bucket begins.
fn begin_of(bucket: u32) -> UnixMillis {
    UnixMillis(u64::from(bucket) * BUCKET.as_millis() as u64)
}

/// A record, and its place.
#[derive(Clone, Debug)]
pub struct WorkRecord {
    partition: Bytes,
    sort: Bytes,
    value: Bytes,
}

impl WorkRecord {
    /// The step that puts it.
    pub fn put(&self) -> Step {
        let rows = vec![NewRow::new(self.sort.clone(), self.value.clone())];
        Step::Put { table: Table::Work, partition: self.partition.clone(), rows }
    }

    /// The step that removes it. If a pass moved the record meanwhile, another pass finds that
    /// nothing is left to do.
    pub fn done(&self) -> Step {
        let rows = Removal::Rows(vec![self.sort.clone()]);
        Step::Remove { table: Table::Work, partition: self.partition.clone(), rows }
    }
}

/// A record as a pass found it.
#[derive(Clone, Debug)]
pub struct WorkEntry {
    queue: Queue,
    bucket: u32,
    partition: Bytes,
    sort: Bytes,
    /// Its value.
    pub value: Bytes,
}

impl WorkEntry {
    /// Its sort key.
    pub fn sort(&self) -> &Bytes {
        &self.sort
    }
}

/// The bytes of records that this process has put into each shard of the buckets that are not over,
/// by bucket and queue.
#[derive(Default)]
pub(crate) struct Filled(Mutex<BTreeMap<(u32, usize), Vec<u64>>>);

impl Filled {
    /// The bucket and the shard for a record of so many bytes: its own, as long as there is room.
    /// Buckets before the present one are over.
    fn place(&self, queue: Queue, own: (u32, u8), bytes: u64, present: u32) -> (u32, u8) {
        let mut filled = self.0.lock();
        while filled.first_key_value().is_some_and(|((bucket, _), _)| *bucket < present) {
            filled.pop_first();
        }
        let (mut bucket, own_shard) = own;
        let bytes = bytes.min(SHARE_BYTES);
        loop {
            let shards = filled.entry((bucket, queue as usize)).or_insert_with(|| vec![0; queue.shards().into()]);
            let has_room = |shard: u8| shards[usize::from(shard)] + bytes <= SHARE_BYTES;
            let emptiest = || (0..queue.shards()).min_by_key(|shard| shards[usize::from(*shard)]);
            let roomy = Some(own_shard).filter(|shard| has_room(*shard)).or_else(emptiest);
            let roomy = roomy.filter(|shard| has_room(*shard) || bucket == u32::MAX);
            if let Some(shard) = roomy {
                shards[usize::from(shard)] += bytes;
                return (bucket, shard);
            }
            // Once for each bucket: then nothing has room in it.
            if shards.iter().any(|put| *put < SHARE_BYTES) {
                let why = "more was recorded than the partitions of ten minutes may hold";
                tracing::warn!(queue = queue.name(), why, "some work is done later");
                shards.fill(SHARE_BYTES);
            }
            bucket += 1;
        }
    }
}

/// One pass over the due records of a queue. It may end anywhere.
pub struct Pass {
    queue: Queue,
    low: Low,
    /// The buckets that are still to be read, ascending. Those that it leaves out are closed, and
    /// have no records.
    to_read: VecDeque<u32>,
    /// The bucket that is being read, and whether it was empty so far.
    bucket: u32,
    is_empty: bool,
    /// All buckets before this one are closed: no server puts records into them any more.
    open_from: u32,
    /// All buckets before this one are empty forever.
    empty_until: u32,
    /// The rest of the bucket's scans.
    scans: Vec<(Bytes, Scan)>,
    /// The unused records that were read of it.
    found: Vec<Vec<WorkEntry>>,
    /// The records that were read so far.
    due: Due,
    began: UnixMillis,
}

/// A mark may be so many buckets behind, a week. One that is more behind is that of a clock that was
/// wrong, or the store rested: a walk takes less than reading all buckets in between.
const BEHIND_MAX: u32 = 1_008;

/// Where a pass begins.
struct Low {
    /// The first bucket that may have records: that of the low-water mark, or that of a walk.
    bucket: u32,
    /// The closed buckets with records that a walk found; `None`: there was no walk.
    walked: Option<BTreeSet<u32>>,
    /// The row of the mark as it was read.
    current: Expect,
    /// The bucket that the stored mark names; `None`: there is no mark, or it says nothing. Then
    /// the next pass walks as well, unless this one writes a mark.
    marked: Option<u32>,
}

impl Heads {
    /// A record that is due from a time on. Records of one subject that are due at the same time
    /// share a partition, as long as that has room.
    pub fn queued(&self, queue: Queue, due: UnixMillis, subject: &[u8], sort: Bytes, value: Bytes) -> WorkRecord {
        let shard = crc32fast::hash(subject) % u32::from(queue.shards());
        let now = self.inner.surroundings.clock.now();
        let own = (bucket_of(due.max(now)), u8::try_from(shard).unwrap_or(0));
        let (bucket, shard) = match self.is_shared() {
            true => self.inner.filled.place(queue, own, row_bytes(&sort, value.len()), bucket_of(now)),
            // An engine of one process reads a part of a partition as it reads any rows.
            false => own,
        };
        WorkRecord { partition: keys::queue(queue.name(), bucket, shard), sort, value }
    }

    /// The first bucket that is not closed. A step that puts a record may be built at the end of a
    /// bucket, by a server whose clock differs. It is retried as often as a switch of a head, and
    /// with a short time limit of calls for as long as one.
    fn open_from(&self, now: UnixMillis) -> u32 {
        let options = &self.inner.options;
        let of_calls = options.call_timeout * TRIES_MAX * (TRIES_MAX + 1);
        let trying = of_calls.max(options.change_max()) + 2 * options.clock_skew_max;
        bucket_of(UnixMillis(now.0.saturating_sub(u64::try_from(trying.as_millis()).unwrap_or(u64::MAX))))
    }

    /// The last bucket that a mark can name, unless the clock of its writer is wrong. No server puts
    /// records before this bucket: [`Heads::open_from`] counts the difference of clocks twice, and
    /// this bucket is ahead of it by that difference once.
    fn mark_max(&self, now: UnixMillis) -> u32 {
        self.open_from(now.plus(self.inner.options.clock_skew_max))
    }

    /// Begins a pass over a queue.
    #[boxed]
    pub async fn pass(&self, queue: Queue) -> ObjectsResult<Pass> {
        let now = self.inner.surroundings.clock.now();
        let open_from = self.open_from(now);
        let mut low = self.retry_transient(|| self.low_water(queue, now)).await?;
        let (first, last) = (low.bucket, bucket_of(now));
        let to_read = match low.walked.take() {
            Some(closed) => closed.into_iter().chain(open_from..=last).collect(),
            None => (first..=last).collect(),
        };
        Ok(Pass {
            queue,
            low,
            to_read,
            bucket: first,
            is_empty: false,
            open_from,
            empty_until: first,
            scans: Vec::new(),
            found: Vec::new(),
            due: Due::default(),
            began: now,
        })
    }

    /// Where a pass begins: at the queue's low-water mark. If there is none, it cannot be read, or
    /// it is in the future or far behind, walks over all partitions once.
    async fn low_water(&self, queue: Queue, now: UnixMillis) -> ObjectsResult<Low> {
        let call = self.call(Class::Description).strong();
        let (partition, sort) = (keys::low_water_partition(), keys::low_water(queue.name()));
        let row = match self.inner.store.get(call, Table::Work, &partition, &sort).await {
            Err(StoreError::Corrupt { .. }) => None,
            row => row?,
        };
        let current = row.as_ref().and_then(|row| row.guard.as_ref());
        let current = current.map_or(Expect::Absent, |guard| Expect::Stamp(guard.stamp));
        let is_stored = row.is_some();
        let payload = row.and_then(|row| envelope::open(ValueKind::LowWater, &row.value).ok());
        let marked = payload.and_then(|payload| payload[..].try_into().ok()).map(u32::from_be_bytes);
        let open_from = self.open_from(now);
        let marked = marked.filter(|bucket| *bucket <= self.mark_max(now));
        match marked {
            Some(bucket) if bucket.saturating_add(BEHIND_MAX) >= open_from => {
                return Ok(Low { bucket, walked: None, current, marked });
            }
            None if is_stored => {
                let why = "it cannot be read, or is in the future: a clock was or is wrong";
                tracing::warn!(queue = queue.name(), why, "the low-water mark of a queue says nothing");
            }
            _ => {}
        }
        // While the walk goes on, and later, no server puts records into a closed bucket.
        let walked = self.buckets_before(open_from, queue).await?;
        let bucket = walked.first().copied().unwrap_or(open_from);
        Ok(Low { bucket, walked: Some(walked), current, marked })
    }

    /// The buckets of a queue that have records, before one.
    async fn buckets_before(&self, end: u32, queue: Queue) -> ObjectsResult<BTreeSet<u32>> {
        let (mut found, mut from) = (BTreeSet::new(), None);
        loop {
            let call = self.call(Class::Description).strong();
            let page = self.inner.store.walk(call, Table::Work, from, WALKED_AT_ONCE).await?;
            let buckets = page.partitions.iter().filter_map(|partition| keys::queue_bucket(partition, queue.name()));
            found.extend(buckets.filter(|bucket| *bucket < end));
            from = page.next;
            if from.is_none() {
                return Ok(found);
            }
        }
    }

    /// Some due records, all of one shard of one bucket; `None` at the end of the pass. The next
    /// pass finds records again that are neither finished nor postponed. A page that cannot be read
    /// is counted, and the rest of its shard is left for a later pass.
    #[boxed]
    pub async fn next_due(&self, pass: &mut Pass, tally: &mut Tally<'_>) -> ObjectsResult<Option<Vec<WorkEntry>>> {
        loop {
            if let Some(entries) = pass.found.pop() {
                return Ok(Some(entries));
            }
            if pass.scans.is_empty() && !pass.next_bucket() {
                return Ok(None);
            }
            let pages = self.pages(pass, tally).await?;
            for ((partition, scan), page) in std::mem::take(&mut pass.scans).into_iter().zip(pages) {
                let Some(page) = page else {
                    pass.is_empty = false;
                    continue;
                };
                let entry = |row: store::Row| WorkEntry {
                    queue: pass.queue,
                    bucket: pass.bucket,
                    partition: partition.clone(),
                    sort: row.sort,
                    value: row.value,
                };
                let entries: Vec<_> = page.rows.into_iter().map(entry).collect();
                pass.is_empty &= entries.is_empty();
                pass.count(entries.len());
                pass.found.extend(Some(entries).filter(|entries| !entries.is_empty()));
                pass.scans.extend(scan.resumed(page.next).map(|rest| (partition, rest)));
            }
        }
    }

    /// The next pages of a bucket; `None` for each that is damaged.
    async fn pages(&self, pass: &Pass, tally: &mut Tally<'_>) -> ObjectsResult<Vec<Option<Rows>>> {
        let read = |scans: &[(Bytes, Scan)]| {
            let scans: Vec<_> =
                scans.iter().map(|(partition, scan)| (Table::Work, partition.clone(), scan.clone())).collect();
            async { Ok(self.inner.store.scan_many(self.call(Class::Description).strong(), scans).await?) }
        };
        match self.retry_transient(|| read(&pass.scans)).await {
            Err(error) if error.is_damage() => {}
            pages => return Ok(pages?.into_iter().map(Some).collect()),
        }
        let mut pages = Vec::with_capacity(pass.scans.len());
        for scan in &pass.scans {
            let page = self.retry_transient(|| read(std::slice::from_ref(scan))).await;
            let page = tally.take(format_args!("all in {}", scan.0.escape_ascii()), page)?;
            pages.push(page.and_then(|mut page| page.pop()));
        }
        Ok(pages)
    }

    /// Ends a pass that has read all of its buckets: notes what was due, for monitors, and leaves
    /// the pass ([`Heads::leave_pass`]).
    #[boxed]
    pub async fn end_pass(&self, pass: Pass) -> ObjectsResult<()> {
        self.inner.due_work.found(pass.queue, pass.due);
        self.leave_pass(pass).await
    }

    /// Leaves a pass, also one that has not read all of its buckets: moves the mark past the
    /// buckets that are empty forever, or back to what a walk found. It writes no mark that says
    /// the same as the stored one. Away from the heads' home the mark stays.
    #[boxed]
    pub async fn leave_pass(&self, pass: Pass) -> ObjectsResult<()> {
        if pass.low.marked == Some(pass.empty_until) {
            return Ok(());
        }
        let mark = Step::CompareAndWrite {
            table: Table::Work,
            partition: keys::low_water_partition(),
            sort: keys::low_water(pass.queue.name()),
            expect: pass.low.current,
            guard: Guard { stamp: self.stamp(), tag: Bytes::new() },
            value: envelope::seal(ValueKind::LowWater, &pass.empty_until.to_be_bytes()),
        };
        // If another server was first, its mark is as good. If the outcome is unknown, or there is
        // no room, the next pass reads some empty partitions again, or walks again.
        match self.inner.store.run(self.call(Class::Description).removing(), vec![mark]).await {
            Ok(Outcome::Applied | Outcome::Refused { .. } | Outcome::Unknown { .. }) => Ok(()),
            Err(StoreError::ReadOnly(_) | StoreError::Full(_)) => Ok(()),
            // The mark cannot be read, so the next pass walks over all partitions again.
            Err(StoreError::Corrupt { .. }) => Ok(()),
            Err(error) if error.is_passing() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes records of work that is done.
    #[boxed]
    pub async fn finish(&self, entries: &[WorkEntry]) -> ObjectsResult<()> {
        let mut sorts: BTreeMap<&Bytes, Vec<Bytes>> = BTreeMap::new();
        for WorkEntry { partition, sort, .. } in entries {
            sorts.entry(partition).or_default().push(sort.clone());
        }
        let remove = |(partition, sorts): (&Bytes, Vec<Bytes>)| {
            let (partition, rows) = (partition.clone(), Removal::Rows(sorts));
            Step::Remove { table: Table::Work, partition, rows }
        };
        let steps: Vec<_> = sorts.into_iter().map(remove).collect();
        if steps.is_empty() { Ok(()) } else { self.put_acknowledged(Class::Description, steps).await }
    }

    /// Leaves records of one subject for later: until a time if that is known, otherwise for the
    /// next pass. Moves records to a later bucket if they are due later, or if their bucket is
    /// closed, so that it becomes empty.
    pub async fn postpone(&self, entries: &[WorkEntry], subject: &[u8], until: UnixMillis) -> ObjectsResult<()> {
        let now = self.inner.surroundings.clock.now();
        let is_later = bucket_of(until) > bucket_of(now);
        let open_from = self.open_from(now);
        let may_move =
            entries.iter().filter(|entry| bucket_of(until) != entry.bucket && (is_later || entry.bucket < open_from));
        // One step per partition, however many records there are; at most a page of them.
        let (mut rows, mut moved): (BTreeMap<Bytes, Vec<NewRow>>, Vec<_>) = (BTreeMap::new(), Vec::new());
        for entry in may_move {
            let WorkRecord { partition, sort, value } =
                self.queued(entry.queue, until, subject, entry.sort.clone(), entry.value.clone());
            // If the clock was set back, the next bucket with room may be that of the record. Its
            // removal from there would lose it.
            if partition != entry.partition {
                rows.entry(partition).or_default().push(NewRow::new(sort, value));
                moved.push(entry.clone());
            }
        }
        if moved.is_empty() {
            return Ok(());
        }
        let put = |(partition, rows)| Step::Put { table: Table::Work, partition, rows };
        self.put_owed(rows.into_iter().map(put).collect()).await?;
        self.finish(&moved).await
    }
}

impl Pass {
    /// Counts records of the present bucket. Buckets are read from the oldest on.
    fn count(&mut self, records: usize) {
        if self.due.records == 0 && records > 0 {
            self.due.oldest = self.began.since(begin_of(self.bucket));
        }
        self.due.records += records as u64;
    }

    /// Begins with the next bucket; returns false if there is none.
    fn next_bucket(&mut self) -> bool {
        // The last bucket is that of the present, so another one follows each that is closed.
        let Some(bucket) = self.to_read.pop_front() else { return false };
        if self.is_empty && self.bucket == self.empty_until && self.bucket < self.open_from {
            self.empty_until = bucket;
        }
        (self.bucket, self.is_empty) = (bucket, true);
        let partitions = (0..self.queue.shards()).map(|shard| keys::queue(self.queue.name(), bucket, shard));
        self.scans = partitions.map(|partition| (partition, Scan::prefix(Bytes::new(), SCAN_BYTES))).collect();
        true
    }
}

#[cfg(test)]
mod tests;
