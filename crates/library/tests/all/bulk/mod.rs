//! Bulk downloads over the embedded engine: archives that resume, damage, missing parts,
//! selections, token counts, the audit, and how requests share resources.
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
mod tokens;
