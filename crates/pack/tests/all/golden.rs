//! Digests of one archive per layout. Resumed downloads and ETags depend on the bytes of archives.
//! If a digest has to change, raise the version of its layout and record both here.
//!
//! The frames are stored blocks made here, so that no compressor decides about the bytes.
use crate::common::{ERRORS, LAYOUTS, archive, bytes};
use bytes::Bytes;
use pack::memory::{MemorySource, MemoryVolume};
use pack::{Archive, Frame, Layout, Level, WHOLE};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// What is recorded of a layout.
#[derive(Debug, PartialEq, Eq)]
struct Golden {
    /// Its name in requests.
    name: &'static str,
    /// Its number in stored plans and ETags.
    number: u8,
    /// The version of these bytes.
    version: u8,
    /// A whole archive of unchanged frames.
    frames: String,
    /// The second third of that archive.
    part: String,
    /// A whole archive of stored blocks.
    stored: String,
    /// A whole archive in report mode, with a page and a METS document left out.
    report: String,
    /// The end of an archive of more than 4 GiB, with ZIP64 records.
    zip64: String,
}

fn recorded(layout: Layout) -> Golden {
    match layout {
        Layout::Pages => Golden {
            name: "pages",
            number: 0,
            version: 1,
            frames: "ca3b2267e64187c7aa5262efb2bda34485c8da9af792cb1a79f0405523d0abb9".into(),
            part: "d1d304cc6de70dc90f24db16a263753d49ffb36a28c60685ac50c525459a389e".into(),
            stored: "f8b4624a88ad0d98ab2f8e00375f80b22b097a55d9aa345f7d40990ba59b324d".into(),
            report: "e06f9edd19f8f1c6798b32f2bc1d01cd1a59a1d12ffa0ea46b3982920a0204fc".into(),
            zip64: "6c60db70b409377c01601251d1b123bedb5c9135b851a7d56dd050f3386d54b2".into(),
        },
        Layout::Volumes => Golden {
            name: "volumes",
            number: 1,
            version: 1,
            frames: "afdb77e70d3b4d44c61f472f6f4cdec7de9f70fb85d13e2353e9463c26b6aa3b".into(),
            part: "98d9955a6dad95083b5d28c2631a94be26627a05306d39bcff305148724c2dcb".into(),
            stored: "de2b10717756160dea1c6afc610a79295e97fd6387915c0feabcc8b08b417343".into(),
            report: "07378bcb1fbbe09aa84584b3f9f8d8e13157ced5f1ddbe67eb18721ad033288e".into(),
            zip64: "a53211848293053c3258060de8a88551d054cf0de43abfca8a5a4a1aff230d7d".into(),
        },
        Layout::WordSeq => Golden {
            name: "wordseq",
            number: 2,
            version: 1,
            frames: "bed869f24968728b4bf949632679c3829539e1a2a063f8f75c413b464e4e31fb".into(),
            part: "4e3a058baaf721236aa1a257ffd996534bb6aaa49f8e2e2bc9e699c3d12ea276".into(),
            stored: "c9bc500e57cbb8f29cc826cd57de24a64da40b9414241d9bb4d5410fc6af5367".into(),
            report: "2106b0f75d90b9cbf0e8df4a1163c3e897c7105b70d21ad37da904c577893997".into(),
            zip64: "6f8fd404d2d9d99a6df4f49e077caedf605c0373afde0bc0b755c464215b9977".into(),
        },
    }
}

/// A frame of two stored blocks (RFC 1951, 3.2.4), or of none.
fn frame(text: &[u8]) -> Frame {
    let (first, second) = text.split_at(text.len() / 2);
    let mut frame = Vec::new();
    for block in [first, second].into_iter().filter(|_| !text.is_empty()) {
        let len = u16::try_from(block.len()).unwrap();
        frame.push(0);
        frame.extend(len.to_le_bytes());
        frame.extend((!len).to_le_bytes());
        frame.extend(block);
    }
    Frame { bytes: frame.into(), size: text.len() as u32, crc32: crc32fast::hash(text) }
}

/// Four pages: short, empty, longer than a stored block, and one with a large number.
fn pages() -> Vec<(u32, Frame)> {
    let long: Vec<u8> = (0..70_000_u32).map(|n| (n % 251) as u8).collect();
    [(1, &b"the first page\n"[..]), (2, b""), (3, &long), (12_345_678, b"the last page\n")]
        .map(|(seq, text)| (seq, frame(text)))
        .into()
}

/// A volume with METS, one without anything, and one with some of its pages and a name that is not
/// ASCII.
fn volumes() -> Vec<MemoryVolume> {
    let mets = frame(b"<METS:mets/>\n");
    vec![
        MemoryVolume { name: "uc2.ark+=13960=t1".into(), pages: pages(), selected: None, mets: Some(mets.clone()) },
        MemoryVolume { name: "t.empty".into(), pages: Vec::new(), selected: None, mets: None },
        MemoryVolume { name: "t.ü".into(), pages: pages(), selected: Some(vec![3, 0]), mets: Some(mets) },
    ]
}

/// An archive in which a volume crosses 4 GiB, and another volume follows.
fn beyond_4_gib() -> MemorySource {
    // The bytes of this frame are not sent, so they need not be DEFLATE.
    let long = Frame { bytes: vec![0; 64 << 20].into(), size: 100 << 20, crc32: 7 };
    let pages = |name: &str, count| MemoryVolume {
        name: name.into(),
        pages: (1..=count).map(|seq| (seq, long.clone())).collect(),
        selected: None,
        mets: Some(frame(b"<METS:mets/>\n")),
    };
    MemorySource::new(vec![pages("t.1", 70), pages("t.2", 3)])
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

async fn actual(layout: Layout) -> Golden {
    let with_errors = |source: &MemorySource, level| {
        Arc::new(Archive { errors: Some(Bytes::from_static(ERRORS.as_bytes())), ..archive(source, layout, level) })
    };
    let source = Arc::new(MemorySource::new(volumes()));
    let frames = bytes(&with_errors(&source, Level::Frames), &source, WHOLE).await;
    let len = frames.len() as u64;
    let part = bytes(&with_errors(&source, Level::Frames), &source, len / 3..len / 3 * 2).await;
    let stored = bytes(&with_errors(&source, Level::Stored), &source, WHOLE).await;

    let missing = MemorySource::new(volumes()).with_missing(0, Some(2), ERRORS).with_missing(2, None, ERRORS);
    let report = Arc::new(Archive { descriptors: true, ..archive(&missing, layout, Level::Frames) });
    let report = bytes(&report, &Arc::new(missing), WHOLE).await;

    let long = Arc::new(beyond_4_gib());
    let archive = Arc::new(archive(&long, layout, Level::Frames));
    let len = archive.len(&*long).await.unwrap().unwrap();
    let zip64 = bytes(&archive, &long, len - 9_000..len).await;
    Golden {
        name: layout.name(),
        number: layout as u8,
        version: layout.version(),
        frames: digest(&frames),
        part: digest(&part),
        stored: digest(&stored),
        report: digest(&report),
        zip64: digest(&zip64),
    }
}

#[tokio::test]
async fn archives_of_each_layout_have_the_recorded_bytes() {
    for layout in LAYOUTS {
        assert_eq!(actual(layout).await, recorded(layout), "{layout:?}");
    }
}

#[test]
fn the_version_of_all_layouts_is_one_until_the_first_is_raised() {
    assert_eq!(Layout::version_of_all(), 1);
}
