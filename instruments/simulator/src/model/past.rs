//! What the past of an object must be, by the heads that were decided.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use heads::{Head, Keep, LibraryOptions, ObjectState, RevisionId, keys};

use super::Model;
use super::versions::Standing;
use crate::work::{Archived, Past, Question, VolumeThen};

/// Which versions of an object are kept. It says nothing of volumes, of which none is removed.
pub(crate) fn kept_of(object: &Bytes, options: &LibraryOptions) -> Keep {
    keys::resource_of_partition(object).map_or(Keep::All, |path| options.kept_at(&path))
}

impl Model {
    /// The revisions at which something about an object changed, and the positions: its own, and
    /// those of its children.
    pub(crate) fn changes_around(&self, object: &Bytes) -> BTreeSet<RevisionId> {
        let children = self.children(object);
        let objects = std::iter::once(object).chain(children.iter().map(|(child, _)| child));
        objects.flat_map(|object| self.switches(object)).flat_map(|head| [head.revision, head.since()]).collect()
    }

    /// What is wrong with a past that was read when everything was at rest, if anything.
    pub(crate) fn wrong_past(&self, question: &Question, past: &Past, options: &LibraryOptions) -> Option<String> {
        let Question { object, before, archived, removed: _ } = question;
        let keep = kept_of(object, options);
        let is_listed = |head: &&Head| match self.standing(object, head, keep) {
            Standing::Listed => true,
            Standing::Removed | Standing::NotKept => false,
            Standing::Open => past.versions.contains(&head.revision),
        };
        let live = self.switches(object).into_iter().filter(|head| head.state == ObjectState::Live);
        let versions: Vec<RevisionId> = live.filter(is_listed).map(|head| head.revision).collect();
        if versions != past.versions {
            return Some(format!("its versions are {versions:?}, and {:?} are listed", past.versions));
        }
        if !past.served.is_empty() {
            return Some(format!("its versions {:?} were removed, and are found", past.served));
        }
        for (below, (found, members)) in before.iter().zip(past.in_force.iter().zip(&past.members)) {
            let head = self.in_force(object, *below).filter(is_listed);
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
        let mut volumes = archived.iter().zip(&past.volumes);
        let wrong = volumes.find_map(|(below, found)| {
            let expected = self.volume_then(object, *below, options.history.volumes);
            (*found != expected).then(|| format!("an archive before {below} had {expected:?}, and has {found:?}"))
        });
        if wrong.is_some() {
            return wrong;
        }
        let mut archives = archived.iter().zip(&past.archives);
        archives.find_map(|(below, found)| self.wrong_archive(object, *below, found.as_ref()?, options))
    }

    /// What there was of a volume when exactly the changes below a position had been made, as far
    /// as it is kept.
    fn volume_then(&self, volume: &Bytes, below: RevisionId, keep: Keep) -> VolumeThen {
        let heads = self.switches(volume);
        let last = heads.iter().rposition(|head| head.since() < below);
        let Some((last, head)) = last.map(|last| (last, heads[last])).filter(|(_, head)| is_live(head)) else {
            return VolumeThen::Absent;
        };
        let is_kept = match (heads[last + 1..].split_last(), keep) {
            (None, _) | (_, Keep::All) => true,
            // Those that were replaced since are counted, and deletions are not.
            (Some((_, replaced)), Keep::Newest(count)) => {
                replaced.iter().filter(|head| is_live(head)).count() < count as usize
            }
            (_, Keep::None | Keep::For(_) | Keep::Explicit) => false,
        };
        if is_kept { VolumeThen::Version(head.revision) } else { VolumeThen::NotKept }
    }

    /// What is wrong with what an archive as of a time has in it, if anything.
    fn wrong_archive(
        &self,
        top: &Bytes,
        below: RevisionId,
        found: &BTreeMap<String, Archived>,
        options: &LibraryOptions,
    ) -> Option<String> {
        let (mut expected, mut folders) = (BTreeMap::new(), vec![top.clone()]);
        while let Some(folder) = folders.pop() {
            let Some(container) = self.in_force(&folder, below) else { continue };
            for (child, _) in self.children(&folder) {
                let Some(path) = keys::resource_of_partition(&child) else { continue };
                let is_in_it = |head: &&Head| folder.len() == 2 || head.parent_incarnation == container.incarnation;
                let Some(head) = self.in_force(&child, below).filter(is_in_it) else { continue };
                let (keep, path) = (options.kept_at(&path), path.to_string());
                let then = match self.standing(&child, head, keep) {
                    Standing::Removed => Archived::Removed,
                    Standing::NotKept => Archived::NotKept,
                    Standing::Open if found.get(&path) == Some(&Archived::Removed) => Archived::Removed,
                    Standing::Listed | Standing::Open => Archived::Version(head.revision),
                };
                expected.insert(path, then);
                if keep == Keep::All && matches!(then, Archived::Version(_)) {
                    folders.push(child);
                }
            }
        }
        (*found != expected).then(|| format!("an archive before {below} had {expected:?}, and has {found:?}"))
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

fn is_live(head: &Head) -> bool {
    head.state == ObjectState::Live
}
