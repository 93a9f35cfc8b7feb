//! Volumes: import, pages, bulk downloads, selections, damage, collecting. No HTTP, no engine.
//!
//! Files in reading order:
//!
//! - `handle.rs`: [`Volumes`], the handle for all calls. `directory.rs`: the stored rows of a
//!   volume besides its head. `read.rs`: reads directories and frames (twice, before anything
//!   counts as damaged).
//! - `import.rs` (with `packer.rs`, its pure part; `generations.rs` lists what imports wrote),
//!   `import/replace.rs`, `delete.rs`, `page.rs`, `verify.rs`, `damage.rs` (with
//!   `unwritten_marks.rs`): operations on one volume. `list.rs`: lists volumes. `find/`: finds them
//!   by conditions. `versions.rs`: earlier versions of one. `as_of.rs`: lists those that there were
//!   at a time. `deleted.rs`: lists those that were deleted. `waiting.rs`: whether a caller still
//!   waits for work on another thread.
//! - `collect.rs` and `pins.rs`: remove what no head names, and protect what is pinned.
//! - `bulk/`: plans and streams from lists of ids; selections; token counts.

mod as_of;
pub mod bulk;
mod collect;
pub mod damage;
mod delete;
mod deleted;
pub mod directory;
pub mod find;
pub mod generations;
mod handle;
mod import;
mod list;
mod packer;
mod page;
mod pins;
mod read;
mod unwritten_marks;
mod verify;
mod versions;
mod waiting;

pub use as_of::PastVolumes;
pub use bulk::{
    BulkPlan, BulkRequest, BulkStream, Download, Missing, MissingPart, MissingReason, OnDamage, Planning, Selection,
    SelectionInfo, SelectionTerms, SortBy, TokenCount, TokenLevel, TokenOrder, TokenRequest, TokenRows, Tokenization,
    Wanted, error_bytes_at_most,
};
pub use collect::{CollectLimits, Collected};
pub use deleted::DeletedVolume;
pub use directory::PageFixity;
pub use handle::Volumes;
pub use import::{Checked, ImportProgress, Imported, Replacement, Unchanged, check};
pub use list::Listing;
pub use page::{MemberRead, PageInfo, PageRead};
pub use pins::{ALIKE_PINS_MAX, PIN_BEGINNINGS, Pinned, UNSEEN_PINS_MAX};
pub use read::Volume;
pub use verify::{DamagedMember, Verified, VerifiedVersions, VolumePart};
pub use versions::{Then, VersionInfo, Versions};
pub use waiting::{Caller, Waiting};
