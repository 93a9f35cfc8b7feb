//! Makes a plan from a request: the revision of each volume, its pages, what is missing, and the
//! archive's length.
//!
//! A plan is made from heads, or from the head log for the volumes that changed since the time that
//! is requested. Directories are read only for volumes of which single pages are
//! requested or some pages are known to be damaged. Damage marks are read only if a head counts
//! some. A plan is small (about 160 bytes per whole volume), because many clients may hold plans of
//! thousands of volumes at once.

use std::sync::Arc;

use budget::{Party, Turn};
use futures::{StreamExt, TryStreamExt};
use hathi::{Seq, VolumeId};
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::HeadRow;
use heads::revision::RevisionId;
use heads::rules::Rule;
use heads::volume_body::{Entry, VolumeBody};
use pack::{Archive, ArchiveError, Group, GroupPages, Layout, Level, PageMember};
use sha2::{Digest, Sha256};
use store::{Strength, UnixMillis, boxed};

use super::errors::{Missing, MissingPart, MissingReason, digest_errors, error_bytes, error_text, memory_bytes};
use super::planned::{BulkPlan, PlanShares, PlannedPage, PlannedVolume, contents_bytes};
use super::request::{BulkRequest, OnDamage, Wanted};
use super::source::PlanSource;
use crate::damage::WHOLE_VOLUME;
use crate::handle::Volumes;
use crate::read::Volume;
use crate::versions::Then;

/// Requests for at most this many volumes are planned without waiting for a turn: planning them
/// takes almost no time, and they must not queue behind requests for thousands.
const SMALL_PLAN: u64 = 16;

/// How often planning restarts because damage was found while an archive was measured (above 4 GiB,
/// directories are read for that).
const ATTEMPTS_MAX: u32 = 8;

/// Heads read in one call.
const HEADS_AT_ONCE: usize = 512;

/// Volumes of one batch whose directories or damage marks are looked up at the same time.
const LOOKUPS_AT_ONCE: usize = 8;

/// The turn of one request. While the request holds it, its planning and selecting wait for no
/// other request.
pub struct Planning<'handle> {
    pub(super) handle: &'handle Volumes,
    party: Party,
    _turn: Option<Turn>,
}

impl Planning<'_> {
    /// Plans like [`Volumes::plan`].
    #[boxed]
    pub async fn plan(&self, request: &BulkRequest, on_damage: OnDamage) -> ObjectsResult<Arc<BulkPlan>> {
        self.handle.plan_in_turn(request, on_damage, &self.party).await
    }
}

impl Volumes {
    /// Plans an archive for this machine itself. Volumes that are absent or known to be damaged are
    /// listed in its `ERROR.err`; they do not affect the others.
    ///
    /// Fails only if the store cannot answer for now, if the request contradicts itself, or if
    /// changes of the time that it is about may still be under way.
    #[boxed]
    pub async fn plan(&self, request: &BulkRequest, on_damage: OnDamage) -> ObjectsResult<Arc<BulkPlan>> {
        self.planning(request.wanted.len() as u64, Party::Local).await?.plan(request, on_damage).await
    }

