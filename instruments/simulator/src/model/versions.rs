//! Versions that clients asked for or restored, and versions that they removed.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use heads::{Head, Keep, ObjectState, RevisionId, keys};

use super::{Model, Reply, Sums, Version};
use crate::trace::Op;
use crate::work::FoundVersions;

/// What clients did with single versions.
#[derive(Default)]
pub(crate) struct VersionsPast {
    /// Versions that clients asked for, each noted when its head was decided.
    pub(super) asked: BTreeSet<(Bytes, RevisionId)>,
    /// Those of which their clients know.
    pub(super) acknowledged: BTreeSet<(Bytes, RevisionId)>,
    removals: BTreeMap<(Bytes, RevisionId), Removal>,
}

/// The removal of a version.
#[derive(Clone, Copy, Debug, Default)]
struct Removal {
    /// Requests that may have removed it, or may do so still.
    open: u32,
    /// The step at which a client learned that it is removed.
    done_at: Option<u64>,
}

/// Whether a version is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Listed,
    /// It was removed.
    Removed,
    /// Nobody asked for it, where only such versions are kept.
    NotKept,
    /// A client that wanted to remove it does not know whether it is removed.
    Open,
}

impl Model {
    /// Notes that an operation asks for a version.
    pub(crate) fn asks_for_version(&mut self, op: Op) {
        if let Some(operation) = self.operations.get_mut(&op) {
            operation.asks_for_version = true;
        }
    }

    /// Notes that an operation is about to restore a version.
    pub(crate) fn restores(&mut self, op: Op, version: RevisionId) {
        if let Some(operation) = self.operations.get_mut(&op) {
            operation.restores = Some(version);
        }
    }

    /// Notes that an operation is about to bring back a version of something deleted.
    pub(crate) fn brings_back(&mut self, op: Op, version: RevisionId) {
        self.restores(op, version);
        if let Some(operation) = self.operations.get_mut(&op) {
            operation.brings_back = true;
        }
    }

    /// Whether something was deleted of which a version is listed, and the name is not used again.
    pub(crate) fn can_come_back(&self, object: &Bytes, keep: Keep) -> bool {
        let is_gone = |head: &Head| matches!(head.state, ObjectState::Deleted | ObjectState::Free);
        let is_listed = |version: &Version| {
            let head = &version.head;
            head.state == ObjectState::Live && self.standing(object, head, keep) == Standing::Listed
        };
        self.head(object).is_some_and(is_gone) && self.versions.get(object).is_some_and(|all| all.iter().any(is_listed))
    }

    /// Whether two revisions of an object have the same description and the same bytes.
    pub(super) fn are_alike(&self, object: &Bytes, one: RevisionId, other: RevisionId) -> bool {
        let made = |revision: RevisionId| {
            let mut heads = self.versions.get(object)?.iter().map(|version| &version.head);
            Some(Sums::of(heads.find(|head| head.revision == revision)?.body.resource()?))
        };
        let state = |revision| made(revision).or_else(|| self.received_state(object, revision));
        let (one, other) = (state(one), state(other));
        one.is_some() && one == other
    }

    /// Notes that a version is about to be removed.
    pub(crate) fn removes_version(&mut self, object: &Bytes, revision: RevisionId) {
        self.of_versions.removals.entry((object.clone(), revision)).or_default().open += 1;
    }

    /// Notes what came of that.
    pub(crate) fn removed_version(&mut self, object: &Bytes, revision: RevisionId, reply: &Reply, step: u64) {
        let removal = self.of_versions.removals.entry((object.clone(), revision)).or_default();
        match reply {
            Reply::Done(_) => {
                removal.open -= 1;
                removal.done_at.get_or_insert(step);
            }
            Reply::Refused(_) => removal.open -= 1,
            Reply::Unknown(_) => {}
        }
    }

    /// The versions of all objects of which clients know that they are removed.
    pub(crate) fn removals(&self) -> impl Iterator<Item = &(Bytes, RevisionId)> {
        let done = self.of_versions.removals.iter().filter(|(_, removal)| removal.done_at.is_some());
        done.map(|(version, _)| version)
    }

    /// Those of an object.
    pub(crate) fn removed_versions(&self, object: &Bytes) -> Vec<RevisionId> {
        self.removals().filter(|(of, _)| of == object).map(|(_, revision)| *revision).collect()
    }

    /// Whether a version with this head is listed, once everything is at rest.
    pub(crate) fn standing(&self, object: &Bytes, head: &Head, keep: Keep) -> Standing {
        let key = (object.clone(), head.revision);
        let removal = self.of_versions.removals.get(&key).copied().unwrap_or_default();
        match (removal.done_at, keep) {
            (Some(_), _) => Standing::Removed,
            (None, Keep::Explicit) if !self.of_versions.asked.contains(&key) => Standing::NotKept,
            (None, _) if removal.open > 0 => Standing::Open,
            (None, _) => Standing::Listed,
        }
    }

