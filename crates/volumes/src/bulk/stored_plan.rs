//! The stored form of the plans of selections, which is cut into chunks. A volume is named once for
//! all its missing pages, and the text of `ERROR.err` is made of that: a plan takes no more than the
//! list that was requested.

use bytes::Bytes;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use pack::{Group, GroupPages, Layout, Level, Member, PageMember, Sums};
use serde::{Deserialize, Serialize};
use store::{Table, ValueKind, envelope};

use super::errors::{Missing, MissingPart, MissingReason, by_volume};
use super::plan::Made;
use super::planned::{BulkPlan, PlannedVolume};

/// Seals a chunk of a plan.
pub(super) fn seal_chunk(chunk: &[u8]) -> Bytes {
    envelope::seal(ValueKind::PlanChunk, chunk)
}

/// Opens a chunk of a plan.
pub(super) fn open_chunk(value: &Bytes) -> ObjectsResult<Bytes> {
    envelope::open(ValueKind::PlanChunk, value).map_err(|error| corrupt(&error))
}

/// Encodes a plan for storage.
pub(super) fn encode(plan: &BulkPlan) -> ObjectsResult<Vec<u8>> {
    let archive = &plan.archive;
    // Encoded values that follow each other are the encoded struct of them.
    let mut encoded = put(Vec::new(), &(archive.layout, archive.level, archive.groups.len()))?;
    for group in &archive.groups {
        encoded = put(encoded, &StoredGroup::from(group))?;
    }
    encoded = put(encoded, &plan.volumes[..])?;
    encoded = put(encoded, &by_volume(&plan.missing).count())?;
    for some in by_volume(&plan.missing) {
        encoded = put(encoded, &OfVolume::from(some))?;
    }
    Ok(encoded)
}

/// Decodes a stored plan: what its contents are made of, and what is missing.
pub(super) fn decode(encoded: &[u8]) -> ObjectsResult<(Made, Vec<Missing>)> {
    let StoredPlan { layout, level, groups, volumes, missing } =
        store::stored::decode(encoded).map_err(|error| corrupt(&error))?;
    let groups = groups.into_iter().map(Group::from).collect();
    Ok((Made { layout, level, groups, volumes }, missing.into_iter().flat_map(OfVolume::each).collect()))
}

/// A plan. The text of `ERROR.err` is that of `missing`.
#[derive(Deserialize)]
struct StoredPlan {
    layout: Layout,
    level: Level,
    groups: Vec<StoredGroup>,
    volumes: Vec<PlannedVolume>,
    missing: Vec<OfVolume>,
}

/// What is missing of one volume, in order.
#[derive(Serialize, Deserialize)]
struct OfVolume {
    volume: VolumeId,
    parts: Vec<(MissingPart, MissingReason)>,
}

impl From<&[Missing]> for OfVolume {
    /// Of missing things of one volume, at least one.
    fn from(some: &[Missing]) -> Self {
        let parts = some.iter().map(|missing| (missing.part, missing.reason)).collect();
        Self { volume: some[0].volume.clone(), parts }
    }
}

