//! What the past of an object must be, by the heads that were decided.

use std::collections::BTreeSet;

use bytes::Bytes;
use heads::{Head, ObjectState, RevisionId, keys};

use super::Model;
use crate::work::Past;

impl Model {
    /// The revisions at which something about an object changed: its own, and those of its
    /// children.
    pub(crate) fn changes_around(&self, object: &Bytes) -> BTreeSet<RevisionId> {
        let children = self.children(object);
        let objects = std::iter::once(object).chain(children.iter().map(|(child, _)| child));
        objects.flat_map(|object| self.switches(object)).map(|head| head.revision).collect()
    }

    /// What is wrong with a past that was read when everything was at rest, if anything.
    pub(crate) fn wrong_past(&self, object: &Bytes, before: &[RevisionId], past: &Past) -> Option<String> {
        let live = self.switches(object).into_iter().filter(|head| head.state == ObjectState::Live);
        let versions: Vec<RevisionId> = live.map(|head| head.revision).collect();
        if versions != past.versions {
            return Some(format!("its versions are {versions:?}, and {:?} are listed", past.versions));
        }
        for (below, (found, members)) in before.iter().zip(past.in_force.iter().zip(&past.members)) {
            let head = self.in_force(object, *below);
            if head.map(|head| head.revision) != *found {
                return Some(format!("before {below} {head:?} was in force, and {found:?} is found"));
            }
            let Some((head, members)) = head.zip(members.as_ref()) else { continue };
            let is_member = |child: &Bytes| {
                let child = self.in_force(child, *below);
                child.is_some_and(|child| object.len() == 2 || child.parent_incarnation == head.incarnation)
            };
            let children = self.children(object).into_iter().filter(|(child, _)| is_member(child));
            let expected: BTreeSet<String> = children.map(|(_, name)| name).collect();
            if *members != expected {
                return Some(format!("before {below} it had {expected:?}, and {members:?} are listed"));
            }
        }
        None
    }

    /// The heads with which its versions and deletions began, in order.
    fn switches(&self, object: &Bytes) -> Vec<&Head> {
        let mut heads: Vec<&Head> = Vec::new();
        for version in self.versions.get(object).into_iter().flatten() {
            if heads.last().is_none_or(|before| before.revision != version.head.revision) {
                heads.push(&version.head);
            }
        }
        heads
    }

    /// The head of the version that was in force when exactly the revisions below `below` had been
    /// made.
    fn in_force(&self, object: &Bytes, below: RevisionId) -> Option<&Head> {
        let before = self.switches(object).into_iter().rfind(|head| head.revision < below);
        before.filter(|head| head.state == ObjectState::Live)
    }

    /// The objects that ever were children of a resource, with their names.
    fn children(&self, object: &Bytes) -> Vec<(Bytes, String)> {
        let Some(path) = keys::resource_of_partition(object) else { return Vec::new() };
        let child = |partition: &Bytes| {
            let child = keys::resource_of_partition(partition)?;
            (child.parent()? == path).then(|| (partition.clone(), child.name().to_owned()))
        };
        self.versions.keys().filter_map(child).collect()
    }
}
