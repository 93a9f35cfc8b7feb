//! Checks one object: its current version, and the earlier ones that are kept.

use budget::Pace;
use bytes::Bytes;
use hathi::VolumeId;
use heads::{ObjectsError, ObjectsResult, RevisionId, keys};
use jiff::Timestamp;
use library::Library;
use repository::{Part, ResourceError, ResourcePath};
use volumes::VolumePart;

use crate::state::{Finding, Tally};

/// Bytes that an object counts in addition to its own: what it takes to find it.
const OBJECT_BYTES: u64 = 4 << 10;

/// Names the part of an object that consists of its earlier versions.
const EARLIER: &str = "earlier versions";

/// The most parts that a finding names.
const PARTS_MAX: usize = 5;

/// The most bytes of a part: its name, and how damage was noticed.
const PART_BYTES_MAX: usize = 216;

/// Bytes of the lengths of both.
const LENGTHS_BYTES: usize = 4;

const _: () = assert!(PARTS_MAX * (PART_BYTES_MAX + LENGTHS_BYTES) + 20 == library::bounds::FIXITY_FINDING_BYTES);

/// What a check found.
pub(crate) struct Checked {
    pub(crate) tally: Tally,
    /// What is wrong, if something is.
    pub(crate) finding: Option<Finding>,
}

/// Whether a partition is that of an object that can be checked.
pub(crate) fn is_object(partition: &Bytes) -> bool {
    keys::volume_of_partition(partition).is_some() || keys::resource_of_partition(partition).is_some()
}

/// Checks the object of a partition; `None`: there is none any more.
pub(crate) async fn check(library: &Library, partition: &Bytes, pace: &Pace) -> ObjectsResult<Option<Checked>> {
    pace.took(OBJECT_BYTES).await;
    if let Some(id) = keys::volume_of_partition(partition) {
        return volume(library, &id, pace).await;
    }
    match keys::resource_of_partition(partition) {
        Some(path) => resource(library, &path, pace).await,
        None => Ok(None),
    }
}

async fn volume(library: &Library, id: &VolumeId, pace: &Pace) -> ObjectsResult<Option<Checked>> {
    let current = match library.volumes.verify_at(id, pace).await {
        Err(ObjectsError::Absent(_) | ObjectsError::Gone(_)) => None,
        verified => Some(verified?),
    };
    let is_head_damaged = current.as_ref().is_some_and(|current| current.revision == RevisionId::ZERO);
    let name = |part: &VolumePart| if *part == VolumePart::Whole { String::new() } else { part.to_string() };
    let mut found = Found { tally: Tally { volumes: current.is_some().into(), ..Tally::default() }, parts: Vec::new() };
    found.bytes(current.as_ref().map_or(0, |current| current.bytes));
    found.add(current.into_iter().flat_map(|current| current.damaged), |damaged| (name(&damaged.part), damaged.detail));
    if is_head_damaged {
        return Ok(found.checked(library));
    }
    match library.volumes.verify_versions(id, pace).await {
        Ok(earlier) => {
            found.bytes(earlier.bytes);
            found.add(earlier.damaged, |(version, damaged)| (of(version, &name(&damaged.part)), damaged.detail));
        }
        Err(error) if error.is_damage() => found.parts.push((EARLIER.to_owned(), error.to_string())),
        Err(error) => return Err(error),
    }
    Ok(found.checked(library))
}

async fn resource(library: &Library, path: &ResourcePath, pace: &Pace) -> ObjectsResult<Option<Checked>> {
    let current = verified_resource(library, path, pace).await?;
    if let Some(above) = current.as_ref().and_then(|current| current.unreachable_below.as_ref()) {
        // That container is an object with a finding of its own.
        let why = format!("the head of /{above}, which is above it, is damaged");
        return Ok(Some(Checked::failed(library, why)));
    }
    let is_head_damaged = current.as_ref().is_some_and(|current| current.revision == RevisionId::ZERO);
    let name = |part: Option<Part>| part.map(|part| part.name().to_owned()).unwrap_or_default();
    let tally = Tally { resources: current.is_some().into(), ..Tally::default() };
    let mut found = Found { tally, parts: Vec::new() };
    found.bytes(current.as_ref().map_or(0, |current| current.bytes));
    found.add(current.into_iter().flat_map(|current| current.damaged), |damaged| (name(damaged.part), damaged.detail));
    if is_head_damaged {
        return Ok(found.checked(library));
    }
    match library.repository.verify_versions(path, pace).await.map_err(in_objects) {
        Ok(earlier) => {
            found.bytes(earlier.bytes);
            found.add(earlier.damaged, |(version, damaged)| (of(version, &name(damaged.part)), damaged.detail));
        }
        Err(error) if error.is_damage() => found.parts.push((EARLIER.to_owned(), error.to_string())),
        Err(error) => return Err(error),
    }
    Ok(found.checked(library))
}

/// What was read of an object, and which parts are damaged, each with how that was noticed.
struct Found {
    tally: Tally,
    parts: Vec<(String, String)>,
}

impl Found {
    fn bytes(&mut self, bytes: u64) {
        self.tally.bytes += bytes;
    }

    fn add<T>(&mut self, damaged: impl IntoIterator<Item = T>, part: impl Fn(T) -> (String, String)) {
        self.parts.extend(damaged.into_iter().map(part));
    }

    /// `None`: there is no object any more, and nothing of it was read.
    fn checked(self, library: &Library) -> Option<Checked> {
        let is_nothing = self.tally == Tally::default() && self.parts.is_empty();
        (!is_nothing).then(|| Checked::of(library, self.tally, self.parts))
    }
}

/// The name of a part of an earlier version.
fn of(version: RevisionId, part: &str) -> String {
    let millis = i64::try_from(version.time().0).unwrap_or(i64::MAX);
    let second = Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%SZ");
    let separator = if part.is_empty() { "" } else { " of " };
    format!("{part}{separator}the version of {second}")
}

fn in_objects(error: ResourceError) -> ObjectsError {
    match error {
        ResourceError::Objects(error) => error,
        error => ObjectsError::Internal(error.to_string()),
    }
}

async fn verified_resource(
    library: &Library,
    path: &ResourcePath,
    pace: &Pace,
) -> ObjectsResult<Option<repository::VerifiedResource>> {
    match library.repository.verify_at(path, pace).await {
        Ok(verified) => Ok(Some(verified)),
        Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => Ok(None),
        Err(error) => Err(in_objects(error)),
    }
}

impl Checked {
    fn of(library: &Library, mut tally: Tally, parts: Vec<(String, String)>) -> Self {
        let is_damaged = !parts.is_empty();
        tally.damaged = u64::from(is_damaged);
        let finding = is_damaged.then(|| finding(library, true, parts));
        Self { tally, finding }
    }

    /// An object that could not be read.
    pub(crate) fn failed(library: &Library, why: String) -> Self {
        let finding = finding(library, false, vec![(String::new(), why)]);
        Self { tally: Tally { failed: 1, ..Tally::default() }, finding: Some(finding) }
    }
}

pub(crate) fn finding(library: &Library, is_damaged: bool, mut parts: Vec<(String, String)>) -> Finding {
    let more = u32::try_from(parts.len().saturating_sub(PARTS_MAX)).unwrap_or(u32::MAX);
    parts.truncate(PARTS_MAX);
    for (name, detail) in &mut parts {
        name.truncate(name.floor_char_boundary(PART_BYTES_MAX));
        detail.truncate(detail.floor_char_boundary(PART_BYTES_MAX - name.len()));
    }
    Finding { at: library.heads.now(), is_damaged, parts, more }
}
