//! Streams token counts: a ZIP with one entry per volume or page, made while it is sent.

use std::sync::Arc;

use audit::{AuditAction, Requester};
use bytes::Bytes;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::revision::RevisionId;
use pack::{FrameError, PageMember, Pass, Source, ZipEntry, ZipEntryError, ZipWriter};

use super::errors::{MissingPart, MissingReason};
use super::request::{BulkRequest, OnDamage};
use super::source::PlanSource;
use super::token_counts::{TokenCounter, TokenOrder};
use super::trail::Windows;
use crate::bulk::fairness::BulkStream;
use crate::handle::Volumes;

/// The most entries of a response: the central directory is held in memory, about 100 bytes per
/// entry.
const ENTRIES_MAX: u64 = 500_000;

/// Pages that are counted in one job.
const PAGES_AT_ONCE: u32 = 256;

/// A request for token counts.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    /// The volumes, each once, in the order of the response.
    pub volumes: Vec<VolumeId>,
    /// One count per volume or one per page.
    pub level: TokenLevel,
    /// The order in which tokens are listed.
    pub order: TokenOrder,
    /// The state that is requested, as in [`BulkRequest::as_of`].
    pub as_of: Option<RevisionId>,
}

/// The unit of a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenLevel {
    /// A volume: `<cleaned id>.count`.
    #[default]
    Volume,
    /// A page: `<cleaned id>/<sequence>.count`.
    Page,
}

impl Volumes {
    /// Counts tokens and streams the counts as a ZIP. Its last entry, `ERROR.err`, lists what is
    /// missing or damaged. Incomplete counts are left out: that of a volume if one of its pages
    /// cannot be read.
    ///
    /// Audited and refused like [`Volumes::stream`]; fails with [`ObjectsError::OverLimit`] for
    /// more than 500,000 counts.
    pub async fn token_counts(&self, request: TokenRequest, requester: Requester) -> ObjectsResult<BulkStream> {
        let turn = self.planning(request.volumes.len() as u64, requester.party()).await?;
        let bulk = BulkRequest { as_of: request.as_of, ..BulkRequest::volumes(request.volumes) };
        let plan = turn.plan(&bulk, OnDamage::Report).await?;
        drop(turn);
        if request.level == TokenLevel::Page && plan.entries > ENTRIES_MAX {
            return Err(ObjectsError::OverLimit(format!("{} counts, at most {ENTRIES_MAX} at once", plan.entries)));
        }
        let admission = self.admit_bulk(&plan, &requester).await?;
        let windows = Windows { sent: 0..plan.archive.groups.len(), first: 1 };
        let action = AuditAction::TokenCountAccessed;
        let source = PlanSource::for_stream(self.clone(), &plan, requester, action, windows);
        let counting = Counting {
            groups: plan.archive.groups.len(),
            errors: plan.archive.errors.clone(),
            source: Arc::new(source),
            level: request.level,
            order: request.order,
            zip: Some(ZipWriter::new()),
            group: 0,
            page: 0,
            counter: TokenCounter::default(),
        };
        Ok(admission.run_ahead(futures::stream::try_unfold(counting, Counting::next)))
    }
}

/// The progress of counting.
struct Counting {
    source: Arc<PlanSource>,
    groups: usize,
    errors: Option<Bytes>,
    level: TokenLevel,
    order: TokenOrder,
    /// `None` once the archive is finished.
    zip: Option<ZipWriter>,
    group: usize,
    page: u32,
    /// The counts of the volume so far; unused where pages are counted.
    counter: TokenCounter,
}

/// The result of counting some pages of a volume.
struct Counted {
    counter: TokenCounter,
    entries: Vec<ZipEntry>,
    /// The number of pages counted.
    pages: u32,
    /// The damage of the page after them.
    damage: Option<FrameError>,
}

impl Counting {
    /// Returns the next bytes and the progress after them.
    async fn next(mut self) -> ObjectsResult<Option<(Bytes, Self)>> {
        while self.zip.is_some() && self.group < self.groups {
            self.advance().await?;
            let ready = self.zip.as_mut().map(ZipWriter::take).unwrap_or_default();
            if !ready.is_empty() {
                return Ok(Some((ready, self)));
            }
        }
        let Some(mut zip) = self.zip.take() else { return Ok(None) };
        self.source.mark_noticed().await;
        if let Some(errors) = self.source.errors_with_left_out().or(self.errors.take()) {
            zip.add(&ZipEntry::deflated("ERROR.err", &errors).map_err(not_an_entry)?);
        }
        Ok(Some((zip.finish(), self)))
    }

