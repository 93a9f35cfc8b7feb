//! The stored forms of the plans of selections.
//!
//! The chunks of a plan have the version of its form. Version 1 names the volume of each missing
//! page and has the text of `ERROR.err`, which names it again. Version 2 names it once for all its
//! missing pages, and the text is made of that: it takes no more than the list that was requested.
//! Both begin with the same fields.

use bytes::Bytes;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use pack::{Group, GroupPages, Layout, Level, Member, PageMember, Sums};
use serde::{Deserialize, Serialize};
use store::{FormatLevel, StoreError, Table, ValueKind, envelope};

use super::errors::{Missing, MissingPart, MissingReason, by_volume, error_bytes};
use super::plan::Made;
use super::planned::{BulkPlan, PlannedVolume};

/// Bytes of a missing thing of version 1, besides the id of its volume and its line of the text.
const FLAT_BYTES: usize = 9;

/// A form of stored plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlanForm {
    /// Version 1.
    Flat,
    /// Version 2, from [`FormatLevel::GROUPED_PLANS`] on.
    Grouped,
}

impl PlanForm {
    /// The form that a store at `level` may hold.
    pub(super) fn at(level: FormatLevel) -> Self {
        if level >= FormatLevel::GROUPED_PLANS { Self::Grouped } else { Self::Flat }
    }

    /// Seals a chunk of a plan of this form.
    pub(super) fn seal(self, chunk: &[u8]) -> Bytes {
        let version = match self {
            Self::Flat => 1,
            Self::Grouped => 2,
        };
        envelope::seal_version(ValueKind::PlanChunk, version, chunk)
    }

    /// Opens a chunk of a plan of any form.
    pub(super) fn open(value: &Bytes) -> ObjectsResult<(Self, Bytes)> {
        let opened = envelope::open_version(ValueKind::PlanChunk, value).map_err(|error| corrupt(&error))?;
        match opened.version {
            1 => Ok((Self::Flat, opened.payload)),
            2 => Ok((Self::Grouped, opened.payload)),
            version => Err(corrupt(&format!("version {version} of a chunk of a plan is not known"))),
        }
    }

    /// Refuses a plan that would take more than `bytes_max` in this form. What is missing is
    /// counted: only of that a short request makes much.
    pub(super) fn check(self, plan: &BulkPlan, bytes_max: u64) -> ObjectsResult<()> {
        let bytes = match self {
            Self::Grouped => 0,
            Self::Flat => {
                let ids: usize = plan.missing.iter().map(|missing| missing.volume.as_str().len() + FLAT_BYTES).sum();
                (ids + error_bytes(&plan.missing)) as u64
            }
        };
        if bytes > bytes_max {
            let what = "bytes of what is missing of a selection (before level 7)";
            return Err(StoreError::Limit { what, actual: bytes, max: bytes_max }.into());
        }
        Ok(())
    }

    /// Encodes a plan for storage.
    pub(super) fn encode(self, plan: &BulkPlan) -> ObjectsResult<Vec<u8>> {
        let archive = &plan.archive;
        // Encoded values that follow each other are the encoded struct of them.
        let mut encoded = put(Vec::new(), &(archive.layout, archive.level, archive.groups.len()))?;
        for group in &archive.groups {
            encoded = put(encoded, &StoredGroup::from(group))?;
        }
        encoded = put(encoded, &plan.volumes[..])?;
        match self {
            Self::Flat => {
                encoded = put(encoded, &plan.missing.len())?;
                for missing in &plan.missing {
                    encoded = put(encoded, &flat(missing))?;
                }
                put(encoded, &archive.errors)
            }
            Self::Grouped => {
                encoded = put(encoded, &by_volume(&plan.missing).count())?;
                for some in by_volume(&plan.missing) {
                    encoded = put(encoded, &OfVolume::from(some))?;
                }
                Ok(encoded)
            }
        }
    }

    /// Decodes a stored plan: what its contents are made of, and what is missing.
    pub(super) fn decode(self, encoded: &[u8]) -> ObjectsResult<(Made, Vec<Missing>)> {
        let (layout, level, groups, volumes, missing, errors) = match self {
            Self::Flat => {
                let Flat { layout, level, groups, volumes, mut missing, errors } = decoded(encoded)?;
                share_ids(&mut missing);
                (layout, level, groups, volumes, missing, errors)
            }
            Self::Grouped => {
                let Grouped { layout, level, groups, volumes, missing } = decoded(encoded)?;
                (layout, level, groups, volumes, missing.into_iter().flat_map(OfVolume::each).collect(), None)
            }
        };
        let groups = groups.into_iter().map(Group::from).collect();
        Ok((Made { layout, level, groups, volumes, errors }, missing))
    }
}

/// A plan of version 1. It has everything that determines the bytes of the archive, including the
/// exact text of `ERROR.err`.
#[derive(Deserialize)]
struct Flat {
    layout: Layout,
    level: Level,
    groups: Vec<StoredGroup>,
    volumes: Vec<PlannedVolume>,
    missing: Vec<Missing>,
    errors: Option<Bytes>,
}

