//! A plan as the source from which `pack` makes an archive. It reads directories and frames, writes
//! the audit ahead, and distinguishes damage from passing failures.

use std::future::Future;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use audit::{AuditAction, Requester};
use budget::Party;
use bytes::Bytes;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::volume_body::Entry;
use pack::{Archive, FrameError, GroupPages, PageMember, Pass, Source};
use parking_lot::Mutex;
use store::UnixMillis;

use super::ahead::{self, ReadAhead, What};
use super::errors::{Missing, MissingPart, MissingReason, error_text};
use super::kept::KeptDirectories;
use super::planned::{BulkPlan, PlannedPage, PlannedVolume, volume_id};
use super::retry::retried;
use super::trail::{AuditTrail, Windows};
use crate::bulk::fairness::Fairness;
use crate::damage::WHOLE_VOLUME;
use crate::handle::Volumes;
use crate::read::VolumeRows;

/// Directory entries kept of the volume being read.
const ENTRIES_KEPT: u32 = 1_024;

/// The most pages that may be left out as unavailable before the whole stream is given up.
const UNAVAILABLE_MAX: usize = 16;

/// The source of one stream (or of the length of one plan).
pub(super) struct PlanSource {
    handle: Volumes,
    archive: Arc<Archive>,
    volumes: Arc<[PlannedVolume]>,
    started: UnixMillis,
    /// The party whose turns its reads take.
    party: Party,
    /// `None` while only members are read.
    sending: Option<Sending>,
    entries: Mutex<Option<KeptEntries>>,
    /// What was left out while streaming, in report mode.
    left_out: Mutex<Vec<Missing>>,
    /// Members whose frames differ from their entries, as `pack` found. They are marked when the
    /// stream ends.
    noticed: Mutex<Vec<(usize, Option<u32>, String)>>,
}

/// The further state of a source for a stream.
struct Sending {
    trail: AuditTrail,
    /// For [`Pass::Contents`].
    volumes: ReadAhead,
    /// For [`Pass::Directory`].
    directories: ReadAhead,
    kept: KeptDirectories,
}

impl Sending {
    /// Returns what was read ahead of a group for a pass. Kept directories may have at most
    /// `kept_bytes_max` bytes.
    async fn ahead(&self, pass: Pass, group: usize, kept_bytes_max: usize) -> Option<Arc<VolumeRows>> {
        match pass {
            // One group at most is requested.
            Pass::Lengths => None,
            Pass::Contents => {
                let rows = self.volumes.of(group).await?;
                self.kept.keep(group, &rows, kept_bytes_max);
                Some(rows)
            }
            Pass::Directory => match self.kept.of(group) {
                Some(directory) => Some(directory),
                None => self.directories.of(group).await,
            },
        }
    }
}

/// Some consecutive entries of one group.
struct KeptEntries {
    group: usize,
    first: u32,
    entries: Arc<[Entry]>,
}

impl PlanSource {
    /// A source that returns only members, to compute the length.
    pub(super) fn for_planning(
        handle: Volumes,
        archive: Arc<Archive>,
        volumes: Arc<[PlannedVolume]>,
        started: UnixMillis,
        party: Party,
    ) -> Self {
        Self {
            handle,
            archive,
            volumes,
            started,
            party,
            sending: None,
            entries: Mutex::default(),
            left_out: Mutex::default(),
            noticed: Mutex::default(),
        }
    }

    /// A source from which a requester streams `plan`. The audit records its volumes in `windows`.
    pub(super) fn for_stream(
        handle: Volumes,
        plan: &BulkPlan,
        requester: Requester,
        action: AuditAction,
        windows: Windows,
    ) -> Self {
        let sent = windows.sent.clone();
        let party = requester.party();
        let trail = AuditTrail::new(handle.clone(), plan, requester, action, windows);
        let source = Self::for_planning(handle, plan.archive.clone(), plan.volumes.clone(), plan.started, party);
        let ahead = |what, groups| {
            let Self { handle, archive, volumes, party, .. } = &source;
            ReadAhead::new(handle.clone(), archive.clone(), volumes.clone(), party.clone(), what, groups)
        };
        let volumes = ahead(What::Volumes, sent);
        let directories = ahead(What::Directories, 0..plan.archive.groups.len());
        let kept = KeptDirectories::default();
        Self { sending: Some(Sending { trail, volumes, directories, kept }), ..source }
    }

