//! The handle of the index.

use std::time::Instant;

use heads::{Heads, ObjectsError, ResourcePath};
use store::FormatLevel;
use thiserror::Error;

use crate::find::{Finding, Found, Limits};
use crate::query::Query;
use crate::state::{self, Status};

/// Tries to change the state while the server that writes the index changes it too.
const TRIES_MAX: usize = 8;

/// Why the index cannot be searched or changed.
#[derive(Debug, Error)]
pub enum SearchError {
    /// The store's level does not allow an index.
    #[error("the store has level {0}, and the search index needs level {NEEDED}: run `penates upgrade`", NEEDED = FormatLevel::SEARCH)]
    Level(FormatLevel),
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
}

impl Search {
    /// The index of a store.
    pub fn new(heads: Heads) -> Self {
        Self { heads }
    }

    fn check(&self) -> Result<(), SearchError> {
        let level = self.heads.store().level();
        if level < FormatLevel::SEARCH { Err(SearchError::Level(level)) } else { Ok(()) }
    }

    /// Searches, within limits. Only results at paths of which `may_read` is true are found and
    /// counted: it is asked once for each possible result.
    pub async fn find(
        &self,
        query: &Query,
        limits: Limits,
        may_read: &(dyn Fn(&ResourcePath) -> bool + Sync),
    ) -> Result<Found, SearchError> {
        self.check()?;
        let begun = Instant::now();
        let state = state::read_lately(&self.heads).await?;
        let (generation, is_complete) = state.and_then(|state| state.answering()).ok_or(SearchError::None)?;
        // Without the feed nobody follows any more.
        let is_complete = is_complete && self.heads.announces();
        let finding = Finding { heads: &self.heads, generation, query, limits, begun, may_read };
        Ok(Found { is_complete, ..finding.run().await? })
    }

    /// How the index is.
    pub async fn status(&self) -> Result<Status, SearchError> {
        self.check()?;
        let state = state::read_lately(&self.heads).await?.ok_or(SearchError::None)?;
        Ok(state.status())
    }

    /// Asks the server that writes the index to make it anew. The present one answers meanwhile.
    pub async fn rebuild(&self) -> Result<(), SearchError> {
        self.check()?;
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
