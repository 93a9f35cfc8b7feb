//! The library: one handle for each room.

use std::sync::Arc;

use audit::Audit;
use budget::Memory;
use feed::Feed;
use futures::FutureExt;
use futures::future::BoxFuture;
use heads::containment::Container;
use heads::resource_body::ResourceBody;
use heads::{Body, ContainerBody, Heads, LibraryOptions, ObjectsResult, ResourcePath, Rule, Surroundings};
use repository::Repository;
use search::Search;
use store::{Clock, Store, boxed};
use volumes::Volumes;

/// A library over a store. Cheap to clone; holds no state that another server would need.
#[derive(Clone)]
pub struct Library {
    /// The kernel: heads, containment, recorded work.
    pub heads: Heads,
    /// Volumes: import, pages, bulk downloads, selections.
    pub volumes: Volumes,
    /// Resources at paths.
    pub repository: Repository,
    /// The change feed.
    pub feed: Feed,
    /// The search index.
    pub search: Search,
    /// Who requested what.
    pub audit: Audit,
    /// The budget of memory that clients make the server hold.
    pub memory: Memory,
}

impl Library {
    /// Opens a library: checks the options, and creates the top containers if they do not exist.
    /// Several servers may open the same store at once; one of them creates each container. Must be
    /// called within a tokio runtime, on which the writer of the audit runs.
    #[boxed]
    pub async fn open(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: LibraryOptions) -> ObjectsResult<Self> {
        Self::open_within(store, Surroundings::of_this_machine(clock), options).await
    }

    /// Opens a library within other surroundings than those of this machine.
    pub fn open_within(
        store: Arc<dyn Store>,
        surroundings: Surroundings,
        options: LibraryOptions,
    ) -> BoxFuture<'static, ObjectsResult<Self>> {
        async move {
            if surroundings.rules.keep(Rule::LongGrace) {
                options.check()?;
            }
            let heads = Heads::new(store, surroundings, options);
            let LibraryOptions { shards, resource_shards, memory_bytes, .. } = *heads.options();
            heads.make_container(Container::Volumes, Body::Container(ContainerBody::new(shards))).await?;
            let root = ResourceBody::empty_container(resource_shards);
            heads.make_container(Container::At(ResourcePath::root()), Body::Resource(root)).await?;
            let memory = Memory::new(memory_bytes);
            let audit = Audit::new(heads.clone());
            let volumes = Volumes::new(heads.clone(), audit.clone(), memory.clone());
            let (repository, feed) = (Repository::new(heads.clone()), Feed::new(heads.clone()));
            let search = Search::new(heads.clone());
            Ok(Self { repository, feed, search, heads, volumes, audit, memory })
        }
        .boxed()
    }

    /// The same library, for a caller that reads everything once: see [`Heads::once`].
    pub fn once(&self) -> Self {
        let (heads, volumes, repository) = (self.heads.once(), self.volumes.once(), self.repository.once());
        Self { heads, volumes, repository, ..self.clone() }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.heads.store()
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.heads.clock()
    }

    /// The settings.
    pub fn options(&self) -> &LibraryOptions {
        self.heads.options()
    }
}
