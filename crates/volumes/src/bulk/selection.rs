//! Selections: stored plans. A selection pins the revisions that it names. So its bytes stay the
//! same until it ends, whatever happens to the volumes, and a list that is too long for a URL can
//! be resumed.
//!
//! Rows of [`Table::Selections`]: one partition per selection has its description (`i`) and its
//! marks, each written once: complete (`d`), ended early (`x`), swept (`z`). The description stays
//! for a while after the end, so that a request for the selection learns that it is gone rather
//! than unknown. The plan is stored in chunks (`c` and a number), [`PART_CHUNKS`] of them per
//! partition. One partition per owner lists the owner's selections.

use std::sync::Arc;
use std::time::Duration;

use audit::Requester;
use budget::{Party, Share};
use bytes::Bytes;
use hathi::VolumeId;
use heads::chores::Chore;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head;
use heads::revision::RevisionId;
use pack::{Layout, Level};
use serde::{Deserialize, Serialize};
use store::{
    Call, Class, NewRow, Removal, Scan, Step, StoreError, Stored, Strength, Table, UnixMillis, ValueKind, boxed,
    envelope,
};

use super::errors::Missing;
use super::plan::{Made, Planning};
use super::planned::BulkPlan;
use super::request::{BulkRequest, OnDamage};
use super::selection_info::SelectionInfo;
use super::stored_plan::{self, StoredVolumes};
use crate::handle::Volumes;
use crate::pins::Pinned;

/// Bytes of a stored plan in one row.
pub const CHUNK_BYTES: usize = 60 << 10;

/// Chunks that are put in one step: well below the 4 MiB that a step may have.
const CHUNKS_AT_ONCE: usize = 48;

/// Chunks that are removed in one list.
const CHUNKS_REMOVED: usize = 256;

/// Chunks in one partition, 45 MiB: a multiple of the chunks put, and of the chunks removed, at
/// once.
pub const PART_CHUNKS: usize = 768;

const _: () = assert!(PART_CHUNKS.is_multiple_of(CHUNKS_AT_ONCE) && PART_CHUNKS.is_multiple_of(CHUNKS_REMOVED));

/// The most selections that one requester may have at a time, whatever the terms say. It bounds the
/// partition that lists them.
pub const OWNED_MAX: u64 = 100_000;

/// How often planning restarts because a volume changed between planning and pinning.
const ATTEMPTS_MAX: u32 = 5;

/// The ids that are drawn for a selection until its volumes have room for the pins of one.
const DRAWS_MAX: u32 = 3;

/// How long a selection is remembered after its end.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Bytes of one page of a scan.
const SCAN_BYTES: usize = 4 << 20;

/// A new selection.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Its description.
    pub info: SelectionInfo,
    /// Its plan, ready to be streamed.
    pub plan: Arc<BulkPlan>,
}

/// A description as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredInfo {
    info: SelectionInfo,
    /// [`Layout::version_of_all`] when it was made.
    layout_version: u8,
    chunks: u32,
    /// Whether it was made at the heads' home. Strong reads there find all of it from then on.
    made_at_home: bool,
}

impl Stored for StoredInfo {
    const KIND: ValueKind = ValueKind::Selection;
}

/// Marks and other single rows of a selection's partition.
pub mod row {
    /// Its description.
    pub const INFO: &[u8] = b"i";
    /// All of it is stored.
    pub const COMPLETE: &[u8] = b"d";
    /// It was ended before its time.
    pub const ENDED_EARLY: &[u8] = b"x";
    /// Its rows are removed.
    pub const SWEPT: &[u8] = b"z";
    /// A chunk of its plan.
    pub const CHUNK: &[u8] = b"c";
}

/// The prefix of partitions of selections.
pub const SELECTION_PREFIX: &[u8] = b"s/";
/// The prefix of partitions that list the selections of a requester.
pub const OWNER_PREFIX: &[u8] = b"o/";

/// The state of a selection.
struct Standing {
    stored: StoredInfo,
    complete: bool,
    ended_early: Option<UnixMillis>,
    swept: bool,
}

