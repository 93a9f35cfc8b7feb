//! The end of a run: the past of every object is what it was.

use bytes::Bytes;
use heads::RevisionId;
use store::Clock;

use super::Run;
use crate::work::Work;

/// Revisions before which the past of an object is read, at most. They are spread over its life.
const READ_MAX: usize = 12;

impl Run {
    /// Reads the past of every object, and compares it with what happened.
    pub(super) async fn remembered(&mut self) {
        let objects: Vec<Bytes> = {
            let world = self.world.lock();
            let objects = world.model.versions.keys();
            objects.filter(|object| object.starts_with(b"r/") || object.starts_with(b"v/")).cloned().collect()
        };
        for object in objects {
            let changes: Vec<RevisionId> = self.world.lock().model.changes_around(&object).into_iter().collect();
            let step = changes.len().div_ceil(READ_MAX).max(1);
            let before = changes.into_iter().rev().step_by(step).chain([RevisionId::LAST]).collect();
            self.ask(0, Work::Remember { object, before });
            self.until_idle().await;
            let now = self.servers[0].clock.now();
            self.world.lock().heal(now);
            if self.is_over() {
                return;
            }
        }
    }
}
