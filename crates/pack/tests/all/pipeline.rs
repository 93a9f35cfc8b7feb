//! Encoding keeps the whole pool busy: while a volume is written, the next ones are read and
//! encoded.
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{LAYOUTS, archive, bytes, volume};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use pack::memory::MemorySource;
use pack::{Level, PageMember, Pass, Source, WHOLE, stream};
use rand::{RngCore, SeedableRng};

/// Length of the pieces.
const PIECE_BYTES: usize = 4 << 10;

/// Counts how many volumes were begun.
struct Counting {
    inner: MemorySource,
    begun: AtomicUsize,
}

#[async_trait]
impl Source for Counting {
    type Error = <MemorySource as Source>::Error;

    async fn members(&self, pass: Pass, group: usize, pages: Range<u32>) -> Result<Vec<PageMember>, Self::Error> {
        self.inner.members(pass, group, pages).await
    }

    async fn frames(&self, group: usize, pages: Range<u32>, max_bytes: usize) -> Result<Vec<Bytes>, Self::Error> {
        self.inner.frames(group, pages, max_bytes).await
    }

    async fn mets_frame(&self, group: usize) -> Result<Bytes, Self::Error> {
        self.inner.mets_frame(group).await
    }

    async fn before_group(&self, group: usize) -> Result<(), Self::Error> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.inner.before_group(group).await
    }

    fn piece_bytes(&self) -> usize {
        PIECE_BYTES
    }
}

/// Text that cannot be compressed, so that it stays longer than a piece.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut text = vec![0; bytes];
    rand::rngs::StdRng::seed_from_u64(seed).fill_bytes(&mut text);
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn two_volumes_per_processor_are_encoded_before_the_first_is_written() {
    let processors = std::thread::available_parallelism().unwrap().get();
    // Two of them are more than a job.
    let text = |seed: u64| noise(seed, 200 << 10);
    for (layout, level) in
        LAYOUTS.into_iter().flat_map(|layout| [Level::Stored, Level::Recompressed(1)].map(|level| (layout, level)))
    {
        let volumes =
            (0..3 * processors as u64 + 5).map(|n| volume(&format!("t.{n}"), &[text(n)], None, None)).collect();
        let inner = MemorySource::new(volumes);
        let archive = Arc::new(archive(&inner, layout, level));
        let source = Arc::new(Counting { inner, begun: AtomicUsize::default() });
        let mut pieces = std::pin::pin!(stream(archive, source.clone(), WHOLE));
        // Headers and directories are shorter.
        while pieces.next().await.unwrap().unwrap().len() < PIECE_BYTES {}
        let begun = source.begun.load(Ordering::SeqCst);
        assert!(begun > 2 * processors, "{layout:?}, {level:?}: {begun} volumes begun for {processors} processors");
        assert!(begun <= 2 * processors + 3, "{layout:?}, {level:?}: {begun} volumes begun: reading ahead is bounded");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recompressed_archive_has_the_same_bytes_for_any_length_of_pieces() {
    // Jobs of several pages, of one page, and a volume that ends within a job.
    let pages = |seed: u64| (0..9).map(|n| noise(seed + n, 30_000 + 9_000 * n as usize)).collect::<Vec<_>>();
    let volumes = vec![
        volume("t.1", &pages(1), None, Some(b"<mets/>")),
        volume("t.2", &[noise(20, 300 << 10)], None, None),
        volume("t.3", &pages(30), None, None),
    ];
    for layout in LAYOUTS {
        let mut archives: Vec<Vec<u8>> = Vec::new();
        for piece_bytes in [4 << 10, 64 << 10, 1 << 20] {
            let source = Arc::new(MemorySource::new(volumes.clone()).with_piece_bytes(piece_bytes));
            let archive = Arc::new(archive(&source, layout, Level::Recompressed(6)));
            archives.push(bytes(&archive, &source, WHOLE).await);
        }
        assert!(archives.windows(2).all(|pair| pair[0] == pair[1]), "{layout:?}");
    }
}
