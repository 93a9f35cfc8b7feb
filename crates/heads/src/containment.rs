//! The children of containers: marks in an observed-remove set, which has the same contents in any
//! order of writes.
//!
//! A child is a (name, incarnation). Each of its marks is a row that is written once. If the marks
//! do not settle whether a child is live, its head decides. A reader that had to read the head
//! records its finding as one more mark.

use std::borrow::Cow;

use bytes::Bytes;
use store::{Condition, NewRow, Step, Table, ValueKind, boxed, envelope};

use crate::container_body::{ContainerBody, ShardEpochs};
use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::head::{Head, HeadRow};
use crate::keys;
use crate::mark::Mark;
use crate::options::VOLUMES;
use crate::path::ResourcePath;
use crate::revision::RevisionId;
use crate::rules::{Rule, Rules};
use crate::sampling::Sampling;

/// Identifies a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Container {
    /// The container of all volumes.
    Volumes,
    /// The resource at a path of the repository.
    At(ResourcePath),
}

impl Container {
    /// The partition of its head.
    pub fn partition(&self) -> Bytes {
        match self {
            Self::Volumes => keys::container_partition(VOLUMES),
            Self::At(path) => keys::resource_partition(path),
        }
    }

    /// The partition of a child's head.
    pub fn child_partition(&self, name: &str) -> Bytes {
        match self {
            Self::Volumes => keys::volume_partition_of(name),
            Self::At(path) => keys::resource_child_partition(path, name),
        }
    }

    /// Whether clients ask when its listing changed.
    fn notes_changes(&self) -> bool {
        matches!(self, Self::At(_))
    }

    /// The prefix of its children's mark partitions.
    fn children_prefix(&self) -> Cow<'static, str> {
        match self {
            Self::Volumes => VOLUMES.into(),
            Self::At(path) => format!("r/{path}").into(),
        }
    }

    /// The partition of the marks of one shard of its children, at one epoch of the shard.
    pub fn children_partition(&self, incarnation: RevisionId, shard: u16, epoch: u32) -> Bytes {
        keys::children_partition(&self.children_prefix(), incarnation, shard, epoch)
    }

    /// The partition of past members that were in one shard at one epoch of that shard.
    pub fn past_partition(&self, incarnation: RevisionId, shard: u16, epoch: u32) -> Bytes {
        keys::past_partition(&self.children_prefix(), incarnation, shard, epoch)
    }

    /// The partition that lists the partitions of past members.
    pub fn past_index_partition(&self, incarnation: RevisionId) -> Bytes {
        keys::past_index_partition(&self.children_prefix(), incarnation)
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            Self::Volumes => format!("the container {VOLUMES}"),
            Self::At(path) => format!("the container /{path}"),
        }
    }
}

/// A live container, as a strong read found it.
#[derive(Clone, Debug)]
pub struct Parent {
    container: Container,
    incarnation: RevisionId,
    tag: Bytes,
    body: ContainerBody,
    rules: Rules,
}

impl Heads {
    /// Reads a container, strongly.
    #[boxed]
    pub async fn parent(&self, container: &Container) -> ObjectsResult<Parent> {
        let row = self.head_at(&container.partition()).await?;
        let parent = row.as_ref().and_then(|row| Parent::of(container, row, self.rules()));
        parent.ok_or_else(|| ObjectsError::Gone(container.name()))
    }
}

impl Parent {
    /// The live container of this head.
    pub fn of(container: &Container, row: &HeadRow, rules: Rules) -> Option<Self> {
        row.head.live_container().and_then(|_| Self::standing(container, row, rules))
    }

    /// The container of this head, live or being deleted.
    pub fn standing(container: &Container, row: &HeadRow, rules: Rules) -> Option<Self> {
        let body = row.head.body.container()?.clone();
        let (container, incarnation) = (container.clone(), row.head.incarnation);
        Some(Self { container, incarnation, tag: row.head.tag(rules), body, rules })
    }

    /// Identifies the container.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// The incarnation under which children are marked.
    pub fn incarnation(&self) -> RevisionId {
        self.incarnation
    }