    /// The id of a group's volume.
    pub(super) fn volume_id(&self, group: usize) -> ObjectsResult<VolumeId> {
        volume_id(&self.archive, group)
    }

    /// The turns that it shares with other requests.
    fn fairness(&self) -> &Fairness {
        &self.handle.inner.fairness
    }

    /// Runs a counting job in its turn.
    pub(super) async fn count<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> ObjectsResult<T> {
        self.fairness().count(&self.party, job).await
    }

    /// Whether only some pages of a group are in the plan.
    pub(super) fn is_partial(&self, group: usize) -> bool {
        matches!(self.archive.groups[group].pages, GroupPages::Some(_))
    }

    /// How many pages of a group are in the plan.
    pub(super) fn page_count(&self, group: usize) -> u32 {
        match &self.archive.groups[group].pages {
            GroupPages::All { sums, .. } => u32::try_from(sums.count).unwrap_or(u32::MAX),
            GroupPages::Some(pages) => u32::try_from(pages.len()).unwrap_or(u32::MAX),
        }
    }

    /// Marks the damage that `pack` noticed. Call this after the stream has ended, before its end
    /// is reported.
    pub(super) async fn mark_noticed(&self) {
        let noticed = std::mem::take(&mut *self.noticed.lock());
        for (group, page, detail) in noticed {
            let Ok(id) = self.volume_id(group) else { continue };
            let member = match page {
                Some(page) => Some(self.member(group, page)),
                None => self.mets_member(&id, group).await,
            };
            let Some(member) = member else { continue };
            let error = ObjectsError::Damaged { volume: id.clone(), member: Some(member), detail };
            self.handle.note_damage(&id, self.volumes[group].revision, member, &error).await;
        }
    }

    /// Marks the whole volume of the group with this name: its directory does not agree with its
    /// head.
    pub(super) async fn mark_mismatch(&self, group: &str, reason: &str) {
        let Some(group) = self.archive.groups.iter().position(|known| *known.name == *group) else { return };
        let Ok(id) = self.volume_id(group) else { return };
        let detail = reason.to_owned();
        let error = ObjectsError::Damaged { volume: id.clone(), member: Some(WHOLE_VOLUME), detail };
        self.handle.note_damage(&id, self.volumes[group].revision, WHOLE_VOLUME, &error).await;
    }

    /// Notes that a frame differs from its entry (`page` is `None` for the METS document).
    pub(super) fn notice(&self, group: usize, page: Option<u32>, error: &FrameError) {
        self.noticed.lock().push((group, page, error.to_string()));
    }

    /// Notes that something was left out, for `ERROR.err`.
    pub(super) fn leave_out(&self, group: usize, part: MissingPart, reason: MissingReason) -> bool {
        let Ok(volume) = self.volume_id(group) else { return false };
        self.left_out.lock().push(Missing { volume, part, reason });
        true
    }

    /// Lists all that is missing, known to the plan or found since; `None` if nothing was found
    /// since.
    pub(super) fn errors_with_left_out(&self) -> Option<Bytes> {
        let left_out = self.left_out.lock();
        let late = error_text(&left_out)?;
        let Some(early) = &self.archive.errors else { return Some(late) };
        // Both begin with the heading, which is needed once.
        let heading_end = late.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        Some(Bytes::from([early.as_ref(), &late[heading_end..]].concat()))
    }

    /// Refuses an expired plan: what it names may have been collected already.
    fn check_life(&self) -> ObjectsResult<()> {
        if self.handle.heads.now().since(self.started) > self.handle.heads.options().plan_life {
            return Err(ObjectsError::Expired("the plan of this download".to_owned()));
        }
        Ok(())
    }

