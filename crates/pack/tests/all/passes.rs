//! In which pass members are read: a source reads ahead differently in each.
use crate::common::{archive, bytes, volume};
use async_trait::async_trait;
use bytes::Bytes;
use pack::memory::{MemorySource, MemoryVolume};
use pack::{Archive, Frame, Layout, Level, PageMember, Pass, Source, WHOLE};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Records the passes and groups in which members are read.
struct Recording {
    inner: MemorySource,
    calls: Mutex<Vec<(Pass, usize)>>,
}

#[async_trait]
impl Source for Recording {
    type Error = <MemorySource as Source>::Error;

    async fn members(&self, pass: Pass, group: usize, pages: Range<u32>) -> Result<Vec<PageMember>, Self::Error> {
        self.calls.lock().unwrap().push((pass, group));
        self.inner.members(pass, group, pages).await
    }

    async fn frames(&self, group: usize, pages: Range<u32>, max_bytes: usize) -> Result<Vec<Bytes>, Self::Error> {
        self.inner.frames(group, pages, max_bytes).await
    }

    async fn mets_frame(&self, group: usize) -> Result<Bytes, Self::Error> {
        self.inner.mets_frame(group).await
    }

    async fn before_group(&self, group: usize) -> Result<(), Self::Error> {
        self.inner.before_group(group).await
    }

    fn piece_bytes(&self) -> usize {
        self.inner.piece_bytes()
    }
}

/// The calls for a range of an archive of these volumes.
async fn calls(volumes: Vec<MemoryVolume>, layout: Layout, level: Level, range: Range<u64>) -> Vec<(Pass, usize)> {
    let inner = MemorySource::new(volumes);
    let archive: Archive = archive(&inner, layout, level);
    let source = Arc::new(Recording { inner, calls: Mutex::default() });
    bytes(&Arc::new(archive), &source, range).await;
    Arc::into_inner(source).unwrap().calls.into_inner().unwrap()
}

fn two_volumes() -> Vec<MemoryVolume> {
    (0..2).map(|n| volume(&format!("t.{n}"), &[b"a page".to_vec()], None, Some(b"<mets/>"))).collect()
}

#[tokio::test]
async fn members_of_pages_that_are_entries_are_read_for_the_contents_and_again_for_the_central_directory() {
    let expected = [(Pass::Contents, 0), (Pass::Contents, 1), (Pass::Directory, 0), (Pass::Directory, 1)];
    for level in [Level::Frames, Level::Stored] {
        assert_eq!(calls(two_volumes(), Layout::Pages, level, WHOLE).await, expected, "{level:?}");
    }
    assert_eq!(calls(two_volumes(), Layout::Pages, Level::Recompressed(1), WHOLE).await, expected[..2]);
}

#[tokio::test]
async fn members_of_joined_pages_are_read_once() {
    for layout in [Layout::Volumes, Layout::WordSeq] {
        for level in [Level::Frames, Level::Stored, Level::Recompressed(1)] {
            let calls = calls(two_volumes(), layout, level, WHOLE).await;
            assert_eq!(calls, [(Pass::Contents, 0), (Pass::Contents, 1)], "{layout:?} {level:?}");
        }
    }
}

#[tokio::test]
async fn members_of_the_volume_that_crosses_4_gib_are_read_for_the_lengths() {
    // Only the length of this frame counts, because its bytes are not sent.
    let long = Frame { bytes: vec![0; 64 << 20].into(), size: 64 << 20, crc32: 7 };
    let pages = |count| (1..=count).map(|seq| (seq, long.clone())).collect();
    let volumes: Vec<_> = [1, 70, 1]
        .map(|count| MemoryVolume { name: "t.x".into(), pages: pages(count), selected: None, mets: None })
        .into();
    assert_eq!(calls(volumes.clone(), Layout::Pages, Level::Frames, 0..1).await, [(Pass::Lengths, 1)]);
    assert_eq!(calls(volumes, Layout::Volumes, Level::Frames, 0..1).await, []);
}