    /// Whether a child with this head is in this incarnation. A container at the top has only one
    /// incarnation, so all its children are.
    pub fn held(&self, child: &Head) -> bool {
        match &self.container {
            Container::Volumes => true,
            Container::At(path) => path.is_root() || child.parent_incarnation == self.incarnation,
        }
    }

    /// The rules in force.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Its shards.
    pub fn body(&self) -> &ContainerBody {
        &self.body
    }

    /// How many shards there are.
    pub fn shards(&self) -> u16 {
        self.body.shards
    }

    /// The partitions of a shard's marks: the current epoch, and the one that is being filled to
    /// replace it.
    pub fn partitions(&self, shard: u16) -> impl Iterator<Item = Bytes> {
        self.partitions_of(shard, self.shards())
    }

    /// The partitions of all shards.
    pub fn all_partitions(&self) -> impl Iterator<Item = Bytes> {
        (0..self.shards()).flat_map(|shard| self.partitions(shard))
    }

    /// The partitions of a shard if there were only `shards` of them. The number of shards is a
    /// multiple of `shards`.
    pub fn partitions_of(&self, shard: u16, shards: u16) -> impl Iterator<Item = Bytes> {
        self.body.places(shard, shards).into_iter().map(|(shard, epoch)| self.partition(shard, epoch))
    }

    /// The partition to which new marks of a child go.
    pub fn target(&self, name: &str) -> Bytes {
        let (shard, epoch) = self.body.target(name);
        self.partition(shard, epoch)
    }

    /// The partition of one epoch of a shard.
    pub fn partition(&self, shard: u16, epoch: u32) -> Bytes {
        let incarnation = if self.rules.keep(Rule::PInc) { self.incarnation } else { RevisionId::ZERO };
        self.container.children_partition(incarnation, shard, epoch)
    }

    /// The partition of past members that were in a shard at one epoch of it.
    pub fn past_partition(&self, shard: u16, epoch: u32) -> Bytes {
        self.container.past_partition(self.incarnation, shard, epoch)
    }

    /// The epochs of a shard.
    pub fn epochs(&self, shard: u16) -> ShardEpochs {
        self.body.epochs(shard)
    }

    /// Puts a mark without a value on a child, in the current target epoch.
    pub fn mark(&self, name: &str, incarnation: RevisionId, mark: Mark) -> Step {
        self.put(name, vec![mark_row(name, incarnation, mark, &Bytes::new())])
    }

    /// Puts the mark that the revision `by` removed a child; `None` means that the child was never
    /// created.
    pub fn mark_removed(&self, name: &str, incarnation: RevisionId, by: Option<RevisionId>) -> Step {
        self.put(name, vec![mark_row(name, incarnation, Mark::Removed, &removed_value(by))])
    }

    /// Announces a child, with the note for its listing and, if it is in the sample, with its size.
    pub fn announce(&self, name: &str, incarnation: RevisionId, note: &Bytes, sampling: Sampling) -> Step {
        let mark = mark_row(name, incarnation, Mark::Added, note);
        self.put(name, std::iter::once(mark).chain(sampling.row(name, incarnation, note)).collect())
    }

    /// Confirms a child, and records that the listing has changed.
    pub fn confirm(&self, name: &str, incarnation: RevisionId, change: RevisionId) -> Step {
        self.settle(name, mark_row(name, incarnation, Mark::Confirmed, &Bytes::new()), change)
    }

    /// Records that the revision `by` removed a child (`None`: it was never created), and that the
    /// listing has changed.
    pub fn removed(&self, name: &str, incarnation: RevisionId, by: Option<RevisionId>, change: RevisionId) -> Step {
        if !self.rules.keep(Rule::Marks) {
            let marks = [Mark::Added, Mark::Confirmed, Mark::Removing];
            let rows = store::Removal::Rows(marks.map(|mark| keys::child_mark(name, incarnation, mark)).into());
            return Step::Remove { table: Table::Children, partition: self.target(name), rows };
        }
        self.settle(name, mark_row(name, incarnation, Mark::Removed, &removed_value(by)), change)
    }

    fn settle(&self, name: &str, mark: NewRow, change: RevisionId) -> Step {
        let noted = self.container.notes_changes().then(|| change_row(change));
        self.put(name, std::iter::once(mark).chain(noted).collect())
    }

