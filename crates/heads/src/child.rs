//! Creates and deletes children of containers, for volumes and resources. The order of steps keeps
//! the listing and the reachable children equal at every moment, wherever a sequence of steps is
//! interrupted.

use bytes::Bytes;
use store::{Class, Scan, Step, Table, boxed};

use crate::claim::Holder;
use crate::containment::Parent;
use crate::error::ObjectsResult;
use crate::handle::Heads;
use crate::head::{Body, Head, HeadRow, ObjectState};
use crate::keys;
use crate::mark::Mark;
use crate::retries::Tries;
use crate::revision::RevisionId;
use crate::rules::Rule;
use crate::switch::{Switch, Switched};

/// A child to be created.
pub struct Creation {
    /// The container, as it was read.
    pub parent: Parent,
    /// The child's name.
    pub name: String,
    /// Its incarnation, which is its first revision.
    pub incarnation: RevisionId,
    /// The head to compare with; `None` if there is none.
    pub base: Option<HeadRow>,
    /// Its contents.
    pub body: Body,
    /// Whether it is an archival group.
    pub is_group: bool,
    /// What a listing shows about it besides its name.
    pub note: Bytes,
    /// Immutable rows, which are written first.
    pub rows: Vec<Step>,
    /// Steps that come last and may be lost.
    pub after: Vec<Step>,
    /// In whose name it is created.
    pub holder: Holder,
}

impl Heads {
    /// Creates a child: the intent, the container required, the head, the confirmation. Returns
    /// [`Switched::Required`] if the container has changed, or changes all the time. Then the child
    /// was certainly not created, and never will be under this incarnation.
    #[boxed]
    pub async fn create_child(&self, mut creation: Creation) -> ObjectsResult<Switched> {
        let mut parent = creation.parent.clone();
        let mut tries = Tries::default();
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
                    creation.base = self.retry_transient(|| self.head_at(&partition)).await?;
                    if creation.base.as_ref().is_some_and(|row| row.head.state == ObjectState::Live) {
                        return Ok(Switched::Moved);
                    }
                }
                switched => return Ok(switched),
            }
            let current = match tries.again().await {
                true => self.retry_transient(|| self.parent(parent.container())).await.ok(),
                false => None,
            };
            match current.filter(|current| current.incarnation() == parent.incarnation()) {
                Some(current) => parent = current,
                None => break,
            }
        }
        // Steps that still arrive would be mistaken for another writer's, or would create a second
        // child beside the new one.
        let partition = parent.container().child_partition(&creation.name);
        match unsure && self.settle_creation(&partition, creation.incarnation).await? {
            true => Ok(Switched::Applied),
            false => Ok(Switched::Required { unsure: false }),
        }
    }

    /// The newest change of the listing in some partitions of children.
    #[boxed]
    pub async fn newest_change(&self, partitions: Vec<Bytes>) -> ObjectsResult<Option<RevisionId>> {
        let call = self.call(Class::Description).strong();
        let newest = |partition| (Table::Children, partition, Scan::prefix(keys::change_prefix(), 1));
        let pages = self.inner.store.scan_many(call, partitions.into_iter().map(newest).collect()).await?;
        Ok(pages.iter().filter_map(|page| keys::change_of(&page.rows.first()?.sort)).max())
    }
}

impl Creation {
    fn switch(&self, heads: &Heads, parent: &Parent) -> Switch {
        let mut before = self.rows.clone();
        before.push(parent.announce(&self.name, self.incarnation, &self.note, heads.sampling()));
        before.push(parent.require());
        if !heads.keeps(Rule::ReqLast) {
            let last = before.len() - 1;
            before.swap(last - 1, last);
        }
        let change = heads.inner.revisions.mint_above(self.incarnation);
        let mut after = vec![parent.confirm(&self.name, self.incarnation, change)];
        after.extend(self.after.iter().cloned());
        Switch {
            partition: parent.container().child_partition(&self.name),
            base: self.base.clone(),
            head: Head {
                state: ObjectState::Live,
                incarnation: self.incarnation,
                parent_incarnation: parent.incarnation(),
                revision: self.incarnation,
                body: self.body.clone(),
                is_group: self.is_group,
                ..Head::free()
            },
            before,
            after,
            unsure: false,
            holder: self.holder,
        }
    }
}

impl Parent {
    /// Deletes a live child: the intent, the container required, the head, the mark that it is
    /// gone. Its state is then the one of `head`: deleted or, for a container, deleting. In the
    /// latter case the last mark is left for later.
    pub fn removal(&self, name: &str, base: HeadRow, head: Head, mut before: Vec<Step>) -> Switch {
        let incarnation = base.head.incarnation;
        if self.rules().keep(Rule::DelIntent) {
            before.push(self.mark(name, incarnation, Mark::Removing));
        }
        before.push(self.require());
        let after = match head.state {
            ObjectState::Deleted => self.removed(name, incarnation, Some(head.revision), head.revision),
            _ => self.note_change(name, head.revision),
        };
        let partition = self.container().child_partition(name);
        let holder = Holder::Nobody;
        Switch { partition, base: Some(base), head, before, after: vec![after], unsure: false, holder }
    }
}
