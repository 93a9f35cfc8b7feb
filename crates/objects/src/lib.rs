//! The domain: objects with heads, revisions and containment; volumes, selections, import, audit. No HTTP, no engine.
//!
//! Everything is an *object* in a partition of its own. Its one small **head** row is the only one that ever changes, and only by
//! compare-and-write; all other rows are written once under a key that carries the revision that made them. A writer writes the
//! rows first and switches the head last; a reader reads the head once and then only rows that this head names.
//!
//! How to read it:
//!
//! - `revision.rs`, `keys.rs`, `head.rs`, `directory.rs`: what is stored, and under which keys.
//! - `library.rs`: [`Library`], the handle that everything else hangs on, with its options; `read.rs`: how heads, directories and
//!   frames are read (twice, before anything is called damaged).
//! - `switch.rs` and `containment.rs`: the protocols that change heads and say what a container contains.
//! - `import.rs`, `delete.rs`, `verify.rs`, `damage.rs`, `collect.rs`: what is done to one volume.
//! - `bulk/`: from a list of ids to a plan, from a plan to a stream; selections; token counts. `audit.rs`: who asked for what.

pub mod directory;
pub mod error;
pub mod head;
pub mod keys;
pub mod library;
pub mod read;
pub mod revision;

pub use error::{ObjectsError, ObjectsResult};
pub use head::{Body, ContainerBody, Head, HeadRow, State, VolumeBody};
pub use library::{Library, LibraryOptions};
pub use revision::{RevisionClock, RevisionId};