    /// Records that the listing of the shard of `name` has changed.
    pub fn note_change(&self, name: &str, change: RevisionId) -> Step {
        self.put(name, vec![change_row(change)])
    }

    fn put(&self, name: &str, rows: Vec<NewRow>) -> Step {
        Step::Put { table: Table::Children, partition: self.target(name), rows }
    }

    /// Continues only if the container is still live at this incarnation, with the same epochs.
    pub fn require(&self) -> Step {
        Step::Require {
            table: Table::Objects,
            partition: self.container.partition(),
            sort: keys::head(),
            condition: Condition::Tag(self.tag.clone()),
        }
    }
}

/// The row of a mark.
pub fn mark_row(name: &str, incarnation: RevisionId, mark: Mark, value: &Bytes) -> NewRow {
    NewRow::new(keys::child_mark(name, incarnation, mark), envelope::seal(ValueKind::ChildMark, value))
}

/// The value of a removal mark: the revision that removed the child, which dates the removal; empty
/// if the child was never created. Every writer of the mark reads the revision from the head and
/// its log, so all write the same value.
pub fn removed_value(by: Option<RevisionId>) -> Bytes {
    by.map_or_else(Bytes::new, |by| Bytes::copy_from_slice(&by.0))
}

/// The revision that a removal mark names, if any; `None` if the value cannot be read.
pub fn removed_by(value: &[u8]) -> Option<Option<RevisionId>> {
    match value {
        [] => Some(None),
        value => Some(Some(RevisionId(value.try_into().ok()?))),
    }
}

/// The row that records when the listing of a shard changed. The newest comes first in its
/// partition, before all names.
pub fn change_row(change: RevisionId) -> NewRow {
    NewRow::new(keys::change(change), envelope::seal(ValueKind::ChildChange, &[]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_mark_of_a_removal_is_read_back_as_it_is_stored() {
        let row = mark_row("a", RevisionId([1; 16]), Mark::Removed, &removed_value(Some(RevisionId([2; 16]))));
        assert_eq!(row.sort, [&b"a\0"[..], &[1; 16], b"r"].concat());
        let value = envelope::open(ValueKind::ChildMark, &row.value).unwrap();
        assert_eq!(value, [2; 16].as_slice());
        assert_eq!(removed_by(&value), Some(Some(RevisionId([2; 16]))));
        assert_eq!(removed_by(&removed_value(None)), Some(None));
        assert_eq!(removed_by(b"rubbish"), None);
    }

    #[test]
    fn past_members_lie_apart_from_those_of_today_and_their_list_reads_back() {
        let (of, path) = (RevisionId([3; 16]), Container::At(ResourcePath::parse("p").unwrap()));
        let prefix = [&b"r/p\0"[..], &[3; 16]].concat();
        assert_eq!(path.past_index_partition(of), prefix);
        assert_eq!(path.children_partition(of, 258, 5), [&prefix[..], &[1, 2, 0, 0, 0, 5]].concat());
        assert_eq!(path.past_partition(of, 258, 5), [&prefix[..], &[1, 2, 0, 0, 0, 5], b"p"].concat());
        assert_eq!(keys::past_index(258, 5)[..], [0, 0, 0, 5, 1, 2]);
        assert_eq!(keys::past_index_of(&keys::past_index(258, 5)), Some((258, 5)));
    }

    #[test]
    fn a_child_key_says_what_it_was_made_of_also_with_odd_names() {
        for name in ["a.b", "uc2.ark:/13960/t8ff3zh99", "x.ü\u{10ffff}"] {
            let key = keys::child_mark(name, RevisionId([0xFF; 16]), Mark::Removing);
            assert_eq!(keys::child_of(&key), Some((name, RevisionId([0xFF; 16]), Mark::Removing)));
            assert!(key < keys::after_child(name));
        }
    }

    #[test]
    fn a_name_that_begins_with_another_comes_after_all_marks_of_it() {
        let last = keys::child_mark("a.b", RevisionId([0xFF; 16]), Mark::Removing);
        let longer = keys::child_mark("a.b!", RevisionId::ZERO, Mark::Added);
        assert!(last < longer && keys::after_child("a.b") <= longer);
    }
}