    /// Reads in turn with other bulk requests, and repeats reads that fail for a passing reason.
    /// Damage seen only after the plan expired is not reported as damage.
    async fn read<T, F: Future<Output = ObjectsResult<T>>>(&self, read: impl Fn() -> F) -> ObjectsResult<T> {
        let read = &read;
        retried(|| async move {
            self.check_life()?;
            let _turn = self.fairness().turn(&self.party).await?;
            let result = read().await;
            if result.as_ref().is_err_and(ObjectsError::is_damage) {
                self.check_life()?;
            }
            result
        })
        .await
    }

    /// Entries of some pages of a group, in its order, from `pages.start` on: at least one, and as
    /// many as are available.
    async fn entries(&self, pass: Pass, group: usize, pages: Range<u32>) -> ObjectsResult<Arc<[Entry]>> {
        if let GroupPages::Some(members) = &self.archive.groups[group].pages {
            let range = pages.start as usize..pages.end as usize;
            let members = &members[range.clone()];
            let places = &self.volumes[group].pages[range];
            let entry = |(page, planned): (&PageMember, &PlannedPage)| Entry {
                seq: page.seq,
                member: page.member,
                place: planned.place,
            };
            return Ok(members.iter().zip(places).take(ENTRIES_KEPT as usize).map(entry).collect());
        }
        if let Some(rows) = self.ahead(pass, group).await?
            && let Some(entries) = ahead::part(&rows.entries, pages.clone(), ENTRIES_KEPT)
        {
            return Ok(entries);
        }
        if let Some(entries) = self.kept_entries(group, &pages) {
            return Ok(entries);
        }
        let id = self.volume_id(group)?;
        let generation = self.volumes[group].generation;
        let end = self.page_count(group).min(pages.start.saturating_add(ENTRIES_KEPT)).max(pages.end);
        let read = self.read(|| self.handle.entries(&id, generation, pages.start..end)).await;
        if let Err(error) = &read {
            self.note(&id, group, WHOLE_VOLUME, error).await;
        }
        let entries: Arc<[Entry]> = read?.into();
        *self.entries.lock() = Some(KeptEntries { group, first: pages.start, entries: entries.clone() });
        Ok(entries[..pages.len().min(entries.len())].into())
    }

    /// What was read ahead of a group for a pass.
    async fn ahead(&self, pass: Pass, group: usize) -> ObjectsResult<Option<Arc<VolumeRows>>> {
        let Some(sending) = &self.sending else { return Ok(None) };
        self.check_life()?;
        Ok(sending.ahead(pass, group, self.fairness().kept_bytes()).await)
    }

    /// The kept entries of these pages, if they begin with the first of them.
    fn kept_entries(&self, group: usize, pages: &Range<u32>) -> Option<Arc<[Entry]>> {
        let kept = self.entries.lock();
        let kept = kept.as_ref().filter(|kept| kept.group == group)?;
        let skipped = pages.start.checked_sub(kept.first)? as usize;
        let rest = kept.entries.get(skipped..).filter(|rest| !rest.is_empty())?;
        Some(rest[..rest.len().min(pages.len())].into())
    }

    /// Returns the frames of a run of entries, or only the first frame if something in the run is
    /// damaged. If the first is damaged, finds and marks all damaged pages in the rest of the
    /// volume, so that the next request reports all of them.
    async fn frames_of(&self, group: usize, first: u32, run: &[Entry]) -> ObjectsResult<Vec<Bytes>> {
        if let Some(rows) = self.ahead(Pass::Contents, group).await?
            && let Some(frames) = ahead::frames(&rows, run)
        {
            return Ok(frames);
        }
        let id = self.volume_id(group)?;
        let generation = self.volumes[group].generation;
        let mut frames = self.read(|| self.handle.frames(&id, generation, run)).await;
        if run.len() > 1 && frames.as_ref().is_err_and(ObjectsError::is_damage) {
            frames = self.read(|| self.handle.frames(&id, generation, &run[..1])).await;
        }
        match frames {
            Err(error) if error.is_damage() => {
                let seq = run.first().map_or(first.saturating_add(1), |entry| entry.seq);
                self.mark_from(&id, group, first).await;
                let detail = match error {
                    ObjectsError::Damaged { detail, .. } => detail,
                    error => error.to_string(),
                };
                let (member, detail) = (Some(self.member(group, first)), format!("page {seq}: {detail}"));
                Err(ObjectsError::Damaged { volume: id, member, detail })
            }
            frames => frames,
        }
    }