    /// Waits for the turn to plan a list that names at most `named_at_most` volumes and pages. The
    /// list need not have been read yet. Short lists do not wait.
    ///
    /// A caller that reads a list from a client takes the turn first: a parsed list takes ten times
    /// the memory of its text. The plan takes a share of [`Volumes::memory`] for `party`.
    pub async fn planning(&self, named_at_most: u64, party: Party) -> ObjectsResult<Planning<'_>> {
        let turn = match named_at_most {
            0..=SMALL_PLAN => None,
            _ => Some(self.inner.fairness.planning_turn(&party).await?),
        };
        Ok(Planning { handle: self, party, _turn: turn })
    }

    /// Plans like [`Volumes::plan`]; the caller has the turn.
    async fn plan_in_turn(
        &self,
        request: &BulkRequest,
        on_damage: OnDamage,
        party: &Party,
    ) -> ObjectsResult<Arc<BulkPlan>> {
        if request.mets && !request.layout.has_mets() {
            return Err(ObjectsError::Invalid(format!("the layout {} has no place for METS", request.layout.name())));
        }
        if let Some(below) = request.as_of {
            self.heads.check_settled(below).await?;
        }
        for _ in 0..ATTEMPTS_MAX {
            match self.plan_once(request, on_damage, party).await {
                // The damage was found when the archive was measured. It is marked now, so that the
                // next plan leaves it out.
                Err(error) if error.is_damage() => tracing::debug!(%error, "planning starts again"),
                planned => return planned,
            }
        }
        self.plan_once(request, on_damage, party).await
    }

    async fn plan_once(
        &self,
        request: &BulkRequest,
        on_damage: OnDamage,
        party: &Party,
    ) -> ObjectsResult<Arc<BulkPlan>> {
        let mut started = self.heads.now();
        let mut draft = Draft::of(request.wanted.len());
        for wanted in request.wanted.chunks(HEADS_AT_ONCE) {
            let ids: Vec<VolumeId> = wanted.iter().map(|wanted| wanted.volume.clone()).collect();
            let strength = if self.heads.keeps(Rule::StrongHead) { Strength::Strong } else { Strength::Usual };
            let heads = self.heads(&ids, strength).await?;
            let lookups = wanted.iter().cloned().zip(heads).map(|(wanted, head)| {
                let handle = self.clone();
                let (mets, as_of) = (request.mets, request.as_of);
                async move { handle.plan_volume(wanted, head, mets, as_of).await }
            });
            let drafts: Vec<Draft> =
                futures::stream::iter(lookups.collect::<Vec<_>>()).buffered(LOOKUPS_AT_ONCE).try_collect().await?;
            drafts.into_iter().for_each(|more| draft.append(more));
        }
        if !self.heads.keeps(Rule::PlanFirst) {
            started = self.heads.now();
        }
        self.finish_plan(draft, request, on_damage, started, party).await
    }

    async fn plan_volume(
        &self,
        wanted: Wanted,
        head: ObjectsResult<Option<HeadRow>>,
        mets: bool,
        as_of: Option<RevisionId>,
    ) -> ObjectsResult<Draft> {
        let id = wanted.volume.clone();
        let then = match head {
            Ok(Some(row)) => self.volume_at(&id, row, as_of).await,
            Ok(None) => Ok(Then::Absent),
            Err(error) => Err(error),
        };
        let volume = match then {
            Ok(Then::Version(volume)) => volume,
            Ok(Then::NotKept) => return Ok(Draft::without(id, MissingReason::NotKept)),
            Ok(Then::Absent) => return Ok(Draft::without_any(wanted)),
            Err(error) if error.is_damage() => return Ok(Draft::without(id, MissingReason::Damaged)),
            Err(error) => return Err(error),
        };
        match self.plan_live_volume(&volume, wanted.pages, mets).await {
            Err(error) if error.is_damage() => {
                self.note_damage(&id, volume.revision, WHOLE_VOLUME, &error).await;
                Ok(Draft::without(id, MissingReason::Damaged))
            }
            planned => planned,
        }
    }

    /// A volume at present or as of a time, of a head that was read strongly.
    async fn volume_at(&self, id: &VolumeId, row: HeadRow, as_of: Option<RevisionId>) -> ObjectsResult<Then> {
        let revision = row.head.revision;
        match as_of {
            Some(below) if row.head.since() >= below => self.versions_before(id, row).await?.then(below).await,
            _ => Ok(row
                .head
                .live_volume()
                .cloned()
                .map_or(Then::Absent, |body| Then::Version(Box::new(Volume { id: id.clone(), revision, body })))),
        }
    }

    async fn plan_live_volume(&self, volume: &Volume, seqs: Option<Vec<Seq>>, mets: bool) -> ObjectsResult<Draft> {
        let body = &volume.body;
        let id = &volume.id;
        let damaged = self.known_damage(volume).await?;
        if damaged.contains(&WHOLE_VOLUME) {
            return Ok(Draft::without(id.clone(), MissingReason::Damaged));
        }
        let mut missing = Vec::new();
        let page_count = u32::try_from(body.pages.count).unwrap_or(u32::MAX);
        let chosen = match seqs {
            None if damaged.iter().all(|member| *member >= page_count) => None,
            None => {
                let entries = self.entries(id, body.generation, 0..page_count).await?;
                Some((0..).zip(entries).collect())
            }
            Some(seqs) => {
                let found = self.resolve_pages(volume, &seqs).await?;
                let mut chosen = Vec::with_capacity(seqs.len());
                for (seq, found) in seqs.into_iter().zip(found) {
                    match found {
                        Some(page) => chosen.push(page),
                        None => missing.push(Missing::page(id.clone(), seq, MissingReason::Absent)),
                    }
                }
                Some(chosen)
            }
        };
        let chosen = chosen.map(|pages: Vec<(u32, Entry)>| sound(pages, &damaged, id, &mut missing));
        if chosen.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Draft { missing, ..Draft::default() });
        }
        let mets_is_damaged = damaged.contains(&page_count);
        if mets && mets_is_damaged {
            let (volume, part) = (id.clone(), MissingPart::Mets);
            missing.push(Missing { volume, part, reason: MissingReason::Damaged });
        }
        Ok(Draft::with(volume, chosen, mets && !mets_is_damaged, missing))
    }

    async fn finish_plan(
        &self,
        draft: Draft,
        request: &BulkRequest,
        on_damage: OnDamage,
        started: UnixMillis,
        party: &Party,
    ) -> ObjectsResult<Arc<BulkPlan>> {
        let Draft { mut groups, mut volumes, missing } = draft;
        groups.shrink_to_fit();
        volumes.shrink_to_fit();
        let (layout, level) = (request.layout, request.level);
        let has_length = on_damage == OnDamage::Break && !matches!(level, Level::Recompressed(_));
        let etag = has_length.then(|| etag(layout, level, &groups, &volumes, &missing));
        let made = Made { layout, level, groups, volumes };
        let (archive, volumes, memory) = self.shared(made, &missing, etag.as_deref(), on_damage, party)?;
        let source = PlanSource::for_planning(self.clone(), archive.clone(), volumes.clone(), started, party.clone());
        let len_bytes = match archive.len(&source).await {
            Err(ArchiveError::Mismatch { group, reason }) => {
                source.mark_mismatch(&group, reason).await;
                return Err(ArchiveError::Mismatch { group, reason }.into());
            }
            measured => measured?,
        };
        let (entries, memory) = (archive.entry_count(), Some(memory));
        Ok(Arc::new(BulkPlan { archive, volumes, len_bytes, etag, missing, entries, started, on_damage, memory }))
    }

    /// Holds equal contents only once, with one share of memory. The shares are taken before the
    /// text of `ERROR.err` is made.
    pub(super) fn shared(
        &self,
        made: Made,
        missing: &[Missing],
        etag: Option<&str>,
        on_damage: OnDamage,
        party: &Party,
    ) -> ObjectsResult<(Arc<Archive>, Arc<[PlannedVolume]>, PlanShares)> {
        let memory = &self.inner.memory;
        let of_missing = memory.try_reserve(party, memory_bytes(missing) as u64)?;
        let (archive, volumes, contents) = match etag.and_then(|etag| self.inner.plans.held(etag)) {
            Some(held) => held,
            None => {
                let Made { layout, level, groups, volumes } = made;
                let descriptors = on_damage == OnDamage::Report;
                let text_bytes = error_bytes(missing);
                // In report mode the text is copied if more is found missing.
                let text_bytes = if descriptors { 2 * text_bytes } else { text_bytes };
                let bytes = contents_bytes(&groups, &volumes) + text_bytes;
                let share = Arc::new(memory.try_reserve(party, bytes as u64)?);
                let errors = error_text(missing);
                let archive = Arc::new(Archive { layout, level, groups, errors, descriptors });
                let contents = (archive, volumes.into(), share);
                match etag {
                    Some(etag) => self.inner.plans.share(etag, contents),
                    None => contents,
                }
            }
        };
        Ok((archive, volumes, PlanShares { _contents: contents, _missing: of_missing }))
    }

    /// Marks a member as damaged if its revision is current or kept, so that later requests report
    /// it. If the mark cannot be written, at least this process remembers it.
    pub(super) async fn note_damage(&self, id: &VolumeId, revision: RevisionId, member: u32, error: &ObjectsError) {
        if let Err(failed) = self.mark_damaged(id, revision, member, &error.to_string()).await {
            tracing::warn!(%id, member, %failed, "damage could not be marked");
        }
    }
}

