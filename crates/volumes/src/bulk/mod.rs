//! Bulk downloads: makes a plan from a list of ids, and a stream from a plan.
//!
//! Files in reading order: `request.rs` defines a request; `plan.rs` makes a [`BulkPlan`] of it
//! (`planned.rs`), with the exact length and the ETag; `errors.rs` lists what is missing.
//! `source.rs` reads what a plan names, for `pack`; `ahead.rs` reads several volumes ahead,
//! `kept.rs` keeps directories as far as there is room, `retry.rs` repeats reads where that helps,
//! and `trail.rs` writes the audit before volumes are sent. `stream.rs` sends the archive, within
//! what `fairness.rs` allows; `shared_plans.rs` holds equal plans once. `selection.rs` stores plans
//! (`stored_plan.rs`), so that a download can be resumed for days. `token_counts.rs` counts words,
//! and `token_stream.rs` sends the counts.

mod ahead;
mod errors;
pub(crate) mod fairness;
mod kept;
mod plan;
mod planned;
mod request;
mod retry;
pub mod selection;
mod selection_info;
pub(crate) mod shared_plans;
mod source;
mod stored_plan;
mod stream;
mod text_stream;
mod token_counts;
mod token_stream;
mod trail;

pub use errors::{Missing, MissingPart, MissingReason, error_bytes_at_most};
pub use fairness::BulkStream;
pub use plan::Planning;
pub use planned::{BulkPlan, PlanShares, PlannedPage, PlannedVolume};
pub use request::{BulkRequest, OnDamage, Wanted};
pub use selection::{Selection, SelectionTerms};
pub use selection_info::SelectionInfo;
pub use stream::Download;
pub use token_counts::{SortBy, TokenCount, TokenCounter, TokenOrder, Tokenization};
pub use token_stream::{TokenLevel, TokenRequest, TokenRows};
