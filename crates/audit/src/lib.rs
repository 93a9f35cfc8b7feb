//! The audit: records who requested what, and what was sent; who changed what, and who was refused.
//!
//! Records are written ahead. No byte leaves before its record is acknowledged, so after a crash
//! the audit reports up to one window too much and never too little. While records cannot be
//! written, new requests are refused.
//!
//! Records are rows of [`store::Table::Audit`]. A partition holds one hour (UTC) of one writer, in
//! the order of ids. One task drains the queue into one write (natural batching): the slower the
//! store, the larger the batches.
//!
//! Requests for text have records that name volumes. Everything else is an *event*: a change, a
//! read of a resource, or refusals, which are counted. Stores keep events from level 7 on.
//!
//! Files in reading order: `record.rs` defines a record, `event.rs` an event; `handle.rs` has
//! [`Audit`], the handle; `auditor.rs` has the [`Auditor`], which writes; `recorder.rs` makes
//! records and waits until they are written; `pages.rs` records single pages, in windows;
//! `queue.rs` has the queue and the task that writes it; `refusals.rs` counts refusals; `read.rs`
//! reads records back, those that meet `conditions.rs`, and `follow.rs` those that are new;
//! `form.rs` writes entries as JSON and CSV; `keep.rs` deletes old ones; `erase.rs`
//! erases persons; `keys.rs` defines the keys of rows.

mod auditor;
mod conditions;
mod erase;
mod event;
mod follow;
pub mod form;
mod handle;
mod keep;
mod keys;
mod pages;
mod queue;
mod read;
mod record;
mod recorder;
mod refusals;

pub use auditor::Auditor;
pub use conditions::{Conditions, Reading, WantedKind, WantedResult};
pub use erase::{ERASED, Erased, Whom};
pub use event::{Actor, Event, EventKind, EventRecord, EventResult};
pub use handle::Audit;
pub use keep::Pruned;
pub use keys::PART_BYTES;
pub use read::AuditTop;
pub use record::{AuditAction, AuditEntry, AuditRecord, AuditedVolume, DamagedRecord, Requester};
