//! Reads the rows that heads name. A row that is missing or fails its checksum is read again,
//! strongly, before it counts as damaged. A time-out is never damage.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{HeadRow, ObjectState};
use heads::keys;
use heads::revision::RevisionId;
use heads::volume_body::Entry;
use heads::volume_body::VolumeBody;
use store::{Class, Row, Scan, StoreError, Strength, Table, ValueKind, boxed, envelope};

use crate::directory::{self, FIXITY_SEGMENT_PAGES, PageFixity, SEGMENT_PAGES};
use crate::handle::Volumes;

/// Bytes of one page of a scan over directories and packs.
const SCAN_BYTES: usize = 4 << 20;

/// A volume at one revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Its id.
    pub id: VolumeId,
    /// The revision that was current when it was read.
    pub revision: RevisionId,
    /// The contents of its head.
    pub body: VolumeBody,
}

/// The extent of a volume's generation, from its head.
#[derive(Clone, Debug)]
pub(crate) struct VolumeExtent {
    /// The volume.
    pub(crate) id: VolumeId,
    /// The generation.
    pub(crate) generation: RevisionId,
    /// The number of its pages.
    pub(crate) pages: u32,
    /// Bytes of the wanted frames, from the first page on; `None` if only the directory is wanted.
    pub(crate) frame_bytes: Option<u64>,
}

impl VolumeExtent {
    /// The place of the wanted rows: the directory, or its copy with the packs after it. Both are
    /// ranges of one partition, that of the generation's first part, so a usual volume is read with
    /// one range. If a volume has more packs than fit a part, the sender reads the further ones.
    fn scan(&self) -> (Table, Bytes, Scan) {
        let partition = keys::part(&keys::volume_partition(&self.id), self.generation, 0);
        let scan = self.scan_of_part();
        (keys::table_of(&scan.from), partition, scan)
    }

    fn scan_of_part(&self) -> Scan {
        let directory_bytes = directory::rows_bytes_max(self.pages);
        let range = |(from, to): (Bytes, Bytes), max_bytes| Scan { to: Some(to), ..Scan::prefix(from, max_bytes) };
        let segment = |number| keys::directory(self.generation, number);
        match self.frame_bytes {
            None => range((segment(0), segment(self.pages.div_ceil(SEGMENT_PAGES))), directory_bytes),
            Some(frame_bytes) => {
                // Up to the pack with the last of the frames: keys and envelopes count too.
                let packs_bytes = frame_bytes + frame_bytes / 256 + 1_024;
                let packs_bytes = usize::try_from(packs_bytes).unwrap_or(usize::MAX);
                range(keys::directory_and_packs(self.generation), packs_bytes.saturating_add(directory_bytes))
            }
        }
    }

    /// Opens the rows of that range; `None` if something is wrong or missing.
    fn rows(&self, rows: &[Row]) -> Option<VolumeRows> {
        let (mut segment, mut entries) = (0, Vec::with_capacity(self.pages as usize));
        let mut packs = Vec::with_capacity(rows.len());
        for row in rows {
            let number = keys::number_of(&row.sort)?;
            match self.frame_bytes.and_then(|_| keys::pack_of(number)) {
                Some(pack) => packs.push((pack, envelope::open(ValueKind::Pack, &row.value).ok()?)),
                None if number == segment => {
                    entries.extend(directory::decode(&envelope::open(ValueKind::Directory, &row.value).ok()?)?);
                    segment += 1;
                }
                None => return None,
            }
        }
        (entries.len() >= self.pages as usize).then_some(VolumeRows { entries, packs })
    }
}

/// The directory of a volume, and packs with frames of its pages.
#[derive(Debug)]
pub(crate) struct VolumeRows {
    /// All pages, in METS order.
    pub(crate) entries: Vec<Entry>,
    packs: Vec<(u32, Bytes)>,
}

impl VolumeRows {
    /// A directory without packs.
    pub(crate) fn of_directory(entries: Vec<Entry>) -> Self {
        Self { entries, packs: Vec::new() }
    }

    /// The directory without the packs.
    pub(crate) fn directory(&self) -> Self {
        Self::of_directory(self.entries.clone())
    }

