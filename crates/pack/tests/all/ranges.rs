//! Archives of known length: any range is that part of the whole, and nothing is read in vain.
use crate::common::*;
use pack::memory::{MemorySource, MemoryVolume};
use pack::{ArchiveError, Layout, Level, WHOLE};
use proptest::prelude::*;
use std::io::Cursor;
use std::sync::Arc;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap()
}

/// Short texts, empty ones, and some whose frame is long enough to be a piece of its own.
fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-f \n]{0,300}".prop_map(String::into_bytes),
        1 => Just(Vec::new()),
        1 => (any::<u32>(), 1..150_000usize).prop_map(|(seed, len)| noise(seed, len)),
    ]
}

/// Bytes that do not compress.
fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = u64::from(seed) << 1 | 1;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn volumes() -> impl Strategy<Value = Vec<MemoryVolume>> {
    let texts = proptest::collection::vec(text(), 0..12);
    let one = (texts, any::<bool>(), proptest::option::of(text()), prop_oneof![Just("uc2.x"), Just("ü.ark+=1")]);
    proptest::collection::vec(one, 0..5).prop_map(|volumes| {
        let volumes = volumes.into_iter().enumerate().map(|(index, (texts, is_some, mets, name))| {
            // Some pages, in another order than the volume's.
            let selected = is_some.then(|| (0..texts.len()).rev().step_by(2).collect());
            volume(&format!("{name}{index}"), &texts, selected, mets.as_deref())
        });
        volumes.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_range_is_that_part_of_the_whole_and_the_whole_reads_back(
        volumes in volumes(),
        layout in prop::sample::select(LAYOUTS.to_vec()),
        level in prop_oneof![Just(Level::Frames), Just(Level::Stored)],
        errors in proptest::option::of(Just(ERRORS)),
        piece_bytes in prop::sample::select(vec![0usize, 5_000, 262_144]),
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 12),
    ) {
        let source = Arc::new(MemorySource::new(volumes).with_piece_bytes(piece_bytes));
        let mut archive = archive(&source, layout, level);
        archive.errors = errors.map(Into::into);
        let archive = Arc::new(archive);
        runtime().block_on(async {
            let len = archive.len(&*source).await.unwrap().unwrap();
            let whole = bytes(&archive, &source, 0..len).await;
            prop_assert_eq!(whole.len() as u64, len);
            let entries = expected(&source, layout, errors);
            prop_assert_eq!(archive.entry_count(), entries.len() as u64);
            prop_assert_eq!(summary(&read_back(Cursor::new(&whole))), summary(&entries));
            for (a, b) in cuts {
                let (a, b) = (a.index(whole.len() + 1), b.index(whole.len() + 1));
                let (a, b) = (a.min(b), a.max(b));
                let part = bytes(&archive, &source, a as u64..b as u64).await;
                prop_assert!(part == whole[a..b], "bytes {}..{} of {}", a, b, len);
            }
            Ok(())
        })?;
    }
}

fn small_volumes(count: usize) -> Vec<MemoryVolume> {
    let texts: Vec<Vec<u8>> =
        (0..40).map(|page| format!("page {page} of a volume\n").repeat(page).into_bytes()).collect();
    (0..count).map(|index| volume(&format!("a.{index}"), &texts, None, Some(b"<mets/>"))).collect()
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_resumes_to_the_same_bytes() {
    let texts: Vec<Vec<u8>> =
        (0..4).map(|page| format!("page {page} of a volume\n").repeat(page).into_bytes()).collect();
    let volumes = vec![
        volume("a.0", &texts, None, Some(b"<mets/>")),
        volume("a.none", &[], None, None),
        volume("a.ü", &texts, Some(vec![3, 0]), Some(b"")),
    ];
    let source = Arc::new(MemorySource::new(volumes));
    for (layout, level) in LAYOUTS.into_iter().flat_map(|layout| [(layout, Level::Frames), (layout, Level::Stored)]) {
        for errors in [None, Some(ERRORS.into())] {
            let mut archive = archive(&source, layout, level);
            archive.errors = errors;
            let archive = Arc::new(archive);
            let whole = bytes(&archive, &source, WHOLE).await;
            for cut in 0..=whole.len() {
                let rest = bytes(&archive, &source, cut as u64..whole.len() as u64).await;
                assert!(rest == whole[cut..], "{layout:?} {level:?} from {cut}");
                let few = cut..whole.len().min(cut + 40);
                let part = bytes(&archive, &source, few.start as u64..few.end as u64).await;
                assert!(part == whole[few], "{layout:?} {level:?} a few from {cut}");
            }
        }
    }
}

#[tokio::test]
async fn a_range_reads_no_frame_before_or_after_it() {
    let volumes = small_volumes(10);
    let frame = volumes[5].pages[2].1.bytes.clone();
    let source = Arc::new(MemorySource::new(volumes));
    for layout in LAYOUTS {
        let archive = Arc::new(archive(&source, layout, Level::Frames));
        let len = archive.len(&*source).await.unwrap().unwrap();
        let whole = bytes(&archive, &source, 0..len).await;
        let inside = whole.windows(frame.len()).position(|window| window == frame).unwrap() as u64 + 1;
        let (frames, groups) = (source.frames_read(), source.groups_begun());
        bytes(&archive, &source, inside..inside + 1).await;
        assert_eq!(source.frames_read() - frames, 1, "{layout:?}");
        assert_eq!(source.groups_begun() - groups, 1, "{layout:?}");

        let (frames, groups) = (source.frames_read(), source.groups_begun());
        bytes(&archive, &source, len - 1..len).await;
        assert_eq!((source.frames_read(), source.groups_begun()), (frames, groups), "{layout:?}: only its end");
    }
}

#[tokio::test]
async fn the_length_below_4_gib_is_known_without_reading_members() {
    let source = MemorySource::new(small_volumes(10));
    for layout in LAYOUTS {
        for level in [Level::Frames, Level::Stored] {
            assert!(archive(&source, layout, level).len(&source).await.unwrap().is_some());
        }
    }
    assert_eq!(source.members_read(), 0);
}

#[tokio::test]
async fn a_range_outside_the_archive_is_refused() {
    let source = Arc::new(MemorySource::new(small_volumes(1)));
    let archive = Arc::new(archive(&source, Layout::Pages, Level::Frames));
    let len = archive.len(&*source).await.unwrap().unwrap();
    let outside = pack::stream(archive.clone(), source.clone(), len..len + 1);
    assert!(matches!(collect(outside).await, Err(ArchiveError::Range { .. })));
    #[allow(clippy::reversed_empty_ranges)]
    let backwards = pack::stream(archive.clone(), source.clone(), 2..1);
    assert!(matches!(collect(backwards).await, Err(ArchiveError::Range { .. })));
    assert_eq!(bytes(&archive, &source, len..len).await, b"");
}

#[tokio::test]
async fn an_archive_without_volumes_has_errors_alone() {
    let source = Arc::new(MemorySource::new(Vec::new()));
    for layout in LAYOUTS {
        let mut archive = archive(&source, layout, Level::Frames);
        archive.errors = Some(ERRORS.into());
        let whole = bytes(&Arc::new(archive), &source, WHOLE).await;
        let entries = read_back(Cursor::new(whole));
        assert_eq!(entries, [("ERROR.err".to_owned(), ERRORS.as_bytes().to_vec())]);
    }
}

#[tokio::test]
async fn pieces_are_no_longer_than_the_source_allows() {
    use futures::StreamExt;
    let mut volumes = small_volumes(3);
    volumes.push(volume("big", &[noise(1, 300_000)], None, None));
    let source = Arc::new(MemorySource::new(volumes).with_piece_bytes(64 * 1024));
    let archive = Arc::new(archive(&source, Layout::Pages, Level::Frames));
    let pieces: Vec<_> = pack::stream(archive, source, WHOLE).map(|piece| piece.unwrap().len()).collect().await;
    assert!(pieces.iter().all(|&len| len <= 64 * 1024), "{pieces:?}");
    assert!(pieces.len() < 20, "small frames share pieces: {pieces:?}");
}

#[tokio::test]
async fn members_that_do_not_add_up_to_the_sums_break_the_stream() {
    let source = Arc::new(MemorySource::new(small_volumes(2)));
    for layout in LAYOUTS {
        let mut archive = archive(&source, layout, Level::Frames);
        let pack::GroupPages::All { sums, .. } = &mut archive.groups[0].pages else { panic!("all pages") };
        sums.frame_bytes += 1;
        let result = collect(pack::stream(Arc::new(archive), source.clone(), WHOLE)).await;
        assert!(matches!(result, Err(ArchiveError::Mismatch { .. })), "{layout:?}");
    }
}

#[tokio::test]
async fn a_page_that_cannot_be_read_breaks_an_archive_of_known_length() {
    let source = Arc::new(MemorySource::new(small_volumes(2)).with_missing(1, Some(3), "left out"));
    for layout in LAYOUTS {
        let archive = Arc::new(archive(&source, layout, Level::Frames));
        let result = collect(pack::stream(archive, source.clone(), WHOLE)).await;
        assert!(matches!(result, Err(ArchiveError::Source(_))), "{layout:?}");
    }
}

#[tokio::test]
async fn a_damaged_frame_breaks_an_archive_of_stored_blocks() {
    let mut volumes = small_volumes(1);
    volumes[0].pages[7].1.crc32 ^= 1;
    let source = Arc::new(MemorySource::new(volumes));
    let archive = Arc::new(archive(&source, Layout::Pages, Level::Stored));
    let result = collect(pack::stream(archive, source, WHOLE)).await;
    assert!(matches!(result, Err(ArchiveError::Damaged { .. })));
}