/// The terms of a selection.
#[derive(Clone, Copy, Debug, Default)]
pub struct SelectionTerms {
    /// How long it lasts; `None` means [`crate::LibraryOptions::selection_life`].
    pub life: Option<Duration>,
    /// How many selections its requester may have at a time; 0 means the absolute limit, 100,000.
    pub owned_max: u64,
    /// Whether an existing selection of the requester suffices, if it has the same bytes and at
    /// least half of this life left. For selections that no client asked for: so a client that
    /// repeats its request does not pin again each time.
    pub reuse: bool,
}

/// A selection's entry in its owner's list.
#[derive(Serialize, Deserialize)]
struct Owned {
    ends: UnixMillis,
    etag: String,
}

impl Stored for Owned {
    const KIND: ValueKind = ValueKind::OwnedSelection;
}

/// When a selection was ended early.
#[derive(Serialize, Deserialize)]
struct EndedEarly(UnixMillis);

impl Stored for EndedEarly {
    const KIND: ValueKind = ValueKind::SelectionEnded;
}

impl Planning<'_> {
    /// Plans, pins and stores a selection for `requester`.
    ///
    /// Fails with [`ObjectsError::Invalid`] for a level without a known length,
    /// [`ObjectsError::OverLimit`] for too long a life or too many selections, of the requester or
    /// of one of the volumes,
    /// [`StoreError::Limit`] for one that would take too much to be read,
    /// [`ObjectsError::Conflict`] if volumes change faster than they can be pinned,
    /// [`ObjectsError::Overloaded`] while the audit lags.
    #[boxed]
    pub async fn select(
        &self,
        request: &BulkRequest,
        requester: &Requester,
        terms: SelectionTerms,
    ) -> ObjectsResult<Selection> {
        let handle = self.handle;
        if matches!(request.level, Level::Recompressed(_)) {
            return Err(ObjectsError::Invalid("a selection is of level auto or 0, whose length is known".to_owned()));
        }
        handle.audit.auditor().check_lag()?;
        let options = handle.heads.options();
        let life = terms.life.unwrap_or(options.selection_life.min(options.selection_life_max));
        if life > options.selection_life_max {
            let max_s = options.selection_life_max.as_secs();
            return Err(ObjectsError::OverLimit(format!("a selection lasts at most {max_s} seconds")));
        }
        let owner = requester.owner();
        let owned = handle.selections_of(&owner).await?;
        let owned_max = if terms.owned_max == 0 { OWNED_MAX } else { terms.owned_max.min(OWNED_MAX) };
        let too_many = owned.len() as u64 >= owned_max;
        if too_many && !terms.reuse {
            return Err(over_limit(owned_max));
        }
        let created = handle.heads.now();
        let ends = created.plus(life);
        for _ in 0..ATTEMPTS_MAX {
            let plan = self.plan(request, OnDamage::Break).await?;
            if terms.reuse
                && let Some(info) = handle.equal_selection(&owned, &plan, created.plus(life / 2)).await?
            {
                return Ok(Selection { info, plan });
            }
            if too_many {
                return Err(over_limit(owned_max));
            }
            if let Some(id) = handle.pin_plan(&plan, ends).await? {
                let info = describe(id, owner, created, ends, &plan)?;
                handle.store_selection(&info, &plan).await?;
                return Ok(Selection { info, plan });
            }
        }
        Err(ObjectsError::Conflict("the volumes asked for change all the time; try again".to_owned()))
    }
}

fn over_limit(owned_max: u64) -> ObjectsError {
    ObjectsError::OverLimit(format!("{owned_max} selections at a time; delete one first"))
}

impl Volumes {
    /// Plans, pins and stores a selection in its turn, like [`Planning::select`].
    #[boxed]
    pub async fn select(
        &self,
        request: &BulkRequest,
        requester: &Requester,
        terms: SelectionTerms,
    ) -> ObjectsResult<Selection> {
        self.planning(request.wanted.len() as u64, requester.party()).await?.select(request, requester, terms).await
    }