    /// The frame of a page; `None` if it is not in these packs.
    pub(crate) fn frame(&self, entry: &Entry) -> Option<Bytes> {
        cut_frame(entry, &self.packs)
    }
}

impl Volumes {
    /// Directories and packs of many volumes, in one call of the store; `None` if something is
    /// wrong. The volume then has to be read by itself to find out what.
    pub(crate) async fn volume_rows(&self, volumes: &[VolumeExtent]) -> ObjectsResult<Vec<Option<VolumeRows>>> {
        let scans = volumes.iter().map(VolumeExtent::scan).collect();
        let pages = self.heads.store().scan_many(self.heads.call(Class::Content), scans).await?;
        let rows = volumes.iter().zip(pages).map(|(volume, page)| volume.rows(&page.rows));
        // Collects all rows, because each volume takes its pages off the list, even if they are
        // unusable.
        Ok(rows.collect())
    }

    /// Heads of many volumes, in the given order; `None` if a volume never existed. An unreadable
    /// head is an error of its own and does not affect others.
    #[boxed]
    pub async fn heads(
        &self,
        ids: &[VolumeId],
        strength: Strength,
    ) -> ObjectsResult<Vec<ObjectsResult<Option<HeadRow>>>> {
        let partitions: Vec<_> = ids.iter().map(keys::volume_partition).collect();
        let heads = self.heads.heads_at(&partitions, strength).await?;
        Ok(ids.iter().zip(heads).map(|(id, head)| head.map_err(|error| error.of_volume(id))).collect())
    }

    /// The head of one volume, read strongly. An unreadable head is [`ObjectsError::Damaged`].
    #[boxed]
    pub async fn head(&self, id: &VolumeId) -> ObjectsResult<Option<HeadRow>> {
        self.heads.head_at(&keys::volume_partition(id)).await.map_err(|error| error.of_volume(id))
    }

    /// A live volume.
    #[boxed]
    pub async fn volume(&self, id: &VolumeId) -> ObjectsResult<Volume> {
        let row = self.head(id).await?.ok_or_else(|| ObjectsError::Absent(id.to_string()))?;
        match (row.head.live_volume(), row.head.state) {
            (Some(body), _) => Ok(Volume { id: id.clone(), revision: row.head.revision, body: body.clone() }),
            (None, ObjectState::Deleted | ObjectState::Deleting) => Err(ObjectsError::Gone(id.to_string())),
            (None, _) => Err(ObjectsError::Absent(id.to_string())),
        }
    }

    /// Directory entries of some pages, by index in METS order.
    #[boxed]
    pub async fn entries(&self, id: &VolumeId, generation: RevisionId, pages: Range<u32>) -> ObjectsResult<Vec<Entry>> {
        if pages.is_empty() {
            return Ok(Vec::new());
        }
        let first = pages.start / SEGMENT_PAGES;
        let segments = first..pages.end.div_ceil(SEGMENT_PAGES);
        let key = |segment| keys::directory(generation, segment);
        let decode = |_, row: &Row| {
            directory::decode(&opened(ValueKind::Directory, row)?).ok_or("a torn directory segment".to_owned())
        };
        let decoded = self.numbered_rows(Class::Description, id, segments, u32::MAX, key, decode).await?;
        let all: Vec<Entry> = decoded.into_iter().flatten().collect();
        let skip = (pages.start - first * SEGMENT_PAGES) as usize;
        let wanted = all.get(skip..skip + pages.len()).ok_or_else(|| ObjectsError::Damaged {
            volume: id.clone(),
            member: Some(pages.start),
            detail: "the directory is shorter than its head says".to_owned(),
        })?;
        Ok(wanted.to_vec())
    }

