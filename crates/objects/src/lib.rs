//! The domain: objects with heads, revisions and containment; volumes, selections, import, audit. No HTTP, no engine.
//!
//! Everything is an *object* in a partition of its own. Its one small **head** row is the only one that ever changes, and only by
//! compare-and-write; all other rows are written once under a key that carries the revision that made them. A writer writes the
//! rows first and switches the head last; a reader reads the head once and then only rows that this head names.
//!
//! How to read it:
//!
//! - `revision.rs`, `keys.rs`, `head.rs`, `directory.rs`: what is stored, and under which keys.
//! - `library.rs`: [`Library`], the handle that everything else hangs on, with its options; `surroundings.rs`: what it takes from the
//!   machine (time, randomness, threads); `rules.rs`: the rules of the protocols by name, for the simulator to leave one out; `read.rs`: how heads, directories and
//!   frames are read (twice, before anything is called damaged).
//! - `switch.rs`, `head_log.rs` and `containment.rs`: the protocols that change heads, keep those that were replaced, and say what a
//!   container contains. `bounds.rs`: how large each kind of partition gets.
//! - `import.rs` (with `packer.rs`, the pure part; `generations.rs` lists what imports wrote), `delete.rs`, `page.rs`, `verify.rs`, `damage.rs`: what is done to one volume;
//!   `list.rs` (with `children.rs`, which reads a shard), `statistics.rs`: to all of them.
//! - `collect.rs`, `history.rs` and `pins.rs`: how what no head names is taken away, and what holds that up; `rewrite.rs`: how a
//!   shard gets rid of its past members; `grow.rs`: how a container gets more shards; `past.rs`: where past members are kept;
//!   `queue.rs`: how work of all these is recorded; `passes.rs`: what a record that cannot be dealt with does to them.
//! - `bulk/`: from a list of ids to a plan, from a plan to a stream; selections; token counts. `fairness.rs`: how those who
//!   stream at the same time share what there is; `memory.rs`: how much clients may make the server hold; `shares.rs`: the rule of both;
//!   `turns.rs`: whose turn is next. `audit.rs`: who asked for what.

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
