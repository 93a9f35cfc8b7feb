//! The change feed: what was announced and happened, in order, for any number of readers. No HTTP.
//!
//! `heads/src/announce.rs` writes the feed: a switch of a head announces itself before it is made,
//! or with it. This crate reads it. An [`Event`] is an announcement whose change was made. Its
//! position is the *cursor* of a reader that has read it. Events come in the order of positions,
//! which is the order of changes for each object. Beside them a page has the versions that were
//! removed, for copies of the store.
//!
//! Files in reading order: `event.rs` has events and cursors; `reader.rs` reads pages, forward and
//! back; `buckets.rs` finds the buckets of time that have any; `keep.rs` drops old ones;
//! `follow.rs` lets many consumers follow with one reader, by what they share (`live.rs`).

mod buckets;
mod event;
mod follow;
mod keep;
mod live;
mod reader;

pub use event::{Cursor, Event, FeedError, RemovedVersion, Subject};
pub use follow::{Consumer, Events};
pub use heads::announce::{Change, ObjectKind};
pub use reader::{Feed, Page};