    /// Reads the plan of a selection, and shares its memory as the given party. It may be streamed
    /// for the life of any plan, also beyond the selection's end.
    ///
    /// Fails with [`ObjectsError::Absent`] if the selection never existed or is forgotten,
    /// [`ObjectsError::Expired`] if it has ended or was deleted.
    #[boxed]
    pub async fn selection(&self, id: &str, party: &Party) -> ObjectsResult<Arc<BulkPlan>> {
        let started = self.heads.now();
        let stored = self.live_selection(id).await?;
        let mut rows = self.inner.memory.reserve(party, rows_bytes(&stored)).await?;
        let (made, missing) = self.stored_plan(&stored, &mut rows).await?;
        drop(rows);
        let SelectionInfo { len_bytes, etag, entries, .. } = stored.info;
        let on_damage = OnDamage::Break;
        let (archive, volumes, memory) = self.shared(made, &missing, Some(&etag), on_damage, party)?;
        let (len_bytes, etag, memory) = (Some(len_bytes), Some(etag), Some(memory));
        Ok(Arc::new(BulkPlan { archive, volumes, len_bytes, etag, missing, entries, started, on_damage, memory }))
    }

    /// The description of a selection. Errors are those of [`Volumes::selection`].
    #[boxed]
    pub async fn selection_info(&self, id: &str) -> ObjectsResult<SelectionInfo> {
        Ok(self.live_selection(id).await?.info)
    }

    /// Ends a selection now. Streams that have begun continue. Errors are those of
    /// [`Volumes::selection`].
    #[boxed]
    pub async fn delete_selection(&self, id: &str) -> ObjectsResult<()> {
        let info = self.live_selection(id).await?.info;
        let ended = NewRow {
            expires_at: Some(self.forgotten_at(&info)),
            ..NewRow::new(row::ENDED_EARLY, head::seal(&EndedEarly(self.heads.now()))?)
        };
        let disowned = Removal::Rows(vec![Bytes::from(info.id.clone())]);
        self.heads
            .put_acknowledged(
                Class::Description,
                vec![
                    Step::Put { table: Table::Selections, partition: partition(id), rows: vec![ended] },
                    Step::Remove { table: Table::Selections, partition: owner_partition(&info.owner), rows: disowned },
                ],
            )
            .await
    }

    /// Deletes the pins and plans of selections that ended so long ago that no stream reads them
    /// any more. Returns how many selections were swept. A damaged selection stays and is logged. A
    /// server calls this regularly.
    #[boxed]
    pub async fn sweep_selections(&self) -> ObjectsResult<u64> {
        const AT_ONCE: usize = 1_000;
        let mut swept = 0;
        if !self.heads.is_home() {
            return Ok(swept);
        }
        let mut tally = self.heads.tally(Chore::Selections);
        let mut next = None;
        loop {
            let call = self.heads.call(Class::Description);
            let page = self.heads.store().walk(call, Table::Selections, next, AT_ONCE).await?;
            for partition in &page.partitions {
                let id = partition.strip_prefix(SELECTION_PREFIX).and_then(|id| std::str::from_utf8(id).ok());
                let Some(id) = id.filter(|id| !id.contains('\0')) else { continue };
                swept += u64::from(tally.take(id, self.sweep_selection(id).await)?.unwrap_or(false));
            }
            next = page.next;
            if next.is_none() {
                return Ok(swept);
            }
        }
    }

    /// The selections of one owner that have not ended, by id.
    async fn selections_of(&self, owner: &str) -> ObjectsResult<Vec<(Bytes, Option<Owned>)>> {
        let partition = owner_partition(owner);
        let mut owned = Vec::new();
        let mut scan = Some(Scan::prefix(Bytes::new(), SCAN_BYTES));
        while let Some(range) = scan {
            let call = self.heads.call(Class::Description);
            let page = self.heads.store().scan(call, Table::Selections, &partition, range.clone()).await?;
            for row in page.rows {
                // An entry that cannot be read is only counted.
                owned.push((row.sort, head::open(Table::Selections, &row.value).ok()));
            }
            scan = range.resumed(page.next);
        }
        Ok(owned)
    }

