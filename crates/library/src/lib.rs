//! The library: what a server opens over a store. It joins the rooms of the domain, each a crate of
//! its own, and does what concerns several of them.
//!
//! Files in reading order: `library.rs` has [`Library`], with one handle for each room.
//! `statistics.rs` counts what is stored. `salvage.rs` repairs a salvaged store. `following.rs` copies
//! what belongs to a changed object. `bounds.rs`: the largest size of each kind of partition.

pub mod bounds;
pub mod following;
mod library;
mod salvage;
mod statistics;

pub use library::Library;
pub use salvage::SetRight;
pub use statistics::Statistics;