    /// Marks the damaged `page` and every other damaged page after it.
    async fn mark_from(&self, id: &VolumeId, group: usize, page: u32) {
        let already_told = self.left_out.lock().iter().any(|missing| missing.volume == *id);
        let end = if already_told { page + 1 } else { self.page_count(group) };
        let generation = self.volumes[group].generation;
        for later in page..end {
            let Ok(entries) = self.entries(Pass::Contents, group, later..later + 1).await else { break };
            match self.read(|| self.handle.frames(id, generation, &entries[..1])).await {
                Err(error) if error.is_damage() => self.note(id, group, self.member(group, later), &error).await,
                Ok(_) => {}
                Err(_) => break,
            }
        }
    }

    /// The index in METS order of a page of a group.
    pub(super) fn member(&self, group: usize, page: u32) -> u32 {
        self.volumes[group].pages.get(page as usize).map_or(page, |planned| planned.index)
    }

    /// The member number of a volume's METS in damage marks: its number of pages. `None` if the
    /// planned generation is not current any more, so that there is nothing to mark.
    async fn mets_member(&self, id: &VolumeId, group: usize) -> Option<u32> {
        let body = self.handle.volume(id).await.ok()?.body;
        let page_count = u32::try_from(body.pages.count).ok()?;
        (body.generation == self.volumes[group].generation).then_some(page_count)
    }

    /// Marks damage; ignores other errors.
    async fn note(&self, id: &VolumeId, group: usize, member: u32, error: &ObjectsError) {
        if error.is_damage() {
            self.handle.note_damage(id, self.volumes[group].revision, member, error).await;
        }
    }

    /// Whether report mode leaves out something that failed with `error`.
    fn omit_part(&self, group: usize, part: MissingPart, error: &ObjectsError) -> bool {
        let reason = match error {
            error if error.is_damage() => MissingReason::Damaged,
            error if error.is_passing() => MissingReason::Unavailable,
            _ => return false,
        };
        let unavailable = |missing: &&Missing| missing.reason == MissingReason::Unavailable;
        if reason == MissingReason::Unavailable
            && self.left_out.lock().iter().filter(unavailable).count() >= UNAVAILABLE_MAX
        {
            return false;
        }
        self.leave_out(group, part, reason)
    }

    /// The sequence of a page. Its entry was read before its frame, so it is usually kept.
    pub(super) fn seq(&self, group: usize, page: u32) -> u32 {
        match &self.archive.groups[group].pages {
            GroupPages::Some(pages) => pages[page as usize].seq,
            GroupPages::All { .. } => {
                let kept = self.kept_entries(group, &(page..page + 1));
                kept.map_or(page + 1, |entries| entries[0].seq)
            }
        }
    }
}

/// How many entries to read at once: as many frames as fit `max_bytes`. If they lie in several
/// packs, the run ends with a pack, so that the next call does not read that pack again.
fn run_len(entries: &[Entry], max_bytes: usize) -> usize {
    let mut bytes = 0;
    let fitting = entries.iter().take_while(|entry| {
        bytes += entry.member.frame_len as usize;
        bytes <= max_bytes
    });
    let fitting = fitting.count().max(1);
    if fitting == entries.len() {
        return fitting;
    }
    let pack = |index: usize| entries[index].place.pack;
    if pack(fitting - 1) != pack(fitting) {
        return fitting;
    }
    (1..fitting).rev().find(|index| pack(index - 1) != pack(*index)).unwrap_or(fitting)
}

#[async_trait]
impl Source for PlanSource {
    type Error = ObjectsError;

