//! Opening a library over a store.

use std::sync::Arc;

use store::{Clock, Store};

use crate::error::{ObjectsError, ObjectsResult};
use crate::head::{Body, ContainerBody, Head, State};
use crate::keys;
use crate::library::{Inner, Library, LibraryOptions, VOLUMES};
use crate::revision::RevisionId;
use crate::switch::{Switch, Switched};

impl Library {
    /// Opens a library: checks the options, and makes the container of volumes if there is none. Several may open the same
    /// store at once; one of them makes it.
    pub async fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: LibraryOptions) -> ObjectsResult<Self> {
        options.check()?;
        let library = Self { inner: Arc::new(Inner::new(store, clock, options)) };
        library.make_container().await?;
        Ok(library)
    }

    async fn make_container(&self) -> ObjectsResult<()> {
        let partition = keys::container_partition(VOLUMES);
        let base = self.patiently(|| self.head_at(&partition)).await?;
        match base.as_ref().map(|row| row.head.state) {
            Some(State::Live) => return Ok(()),
            Some(State::Deleting | State::Deleted) => {
                return Err(ObjectsError::Gone(format!("the container {VOLUMES}")));
            }
            Some(State::Free) | None => {}
        }
        let floor = base.as_ref().map_or(RevisionId::ZERO, |row| row.head.floor.max(row.head.revision));
        let incarnation = self.inner.revisions.mint_above(floor);
        let shards = self.inner.options.shards;
        let head = Head {
            state: State::Live,
            incarnation,
            revision: incarnation,
            body: Body::Container(ContainerBody { shards, rewritten: Vec::new() }),
            ..Head::free()
        };
        match self.switch(Switch { partition, base, head, before: Vec::new(), after: Vec::new() }).await? {
            Switched::Applied => Ok(()),
            // Somebody else was first; that container is as good.
            _ => self.parent().await.map(|_| ()),
        }
    }
}
