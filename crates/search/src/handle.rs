//! The handle of the index.

use std::sync::Arc;
use std::time::Instant;

use feed::Feed;
use heads::{Heads, ObjectsError, ResourcePath};
use parking_lot::Mutex;
use repository::Repository;
use store::boxed;
use thiserror::Error;
use tokio::sync::OnceCell;

use crate::cursors::{self, Cursors};
use crate::describe::OwnTypes;
use crate::find::{Finding, Found, Limits};
use crate::indexer::{Indexer, Measures, Pacing};
use crate::query::Query;
use crate::state::{self, State, Status};

/// Tries to change the state while the server that writes the index changes it too.
const TRIES_MAX: usize = 8;

/// Why the index cannot be searched or changed.
#[derive(Debug, Error)]
pub enum SearchError {
    /// No server has begun to make it.
    #[error("there is no search index yet: a server makes it, unless search.index or feed.keep is off")]
    None,
    /// The store, or the kernel.
    #[error(transparent)]
    Objects(#[from] ObjectsError),
}

/// Searches. Cheap to clone; holds no state that another server would need.
#[derive(Clone)]
pub struct Search {
    heads: Heads,
    cursors: Arc<OnceCell<Cursors>>,
    /// How this process gets on with writing the index, if it does.
    measures: Arc<Mutex<Measures>>,
}

impl Search {
    /// The index of a store.
    pub fn new(heads: Heads) -> Self {
        Self { heads, cursors: Arc::default(), measures: Arc::default() }
    }

    /// The writer of the index. `own_types` finds the types in a description. While its attempts
    /// fail, searches of this process say that results may be missing.
    pub fn indexer(&self, repository: Repository, feed: Feed, own_types: OwnTypes, pacing: Pacing) -> Indexer {
        Indexer::new(self.heads.clone(), repository, feed, own_types, pacing, self.measures.clone())
    }

    /// Searches, within limits. `trees` are those that the agent may read; `None`: everything. What
    /// is outside is neither found nor counted.
    #[boxed]
    pub async fn find(
        &self,
        query: &Query,
        limits: Limits,
        trees: Option<&[ResourcePath]>,
    ) -> Result<Found, SearchError> {
        let begun = Instant::now();
        let state = state::read_lately(&self.heads).await?.ok_or(SearchError::None)?;
        let (generation, is_complete) = state.answering().ok_or(SearchError::None)?;
        let is_complete = is_complete && self.is_kept(&state);
        let finding = Finding { heads: &self.heads, generation, query, limits, begun, trees };
        Ok(Found { is_complete, ..finding.run().await? })
    }

    /// Whether some server keeps the index up to date, as far as this one can know. Where servers
    /// share a store, the one that does so renews its lease.
    fn is_kept(&self, state: &State) -> bool {
        let patience = self.heads.options().clock_skew_max;
        let is_shared = self.heads.store().capabilities().is_shared;
        let is_leased = !is_shared || self.heads.now() <= state.leased_until.plus(patience);
        self.heads.announces() && is_leased && !self.measures.lock().is_failing
    }

    /// What seals the places where pages begin.
    pub async fn cursors(&self) -> Result<&Cursors, SearchError> {
        let read = async || cursors::read(&self.heads).await?.ok_or(SearchError::None);
        self.cursors.get_or_try_init(read).await
    }

    /// How the index is.
    #[boxed]
    pub async fn status(&self) -> Result<Status, SearchError> {
        let state = state::read_lately(&self.heads).await?.ok_or(SearchError::None)?;
        let status = state.status();
        Ok(Status { is_complete: status.is_complete && self.is_kept(&state), ..status })
    }

    /// Asks the server that writes the index to make it anew. The present one answers meanwhile.
    #[boxed]
    pub async fn rebuild(&self) -> Result<(), SearchError> {
        self.heads.store().check_home().map_err(ObjectsError::from)?;
        for _ in 0..TRIES_MAX {
            let known = state::read(&self.heads).await?;
            let Some(mut state) = known.value else { return Err(SearchError::None) };
            state.wanted = Some("an operator asked for it".to_owned());
            if state::write(&self.heads, &state, known.expect).await?.is_some() {
                return Ok(());
            }
        }
        Err(ObjectsError::Overloaded("the state of the search index is being changed; try again".to_owned()).into())
    }
}
