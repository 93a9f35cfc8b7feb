//! Measures how fast archives of stored frames are assembled from memory, without output: `cargo
//! run --release -p pack --example copy_speed [VOLUMES]`. It shows what a page costs apart from
//! reading it, so that one can distinguish a slow server from a slow `pack`.
#![allow(clippy::unwrap_used)]

use futures::TryStreamExt;
use pack::memory::{MemorySource, MemoryVolume};
use pack::{Archive, Framer, Layout, Level, WHOLE};
use std::sync::Arc;
use std::time::Instant;

/// The sample volumes' averages: pages of a volume, and bytes of a page.
const PAGES: u32 = 234;
const PAGE_BYTES: usize = 1_400;

#[tokio::main]
async fn main() {
    let volumes: usize = std::env::args().nth(1).map_or(2_000, |argument| argument.parse().unwrap());
    let frame = Framer::new(6).frame(&page()).unwrap();
    let pages: Vec<_> = (1..=PAGES).map(|seq| (seq, frame.clone())).collect();
    println!("{volumes} volumes of {PAGES} pages of {PAGE_BYTES} bytes, {} as a frame", frame.bytes.len());
    let volume = |index| MemoryVolume {
        name: format!("uc2.ark+=13960=t{index:08}").into(),
        pages: pages.clone(),
        selected: None,
        mets: Some(frame.clone()),
    };
    let source = Arc::new(MemorySource::new((0..volumes).map(volume).collect()));
    for layout in Layout::ALL {
        for descriptors in [false, true] {
            let groups = source.groups();
            let archive = Arc::new(Archive { layout, level: Level::Frames, groups, errors: None, descriptors });
            let begun = Instant::now();
            let sum = |sum, piece: bytes::Bytes| std::future::ready(Ok(sum + piece.len()));
            let bytes = pack::stream(archive, source.clone(), WHOLE).try_fold(0, sum).await.unwrap();
            let seconds = begun.elapsed().as_secs_f64();
            let per_page_ns = seconds * 1e9 / (volumes as f64 * f64::from(PAGES));
            let gb_per_s = bytes as f64 / seconds / 1e9;
            println!(
                "{layout:?}, descriptors {descriptors}: {bytes} bytes, {gb_per_s:.2} GB/s, {per_page_ns:.0} ns per page"
            );
        }
    }
}

/// A page that compresses about as well as text.
fn page() -> Vec<u8> {
    let words = ["the", "whale", "of", "and", "harpoon", "sea", "to", "Ahab", "in", "ship", "a", "that", "his", "it"];
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let mut page = Vec::new();
    while page.len() < PAGE_BYTES {
        page.extend_from_slice(words[next() as usize % words.len()].as_bytes());
        page.push(if next().is_multiple_of(9) { b'\n' } else { b' ' });
        page.push(b'a' + (next() % 26) as u8);
    }
    page.truncate(PAGE_BYTES);
    page
}