/// Removes pages that are known to be damaged, and lists them as missing.
fn sound(
    mut pages: Vec<(u32, Entry)>,
    damaged: &[u32],
    id: &VolumeId,
    missing: &mut Vec<Missing>,
) -> Vec<(u32, Entry)> {
    pages.retain(|(index, entry)| {
        let is_damaged = damaged.contains(index);
        if is_damaged {
            let part = MissingPart::Page(entry.seq);
            missing.push(Missing { volume: id.clone(), part, reason: MissingReason::Damaged });
        }
        !is_damaged
    });
    pages
}

/// What the contents of a plan are made of.
pub(super) struct Made {
    pub(super) layout: Layout,
    pub(super) level: Level,
    pub(super) groups: Vec<Group>,
    pub(super) volumes: Vec<PlannedVolume>,
}

/// A plan in the making.
#[derive(Debug, Default)]
struct Draft {
    groups: Vec<Group>,
    volumes: Vec<PlannedVolume>,
    missing: Vec<Missing>,
}

impl Draft {
    /// Allocates room for that many volumes. A list that grows by doubling takes twice the memory,
    /// at the same moment in each planning request.
    fn of(volumes: usize) -> Self {
        Self { groups: Vec::with_capacity(volumes), volumes: Vec::with_capacity(volumes), missing: Vec::new() }
    }

    fn append(&mut self, mut more: Self) {
        self.groups.append(&mut more.groups);
        self.volumes.append(&mut more.volumes);
        self.missing.append(&mut more.missing);
    }

