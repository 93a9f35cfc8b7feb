//! Streams the texts of a plan's pages, joined, without an archive around them.

use std::ops::Range;
use std::sync::Arc;
use store::boxed;

use audit::AuditAction;
use bytes::Bytes;
use heads::error::{ObjectsError, ObjectsResult};
use pack::{PageMember, Pass, Source};

use super::planned::BulkPlan;
use super::source::PlanSource;
use super::stream::Download;
use super::trail::Windows;
use crate::bulk::fairness::BulkStream;

/// The most pages that are read and inflated at a time.
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
    #[boxed]
    pub async fn text(&self, range: Range<u64>) -> ObjectsResult<BulkStream> {
        let plan = self.plan();
        let admission = self.admission()?;
        let windows = Windows { sent: 0..plan.archive.groups.len(), first: 1 };
        let (handle, requester) = (self.handle().clone(), self.requester().clone());
        let source = PlanSource::for_stream(handle, plan, requester, AuditAction::Accessed, windows);
        let texts = Texts {
            _plan: plan.clone(),
            source: Arc::new(source),
            groups: plan.archive.groups.len(),
            group: 0,
            page: 0,
            at: 0,
            range,
            ready: Bytes::new(),
            inflated_len: 0,
        };
        Ok(admission.run_ahead(futures::stream::try_unfold(texts, Texts::next)))
    }
}

/// The progress of a stream of texts.
struct Texts {
    /// It has its shares of memory as long as they are read.
    _plan: Arc<BulkPlan>,
    source: Arc<PlanSource>,
    groups: usize,
    group: usize,
    page: u32,
    /// Where the next page begins in the joined text.
    at: u64,
    range: Range<u64>,
    /// What is inflated and not sent yet.
    ready: Bytes,
    /// Bytes of the text that `ready` was made of.
    inflated_len: usize,
}

impl Texts {
    /// Returns the next bytes and the progress after them.
    async fn next(mut self) -> ObjectsResult<Option<(Bytes, Self)>> {
        loop {
            if !self.ready.is_empty() {
                return Ok(Some((self.piece(), self)));
            }
            if self.group == self.groups || self.at >= self.range.end {
                return Ok(None);
            }
            if self.page == 0 {
                self.source.before_group(self.group).await?;
            }
            if self.page == self.source.page_count(self.group) {
                self.group += 1;
                self.page = 0;
                continue;
            }
            self.inflate_some().await?;
        }
    }

    /// The next inflated bytes to send. They are a copy if they are not all of what was inflated: a
    /// piece never holds more than itself.
    fn piece(&mut self) -> Bytes {
        let len = self.ready.len().min(self.source.piece_bytes());
        let piece = self.ready.split_to(len);
        if len == self.inflated_len { piece } else { Bytes::copy_from_slice(&piece) }
    }

    /// Inflates some pages.
    async fn inflate_some(&mut self) -> ObjectsResult<()> {
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
            return Ok(());
        }
        let pages = members.get(count as usize..).unwrap_or_default();
        let pages = pages[..fitting(pages, self.source.piece_bytes())].to_vec();
        let end = self.page + u32::try_from(pages.len()).unwrap_or(u32::MAX);
        let frames = self.source.frames(self.group, self.page..end, self.source.piece_bytes()).await?;
        let (text, read, damage) = self.source.count(move || inflated(&pages, &frames)).await?;
        if let (Some(error), true) = (&damage, text.is_empty()) {
            let volume = self.source.volume_id(self.group)?;
            // Blank pages may be before it.
            let page = self.page + read;
            self.source.notice(self.group, Some(page), error);
            self.source.mark_noticed().await;
            let member = Some(self.source.member(self.group, page));
            let seq = members.get((count + read) as usize).map_or(page.saturating_add(1), |page| page.seq);
            return Err(ObjectsError::Damaged { volume, member, detail: format!("page {seq}: {error}") });
        }
        let from = self.range.start.saturating_sub(self.at).min(text.len() as u64) as usize;
        let to = (self.range.end - self.at).min(text.len() as u64) as usize;
        self.at += text.len() as u64;
        self.page += read;
        self.inflated_len = text.len();
        self.ready = text.slice(from..to);
        Ok(())
    }
}

/// How many pages to inflate at once: as many as have at most `max_bytes`, and at least one.
pub(super) fn fitting(pages: &[PageMember], max_bytes: usize) -> usize {
    let mut bytes = 0;
    let fitting = pages.iter().take_while(|page| {
        bytes += u64::from(page.member.size);
        bytes <= max_bytes as u64
    });
    fitting.count().max(1).min(pages.len())
}

/// The texts of pages, how many they are, and the damage of the page after them.
fn inflated(pages: &[PageMember], frames: &[Bytes]) -> (Bytes, u32, Option<pack::FrameError>) {
    let (mut text, mut count) = (Vec::new(), 0);
    for (page, frame) in pages.iter().zip(frames) {
        match pack::inflate(frame, page.member.size, page.member.crc32) {
            Ok(more) => text.extend_from_slice(&more),
            Err(error) => return (text.into(), count, Some(error)),
        }
        count += 1;
    }
    (text.into(), count, None)
}

#[cfg(test)]
mod tests {
    use pack::Member;

    use super::*;

    fn page(size: u32, crc32: u32) -> PageMember {
        PageMember { seq: 1, member: Member { size, frame_len: 1, crc32 } }
    }

    #[test]
    fn blank_pages_before_a_damaged_one_are_whole() {
        let pages = [page(0, 0), page(0, 0), page(5, 7)];
        let frames = [Bytes::new(), Bytes::new(), Bytes::from_static(b"?")];
        let (text, read, damage) = inflated(&pages, &frames);
        assert_eq!((text.len(), read, damage.is_some()), (0, 2, true));
    }

    #[test]
    fn pages_are_inflated_together_up_to_a_piece_and_a_larger_one_alone() {
        let pages = [page(40, 0), page(40, 0), page(40, 0), page(500, 0)];
        assert_eq!(fitting(&pages, 100), 2);
        assert_eq!(fitting(&pages[2..], 100), 1);
        assert_eq!(fitting(&pages[3..], 100), 1);
        assert_eq!(fitting(&pages, 1_000), 4);
        assert_eq!(fitting(&[], 1_000), 0);
    }
}
