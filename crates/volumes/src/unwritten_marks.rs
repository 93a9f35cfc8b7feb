//! Damage marks that could not be written, kept in memory.

use std::collections::{BTreeMap, BTreeSet};

use hathi::VolumeId;
use heads::revision::RevisionId;
use parking_lot::Mutex;

/// Volumes whose marks wait to be written. For further volumes, the next reader finds the damage
/// again.
const UNWRITTEN_VOLUMES_MAX: usize = 4_096;

/// Marks of this process that could not be written.
#[derive(Default)]
pub(crate) struct UnwrittenMarks(Mutex<BTreeMap<VolumeId, (RevisionId, BTreeSet<u32>)>>);

impl UnwrittenMarks {
    /// Remembers a mark, and forgets those of other revisions of the volume.
    pub(crate) fn add(&self, id: &VolumeId, revision: RevisionId, member: u32) {
        let mut volumes = self.0.lock();
        if volumes.len() >= UNWRITTEN_VOLUMES_MAX && !volumes.contains_key(id) {
            return;
        }
        let marks = volumes.entry(id.clone()).or_insert_with(|| (revision, BTreeSet::new()));
        if marks.0 != revision {
            *marks = (revision, BTreeSet::new());
        }
        marks.1.insert(member);
    }

    /// The remembered members of a revision.
    pub(crate) fn of(&self, id: &VolumeId, revision: RevisionId) -> BTreeSet<u32> {
        let volumes = self.0.lock();
        let marks = volumes.get(id).filter(|(marked, _)| *marked == revision);
        marks.map(|(_, members)| members.clone()).unwrap_or_default()
    }

    /// Forgets members of a volume.
    pub(crate) fn forget(&self, id: &VolumeId, is_over: impl Fn(u32) -> bool) {
        let mut volumes = self.0.lock();
        if let Some((_, members)) = volumes.get_mut(id) {
            members.retain(|member| !is_over(*member));
            if members.is_empty() {
                volumes.remove(id);
            }
        }
    }
}
