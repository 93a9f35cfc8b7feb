//! Checks one object.

use budget::Pace;
use bytes::Bytes;
use heads::{ObjectsError, ObjectsResult, keys};
use library::Library;
use repository::{ResourceError, ResourcePath};
use volumes::damage::WHOLE_VOLUME;

use crate::state::{Finding, Tally};

/// Bytes that an object counts in addition to its own: what it takes to find it.
const OBJECT_BYTES: u64 = 4 << 10;

/// The most parts that a finding names.
const PARTS_MAX: usize = 5;

/// The most bytes of how damage was noticed.
const DETAIL_BYTES_MAX: usize = 200;

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
        let verified = match library.volumes.verify_at(&id, pace).await {
            Err(ObjectsError::Absent(_) | ObjectsError::Gone(_)) => return Ok(None),
            verified => verified?,
        };
        let tally = Tally { volumes: 1, bytes: verified.bytes, ..Tally::default() };
        let name = |member| if member == WHOLE_VOLUME { String::new() } else { format!("member {member}") };
        let parts = verified.damaged.into_iter().map(|damaged| (name(damaged.member), damaged.detail)).collect();
        return Ok(Some(Checked::of(library, tally, parts)));
    }
    let Some(path) = keys::resource_of_partition(partition) else { return Ok(None) };
    let Some(verified) = verified_resource(library, &path, pace).await? else { return Ok(None) };
    let tally = Tally { resources: 1, bytes: verified.bytes, ..Tally::default() };
    let name = |part: Option<repository::Part>| part.map(|part| part.name().to_owned()).unwrap_or_default();
    let parts = verified.damaged.into_iter().map(|damaged| (name(damaged.part), damaged.detail)).collect();
    Ok(Some(match verified.unreachable_below {
        // That container is an object with a finding of its own.
        Some(above) => Checked::failed(library, format!("the head of /{above}, which is above it, is damaged")),
        None => Checked::of(library, tally, parts),
    }))
}

async fn verified_resource(
    library: &Library,
    path: &ResourcePath,
    pace: &Pace,
) -> ObjectsResult<Option<repository::VerifiedResource>> {
    match library.repository.verify_at(path, pace).await {
        Ok(verified) => Ok(Some(verified)),
        Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => Ok(None),
        Err(ResourceError::Objects(error)) => Err(error),
        Err(error) => Err(ObjectsError::Internal(error.to_string())),
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

fn finding(library: &Library, is_damaged: bool, mut parts: Vec<(String, String)>) -> Finding {
    let more = u32::try_from(parts.len().saturating_sub(PARTS_MAX)).unwrap_or(u32::MAX);
    parts.truncate(PARTS_MAX);
    for (_, detail) in &mut parts {
        detail.truncate(detail.floor_char_boundary(DETAIL_BYTES_MAX));
    }
    Finding { at: library.heads.now(), is_damaged, parts, more }
}
