//! The kernel of the domain: heads, revisions, containment, and the work that follows from them. No
//! HTTP, no engine; nothing of how volumes or resources are made or read.
//!
//! Everything is an *object* in a partition of its own. Its one small **head** row is the only row
//! that ever changes, and only by compare-and-write. All other rows are written once, under a key
//! with the revision that made them. A writer writes its rows first and switches the head last. A
//! reader reads the head once and then only rows that this head names.
//!
//! Files in reading order:
//!
//! - `revision.rs`, `path.rs`, `mark.rs`, `keys.rs`: ids, and the keys of all rows. `head.rs`, with
//!   `container_body.rs`, `volume_body.rs` and `resource_body.rs`: what a head holds.
//! - `handle.rs`: [`Heads`], the handle for all calls. `options.rs` and `keep.rs`: settings.
//!   `surroundings.rs`: what it takes from the machine (time, randomness, threads). `rules.rs`: the
//!   rules of the protocols by name, so that the simulator can leave one out. `error.rs`: errors.
//! - `retries.rs`, `read.rs`, `switch.rs`, `head_log.rs`: repeat calls, read heads, change them,
//!   and keep replaced ones. `history.rs`: which replaced ones are kept. `timeline.rs`: the
//!   versions in order of time (`timeline/newest_first.rs`: the newest first). `received.rs`:
//!   versions that clients sent with their times. `announce.rs`, `positions.rs` and
//!   `feed_mark.rs`: announce changes for the change feed, and mark where it begins.
//! - `containment.rs`, `child.rs`, `children.rs`, `list.rs`: the children of a container, how one
//!   is created and deleted, and how they are listed. `open.rs`: the containers at the top.
//! - `queues.rs`, `queue.rs`, `chores.rs`, `passes.rs`, `due_work.rs`: recorded work, passes over it, what they find.
//! - `sampling.rs`, `past.rs`, `rewrite.rs`, `grow.rs`: how large a container is; its past members;
//!   a shard without them; more shards. `as_of.rs`: the members as of a time.
//! - `claim.rs`, `transaction.rs`: transactions, and the heads that they hold. `guarded.rs`: other values that
//!   several servers change.

pub mod actor;
pub mod announce;
pub mod as_of;
pub mod child;
pub mod children;
pub mod chores;
pub mod claim;
pub mod container_body;
pub mod containment;
mod due_work;
pub mod error;
pub mod feed_mark;
pub mod grow;
pub mod guarded;
pub mod handle;
pub mod head;
pub mod head_log;
pub mod history;
pub mod keep;
pub mod keys;
pub mod list;
pub mod mark;
mod open;
pub mod options;
mod passes;
pub mod past;
pub mod path;
mod positions;
pub mod queue;
pub mod queues;
mod read;
pub mod received;
pub mod resource_body;
pub mod retries;
pub mod revision;
pub mod rewrite;
pub mod rules;
pub mod sampling;
pub mod surroundings;
pub mod switch;
pub mod timeline;
pub mod transaction;
pub mod version_marks;
pub mod volume_body;

pub use chores::Chore;
pub use claim::{Claim, TransactionId};
pub use container_body::ContainerBody;
pub use due_work::Due;
pub use error::{ObjectsError, ObjectsResult};
pub use handle::Heads;
pub use head::{Body, Head, HeadRow, ObjectState};
pub use keep::{History, HistoryTrees, InvalidKeep, Keep};
pub use list::ListToken;
pub use mark::Mark;
pub use options::{LibraryOptions, VOLUMES};
pub use path::{InvalidPath, ResourcePath};
pub use queues::Queue;
pub use revision::{RevisionClock, RevisionId};
pub use rules::{Rule, Rules};
pub use surroundings::{Compute, Surroundings};
pub use transaction::{Phase, Transaction};
pub use volume_body::{Entry, FramePlace, VolumeBody};