impl OfVolume {
    fn each(self) -> impl Iterator<Item = Missing> {
        let Self { volume, parts } = self;
        parts.into_iter().map(move |(part, reason)| Missing { volume: volume.clone(), part, reason })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredGroup {
    name: Box<str>,
    pages: StoredPages,
    mets: Option<Member>,
}

#[derive(Serialize, Deserialize)]
enum StoredPages {
    All { sums: Sums, crc32: u32 },
    Some(Box<[PageMember]>),
}

/// Appends an encoded value.
fn put<T: Serialize + ?Sized>(encoded: Vec<u8>, value: &T) -> ObjectsResult<Vec<u8>> {
    postcard::to_extend(value, encoded).map_err(|error| ObjectsError::Internal(format!("encoding a plan: {error}")))
}

fn corrupt(detail: &dyn std::fmt::Display) -> ObjectsError {
    ObjectsError::corrupt(Table::Selections, &detail.to_string())
}

/// Reads the volumes that a stored plan names while its bytes arrive. Holds no more of them than
/// one volume takes.
#[derive(Default)]
pub(super) struct StoredVolumes {
    /// Bytes that have arrived and are not read yet.
    ahead: Vec<u8>,
    /// Groups that are still to be read; `None` if their number is unknown yet.
    left: Option<u64>,
}

impl StoredVolumes {
    /// Accepts more bytes and returns the volumes that are complete by now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> ObjectsResult<Vec<VolumeId>> {
        self.ahead.extend_from_slice(bytes);
        let mut volumes = Vec::new();
        let mut rest = &self.ahead[..];
        if self.left.is_none() {
            // The fields before the groups, and the number of groups.
            self.left = next::<(Layout, Level, u64)>(&mut rest)?.map(|(_, _, groups)| groups);
        }
        while let Some(left @ 1..) = self.left
            && let Some(group) = next::<StoredGroup>(&mut rest)?
        {
            self.left = Some(left - 1);
            volumes.extend(VolumeId::from_cleaned(&group.name).ok());
        }
        let read = self.ahead.len() - rest.len();
        self.ahead.drain(..read);
        Ok(volumes)
    }

    /// Whether all groups were read.
    pub(super) fn are_all_read(&self) -> bool {
        self.left == Some(0)
    }
}

/// Decodes the next value; `None` if it is incomplete.
fn next<T: serde::de::DeserializeOwned>(bytes: &mut &[u8]) -> ObjectsResult<Option<T>> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, rest)) => {
            *bytes = rest;
            Ok(Some(value))
        }
        Err(postcard::Error::DeserializeUnexpectedEnd) => Ok(None),
        Err(error) => Err(corrupt(&error)),
    }
}

impl From<StoredGroup> for Group {
    fn from(stored: StoredGroup) -> Self {
        let pages = match stored.pages {
            StoredPages::All { sums, crc32 } => GroupPages::All { sums, crc32 },
            StoredPages::Some(pages) => GroupPages::Some(pages),
        };
        Self { name: stored.name, pages, mets: stored.mets }
    }
}