    /// What is wrong with versions that were read from one step to another, if anything.
    pub(crate) fn wrong_versions(&self, found: &FoundVersions, keep: Keep, began: u64, ended: u64) -> Option<String> {
        let object = keys::resource_partition(&found.path);
        let key = |revision: &RevisionId| (object.clone(), *revision);
        let removal = |revision: &RevisionId| self.of_versions.removals.get(&key(revision)).copied();
        let all_are_kept = matches!(keep, Keep::All | Keep::Explicit);
        if let Some(wrong) = self.wrong_received(&object, &found.listed, all_are_kept, began) {
            return Some(wrong);
        }
        let is_other = |(revision, sums): &&(RevisionId, Sums)| {
            self.received_state(&object, *revision).is_some_and(|sent| sent != *sums)
        };
        if let Some((revision, _)) = found.read.iter().find(is_other) {
            return Some(format!("{revision} is read in another state than it was sent"));
        }
        for revision in found.listed.iter().filter(|revision| !self.is_received(&object, **revision)) {
            if removal(revision).is_some_and(|removal| removal.done_at.is_some_and(|done_at| done_at < began)) {
                return Some(format!("{revision} was removed, and is listed"));
            }
            if keep == Keep::Explicit && !self.of_versions.asked.contains(&key(revision)) {
                return Some(format!("{revision} is listed, and nobody asked for it"));
            }
            if !self.was_live(&object, *revision, ended) {
                return Some(format!("{revision} is listed, and was no version"));
            }
        }
        if !all_are_kept {
            return None;
        }
        let is_untouched = |revision: &RevisionId| {
            removal(revision).is_none_or(|removal| removal.open == 0 && removal.done_at.is_none())
        };
        if let Some((revision, wrong)) = found.broken.iter().find(|(revision, _)| is_untouched(revision)) {
            return Some(format!("{revision} cannot be read: {wrong}"));
        }
        let known = self.of_versions.acknowledged.range(key(&RevisionId::ZERO)..=key(&RevisionId::LAST));
        let mut known = known.map(|(_, revision)| revision);
        let is_missing = |revision: &&RevisionId| {
            !found.listed.contains(*revision) && is_untouched(revision) && self.is_visible(&object, **revision, began)
        };
        known.find(is_missing).map(|revision| format!("{revision} was asked for, and is not listed"))
    }

    /// Whether a revision of an object was live, and decided by then.
    fn was_live(&self, object: &Bytes, revision: RevisionId, by: u64) -> bool {
        self.versions.get(object).is_some_and(|versions| {
            versions.iter().any(|version| {
                let head = &version.head;
                head.revision == revision && head.state == ObjectState::Live && version.step <= by
            })
        })
    }

    /// Whether each strong read from a step on finds a revision of an object, or a later one.
    fn is_visible(&self, object: &Bytes, revision: RevisionId, from: u64) -> bool {
        self.versions.get(object).is_some_and(|versions| {
            let at = versions.iter().position(|version| version.head.revision == revision);
            at.is_some_and(|at| versions[at..].iter().any(|version| version.settled.is_some_and(|at| at < from)))
        })
    }
}

#[cfg(test)]
mod tests {
    use heads::head::Body;
    use repository::{Kind, ResourceBody, StoredDescription};

    use super::*;
    use crate::model::Subject;

    fn live(incarnation: RevisionId, revision: RevisionId, sha256: [u8; 32]) -> Version {
        let description = StoredDescription { revision, pieces: 0, sha256 };
        let body = Body::Resource(ResourceBody { kind: Kind::RdfSource, description });
        let head = Head { state: ObjectState::Live, incarnation, revision, body, ..Head::free() };
        Version { step: 1, settled: None, head }
    }

    #[test]
    fn what_is_brought_back_in_another_state_or_without_a_new_incarnation_is_a_violation() {
        let [first, deleted, again] = [1, 2, 3].map(|byte| RevisionId([byte; 16]));
        let object = Bytes::from_static(b"r/n0");
        let tombstone = Head { state: ObjectState::Deleted, incarnation: first, revision: deleted, ..Head::free() };
        let tombstone = Version { step: 1, settled: None, head: tombstone };
        let cases = [(again, 7, None), (first, 7, Some("no new incarnation")), (again, 8, Some("another state"))];
        for (incarnation, byte, wrong) in cases {
            let mut model = Model::new();
            model.versions.insert(object.clone(), vec![live(first, first, [7; 32]), tombstone.clone()]);
            assert!(model.can_come_back(&object, Keep::All));
            assert!(!model.can_come_back(&object, Keep::Explicit), "nobody asked for its version");
            model.begins(1, Subject::Object(object.clone()), "op 1".to_owned(), 1);
            model.brings_back(1, first);
            let versions = model.versions.entry(object.clone()).or_default();
            versions.push(live(incarnation, again, [byte; 32]));
            assert!(!model.can_come_back(&object, Keep::All));
            model.switched(1, 1, &object, again);
            match (wrong, &model.violation) {
                (None, found) => assert_eq!(*found, None),
                (Some(wrong), found) => assert!(found.as_ref().is_some_and(|found| found.contains(wrong)), "{found:?}"),
            }
        }
    }
}
