//! Many volumes at once: from a list of ids to a plan, from a plan to a stream.
//!
//! How to read it: `request.rs` is what is asked for; `plan.rs` makes a [`BulkPlan`] of it, with the exact length and the ETag;
//! `errors.rs` says what is missing. `source.rs` reads what a plan names, for `pack` (`ahead.rs`: several volumes at once, before they
//! are asked for; `kept.rs`: directories but once, as far as there is room; `retry.rs`: again where that helps; `trail.rs`: not before it is in the audit), and `stream.rs` sends it. `selection.rs` stores plans (`stored_plan.rs`), so that
//! a download can be resumed for days. `token_counts.rs` counts words, `token_stream.rs` sends the counts.

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
pub use plan::{BulkPlan, LAYOUT_VERSION, PlannedPage, PlannedVolume, Planning};
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

/// What the bulk readers of one process share.
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