impl From<&Group> for StoredGroup {
    fn from(group: &Group) -> Self {
        let pages = match &group.pages {
            GroupPages::All { sums, crc32 } => StoredPages::All { sums: *sums, crc32: *crc32 },
            GroupPages::Some(pages) => StoredPages::Some(pages.clone()),
        };
        Self { name: group.name.clone(), pages, mets: group.mets }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use hathi::Seq;
    use heads::revision::RevisionId;
    use heads::volume_body::FramePlace;
    use pack::Archive;
    use store::UnixMillis;

    use super::*;
    use crate::bulk::errors::error_text;
    use crate::bulk::planned::PlannedPage;
    use crate::bulk::request::OnDamage;

    fn id(text: &str) -> VolumeId {
        VolumeId::parse(text).unwrap()
    }

    fn plan(groups: Vec<Group>, volumes: Vec<PlannedVolume>, missing: Vec<Missing>) -> BulkPlan {
        let errors = error_text(&missing);
        let (layout, level) = (Layout::Volumes, Level::Frames);
        BulkPlan {
            archive: Arc::new(Archive { layout, level, groups, errors, descriptors: false }),
            volumes: volumes.into(),
            len_bytes: None,
            etag: None,
            missing,
            entries: 0,
            started: UnixMillis(0),
            on_damage: OnDamage::Break,
            memory: None,
        }
    }

    fn group(name: &str, pages: GroupPages) -> Group {
        Group { name: id(name).cleaned().as_str().into(), pages, mets: None }
    }

    /// A plan of a whole volume and of a page of another, that lacks three things.
    fn small() -> BulkPlan {
        let member = Member { size: 1, frame_len: 2, crc32: 3 };
        let sums = Sums { count: 1, bytes: 2, frame_bytes: 3, stored_bytes: 4 };
        let groups = vec![
            group("t.a", GroupPages::All { sums, crc32: 5 }),
            group("t.b", GroupPages::Some([PageMember { seq: 6, member }].into())),
        ];
        let place = FramePlace { pack: 7, offset: 8 };
        let volume = |byte, pages: Vec<PlannedPage>| {
            let revision = RevisionId([byte; 16]);
            PlannedVolume { revision, generation: revision, mets: place, pages: pages.into() }
        };
        let volumes = vec![volume(1, vec![]), volume(2, vec![PlannedPage { index: 9, place }])];
        let page = |seq| Missing::page(id("t.c"), Seq::new(seq).unwrap(), MissingReason::Absent);
        let not_kept = Missing::volume(id("t.d"), MissingReason::NotKept);
        plan(groups, volumes, vec![page(300), page(1), not_kept])
    }

    #[test]
    fn the_stored_bytes_do_not_change_and_are_read_back() {
        let (plan, groups) = (small(), "01000203742e610001020304050003742e6201010601020300");
        let volumes = "02\
            0101010101010101010101010101010101010101010101010101010101010101070800\
            0202020202020202020202020202020202020202020202020202020202020202070801090708";
        let missing = "0203742e630201ac020001010003742e64010003";
        let encoded = encode(&plan).unwrap();
        assert_eq!(hex::encode(&encoded), format!("{groups}{volumes}{missing}"));
        let (made, missing) = decode(&encoded).unwrap();
        assert_eq!((made.layout, made.level), (plan.archive.layout, plan.archive.level));
        assert_eq!((&made.groups, &made.volumes[..]), (&plan.archive.groups, &plan.volumes[..]));
        assert_eq!(error_text(&missing), plan.archive.errors);
        assert_eq!(missing, plan.missing);
        for len in 0..encoded.len() {
            assert!(decode(&encoded[..len]).is_err(), "it is read from {len} bytes");
        }
    }

    #[test]
    fn a_chunk_of_another_version_is_refused() {
        assert_eq!(open_chunk(&seal_chunk(b"chunk")).unwrap(), Bytes::from_static(b"chunk"));
        assert!(open_chunk(&envelope::seal_version(ValueKind::PlanChunk, 2, b"chunk")).unwrap_err().is_damage());
    }

    #[test]
    fn missing_pages_of_a_long_id_take_a_few_bytes_each() {
        let long = id(&format!("x.{}", "y".repeat(998)));
        let page = |seq| Missing::page(long.clone(), Seq::new(seq).unwrap(), MissingReason::Absent);
        let plan = plan(vec![], vec![], (1..=10_000).map(page).collect());
        assert!(encode(&plan).unwrap().len() < 1_100 + 10_000 * 5);
    }

    #[test]
    fn volumes_are_read_from_a_stored_plan_in_pieces_of_any_size() {
        let names: Vec<String> = (0..50).map(|n| format!("t.volume{n}")).collect();
        let pages = GroupPages::All { sums: Sums::default(), crc32: 7 };
        let groups = names.iter().map(|name| group(name, pages.clone())).collect();
        let plan = plan(groups, vec![], vec![Missing::volume(id("t.absent"), MissingReason::Absent)]);
        let encoded = encode(&plan).unwrap();
        for piece_bytes in [1, 7, 64, encoded.len()] {
            let (mut volumes, mut read) = (StoredVolumes::default(), Vec::new());
            for piece in encoded.chunks(piece_bytes) {
                read.extend(volumes.take(piece).unwrap());
            }
            assert!(volumes.are_all_read());
            assert_eq!(read.iter().map(VolumeId::as_str).collect::<Vec<_>>(), names, "pieces of {piece_bytes}");
        }
    }
}