/// A plan of version 2. The text of `ERROR.err` is that of `missing`.
#[derive(Deserialize)]
struct Grouped {
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

fn decoded<T: serde::de::DeserializeOwned>(encoded: &[u8]) -> ObjectsResult<T> {
    store::stored::decode(encoded).map_err(|error| corrupt(&error))
}

fn corrupt(detail: &dyn std::fmt::Display) -> ObjectsError {
    ObjectsError::corrupt(Table::Selections, &detail.to_string())
}

/// Lets missing things of one volume that follow each other share its id, as they do in a plan that
/// was just made.
fn share_ids(missing: &mut [Missing]) {
    for at in 1..missing.len() {
        if missing[at].volume == missing[at - 1].volume {
            missing[at].volume = missing[at - 1].volume.clone();
        }
    }
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

/// What is missing, with a reason that every version of Penates can read. The text has the exact
/// one.
fn flat(missing: &Missing) -> Missing {
    let reason = match missing.reason {
        MissingReason::NotKept => MissingReason::Absent,
        reason @ (MissingReason::Absent | MissingReason::Damaged | MissingReason::Unavailable) => reason,
    };
    Missing { reason, ..missing.clone() }
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

    /// The bytes of `small` in both forms: layout, level and groups, then volumes.
    const GROUPS: &str = "01000203742e610001020304050003742e6201010601020300";
    const VOLUMES: &str = "02\
        0101010101010101010101010101010101010101010101010101010101010101070800\
        0202020202020202020202020202020202020202020202020202020202020202070801090708";

    #[test]
    fn the_bytes_of_both_forms_never_change() {
        let plan = small();
        let text = plan.archive.errors.clone().unwrap();
        let text_len = [0x80 | (text.len() & 0x7f) as u8, (text.len() >> 7) as u8];
        let missing = "0303742e6301ac020003742e6301010003742e640000";
        let flat = format!("{GROUPS}{VOLUMES}{missing}01{}{}", hex::encode(text_len), hex::encode(&text));
        assert_eq!(hex::encode(PlanForm::Flat.encode(&plan).unwrap()), flat);
        let missing = "0203742e630201ac020001010003742e64010003";
        assert_eq!(hex::encode(PlanForm::Grouped.encode(&plan).unwrap()), format!("{GROUPS}{VOLUMES}{missing}"));
    }

    #[test]
    fn both_forms_read_back() {
        let plan = small();
        for form in [PlanForm::Flat, PlanForm::Grouped] {
            let (made, missing) = form.decode(&form.encode(&plan).unwrap()).unwrap();
            assert_eq!((made.layout, made.level), (plan.archive.layout, plan.archive.level));
            assert_eq!((&made.groups, &made.volumes[..]), (&plan.archive.groups, &plan.volumes[..]));
            assert_eq!(made.errors.or_else(|| error_text(&missing)), plan.archive.errors, "{form:?}");
            assert_eq!(missing.len(), plan.missing.len());
        }
        let (_, missing) = PlanForm::Grouped.decode(&PlanForm::Grouped.encode(&plan).unwrap()).unwrap();
        assert_eq!(missing, plan.missing);
    }

    #[test]
    fn a_chunk_says_of_which_form_its_plan_is() {
        for form in [PlanForm::Flat, PlanForm::Grouped] {
            assert_eq!(PlanForm::open(&form.seal(b"chunk")).unwrap(), (form, Bytes::from_static(b"chunk")));
        }
        assert!(PlanForm::open(&envelope::seal_version(ValueKind::PlanChunk, 3, b"chunk")).unwrap_err().is_damage());
        assert_eq!(PlanForm::at(FormatLevel::NEWEST), PlanForm::Grouped);
        assert_eq!(PlanForm::at(FormatLevel::SCOPES), PlanForm::Flat);
    }

    #[test]
    fn missing_pages_of_a_long_id_take_a_few_bytes_each_or_are_refused() {
        let long = id(&format!("x.{}", "y".repeat(998)));
        let page = |seq| Missing::page(long.clone(), Seq::new(seq).unwrap(), MissingReason::Absent);
        let plan = plan(vec![], vec![], (1..=10_000).map(page).collect());
        assert!(PlanForm::Grouped.encode(&plan).unwrap().len() < 1_100 + 10_000 * 5);
        let flat_bytes = PlanForm::Flat.encode(&plan).unwrap().len() as u64;
        let refused = |form: PlanForm, bytes_max| form.check(&plan, bytes_max).is_err();
        assert!(refused(PlanForm::Flat, flat_bytes - 1) && !refused(PlanForm::Flat, flat_bytes + 100_000));
        assert!(!refused(PlanForm::Grouped, 0));
    }

    #[test]
    fn volumes_are_read_from_a_stored_plan_in_pieces_of_any_size() {
        let names: Vec<String> = (0..50).map(|n| format!("t.volume{n}")).collect();
        let pages = GroupPages::All { sums: Sums::default(), crc32: 7 };
        let groups = names.iter().map(|name| group(name, pages.clone())).collect();
        let plan = plan(groups, vec![], vec![Missing::volume(id("t.absent"), MissingReason::Absent)]);
        for form in [PlanForm::Flat, PlanForm::Grouped] {
            let encoded = form.encode(&plan).unwrap();
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
}
