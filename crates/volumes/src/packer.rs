//! Makes rows from frames, as a pure function: packs of frames in order, directory segments, fixity
//! segments.

use bytes::{Bytes, BytesMut};
use heads::error::{ObjectsError, ObjectsResult};
use heads::keys;
use heads::revision::RevisionId;
use heads::volume_body::Entry;
use heads::volume_body::FramePlace;
use pack::{Frame, Member, Sums};
use store::{NewRow, ValueKind, envelope, stored};

use crate::directory::{self, FIXITY_SEGMENT_PAGES, FIXITY_TEXT_BYTES_MAX, PageFixity, SEGMENT_PAGES};
use crate::read::PACK_BYTES;

/// Lays out one generation of a volume. Rows are available as soon as they are full. A head names
/// all of them together.
pub(crate) struct Packer {
    generation: RevisionId,
    /// The payload of the pack that is being filled, and its number.
    pack: BytesMut,
    pack_number: u32,
    /// The directory segment that is being filled, and its number.
    entries: Vec<Entry>,
    segment_number: u32,
    /// The fixity segment that is being filled, and its number.
    fixity: Vec<PageFixity>,
    fixity_number: u32,
    /// The directory, which comes last: where there is one, all packs are present. It is small: 24
    /// bytes per page.
    directory: Vec<NewRow>,
    sums: Sums,
    crc32: u32,
    rows: Vec<NewRow>,
    rows_bytes: usize,
}

/// The facts of all pages together, for the head.
pub(crate) struct Packed {
    pub sums: Sums,
    pub crc32: u32,
}

impl Packer {
    pub fn new(generation: RevisionId) -> Self {
        Self {
            generation,
            pack: BytesMut::with_capacity(PACK_BYTES),
            pack_number: 0,
            entries: Vec::new(),
            segment_number: 0,
            fixity: Vec::new(),
            fixity_number: 0,
            directory: Vec::new(),
            sums: Sums::default(),
            crc32: 0,
            rows: Vec::new(),
            rows_bytes: 0,
        }
    }

    /// Adds a page.
    pub fn page(&mut self, seq: u32, frame: &Frame, fixity: PageFixity) -> ObjectsResult<()> {
        check_text(seq, &fixity)?;
        let entry = self.member(seq, frame)?;
        self.sums.add(Sums::of(&entry.member));
        self.crc32 = pack::crc32_combine(self.crc32, frame.crc32, u64::from(frame.size));
        self.entries.push(entry);
        if self.entries.len() == SEGMENT_PAGES as usize {
            self.end_segment();
        }
        self.fixity.push(fixity);
        if self.fixity.len() == FIXITY_SEGMENT_PAGES as usize {
            self.end_fixity()?;
        }
        Ok(())
    }

    /// Adds a member that is not a page. Its entry goes into the head.
    pub fn member(&mut self, seq: u32, frame: &Frame) -> ObjectsResult<Entry> {
        let frame_len = u32::try_from(frame.bytes.len())
            .map_err(|_| ObjectsError::OverLimit(format!("a frame of {} bytes", frame.bytes.len())))?;
        let member = Member { size: frame.size, frame_len, crc32: frame.crc32 };
        Ok(Entry { seq, member, place: self.place(&frame.bytes) })
    }

    /// Ends the last rows.
    pub fn finish(&mut self) -> ObjectsResult<Packed> {
        if !self.entries.is_empty() {
            self.end_segment();
        }
        if !self.fixity.is_empty() {
            self.end_fixity()?;
        }
        if !self.pack.is_empty() {
            self.end_pack();
        }
        for row in std::mem::take(&mut self.directory) {
            self.row(row.sort, row.value);
        }
        Ok(Packed { sums: self.sums, crc32: self.crc32 })
    }

    /// Bytes of the full rows that were not taken yet.
    pub fn rows_bytes(&self) -> usize {
        self.rows_bytes
    }

    /// Takes the full rows, in portions of at most `portion_bytes` (or one row, if that is larger).
    pub fn take_rows(&mut self, portion_bytes: usize) -> Vec<Vec<NewRow>> {
        self.rows_bytes = 0;
        let mut portions: Vec<Vec<NewRow>> = Vec::new();
        let mut room_bytes = 0;
        for row in std::mem::take(&mut self.rows) {
            let row_bytes = row.sort.len() + row.value.len();
            if row_bytes > room_bytes || portions.is_empty() {
                portions.push(Vec::new());
                room_bytes = portion_bytes;
            }
            room_bytes = room_bytes.saturating_sub(row_bytes);
            if let Some(portion) = portions.last_mut() {
                portion.push(row);
            }
        }
        portions
    }