    /// The stored facts of some pages besides their texts, by index in METS order.
    #[boxed]
    pub async fn fixity(
        &self,
        id: &VolumeId,
        generation: RevisionId,
        pages: Range<u32>,
    ) -> ObjectsResult<Vec<PageFixity>> {
        if pages.is_empty() {
            return Ok(Vec::new());
        }
        let first = pages.start / FIXITY_SEGMENT_PAGES;
        let segments = first..pages.end.div_ceil(FIXITY_SEGMENT_PAGES);
        let key = |segment| keys::fixity(generation, segment);
        let decode = |segment: u32, row: &Row| {
            let begins = segment * FIXITY_SEGMENT_PAGES;
            let wanted = pages.start.saturating_sub(begins)..pages.end - begins;
            directory::decode_fixity(&opened(ValueKind::Fixity, row)?, wanted).map_err(|error| error.to_string())
        };
        let per_part = keys::PART_FIXITY_SEGMENTS;
        let decoded = self.numbered_rows(Class::Description, id, segments, per_part, key, decode).await?;
        Ok(decoded.into_iter().flatten().collect())
    }

    /// The frames of some members, in the given order: slices of packs if a frame lies within one
    /// pack.
    #[boxed]
    pub async fn frames(&self, id: &VolumeId, generation: RevisionId, entries: &[Entry]) -> ObjectsResult<Vec<Bytes>> {
        let packs = self.packs(id, generation, entries).await?;
        let frame = |entry: &Entry| {
            cut_frame(entry, &packs).ok_or_else(|| ObjectsError::Damaged {
                volume: id.clone(),
                member: None,
                detail: "its packs do not hold its frame".to_owned(),
            })
        };
        entries.iter().map(frame).collect()
    }

    /// The payloads of all packs that hold frames of `entries`, with their numbers, ascending.
    async fn packs(
        &self,
        id: &VolumeId,
        generation: RevisionId,
        entries: &[Entry],
    ) -> ObjectsResult<Vec<(u32, Bytes)>> {
        let mut packs: Vec<(u32, Bytes)> = Vec::new();
        let holding = entries.iter().filter(|entry| entry.member.frame_len > 0);
        let mut numbers: Vec<u32> = holding.flat_map(packs_of).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let key = |number| keys::pack(generation, number);
        for run in numbers.chunk_by(|a, b| a + 1 == *b) {
            let range = run[0]..run[run.len() - 1] + 1;
            let (per_part, decode) = (keys::PART_PACKS, |_, row: &Row| opened(ValueKind::Pack, row));
            let payloads = self.numbered_rows(Class::Content, id, range.clone(), per_part, key, decode).await?;
            packs.extend(range.zip(payloads));
        }
        Ok(packs)
    }

    /// The rows `numbers` of one kind, each decoded by its number. A part of the
    /// generation has `per_part` of them. All must be present.
    async fn numbered_rows<T>(
        &self,
        class: Class,
        id: &VolumeId,
        numbers: Range<u32>,
        per_part: u32,
        key: impl Fn(u32) -> Bytes,
        decode: impl Fn(u32, &Row) -> Result<T, String>,
    ) -> ObjectsResult<Vec<T>> {
        let mut decoded = Vec::with_capacity(numbers.len());
        let mut rest = numbers;
        while !rest.is_empty() {
            let next_part = (rest.start / per_part).saturating_add(1).saturating_mul(per_part);
            let of_part = rest.start..rest.end.min(next_part);
            rest.start = of_part.end;
            decoded.extend(self.numbered_rows_of_part(class, id, of_part, &key, &decode).await?);
        }
        Ok(decoded)
    }

    /// The same for one part.
    async fn numbered_rows_of_part<T>(
        &self,
        class: Class,
        id: &VolumeId,
        numbers: Range<u32>,
        key: impl Fn(u32) -> Bytes,
        decode: impl Fn(u32, &Row) -> Result<T, String>,
    ) -> ObjectsResult<Vec<T>> {
        let partition = keys::partition_of(&keys::volume_partition(id), &key(numbers.start));
        let mut decoded = Vec::with_capacity(numbers.len());
        let mut rows = match self.consecutive(class, &partition, &numbers, &key).await {
            Ok(rows) => rows.into_iter().peekable(),
            Err(error) if error.is_damage() => Vec::new().into_iter().peekable(),
            Err(error) => return Err(error),
        };
        for number in numbers {
            let sort = key(number);
            let decode_row = |row: &Row| decode(number, row);
            let found = rows.next_if(|row| row.sort == sort);
            match found.as_ref().map(&decode_row) {
                Some(Ok(value)) => decoded.push(value),
                _ => decoded.push(self.read_again(class, id, &partition, &sort, &decode_row).await?),
            }
        }
        Ok(decoded)
    }

