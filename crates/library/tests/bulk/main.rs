//! Bulk downloads over the embedded engine: archives that resume, damage, missing parts,
//! selections, token counts, the audit, and how requests share resources.
#![allow(clippy::unwrap_used)]

mod as_of;
mod audit;
mod audit_events;
mod audit_pages;
mod bench;
mod damage;
mod missing;
mod resume;
mod selections;
mod sharing;
#[path = "../support/mod.rs"]
mod support;
mod tokens;