    async fn members(&self, pass: Pass, group: usize, pages: Range<u32>) -> ObjectsResult<Vec<PageMember>> {
        let mut members = Vec::with_capacity(pages.len());
        let mut rest = pages;
        while !rest.is_empty() {
            let entries = self.entries(pass, group, rest.clone()).await?;
            members.extend(entries.iter().map(|entry| PageMember { seq: entry.seq, member: entry.member }));
            rest.start += u32::try_from(entries.len()).unwrap_or(u32::MAX);
        }
        Ok(members)
    }

    async fn frames(&self, group: usize, pages: Range<u32>, max_bytes: usize) -> ObjectsResult<Vec<Bytes>> {
        let entries = self.entries(Pass::Contents, group, pages.clone()).await?;
        let run = &entries[..run_len(&entries, max_bytes)];
        self.frames_of(group, pages.start, run).await
    }

    async fn mets_frame(&self, group: usize) -> ObjectsResult<Bytes> {
        let id = self.volume_id(group)?;
        let volume = &self.volumes[group];
        let member = self.archive.groups[group]
            .mets
            .ok_or_else(|| ObjectsError::Internal("METS that nobody asked for".to_owned()))?;
        let entry = [Entry { seq: 0, member, place: volume.mets }];
        if let Some(frame) = self.ahead(Pass::Contents, group).await?.and_then(|rows| rows.frame(&entry[0])) {
            return Ok(frame);
        }
        let read = self.read(|| self.handle.frames(&id, volume.generation, &entry)).await;
        match read {
            Ok(mut frames) => frames.pop().ok_or_else(|| ObjectsError::Internal("no frame for an entry".to_owned())),
            Err(error) => {
                if error.is_damage()
                    && let Some(member) = self.mets_member(&id, group).await
                {
                    self.note(&id, group, member, &error).await;
                }
                Err(match error {
                    ObjectsError::Damaged { volume, member, detail } => {
                        ObjectsError::Damaged { volume, member, detail: format!("METS: {detail}") }
                    }
                    error => error,
                })
            }
        }
    }

    async fn before_group(&self, group: usize) -> ObjectsResult<()> {
        let Some(sending) = &self.sending else { return Ok(()) };
        sending.trail.before_group(group).await
    }

    fn piece_bytes(&self) -> usize {
        self.fairness().piece_bytes()
    }

    fn omit(&self, group: usize, page: u32, error: &ObjectsError) -> bool {
        self.omit_part(group, MissingPart::Page(self.seq(group, page)), error)
    }

    fn omit_mets(&self, group: usize, error: &ObjectsError) -> bool {
        self.omit_part(group, MissingPart::Mets, error)
    }

    fn omit_damaged(&self, group: usize, page: Option<u32>, error: &FrameError) -> bool {
        self.notice(group, page, error);
        let part = page.map_or(MissingPart::Mets, |page| MissingPart::Page(self.seq(group, page)));
        self.leave_out(group, part, MissingReason::Damaged)
    }

    fn late_errors(&self) -> Option<Bytes> {
        self.errors_with_left_out()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use pack::Member;

    use super::*;
    use heads::volume_body::FramePlace;

    fn entry(pack: u32, frame_len: u32) -> Entry {
        Entry { seq: 1, member: Member { size: 1, frame_len, crc32: 0 }, place: FramePlace { pack, offset: 0 } }
    }

    #[test]
    fn a_run_ends_where_a_pack_ends_if_it_can() {
        let entries = [entry(0, 30), entry(0, 30), entry(1, 30), entry(1, 30), entry(2, 30)];
        assert_eq!(run_len(&entries, 1_000), 5, "everything fits");
        assert_eq!(run_len(&entries, 130), 4, "four fit, and the pack ends there");
        assert_eq!(run_len(&entries, 100), 2, "three fit, but the third's pack goes on");
        assert_eq!(run_len(&entries, 40), 1, "one fits");
        assert_eq!(run_len(&entries, 1), 1, "one that does not fit is read all the same");
    }
}
