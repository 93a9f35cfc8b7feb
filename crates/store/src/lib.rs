//! The seam: the interface of storage engines.
//!
//! A row is at (table, partition, sort key). An engine may spread partitions as it likes. Within a
//! partition rows are ordered by the bytes of their sort key. Crates above this one use [`Store`].
//! Each engine below it is a crate of its own. This crate knows no HTTP, ZIP, volume or LDP.
//!
//! How to read it:
//!
//! - [`Store`] (in `seam.rs`) is the trait. The comments of its methods are its promises, and
//!   `suite` tests each of them.
//! - [`Table`] (in `table.rs`) lists the tables, each described by a [`TableInfo`].
//! - [`Step`], [`Outcome`] and [`Guard`] describe changes: an ordered list of steps, of which any
//!   prefix does no harm.
//! - [`Call`] accompanies each request: class of data, strength of reads, deadline, durability.
//! - [`lifecycle`] decides about large contents: when one is sealed, condemned or deleted.
//! - [`envelope`] adds a [`ValueKind`], its version and a checksum to each value, above every
//!   engine. [`stored`] encodes and decodes types, and [`FormatLevel`] says which versions a store
//!   holds.
//! - `suite`, for tests, is the behaviour suite. An engine's test file is a list of calls to its
//!   macros.
//! - [`Wrapper`] (in `wrapper.rs`) is a store that changes some methods of another one: [`limited`]
//!   enforces the limits, and [`read_only`] refuses changes for a while. `faults`, for tests, injects
//!   what real engines will not do on demand.
//! - [`Measure`] is a number that an engine reports of itself, for monitors.
//! - [`null`] is an engine that returns constants at once. Benchmarks use it to measure the doors
//!   and the protocol alone.
//! - [`copying`] makes one store equal to another, whatever their engines.
//! - [`Cut`] (in `cut.rs`) is what a backup reads of a store that goes on.
//! - [`wire`] encodes reads of a store that another process holds.

pub mod call;
pub mod class;
pub mod clock;
pub mod content;
pub mod copying;
pub mod cut;
pub mod envelope;
pub mod error;
#[cfg(any(test, feature = "testing"))]
#[path = "../tests/support/faults.rs"]
pub mod faults;
pub mod format_level;
pub mod hidden;
pub mod lifecycle;
pub mod limited;
pub mod measure;
pub mod null;
pub mod random;
pub mod read_only;
pub mod row;
pub mod seam;
pub mod step;
pub mod stored;
#[cfg(any(test, feature = "testing"))]
#[path = "../tests/suite/mod.rs"]
pub mod suite;
pub mod table;
pub mod value_kind;
pub mod wire;
pub mod wrapper;

/// Makes an `async fn` give out a boxed future. A future is compiled in each crate that awaits it,
/// with all that it awaits in turn; a boxed one only in its own crate. So functions that other
/// crates await have this attribute, except those that are called for each row or frame.
pub use async_recursion::async_recursion as boxed;
pub use call::{Call, Deadline, Strength};
pub use class::{Class, Durability};
pub use clock::{Clock, ForwardClock, ManualClock, SystemClock, UnixMillis};
pub use content::{ContentHeader, ContentId, ContentState, ContentStream};
pub use cut::Cut;
pub use error::{StoreError, StoreResult};
pub use format_level::FormatLevel;
pub use hidden::Hidden;
pub use measure::{Measure, Measured};
pub use random::{Random, SystemRandom};
pub use row::{Direction, Guard, NewRow, PlainValue, Row, Rows, Scan, Stamp};
pub use seam::{AtOnce, Capabilities, Health, Limits, NoRoom, RowPage, Store, WalkPage};
pub use step::{Condition, Expect, Outcome, Removal, Step};
pub use stored::Stored;
pub use table::{Lane, PlainRows, Table, TableInfo};
pub use value_kind::ValueKind;
pub use wrapper::Wrapper;
