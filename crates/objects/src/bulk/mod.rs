//! Bulk downloads: makes a plan from a list of ids, and a stream from a plan.
//!
//! Files in reading order: `request.rs` defines a request; `plan.rs` makes a [`BulkPlan`] of it,
//! with the exact length and the ETag; `errors.rs` lists what is missing. `source.rs` reads what a
//! plan names, for `pack`; `ahead.rs` reads several volumes ahead, `kept.rs` keeps directories as
//! far as there is room, `retry.rs` repeats reads where that helps, and `trail.rs` writes the audit
//! before volumes are sent. `stream.rs` sends the archive. `selection.rs` stores plans
//! (`stored_plan.rs`), so that a download can be resumed for days. `token_counts.rs` counts words,
//! and `token_stream.rs` sends the counts.

mod ahead;
mod errors;
mod kept;
mod plan;
mod request;
mod retry;
pub(crate) mod selection;
mod shared_plans;
mod source;
mod stored_plan;
mod stream;
mod token_counts;
mod token_stream;
mod trail;

use std::sync::Arc;

use store::Store;

pub use errors::{Missing, MissingPart, MissingReason};
pub use plan::{BulkPlan, PlannedPage, PlannedVolume, Planning};
pub use request::{BulkRequest, OnDamage, Wanted};
pub use selection::{Selection, SelectionInfo, SelectionTerms};
pub use stream::Download;
pub use token_counts::{SortBy, TokenCounter, TokenOrder};
pub use token_stream::{TokenLevel, TokenRequest};

use shared_plans::SharedPlans;

use crate::audit::Auditor;
use crate::fairness::Fairness;
use crate::library::LibraryOptions;
use crate::surroundings::Surroundings;

/// State that all bulk requests of a process share.
pub(crate) struct Bulk {
    pub(crate) fairness: Arc<Fairness>,
    pub(crate) auditor: Auditor,
    pub(crate) plans: SharedPlans,
}

impl Bulk {
    /// Must be called within a tokio runtime.
    pub(crate) fn new(store: &Arc<dyn Store>, surroundings: &Surroundings, options: &LibraryOptions) -> Self {
        let auditor = Auditor::new(store.clone(), surroundings, options);
        let fairness = Fairness::new(options, surroundings.compute);
        Self { fairness, auditor, plans: SharedPlans::default() }
    }
}