    /// Puts a frame into the current pack if it fits, or else at the beginning of a new pack, from
    /// where it continues through as many as it needs.
    fn place(&mut self, frame: &[u8]) -> FramePlace {
        if frame.len() > PACK_BYTES - self.pack.len() && !self.pack.is_empty() {
            self.end_pack();
        }
        let place = FramePlace { pack: self.pack_number, offset: u32::try_from(self.pack.len()).unwrap_or(u32::MAX) };
        for part in frame.chunks(PACK_BYTES) {
            if part.len() > PACK_BYTES - self.pack.len() {
                self.end_pack();
            }
            self.pack.extend_from_slice(part);
        }
        place
    }

    fn end_pack(&mut self) {
        let value = envelope::seal(ValueKind::Pack, &self.pack);
        self.row(keys::pack(self.generation, self.pack_number), value);
        self.pack.clear();
        self.pack_number += 1;
    }

    fn end_segment(&mut self) {
        let value = envelope::seal(ValueKind::Directory, &directory::encode(&self.entries));
        self.row(keys::directory_copy(self.generation, self.segment_number), value.clone());
        self.directory.push(NewRow::new(keys::directory(self.generation, self.segment_number), value));
        self.entries.clear();
        self.segment_number += 1;
    }

    fn end_fixity(&mut self) -> ObjectsResult<()> {
        let encoded = stored::encode(&self.fixity).map_err(|error| ObjectsError::Internal(error.to_string()))?;
        let value = envelope::seal(ValueKind::Fixity, &encoded);
        self.row(keys::fixity(self.generation, self.fixity_number), value);
        self.fixity.clear();
        self.fixity_number += 1;
        Ok(())
    }

    fn row(&mut self, sort: Bytes, value: Bytes) {
        self.rows_bytes += sort.len() + value.len();
        self.rows.push(NewRow::new(sort, value));
    }
}

