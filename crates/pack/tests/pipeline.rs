//! Recompressing keeps the whole pool busy: while a volume is written, the next ones are read and compressed.
#![allow(clippy::unwrap_used)]

mod common;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use common::{archive, volume};
use futures::StreamExt;
use pack::memory::MemorySource;
use pack::{Layout, Level, PageMember, Source, WHOLE, stream};
use rand::{RngCore, SeedableRng};

/// Counts how many volumes were begun.
struct Counting {
    inner: MemorySource,
    begun: AtomicUsize,
}

#[async_trait]
impl Source for Counting {
    type Error = <MemorySource as Source>::Error;

    async fn members(&self, group: usize, pages: Range<u32>) -> Result<Vec<PageMember>, Self::Error> {
        self.inner.members(group, pages).await
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
        4 << 10
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twice_as_many_volumes_as_there_are_processors_are_compressed_before_the_first_is_written() {
    let processors = std::thread::available_parallelism().unwrap().get();
    // What cannot be compressed stays longer than a piece.
    let text = |seed: u64| {
        let mut text = vec![0; 64 << 10];
        rand::rngs::StdRng::seed_from_u64(seed).fill_bytes(&mut text);
        text
    };
    let volumes = (0..3 * processors as u64 + 3).map(|n| volume(&format!("t.{n}"), &[text(n)], None, None)).collect();
    let inner = MemorySource::new(volumes);
    let archive = Arc::new(archive(&inner, Layout::Pages, Level::Recompressed(1)));
    let source = Arc::new(Counting { inner, begun: AtomicUsize::default() });
    let mut pieces = std::pin::pin!(stream(archive, source.clone(), WHOLE));
    pieces.next().await.unwrap().unwrap();
    let begun = source.begun.load(Ordering::SeqCst);
    assert!(begun > 2 * processors, "only {begun} volumes were begun for {processors} processors");
    assert!(begun <= 2 * processors + 3, "{begun} volumes were begun: reading ahead is bounded");
}
