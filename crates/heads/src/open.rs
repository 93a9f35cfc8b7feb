//! Creates the containers at the top.

use crate::claim::Holder;
use crate::containment::Container;
use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::head::{Body, Head, ObjectState};
use crate::revision::RevisionId;
use crate::switch::{Switch, Switched};
use store::boxed;

impl Heads {
    /// Creates a top container if it does not exist.
    #[boxed]
    pub async fn make_container(&self, container: Container, body: Body) -> ObjectsResult<()> {
        let partition = container.partition();
        let base = self.retry_transient(|| self.head_at(&partition)).await?;
        match base.as_ref().map(|row| row.head.state) {
            Some(ObjectState::Live) => return Ok(()),
            Some(ObjectState::Deleting | ObjectState::Deleted) => return Err(ObjectsError::Gone(container.name())),
            Some(ObjectState::Free) | None => {}
        }
        let floor = base.as_ref().map_or(RevisionId::ZERO, |row| row.head.floor.max(row.head.revision));
        let incarnation = self.inner.revisions.mint_above(floor);
        let head = Head { state: ObjectState::Live, incarnation, revision: incarnation, body, ..Head::free() };
        match self
            .switch(Switch {
                partition,
                base,
                head,
                before: Vec::new(),
                after: Vec::new(),
                unsure: false,
                holder: Holder::Nobody,
            })
            .await?
        {
            Switched::Applied => Ok(()),
            // Another server was first; its container serves equally.
            _ => self.parent(&container).await.map(|_| ()),
        }
    }
}
