//! Streams the texts of a plan's pages, joined, without an archive around them.

use std::ops::Range;
use std::sync::Arc;

use audit::AuditAction;
use bytes::Bytes;
use heads::error::{ObjectsError, ObjectsResult};
use pack::{PageMember, Pass, Source};

use super::planned::BulkPlan;
use super::source::PlanSource;
use super::stream::Download;
use super::trail::Windows;
use crate::bulk::fairness::BulkStream;

/// Pages that are read and inflated at a time.
const PAGES_AT_ONCE: u32 = 64;

impl BulkPlan {
    /// Bytes of the texts of all pages together.
    pub fn text_bytes(&self) -> u64 {
        self.archive.groups.iter().map(|group| group.pages.sums().bytes).sum()
    }
}

impl Download {
    /// Streams a range of the joined texts. Each page that is sent was checked against its CRC-32.
    /// Audited, refused and broken off like [`Download::stream`].
    pub async fn text(&self, range: Range<u64>) -> ObjectsResult<BulkStream> {
        let plan = self.plan();
        let admission = self.admission()?;
        let windows = Windows { sent: 0..plan.archive.groups.len(), first: 1 };
        let (handle, requester) = (self.handle().clone(), self.requester().clone());
        let source = PlanSource::for_stream(handle, plan, requester, AuditAction::Accessed, windows);
        let texts =
            Texts { source: Arc::new(source), groups: plan.archive.groups.len(), group: 0, page: 0, at: 0, range };
        Ok(admission.run_ahead(futures::stream::try_unfold(texts, Texts::next)))
    }
}

/// The progress of a stream of texts.
struct Texts {
    source: Arc<PlanSource>,
    groups: usize,
    group: usize,
    page: u32,
    /// Where the next page begins in the joined text.
    at: u64,
    range: Range<u64>,
}

impl Texts {
    /// Returns the next bytes and the progress after them.
    async fn next(mut self) -> ObjectsResult<Option<(Bytes, Self)>> {
        while self.group < self.groups && self.at < self.range.end {
            if self.page == 0 {
                self.source.before_group(self.group).await?;
            }
            if self.page == self.source.page_count(self.group) {
                self.group += 1;
                self.page = 0;
                continue;
            }
            let text = self.some().await?;
            if !text.is_empty() {
                return Ok(Some((text, self)));
            }
        }
        Ok(None)
    }

    /// The wanted bytes of some pages.
    async fn some(&mut self) -> ObjectsResult<Bytes> {
        let end = self.source.page_count(self.group).min(self.page.saturating_add(PAGES_AT_ONCE));
        let members = self.source.members(Pass::Contents, self.group, self.page..end).await?;
        let sizes = || members.iter().map(|page| u64::from(page.member.size));
        // Pages before the range are not read.
        let skipped = sizes().scan(self.at, |at, size| {
            *at += size;
            (*at <= self.range.start).then_some(size)
        });
        let (count, bytes) = skipped.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size));
        self.at += bytes;
        self.page += count;
        if self.page == end {
            return Ok(Bytes::new());
        }
        let frames = self.source.frames(self.group, self.page..end, self.source.piece_bytes()).await?;
        let pages = members[count as usize..].to_vec();
        let (text, read, damage) = {
            let frames = frames.clone();
            self.source.count(move || inflated(&pages, &frames)).await?
        };
        if let (Some(error), true) = (&damage, text.is_empty()) {
            let volume = self.source.volume_id(self.group)?;
            let page = self.page;
            self.source.notice(self.group, Some(page), error);
            self.source.mark_noticed().await;
            return Err(ObjectsError::Damaged { volume, member: Some(page), detail: error.to_string() });
        }
        let from = self.range.start.saturating_sub(self.at).min(text.len() as u64) as usize;
        let to = (self.range.end - self.at).min(text.len() as u64) as usize;
        self.at += text.len() as u64;
        self.page += read;
        Ok(text.slice(from..to))
    }
}

/// The texts of pages, how many they are, and the damage of the page after them.
fn inflated(pages: &[PageMember], frames: &[Bytes]) -> (Bytes, u32, Option<pack::FrameError>) {
    let mut text = Vec::new();
    for (count, (page, frame)) in (0..).zip(pages.iter().zip(frames)) {
        match pack::inflate(frame, page.member.size, page.member.crc32) {
            Ok(more) => text.extend_from_slice(&more),
            Err(error) => return (text.into(), count, Some(error)),
        }
    }
    (text.into(), u32::try_from(frames.len()).unwrap_or(u32::MAX), None)
}
