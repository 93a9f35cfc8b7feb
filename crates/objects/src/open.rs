//! Opens a library over a store.

use std::sync::Arc;

use store::{Clock, Store};

use crate::containment::Container;
use crate::error::{ObjectsError, ObjectsResult};
use crate::head::{Body, ContainerBody, Head, State};
use crate::library::{Inner, Library, LibraryOptions};
use crate::resources::body::ResourceBody;
use crate::resources::path::ResourcePath;
use crate::revision::RevisionId;
use crate::rules::Rule;
use crate::surroundings::Surroundings;
use crate::switch::{Switch, Switched};

impl Library {
    /// Opens a library: checks the options, and creates the top containers if they do not exist.
    /// Several servers may open the same store at once; one of them creates each container.
    pub async fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: LibraryOptions) -> ObjectsResult<Self> {
        Self::open_within(store, Surroundings::of_this_machine(clock), options).await
    }

    /// Opens a library within other surroundings than those of this machine.
    pub async fn open_within(
        store: Arc<dyn Store>,
        surroundings: Surroundings,
        options: LibraryOptions,
    ) -> ObjectsResult<Self> {
        if surroundings.rules.keep(Rule::LongGrace) {
            options.check()?;
        }
        let library = Self { inner: Arc::new(Inner::new(store, surroundings, options)) };
        let LibraryOptions { shards, resource_shards, .. } = *library.options();
        library.make_container(Container::Volumes, Body::Container(ContainerBody::new(shards))).await?;
        let root = ResourceBody::empty_container(resource_shards);
        library.make_container(Container::At(ResourcePath::root()), Body::Resource(root)).await?;
        Ok(library)
    }

    /// Creates a top container if it does not exist.
    async fn make_container(&self, container: Container, body: Body) -> ObjectsResult<()> {
        let partition = container.partition();
        let base = self.patiently(|| self.head_at(&partition)).await?;
        match base.as_ref().map(|row| row.head.state) {
            Some(State::Live) => return Ok(()),
            Some(State::Deleting | State::Deleted) => return Err(ObjectsError::Gone(container.name())),
            Some(State::Free) | None => {}
        }
        let floor = base.as_ref().map_or(RevisionId::ZERO, |row| row.head.floor.max(row.head.revision));
        let incarnation = self.inner.revisions.mint_above(floor);
        let head = Head { state: State::Live, incarnation, revision: incarnation, body, ..Head::free() };
        match self
            .switch(Switch { partition, base, head, before: Vec::new(), after: Vec::new(), unsure: false })
            .await?
        {
            Switched::Applied => Ok(()),
            // Another server was first; its container serves equally.
            _ => self.parent(&container).await.map(|_| ()),
        }
    }
}
