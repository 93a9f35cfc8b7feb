//! The seam: the interface of storage engines.
//!
//! A row is at (table, partition, sort key). An engine may spread partitions as it likes. Within a partition rows are ordered by the
//! bytes of their sort key. Crates above this one use [`Store`]. Each engine below it is a crate of its own. The crate knows no HTTP,
//! ZIP, volume or LDP.
//!
//! How to read it:
//!
//! - [`Store`] (in `seam.rs`) is the trait. The comments of its methods are its promises, and [`suite`] tests each of them.
//! - [`Step`], [`Outcome`] and [`Guard`] describe changes: an ordered list of steps, of which any prefix does no harm.
//! - [`Call`] accompanies each request: class of data, strength of reads, deadline.
//! - [`envelope`] adds a format version and a checksum to each value, above every engine.
//! - [`suite`] is the behaviour suite. An engine's test file is a list of calls to its macros.
//! - Wrappers over the same trait: [`limited`] enforces the limits, [`read_only`] refuses changes for a while, [`faults`] injects what
//!   real engines will not do on demand, and [`null`] is the engine that answers constants at once (for benchmarks: what do doors and protocol cost by themselves?).
//! - [`copying`] makes one store like another, whatever their engines; [`wire`] is how a store that a server holds is read from beside it.

pub mod call;
pub mod clock;
pub mod content;
pub mod copying;
pub mod envelope;
pub mod error;
pub mod faults;
pub mod limited;
pub mod null;
pub mod random;
pub mod read_only;
pub mod row;
pub mod seam;
pub mod step;
pub mod suite;
pub mod wire;

pub use call::{Call, Class, Deadline, Strength};
pub use clock::{Clock, ManualClock, SystemClock, UnixMillis};
pub use content::{ContentHeader, ContentId, ContentState, ContentStream};
pub use error::{StoreError, StoreResult};
pub use random::{Random, SystemRandom};
pub use row::{Direction, Guard, Lane, NewRow, Row, Rows, Scan, Stamp, Table};
pub use seam::{AtOnce, Health, Limits, Store, WalkPage};
pub use step::{Condition, Expect, Outcome, Removal, Step};