/// Refuses texts that would make a fixity segment too large for a value.
fn check_text(seq: u32, fixity: &PageFixity) -> ObjectsResult<()> {
    // Each has one more byte for its length.
    let features: usize = fixity.features.iter().map(|feature| feature.len() + 1).sum();
    let label = fixity.label.as_ref().map_or(0, String::len);
    let text_bytes = fixity.file_name.len() + label + features;
    if text_bytes <= FIXITY_TEXT_BYTES_MAX {
        return Ok(());
    }
    Err(ObjectsError::OverLimit(format!(
        "file name, label and features of page {seq} have {text_bytes} bytes together, at most {FIXITY_TEXT_BYTES_MAX} are kept"
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use store::{Limits, Table};

    use super::*;
    use crate::generations::{directory_bytes_max, part_bytes_max};

    fn frame_of(bytes: Vec<u8>) -> Frame {
        Frame { size: 1, crc32: crc32fast::hash(&bytes), bytes: bytes.into() }
    }

    fn fixity(text: &str) -> PageFixity {
        PageFixity {
            file_name: text.to_owned(),
            label: None,
            features: Vec::new(),
            md5: [1; 16],
            sha256: [2; 32],
            gzip_sha256: [3; 32],
        }
    }

    /// Packs frames of these lengths. Returns their entries and the payloads of the packs.
    fn pack_all(lens: &[usize]) -> (Vec<Entry>, BTreeMap<u32, Bytes>) {
        let generation = RevisionId([7; 16]);
        let mut packer = Packer::new(generation);
        let frames = lens.iter().enumerate().map(|(n, len)| frame_of(vec![n as u8; *len]));
        let entries = frames.map(|frame| packer.member(0, &frame).unwrap()).collect();
        packer.finish().unwrap();
        let rows = packer.take_rows(4 << 20).into_iter().flatten();
        let number = |row: &NewRow| keys::number_of(&row.sort).and_then(keys::pack_of).unwrap();
        let packs = rows.map(|row| (number(&row), envelope::open(ValueKind::Pack, &row.value).unwrap())).collect();
        (entries, packs)
    }

    fn read_back(entry: &Entry, packs: &BTreeMap<u32, Bytes>) -> Vec<u8> {
        let mut frame = Vec::new();
        let mut offset = entry.place.offset as usize;
        for number in entry.place.pack.. {
            let missing = entry.member.frame_len as usize - frame.len();
            if missing == 0 {
                break;
            }
            let rest = &packs[&number][offset..];
            frame.extend_from_slice(&rest[..rest.len().min(missing)]);
            offset = 0;
        }
        frame
    }

    proptest! {
        #[test]
        fn every_frame_reads_back_from_where_its_entry_says(
            lens in proptest::collection::vec(prop_oneof![0..3_000usize, 0..PACK_BYTES * 3, Just(PACK_BYTES)], 0..40),
        ) {
            let (entries, packs) = pack_all(&lens);
            prop_assert!(packs.values().all(|pack| pack.len() <= PACK_BYTES));
            for (n, (entry, len)) in entries.iter().zip(&lens).enumerate() {
                prop_assert_eq!(read_back(entry, &packs), vec![n as u8; *len]);
                prop_assert!(*len <= PACK_BYTES || entry.place.offset == 0, "a frame that runs on begins a pack");
            }
        }
    }

    #[test]
    fn a_frame_that_does_not_fit_begins_a_new_pack() {
        let (entries, packs) = pack_all(&[PACK_BYTES - 10, 11, PACK_BYTES - 11]);
        let places: Vec<_> = entries.iter().map(|entry| (entry.place.pack, entry.place.offset)).collect();
        assert_eq!(places, [(0, 0), (1, 0), (1, 11)]);
        assert_eq!(packs.len(), 2);
    }

    #[test]
    fn a_full_fixity_segment_of_the_longest_texts_fits_a_value() {
        let mut packer = Packer::new(RevisionId([7; 16]));
        let texts = PageFixity {
            features: vec!["x".to_owned(); (FIXITY_TEXT_BYTES_MAX - 200) / 2],
            ..fixity(&"n".repeat(200))
        };
        for seq in 1..=FIXITY_SEGMENT_PAGES {
            packer.page(seq, &frame_of(Vec::new()), texts.clone()).unwrap();
        }
        let rows: Vec<_> = packer.take_rows(1 << 20).into_iter().flatten().collect();
        assert_eq!(rows.len(), 1);
        assert!(rows[0].value.len() <= Limits::default().value_bytes, "{} bytes", rows[0].value.len());
    }

    #[test]
    fn no_partition_of_a_generation_gets_larger_than_its_rule_says() {
        let mut packer = Packer::new(RevisionId([7; 16]));
        let longest = fixity(&"n".repeat(FIXITY_TEXT_BYTES_MAX - 10));
        for seq in 1..=20_000 {
            packer.page(seq, &frame_of(vec![1; 10]), longest.clone()).unwrap();
        }
        packer.member(0, &frame_of(vec![1; 1_100 * PACK_BYTES])).unwrap();
        packer.finish().unwrap();
        let mut partitions: BTreeMap<(Table, Bytes), u64> = BTreeMap::new();
        for row in packer.take_rows(4 << 20).into_iter().flatten() {
            let place = (keys::table_of(&row.sort), keys::partition_of(&Bytes::from_static(b"v/t.a"), &row.sort));
            *partitions.entry(place).or_default() += (row.sort.len() + row.value.len()) as u64;
        }
        for ((table, partition), bytes) in &partitions {
            let largest = if *table == Table::Packs { part_bytes_max() } else { directory_bytes_max() };
            assert!(*bytes <= largest, "{bytes} bytes in {table} {}", partition.escape_ascii());
        }
        assert_eq!(partitions.len(), 4, "the directory, and three parts");
    }

    #[test]
    fn the_directory_comes_after_all_else() {
        let mut packer = Packer::new(RevisionId([7; 16]));
        for seq in 1..=2 * SEGMENT_PAGES + 1 {
            packer.page(seq, &frame_of(vec![1; 300]), fixity("n")).unwrap();
        }
        packer.member(0, &frame_of(vec![1; PACK_BYTES])).unwrap();
        packer.finish().unwrap();
        let rows: Vec<_> = packer.take_rows(4 << 20).into_iter().flatten().collect();
        let tables: Vec<_> = rows.iter().map(|row| keys::table_of(&row.sort)).collect();
        let packs = tables.iter().take_while(|table| **table == Table::Packs).count();
        assert_eq!(tables[packs..], [Table::Objects; 3]);
        assert!(packs > 3 + 9 + 3, "copies of the directory, fixity, packs: {packs}");
    }

    #[test]
    fn a_page_with_too_long_a_name_is_refused_by_its_sequence() {
        let mut packer = Packer::new(RevisionId([7; 16]));
        let long = fixity(&"n".repeat(FIXITY_TEXT_BYTES_MAX + 1));
        let error = packer.page(17, &frame_of(Vec::new()), long).unwrap_err();
        assert!(matches!(&error, ObjectsError::OverLimit(text) if text.contains("page 17")), "{error}");
    }

    #[test]
    fn rows_are_taken_in_portions_that_fit_a_step() {
        let mut packer = Packer::new(RevisionId([7; 16]));
        packer.member(0, &frame_of(vec![1; PACK_BYTES * 10])).unwrap();
        packer.finish().unwrap();
        let portions = packer.take_rows(PACK_BYTES * 3);
        let bytes = |rows: &Vec<NewRow>| rows.iter().map(|row| row.sort.len() + row.value.len()).sum::<usize>();
        assert!(portions.iter().all(|rows| bytes(rows) <= PACK_BYTES * 3 && !rows.is_empty()));
        assert_eq!(portions.iter().map(Vec::len).sum::<usize>(), 10);
    }
}