    /// Counts some pages, or finishes a volume.
    async fn advance(&mut self) -> ObjectsResult<()> {
        if self.level == TokenLevel::Volume && self.source.is_partial(self.group) {
            self.leave_out(MissingReason::Damaged);
            return Ok(());
        }
        if self.page == 0 {
            self.source.before_group(self.group).await?;
        }
        if self.page == self.source.page_count(self.group) {
            return self.end_volume().await;
        }
        match self.count_some().await {
            Err(error) if error.is_damage() => {
                self.leave_out(MissingReason::Damaged);
                Ok(())
            }
            counted => counted,
        }
    }

    async fn count_some(&mut self) -> ObjectsResult<()> {
        let end = self.source.page_count(self.group).min(self.page + PAGES_AT_ONCE);
        let members = self.source.members(Pass::Contents, self.group, self.page..end).await?;
        let frames = self.source.frames(self.group, self.page..end, self.source.piece_bytes()).await?;
        let counter = std::mem::take(&mut self.counter);
        let (level, order) = (self.level, self.order);
        let folder = self.source.volume_id(self.group)?.cleaned();
        let counted = self.source.count(move || match level {
            TokenLevel::Volume => count_volume(counter, &members, &frames),
            TokenLevel::Page => count_pages(folder.as_str(), order, &members, &frames),
        });
        let counted = counted.await??;
        self.counter = counted.counter;
        self.page += counted.pages;
        counted.entries.iter().for_each(|entry| self.add(entry));
        if let Some(damage) = counted.damage {
            self.source.notice(self.group, Some(self.page), &damage);
            self.leave_out(MissingReason::Damaged);
        }
        Ok(())
    }

    async fn end_volume(&mut self) -> ObjectsResult<()> {
        if self.level == TokenLevel::Volume {
            let counter = std::mem::take(&mut self.counter);
            let (order, name) = (self.order, format!("{}.count", self.source.volume_id(self.group)?.cleaned()));
            let entry = self.source.count(move || count_entry(name, counter, order)).await??;
            self.add(&entry);
        }
        self.next_volume();
        Ok(())
    }

    /// Skips what cannot be read: the page, or the volume if volumes are counted.
    fn leave_out(&mut self, reason: MissingReason) {
        match self.level {
            TokenLevel::Volume => {
                self.source.leave_out(self.group, MissingPart::Volume, reason);
                self.next_volume();
            }
            TokenLevel::Page => {
                self.source.leave_out(self.group, MissingPart::Page(self.source.seq(self.group, self.page)), reason);
                self.page += 1;
            }
        }
    }

    fn next_volume(&mut self) {
        self.counter = TokenCounter::default();
        self.group += 1;
        self.page = 0;
    }

    fn add(&mut self, entry: &ZipEntry) {
        if let Some(zip) = &mut self.zip {
            zip.add(entry);
        }
    }
}

fn count_volume(counter: TokenCounter, members: &[PageMember], frames: &[Bytes]) -> ObjectsResult<Counted> {
    let mut counted = Counted { counter, entries: Vec::new(), pages: 0, damage: None };
    for (page, frame) in members.iter().zip(frames) {
        match pack::inflate(frame, page.member.size, page.member.crc32) {
            Ok(text) => counted.counter.add_page(&text)?,
            Err(error) => {
                counted.damage = Some(error);
                break;
            }
        }
        counted.pages += 1;
    }
    Ok(counted)
}

fn count_pages(folder: &str, order: TokenOrder, members: &[PageMember], frames: &[Bytes]) -> ObjectsResult<Counted> {
    let mut entries = Vec::with_capacity(frames.len());
    let mut damage = None;
    for (page, frame) in members.iter().zip(frames) {
        match pack::inflate(frame, page.member.size, page.member.crc32) {
            Ok(text) => {
                let mut counter = TokenCounter::default();
                counter.add_page(&text)?;
                entries.push(count_entry(format!("{folder}/{:08}.count", page.seq), counter, order)?);
            }
            Err(error) => {
                damage = Some(error);
                break;
            }
        }
    }
    let pages = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    Ok(Counted { counter: TokenCounter::default(), entries, pages, damage })
}

fn count_entry(name: String, counter: TokenCounter, order: TokenOrder) -> ObjectsResult<ZipEntry> {
    ZipEntry::deflated(name, counter.finish(order)?.as_bytes()).map_err(not_an_entry)
}

fn not_an_entry(error: ZipEntryError) -> ObjectsError {
    ObjectsError::OverLimit(format!("a count cannot be an entry of a ZIP: {error}"))
}
