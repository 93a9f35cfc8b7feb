//! Report mode: pages that cannot be read are left out at a page boundary and listed at the end.
use crate::common::*;
use pack::memory::{MemorySource, MemoryVolume};
use pack::{ArchiveError, Layout, Level, Source, WHOLE};
use std::io::Cursor;
use std::sync::Arc;

const LATE: &str = "heading\nRepositoryException: damaged: a.1[4]\n";

fn texts() -> Vec<Vec<u8>> {
    (0..20).map(|page| format!("page {page}\n").repeat(page).into_bytes()).collect()
}

/// Two volumes; an archive requests these pages of the second.
fn volumes(selected: Option<Vec<usize>>) -> Vec<MemoryVolume> {
    vec![volume("a.0", &texts(), None, Some(b"<mets/>")), volume("a.1", &texts(), selected, Some(b"<mets/>"))]
}

fn levels() -> impl Iterator<Item = (Layout, Level)> {
    let levels = [Level::Frames, Level::Stored, Level::Recompressed(6)];
    LAYOUTS.into_iter().flat_map(move |layout| levels.map(|level| (layout, level)))
}

/// The expected entries if only these pages of the second volume can be read, and not its METS
/// document.
fn without(pages: Vec<usize>, layout: Layout) -> Expected {
    let mut volumes = volumes(Some(pages));
    volumes[1].mets = None;
    expected(&MemorySource::new(volumes), layout, Some(LATE))
}

#[tokio::test]
async fn pages_and_mets_that_cannot_be_read_are_left_out_and_listed() {
    for (layout, level) in levels() {
        let source = MemorySource::new(volumes(None))
            .with_missing(1, Some(3), LATE)
            .with_missing(1, Some(4), LATE)
            .with_missing(1, Some(19), LATE)
            .with_missing(1, None, LATE);
        let mut archive = archive(&source, layout, level);
        archive.descriptors = true;
        assert_eq!(archive.len(&source).await.unwrap(), None);
        let whole = bytes(&Arc::new(archive), &Arc::new(source), WHOLE).await;
        let kept = (0..19).filter(|page| ![3, 4].contains(page)).collect();
        assert_eq!(summary(&read_back(Cursor::new(whole))), summary(&without(kept, layout)), "{layout:?} {level:?}");
    }
}

#[tokio::test]
async fn without_report_mode_a_page_that_cannot_be_read_breaks_a_recompressed_archive() {
    for layout in LAYOUTS {
        let source = Arc::new(MemorySource::new(volumes(None)).with_missing(1, Some(3), LATE));
        let archive = Arc::new(archive(&source, layout, Level::Recompressed(6)));
        let result = collect(pack::stream(archive, source, WHOLE)).await;
        assert!(matches!(result, Err(ArchiveError::Source(_))), "{layout:?}");
    }
}

#[tokio::test]
async fn a_damaged_frame_is_left_out_if_the_source_allows_it() {
    for (layout, level) in levels().filter(|(_, level)| *level != Level::Frames) {
        let mut damaged = volumes(None);
        damaged[1].pages[7].1.crc32 ^= 1;
        let source = MemorySource::new(damaged).with_missing(1, Some(7), LATE).with_missing(1, None, LATE);
        let mut archive = archive(&source, layout, level);
        archive.descriptors = true;
        // The page can be read, and only then turns out to be damaged.
        let source = Arc::new(OnlyDamaged(source));
        let whole = bytes(&Arc::new(archive), &source, WHOLE).await;
        let kept = (0..20).filter(|&page| page != 7).collect();
        assert_eq!(summary(&read_back(Cursor::new(whole))), summary(&without(kept, layout)), "{layout:?} {level:?}");
    }
}

/// Reads pages that are marked as missing all the same, and leaves out frames that do not inflate.
struct OnlyDamaged(MemorySource);

#[async_trait::async_trait]
impl Source for OnlyDamaged {
    type Error = <MemorySource as Source>::Error;

    async fn members(
        &self,
        pass: pack::Pass,
        group: usize,
        pages: std::ops::Range<u32>,
    ) -> Result<Vec<pack::PageMember>, Self::Error> {
        self.0.members(pass, group, pages).await
    }

    async fn frames(
        &self,
        group: usize,
        pages: std::ops::Range<u32>,
        _max_bytes: usize,
    ) -> Result<Vec<bytes::Bytes>, Self::Error> {
        let volume = &self.0.volumes()[group];
        Ok(pages.map(|page| volume.pages[page as usize].1.bytes.clone()).collect())
    }

    async fn mets_frame(&self, group: usize) -> Result<bytes::Bytes, Self::Error> {
        self.0.mets_frame(group).await
    }

    async fn before_group(&self, group: usize) -> Result<(), Self::Error> {
        self.0.before_group(group).await
    }

    fn piece_bytes(&self) -> usize {
        self.0.piece_bytes()
    }

    fn omit_mets(&self, group: usize, error: &Self::Error) -> bool {
        self.0.omit_mets(group, error)
    }

    fn omit_damaged(&self, group: usize, page: Option<u32>, _error: &pack::FrameError) -> bool {
        (group, page) == (1, Some(7))
    }

    fn late_errors(&self) -> Option<bytes::Bytes> {
        self.0.late_errors()
    }
}

#[tokio::test]
async fn many_entries_recompressed_in_parallel_stay_in_order() {
    let texts: Vec<Vec<u8>> =
        (0..3_000usize).map(|page| format!("page {page} ").repeat(page % 97).into_bytes()).collect();
    let volumes = (0..3).map(|index| volume(&format!("a.{index}"), &texts, None, None)).collect();
    let source = Arc::new(MemorySource::new(volumes));
    let archive = Arc::new(archive(&source, Layout::Pages, Level::Recompressed(1)));
    let whole = bytes(&archive, &source, WHOLE).await;
    assert_eq!(summary(&read_back(Cursor::new(whole))), summary(&expected(&source, Layout::Pages, None)));
}

#[tokio::test]
async fn a_part_of_an_archive_without_length_is_refused() {
    let source = Arc::new(MemorySource::new(volumes(None)));
    let archive = Arc::new(archive(&source, Layout::Pages, Level::Recompressed(6)));
    let result = collect(pack::stream(archive, source, 10..20)).await;
    assert!(matches!(result, Err(ArchiveError::Range { .. })));
}

#[tokio::test]
async fn dropped_streams_leave_the_pool_to_the_others() {
    use futures::StreamExt;
    let texts = vec![b"some text ".repeat(1_000); 500];
    let source = Arc::new(MemorySource::new(vec![volume("a.b", &texts, None, None)]).with_piece_bytes(0));
    let archive = Arc::new(archive(&source, Layout::Pages, Level::Recompressed(9)));
    for _ in 0..50 {
        let mut dropped = Box::pin(pack::stream(archive.clone(), source.clone(), WHOLE));
        dropped.next().await.unwrap().unwrap();
    }
    let whole = bytes(&archive, &source, WHOLE).await;
    assert_eq!(summary(&read_back(Cursor::new(whole))), summary(&expected(&source, Layout::Pages, None)));
}