    /// Rows of consecutive numbers: one get, or one scan.
    async fn consecutive(
        &self,
        class: Class,
        partition: &Bytes,
        numbers: &Range<u32>,
        key: impl Fn(u32) -> Bytes,
    ) -> ObjectsResult<Vec<Row>> {
        let call = self.heads.call(class);
        let first = key(numbers.start);
        let table = keys::table_of(&first);
        if numbers.len() == 1 {
            return Ok(self.heads.store().get(call, table, partition, &first).await?.into_iter().collect());
        }
        let mut rows = Vec::with_capacity(numbers.len());
        let mut scan = Some(Scan { to: Some(key(numbers.end)), ..Scan::prefix(first, SCAN_BYTES) });
        while let Some(range) = scan {
            let page = self.heads.store().scan(self.heads.call(class), table, partition, range.clone()).await?;
            rows.extend(page.rows);
            scan = range.resumed(page.next);
        }
        Ok(rows)
    }

    /// Reads one row again, strongly. If it is still wrong, it is damaged. Away from the heads' home
    /// even a strong read may miss a row that has not arrived yet, so there a missing row is never
    /// damage: servers at home find that.
    async fn read_again<T>(
        &self,
        class: Class,
        id: &VolumeId,
        partition: &Bytes,
        sort: &Bytes,
        decode: impl Fn(&Row) -> Result<T, String>,
    ) -> ObjectsResult<T> {
        let damaged = |detail: String| ObjectsError::Damaged { volume: id.clone(), member: None, detail };
        match self.heads.store().get(self.heads.call(class).strong(), keys::table_of(sort), partition, sort).await {
            Ok(Some(row)) => decode(&row).map_err(damaged),
            Ok(None) if !self.heads.is_home() => {
                let why =
                    format!("a row of {id} is missing here: it may not have arrived from another data center yet");
                Err(StoreError::Unavailable(why).into())
            }
            Ok(None) => Err(damaged("a row that the head names is missing".to_owned())),
            Err(error @ StoreError::Corrupt { .. }) => Err(damaged(error.to_string())),
            Err(error) => Err(error.into()),
        }
    }
}

/// The payload of a row.
fn opened(kind: ValueKind, row: &Row) -> Result<Bytes, String> {
    envelope::open(kind, &row.value).map_err(|error| error.to_string())
}

/// The packs that a frame spans, if a pack has at most [`PACK_BYTES`].
fn packs_of(entry: &Entry) -> Range<u32> {
    let end = u64::from(entry.place.offset) + u64::from(entry.member.frame_len);
    let packs = u32::try_from(end.div_ceil(PACK_BYTES as u64)).unwrap_or(u32::MAX);
    entry.place.pack..entry.place.pack.saturating_add(packs.max(1))
}

/// Bytes of a full pack: a frame that continues fills each pack except its last to exactly this.
pub const PACK_BYTES: usize = 60 << 10;

/// Cuts a frame out of its packs; `None` if they do not contain it.
fn cut_frame(entry: &Entry, packs: &[(u32, Bytes)]) -> Option<Bytes> {
    let frame_len = entry.member.frame_len as usize;
    if frame_len == 0 {
        return Some(Bytes::new());
    }
    let mut at = packs.binary_search_by_key(&entry.place.pack, |(number, _)| *number).ok()?;
    let offset = entry.place.offset as usize;
    let first = packs[at].1.get(offset..)?;
    if first.len() >= frame_len {
        return Some(packs[at].1.slice(offset..offset + frame_len));
    }
    let mut frame = BytesMut::with_capacity(frame_len);
    frame.extend_from_slice(first);
    while frame.len() < frame_len {
        let (before, _) = packs[at];
        at += 1;
        let (_, payload) = packs.get(at).filter(|(number, _)| *number == before + 1)?;
        let rest = payload.get(..payload.len().min(frame_len - frame.len())).filter(|rest| !rest.is_empty());
        frame.extend_from_slice(rest?);
    }
    Some(frame.freeze())
}
