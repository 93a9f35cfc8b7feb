//! Creating and deleting a child of a container: what volumes and resources have in common. The steps are those that keep what
//! is listed and what is reachable the same at every moment, whatever happens between any two of them.

use bytes::Bytes;
use store::{Class, Scan, Step, Table};

use crate::containment::{Mark, Parent};
use crate::error::ObjectsResult;
use crate::head::{Body, Head, HeadRow, State};
use crate::keys;
use crate::library::Library;
use crate::revision::RevisionId;
use crate::rules::Rule;
use crate::switch::{Switch, Switched, Tries};

/// A child that is to be created.
pub(crate) struct Creation {
    /// The container, as it was read.
    pub parent: Parent,
    /// The child's name.
    pub name: String,
    /// Its incarnation, which is its first revision.
    pub incarnation: RevisionId,
    /// The head that is compared with; `None`: there is none.
    pub base: Option<HeadRow>,
    /// What it is.
    pub body: Body,
    /// What a listing is to tell of it besides its name.
    pub note: Bytes,
    /// Immutable rows, which come first.
    pub rows: Vec<Step>,
    /// What comes last, and may be lost.
    pub after: Vec<Step>,
}

impl Library {
    /// Creates a child: the intent, the container required, the head, the confirmation. [`Switched::Required`]: the container is
    /// not what it was any more, or changes all the time; the child was surely not created, and never will be under this incarnation.
    pub(crate) async fn create_child(&self, mut creation: Creation) -> ObjectsResult<Switched> {
        let mut parent = creation.parent.clone();
        let mut tries = Tries::new();
        let mut unsure = false;
        loop {
            match self.switch(Switch { unsure, ..creation.switch(self, &parent) }).await? {
                Switched::Applied => {
                    self.note_size(&parent, &creation.name, creation.incarnation).await;
                    return Ok(Switched::Applied);
                }
                Switched::Required { unsure: maybe } => unsure = maybe && self.keeps(Rule::StayUnsure),
                Switched::Moved if !self.keeps(Rule::HeadFirst) => {
                    let partition = parent.container().child_partition(&creation.name);
                    creation.base = self.patiently(|| self.head_at(&partition)).await?;
                    if creation.base.as_ref().is_some_and(|row| row.head.state == State::Live) {
                        return Ok(Switched::Moved);
                    }
                }
                switched => return Ok(switched),
            }
            let stands = match tries.again().await {
                true => self.patiently(|| self.parent(parent.container())).await.ok(),
                false => None,
            };
            match stands.filter(|stands| stands.incarnation() == parent.incarnation()) {
                Some(stands) => parent = stands,
                None => break,
            }
        }
        // What may still arrive would be taken for somebody else's, or be there beside what is created instead.
        let partition = parent.container().child_partition(&creation.name);
        match unsure && self.settle_creation(&partition, creation.incarnation).await? {
            true => Ok(Switched::Applied),
            false => Ok(Switched::Required { unsure: false }),
        }
    }

    /// The newest change of what is listed in some partitions of children.
    pub(crate) async fn newest_change(
        &self,
        partitions: impl Iterator<Item = Bytes>,
    ) -> ObjectsResult<Option<RevisionId>> {
        let call = self.call(Class::Description).strong();
        let newest = |partition| (Table::Children, partition, Scan::prefix(keys::change_prefix(), 1));
        let pages = self.inner.store.scan_many(call, partitions.map(newest).collect()).await?;
        Ok(pages.iter().filter_map(|page| keys::change_of(&page.rows.first()?.sort)).max())
    }
}

impl Creation {
    fn switch(&self, library: &Library, parent: &Parent) -> Switch {
        let mut before = self.rows.clone();
        before.push(parent.announce(&self.name, self.incarnation, &self.note, library.sampling()));
        before.push(parent.require());
        if !library.keeps(Rule::ReqLast) {
            let last = before.len() - 1;
            before.swap(last - 1, last);
        }
        let change = library.inner.revisions.mint_above(self.incarnation);
        let mut after = vec![parent.confirm(&self.name, self.incarnation, change)];
        after.extend(self.after.iter().cloned());
        Switch {
            partition: parent.container().child_partition(&self.name),
            base: self.base.clone(),
            head: Head {
                state: State::Live,
                incarnation: self.incarnation,
                parent_incarnation: parent.incarnation(),
                revision: self.incarnation,
                body: self.body.clone(),
                ..Head::free()
            },
            before,
            after,
            unsure: false,
        }
    }
}

impl Parent {
    /// Takes a live child away: the intent, the container required, the head, the mark that it is gone. It ends as `head` says,
    /// which is deleted, or (a container) deleting: then the last mark is left for later.
    pub(crate) fn removal(&self, name: &str, base: HeadRow, head: Head, mut before: Vec<Step>) -> Switch {
        let incarnation = base.head.incarnation;
        if self.rules().keep(Rule::DelIntent) {
            before.push(self.mark(name, incarnation, Mark::Removing));
        }
        before.push(self.require());
        let after = match head.state {
            State::Deleted => self.removed(name, incarnation, Some(head.revision), head.revision),
            _ => self.tell_change(name, head.revision),
        };
        let partition = self.container().child_partition(name);
        Switch { partition, base: Some(base), head, before, after: vec![after], unsure: false }
    }
}
