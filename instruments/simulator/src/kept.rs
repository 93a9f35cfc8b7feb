//! Checks that nothing is left of versions that are not kept, once everything is at rest: of those
//! that nobody asked for, where only such versions are kept, and of those that clients removed.

use bytes::Bytes;
use heads::{Head, ObjectState, keys};
use repository::BytesPlace;
use store::{ContentId, Table, UnixMillis};

use crate::checks::is_named;
use crate::model::{Standing, kept_of};
use crate::store::world::World;

impl World {
    /// Finds what is left of such versions. Rows of writes that were cut off may stay.
    pub(crate) fn kept_too_long(&self, now: UnixMillis) -> Vec<String> {
        let mut problems = Vec::new();
        for partition in self.all_partitions(Table::Objects, now) {
            let Some(revision) = keys::version_of(&partition) else { continue };
            let object = keys::object_of(&partition);
            let heads = self.model.versions.get(&object).into_iter().flatten();
            if !heads.map(|version| version.head.revision).any(|decided| decided == revision) {
                continue;
            }
            let rows = self.all_of(Table::Objects, &partition);
            let mut stored = rows.cells.keys().filter(|sort| rows.row(sort, now).is_some());
            if let Some(sort) = stored.find(|sort| !self.is_kept(&object, |head| is_named(head, revision, sort))) {
                let (at, sort) = (object.escape_ascii(), sort.escape_ascii());
                problems.push(format!("{at}: row {sort} of {revision} is left, and no version that is kept names it"));
            }
        }
        for (id, objects) in &self.model.naming {
            let names = |head: &Head| content_of(head) == Some(*id);
            let is_received =
                |object: &Bytes| self.model.received_versions(object).any(|version| version.content == Some(*id));
            let is_kept = |object: &Bytes| self.is_kept(object, names) || is_received(object);
            if self.has_header(*id) && !objects.iter().any(is_kept) {
                problems.push(format!("content {id} is left, and no version that is kept names it"));
            }
        }
        problems
    }

    /// Whether a head of an object is one of these that can be read, now or as a version.
    fn is_kept(&self, object: &Bytes, is_one: impl Fn(&Head) -> bool) -> bool {
        let keep = kept_of(object, &self.setup.options);
        let is_version = |head: &Head| {
            let standing = self.model.standing(object, head, keep);
            head.state == ObjectState::Live && matches!(standing, Standing::Listed | Standing::Open)
        };
        let heads = self.model.versions.get(object).into_iter().flatten().map(|version| &version.head);
        self.model.head(object).is_some_and(&is_one) || heads.filter(|head| is_version(head)).any(is_one)
    }
}

/// The content that a head names.
fn content_of(head: &Head) -> Option<ContentId> {
    match head.body.resource()?.binary()?.place {
        BytesPlace::Content(id) => Some(id),
        BytesPlace::Row | BytesPlace::Elsewhere(_) => None,
    }
}
