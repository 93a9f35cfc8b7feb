//! Many volumes at once, over the embedded engine: archives that resume, damage, what is missing, selections, token counts, the
//! audit, and how all of them share what there is.
#![allow(clippy::unwrap_used)]

mod audit;
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