    /// One of these selections that has the bytes of a plan, lasts at least until `until`, and can
    /// still be read.
    async fn equal_selection(
        &self,
        owned: &[(Bytes, Option<Owned>)],
        plan: &BulkPlan,
        until: UnixMillis,
    ) -> ObjectsResult<Option<SelectionInfo>> {
        let equal = |owned: &Owned| plan.etag.as_ref() == Some(&owned.etag) && owned.ends >= until;
        for (id, _) in owned.iter().filter(|(_, owned)| owned.as_ref().is_some_and(equal)) {
            match self.selection_info(&String::from_utf8_lossy(id)).await {
                Ok(info) => return Ok(Some(info)),
                Err(ObjectsError::Absent(_) | ObjectsError::Expired(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Pins what a plan names, for a new selection, and returns its id; `None` if something changed
    /// meanwhile. Then nothing stays pinned.
    async fn pin_plan(&self, plan: &BulkPlan, ends: UnixMillis) -> ObjectsResult<Option<String>> {
        let volumes = (0..plan.volumes.len())
            .map(|group| Ok((plan.volume_id(group)?, plan.volumes[group].revision)))
            .collect::<ObjectsResult<Vec<(VolumeId, RevisionId)>>>()?;
        let mut draws = 1;
        let (id, pinned) = loop {
            let id = hex::encode(self.heads.surroundings().random.bytes::<16>());
            match self.pin(&volumes, &id, ends).await {
                // Nothing was pinned, and the next id most likely begins otherwise.
                Err(ObjectsError::OverLimit(_)) if draws < DRAWS_MAX => draws += 1,
                pinned => break (id, pinned?),
            }
        };
        if pinned.iter().all(|pinned| *pinned == Pinned::Held) {
            return Ok(Some(id));
        }
        let ids: Vec<VolumeId> = volumes.into_iter().map(|(volume, _)| volume).collect();
        self.unpin(&ids, &id).await?;
        Ok(None)
    }

    /// Puts the rows of a selection. Only the last one makes it visible.
    async fn store_selection(&self, info: &SelectionInfo, plan: &BulkPlan) -> ObjectsResult<()> {
        let partition = partition(&info.id);
        let put_in = |partition, rows| Step::Put { table: Table::Selections, partition, rows };
        let put = |rows| put_in(partition.clone(), rows);
        let forgotten_at = Some(self.forgotten_at(info));
        let encoded = stored_plan::encode(plan)?;
        let chunks: Vec<&[u8]> = encoded.chunks(CHUNK_BYTES).collect();
        let chunk_count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        let stored = StoredInfo {
            info: info.clone(),
            layout_version: Layout::version_of_all(),
            chunks: chunk_count,
            made_at_home: self.heads.is_home(),
        };
        let description = NewRow { expires_at: forgotten_at, ..NewRow::new(row::INFO, head::seal(&stored)?) };
        self.heads.put_acknowledged(Class::Description, vec![put(vec![description])]).await?;
        for (chunks, first) in chunks.chunks(CHUNKS_AT_ONCE).zip((0..).step_by(CHUNKS_AT_ONCE)) {
            let chunk = |(chunk, number): (&&[u8], u32)| NewRow {
                expires_at: forgotten_at,
                ..NewRow::new(chunk_key(number), stored_plan::seal_chunk(chunk))
            };
            let rows = chunks.iter().zip(first..).map(chunk).collect();
            self.heads
                .put_acknowledged(Class::Description, vec![put_in(chunk_partition(&info.id, first), rows)])
                .await?;
        }
        let owned = head::seal(&Owned { ends: info.ends, etag: info.etag.clone() })?;
        let owned = NewRow { expires_at: Some(info.ends), ..NewRow::new(info.id.clone(), owned) };
        let complete = NewRow {
            expires_at: forgotten_at,
            ..NewRow::new(row::COMPLETE, envelope::seal(ValueKind::SelectionComplete, &[]))
        };
        let own = Step::Put { table: Table::Selections, partition: owner_partition(&info.owner), rows: vec![owned] };
        self.heads.put_acknowledged(Class::Description, vec![own, put(vec![complete])]).await
    }

    /// When all rows of a selection have expired.
    fn forgotten_at(&self, info: &SelectionInfo) -> UnixMillis {
        info.ends.plus(self.heads.options().plan_life).plus(REMEMBERED)
    }

    /// The stored description of a selection that can be read.
    async fn live_selection(&self, id: &str) -> ObjectsResult<StoredInfo> {
        let named = || format!("selection {id}");
        if id.len() != 32 || hex::decode(id).is_err() {
            return Err(ObjectsError::Absent(named()));
        }
        let standing = self.standing(id).await?.filter(|standing| standing.complete);
        let standing = standing.ok_or_else(|| ObjectsError::Absent(named()))?;
        let ended = standing.ended_early.is_some() || self.heads.now() >= standing.stored.info.ends;
        // This version cannot reproduce the bytes of an archive in another version's layout.
        if ended || standing.swept || standing.stored.layout_version != Layout::version_of_all() {
            return Err(ObjectsError::Expired(named()));
        }
        Ok(standing.stored)
    }

    async fn standing(&self, id: &str) -> ObjectsResult<Option<Standing>> {
        let key = |sort: &'static [u8]| (partition(id), Bytes::from_static(sort));
        let keys = [row::INFO, row::COMPLETE, row::ENDED_EARLY, row::SWEPT].map(key).to_vec();
        let call = self.heads.call(Class::Description).strong();
        let rows = self.heads.store().get_many(call, Table::Selections, keys).await?;
        let [Some(info), complete, ended_early, swept] = &rows[..] else { return Ok(None) };
        Ok(Some(Standing {
            stored: head::open(Table::Selections, &info.value)?,
            complete: complete.is_some(),
            ended_early: match ended_early {
                Some(row) => Some(head::open::<EndedEarly>(Table::Selections, &row.value)?.0),
                None => None,
            },
            swept: swept.is_some(),
        }))
    }

    /// The plan of a selection. Missing or wrong rows are read again, strongly, before they count
    /// as damaged. `rows` is the share of memory for them.
    async fn stored_plan(&self, stored: &StoredInfo, rows: &mut Share) -> ObjectsResult<(Made, Vec<Missing>)> {
        match self.stored_plan_at(Strength::Usual, stored, rows).await {
            Ok(Some(plan)) => return Ok(plan),
            Err(error) if !error.is_damage() => return Err(error),
            Ok(None) | Err(_) => {}
        }
        self.stored_plan_at(Strength::Strong, stored, rows).await?.ok_or_else(|| self.missing_chunk(stored))
    }

    /// Returns `None` if chunks are missing.
    async fn stored_plan_at(
        &self,
        strength: Strength,
        stored: &StoredInfo,
        rows: &mut Share,
    ) -> ObjectsResult<Option<(Made, Vec<Missing>)>> {
        rows.resize(rows_bytes(stored))?;
        let mut encoded = Vec::with_capacity(stored.chunks as usize * CHUNK_BYTES);
        let mut read = 0;
        for partition in chunk_partitions(&stored.info.id, stored.chunks) {
            let mut scan = Some(Scan::prefix(row::CHUNK, SCAN_BYTES));
            while let Some(range) = scan {
                let call = Call { strength, ..self.heads.call(Class::Description) };
                let page = self.heads.store().scan(call, Table::Selections, &partition, range.clone()).await?;
                for row in &page.rows {
                    if row.sort != chunk_key(read) {
                        return Ok(None);
                    }
                    encoded.extend_from_slice(&stored_plan::open_chunk(&row.value)?);
                    read += 1;
                }
                scan = range.resumed(page.next);
            }
        }
        if read != stored.chunks {
            return Ok(None);
        }
        // What is made of them takes about as much, and is held beside them.
        rows.resize(2 * encoded.len() as u64)?;
        stored_plan::decode(&encoded).map(Some)
    }

    /// The error for a missing chunk. Between two data centers of which one is the heads' home, the
    /// chunk may still be on its way, so it counts as damaged only after a grace.
    fn missing_chunk(&self, stored: &StoredInfo) -> ObjectsError {
        let can_lag = !(stored.made_at_home && self.heads.is_home());
        if can_lag && !self.heads.grace_passed(stored.info.created) {
            let why = format!("not all of selection {} has arrived from another data center", stored.info.id);
            return StoreError::Unavailable(why).into();
        }
        ObjectsError::corrupt(Table::Selections, "chunks of a selection are missing")
    }

    /// Sweeps one selection if it is due. Returns false if it is not due or was swept before.
    async fn sweep_selection(&self, id: &str) -> ObjectsResult<bool> {
        // Its description has expired, or has not arrived here yet. Its remaining rows expire by
        // themselves.
        let Some(standing) = self.standing(id).await? else { return Ok(false) };
        let info = &standing.stored.info;
        let ended = standing.ended_early.map_or(info.ends, |early| early.min(info.ends));
        // A stream may have begun just before the end, by the clock of another server.
        let read_until = self.heads.expires(ended.plus(self.heads.options().plan_life));
        if standing.swept || self.heads.now() < read_until {
            return Ok(false);
        }
        match self.unpin_stored(&standing.stored).await {
            Ok(()) => {}
            // It never became complete, or is damaged: its pins end by themselves.
            Err(error) if error.is_damage() => tracing::warn!(id, %error, "a selection cannot be unpinned"),
            Err(error) => return Err(error),
        }
        let swept = NewRow {
            expires_at: Some(self.forgotten_at(info)),
            ..NewRow::new(row::SWEPT, envelope::seal(ValueKind::SelectionSwept, &[]))
        };
        let put = Step::Put { table: Table::Selections, partition: partition(id), rows: vec![swept] };
        self.heads.put_acknowledged(Class::Description, vec![put]).await?;
        for first in (0..standing.stored.chunks).step_by(CHUNKS_REMOVED) {
            let last = first.saturating_add(CHUNKS_REMOVED as u32);
            let rows = Removal::Range(chunk_key(first), Some(chunk_key(last)));
            let remove = Step::Remove { table: Table::Selections, partition: chunk_partition(id, first), rows };
            self.heads.put_acknowledged(Class::Description, vec![remove]).await?;
        }
        Ok(true)
    }

    /// Deletes the pins on all volumes that a stored plan names, reading one chunk at a time.
    async fn unpin_stored(&self, stored: &StoredInfo) -> ObjectsResult<()> {
        let id = &stored.info.id;
        let mut volumes = StoredVolumes::default();
        for partition in chunk_partitions(id, stored.chunks) {
            let mut scan = Some(Scan::prefix(row::CHUNK, CHUNK_BYTES));
            while let Some(range) = scan.filter(|_| !volumes.are_all_read()) {
                let call = self.heads.call(Class::Description);
                let page = self.heads.store().scan(call, Table::Selections, &partition, range.clone()).await?;
                for row in &page.rows {
                    let chunk = stored_plan::open_chunk(&row.value)?;
                    self.unpin(&volumes.take(&chunk)?, id).await?;
                }
                scan = range.resumed(page.next);
            }
        }
        match volumes.are_all_read() {
            true => Ok(()),
            false => Err(ObjectsError::corrupt(Table::Selections, "chunks of a selection are missing")),
        }
    }
}

/// The most bytes of the rows of a plan.
fn rows_bytes(stored: &StoredInfo) -> u64 {
    u64::from(stored.chunks) * CHUNK_BYTES as u64
}

fn describe(
    id: String,
    owner: String,
    created: UnixMillis,
    ends: UnixMillis,
    plan: &BulkPlan,
) -> ObjectsResult<SelectionInfo> {
    let (Some(len_bytes), Some(etag)) = (plan.len_bytes, plan.etag.clone()) else {
        return Err(ObjectsError::Internal("a selection without a length".to_owned()));
    };
    let (volumes, missing) = (plan.volumes.len() as u64, plan.missing.len() as u64);
    Ok(SelectionInfo { id, owner, created, ends, len_bytes, etag, entries: plan.entries, volumes, missing })
}

fn partition(id: &str) -> Bytes {
    Bytes::from([SELECTION_PREFIX, id.as_bytes()].concat())
}

/// The partition of a chunk of a selection's plan. Ids hold no NUL.
pub(crate) fn chunk_partition(id: &str, chunk: u32) -> Bytes {
    let part = chunk / PART_CHUNKS as u32;
    Bytes::from([SELECTION_PREFIX, id.as_bytes(), &[0], &part.to_be_bytes()].concat())
}

/// The partitions of that many chunks.
fn chunk_partitions(id: &str, chunks: u32) -> impl Iterator<Item = Bytes> {
    (0..chunks).step_by(PART_CHUNKS).map(move |chunk| chunk_partition(id, chunk))
}

fn owner_partition(owner: &str) -> Bytes {
    Bytes::from([OWNER_PREFIX, owner.as_bytes()].concat())
}

fn chunk_key(number: u32) -> Bytes {
    Bytes::from([row::CHUNK, &number.to_be_bytes()].concat())
}