    /// A draft that leaves out a volume which exists but cannot be sent.
    fn without(id: VolumeId, reason: MissingReason) -> Self {
        Self { missing: vec![Missing::volume(id, reason)], ..Self::default() }
    }

    /// A draft that leaves out a volume which does not exist. It lists the volume, or each page
    /// that was requested of it.
    fn without_any(wanted: Wanted) -> Self {
        let id = wanted.volume;
        let Some(pages) = wanted.pages else { return Self::without(id, MissingReason::Absent) };
        let missing = pages.into_iter().map(|seq| Missing::page(id.clone(), seq, MissingReason::Absent));
        Self { missing: missing.collect(), ..Self::default() }
    }

    /// A draft with one volume, or some of its pages.
    fn with(volume: &Volume, chosen: Option<Vec<(u32, Entry)>>, mets: bool, missing: Vec<Missing>) -> Self {
        let VolumeBody { generation, pages: sums, pages_crc32: crc32, mets: mets_entry, .. } = volume.body;
        let (pages, places) = match chosen {
            None => (GroupPages::All { sums, crc32 }, Box::default()),
            Some(chosen) => {
                let member = |(_, entry): &(u32, Entry)| PageMember { seq: entry.seq, member: entry.member };
                let place = |(index, entry): &(u32, Entry)| PlannedPage { index: *index, place: entry.place };
                (GroupPages::Some(chosen.iter().map(member).collect()), chosen.iter().map(place).collect())
            }
        };
        let name = volume.id.cleaned().as_str().into();
        Self {
            groups: vec![Group { name, pages, mets: mets.then_some(mets_entry.member) }],
            volumes: vec![PlannedVolume {
                revision: volume.revision,
                generation,
                mets: mets_entry.place,
                pages: places,
            }],
            missing,
        }
    }
}

/// SHA-256 over everything that determines the bytes of an archive.
fn etag(layout: Layout, level: Level, groups: &[Group], volumes: &[PlannedVolume], missing: &[Missing]) -> String {
    let mut digest = digest_of(layout, level, groups, volumes);
    digest_errors(&mut digest, missing);
    hex::encode(digest.finalize())
}

/// The same up to the text of `ERROR.err`.
fn digest_of(layout: Layout, level: Level, groups: &[Group], volumes: &[PlannedVolume]) -> Sha256 {
    let level = match level {
        Level::Frames => 0xFF,
        Level::Stored => 0,
        Level::Recompressed(level) => level,
    };
    let mut digest = Sha256::new();
    digest.update([layout.version(), layout as u8, level]);
    for (group, volume) in groups.iter().zip(volumes) {
        digest_text(&mut digest, group.name.as_bytes());
        digest.update(volume.revision.0);
        digest.update([u8::from(group.mets.is_some())]);
        match &group.pages {
            GroupPages::All { .. } => digest.update(u64::MAX.to_be_bytes()),
            GroupPages::Some(pages) => {
                digest.update((pages.len() as u64).to_be_bytes());
                pages.iter().for_each(|page| digest.update(page.seq.to_be_bytes()));
            }
        }
    }
    digest
}

/// Digests a text after its length, so that different lists of texts never yield the same bytes.
fn digest_text(digest: &mut Sha256, text: &[u8]) {
    digest.update((text.len() as u64).to_be_bytes());
    digest.update(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_etag_of_a_plan_does_not_change_from_one_version_of_penates_to_the_next() {
        let sums = pack::Sums { count: 1, bytes: 2, frame_bytes: 3, stored_bytes: 4 };
        let pages = GroupPages::All { sums, crc32: 5 };
        let groups = [Group { name: "uc2.x".into(), pages, mets: None }];
        let (revision, mets) = (RevisionId([7; 16]), heads::volume_body::FramePlace { pack: 0, offset: 0 });
        let volume = PlannedVolume { revision, generation: revision, mets, pages: Box::default() };
        let expected = "9d4e26e219d4e4a32b32397b0387bf6aa088682828f01a9f44de92c9ac1207e7";
        let mut digest = digest_of(Layout::Volumes, Level::Frames, &groups, &[volume]);
        digest_text(&mut digest, b"missing");
        assert_eq!(hex::encode(digest.finalize()), expected);
    }

    #[test]
    fn a_plan_of_five_thousand_whole_volumes_takes_less_than_a_megabyte() {
        // Only the group stores the name. An allocator's rounding is not counted.
        let name_bytes = 48;
        let volume_bytes = size_of::<Group>() + size_of::<PlannedVolume>() + name_bytes;
        assert!(5_000 * volume_bytes < 1_000_000, "{volume_bytes} bytes a volume");
    }
}
