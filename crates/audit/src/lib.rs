//! The audit: records who requested what, and what was sent.
//!
//! Records are written ahead. No byte leaves before its record is acknowledged, so after a crash
//! the audit reports up to one window too much and never too little. While records cannot be
//! written, new requests are refused.
//!
//! Records are rows of [`store::Table::Audit`]. A partition holds one hour (UTC) of one writer, in
//! the order of ids. One task drains the queue into one write (natural batching): the slower the
//! store, the larger the batches.
//!
//! Files in reading order: `record.rs` defines a record; `handle.rs` has [`Audit`], the handle;
//! `auditor.rs` has the [`Auditor`], which writes; `recorder.rs` makes records and waits until they
//! are written; `pages.rs` records single pages, in windows; `queue.rs` has the queue and the task
//! that writes it; `read.rs` reads records back; `keys.rs` defines the keys of rows.

mod auditor;
mod handle;
mod keys;
mod pages;
mod queue;
mod read;
mod record;
mod recorder;

pub use auditor::Auditor;
pub use handle::Audit;
pub use keys::PART_BYTES;
pub use read::AuditTop;
pub use record::{AuditAction, AuditEntry, AuditRecord, AuditedVolume, DamagedRecord, Requester};
