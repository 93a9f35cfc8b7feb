//! The end of a run: the past of every object is what it was.

use bytes::Bytes;
use heads::{ResourcePath, RevisionId, keys};
use store::Clock;

use super::Run;
use crate::work::{Question, VERSIONED, Work, parsed};

/// Revisions before which the past of an object is read, at most. They are spread over its life.
const READ_MAX: usize = 12;

/// Of these, one in so many is the time of an archive of everything, if clients ask for versions.
/// Each is the time of an archive of a volume.
const ARCHIVED_ONE_OF: usize = 4;

impl Run {
    /// Reads the past of every object, and compares it with what happened.
    pub(super) async fn remembered(&mut self) {
        let objects: Vec<Bytes> = {
            let world = self.world.lock();
            let objects = world.model.versions.keys();
            objects.filter(|object| object.starts_with(b"r/") || object.starts_with(b"v/")).cloned().collect()
        };
        let root = keys::resource_partition(&ResourcePath::root());
        let (announces, has_versions) = (self.setup.announces(), self.setup.has_versions);
        for path in VERSIONED.into_iter().filter(|_| has_versions) {
            self.ask(0, Work::ReadVersions { path: parsed(path), max: usize::MAX });
            self.until_idle().await;
        }
        for object in objects {
            let (changes, removed) = {
                let world = self.world.lock();
                (world.model.changes_around(&object), world.model.removed_versions(&object))
            };
            let step = changes.len().div_ceil(READ_MAX).max(1);
            let before: Vec<RevisionId> = changes.into_iter().rev().step_by(step).chain([RevisionId::LAST]).collect();
            let archived: Vec<RevisionId> = match object.starts_with(b"v/") {
                // Where changes are announced, the present is refused: it may still change.
                true => before.iter().filter(|below| !announces || **below != RevisionId::LAST).copied().collect(),
                false if has_versions && object == root => before.iter().step_by(ARCHIVED_ONE_OF).copied().collect(),
                false => Vec::new(),
            };
            self.ask(0, Work::Remember(Question { object, before, archived, removed }));
            self.until_idle().await;
            let now = self.servers[0].clock.now();
            self.world.lock().heal(now);
            if self.is_over() {
                return;
            }
        }
    }
}
