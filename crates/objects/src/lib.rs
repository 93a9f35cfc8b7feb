//! The domain: objects with heads, revisions and containment; volumes, selections, import, audit.
//! No HTTP, no engine.
//!
//! Everything is an *object* in a partition of its own. Its one small **head** row is the only row
//! that ever changes, and only by compare-and-write. All other rows are written once, under a key
//! with the revision that made them. A writer writes its rows first and switches the head last. A
//! reader reads the head once and then only rows that this head names.
//!
//! Files in reading order:
//!
//! - `revision.rs`, `keys.rs`, `head.rs`, `directory.rs`: the stored rows and their keys.
//! - `library.rs`: [`Library`], the handle for all calls, with its options. `surroundings.rs`: what
//!   it takes from the machine (time, randomness, threads). `rules.rs`: the rules of the protocols
//!   by name, so that the simulator can leave one out. `read.rs`: reads heads, directories and
//!   frames (twice, before anything counts as damaged).
//! - `switch.rs`, `head_log.rs` and `containment.rs`: the protocols that change heads, keep
//!   replaced heads, and define the children of a container. `bounds.rs`: the largest size of each
//!   kind of partition.
//! - `import.rs` (with `packer.rs`, its pure part; `generations.rs` lists what imports wrote),
//!   `delete.rs`, `page.rs`, `verify.rs`, `damage.rs`: operations on one volume. `list.rs` (with
//!   `children.rs`, which reads a shard), `statistics.rs`: operations on all volumes.
//! - `collect.rs`, `history.rs` and `pins.rs`: remove what no head names, and protect what is kept
//!   or pinned. `rewrite.rs`: removes past members from a shard. `grow.rs`: gives a container more
//!   shards. `past.rs`: keeps past members. `queue.rs`: records work for all of these. `passes.rs`:
//!   handles failing records in passes.
//! - `bulk/`: plans and streams from lists of ids; selections; token counts. `fairness.rs`: divides
//!   resources among concurrent streams. `memory.rs`: the budget of memory that clients make the
//!   server hold. `shares.rs`: the rule of both. `turns.rs`: whose turn is next. `audit/`: records
//!   who requested what.

pub mod audit;
pub mod bounds;
pub mod bulk;
mod child;
mod children;
pub mod collect;
pub mod containment;
pub mod damage;
pub mod delete;
pub mod directory;
pub mod error;
pub mod fairness;
mod generations;
mod grow;
pub mod head;
mod head_log;
mod history;
pub mod import;
pub mod keys;
pub mod library;
pub mod list;
pub mod memory;
mod open;
mod packer;
pub mod page;
mod passes;
mod past;
pub mod pins;
mod queue;
pub mod read;
pub mod resources;
pub mod revision;
mod rewrite;
pub mod rules;
pub mod salvage;
mod shares;
pub mod statistics;
pub mod surroundings;
mod switch;
mod turns;
pub mod verify;

pub use audit::{AuditAction, AuditEntry, AuditRecord, AuditTop, AuditedVolume, Auditor, DamagedRecord, Requester};
pub use bulk::{
    BulkPlan, BulkRequest, Download, Missing, MissingPart, MissingReason, OnDamage, Planning, Selection, SelectionInfo,
    SelectionTerms, SortBy, TokenLevel, TokenOrder, TokenRequest, Wanted,
};
pub use collect::{CollectLimits, Collected};
pub use directory::{Entry, PageFixity, Place};
pub use error::{ObjectsError, ObjectsResult};
pub use fairness::BulkStream;
pub use head::{Body, ContainerBody, Head, HeadRow, State, VolumeBody};
pub use history::{History, InvalidKeep, Keep};
pub use import::{Checked, ImportProgress, Imported, Unchanged, check};
pub use library::{Library, LibraryOptions};
pub use list::{ListToken, Listing};
pub use memory::{Memory, Share};
pub use page::{MemberRead, PageInfo, PageRead};
pub use passes::Chore;
pub use pins::Pinned;
pub use queue::Queue;
pub use read::Volume;
pub use resources::path::{InvalidPath, ResourcePath};
pub use resources::{ResourceError, ResourceResult};
pub use revision::{RevisionClock, RevisionId};
pub use rules::{Rule, Rules};
pub use salvage::SetRight;
pub use shares::Party;
pub use statistics::Statistics;
pub use surroundings::{Compute, Surroundings};
pub use verify::{DamagedMember, Verified};
