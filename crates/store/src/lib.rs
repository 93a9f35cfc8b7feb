//! The seam: what Penates asks of the thing that keeps its rows.
//!
//! Rows live at (table, partition, sort key). Partitions are spread over whatever the engine has; inside one partition rows
//! are ordered by the bytes of their sort key. Everything above this crate is written against [`Store`]; everything below it
//! is one engine in a crate of its own. The crate knows nothing of HTTP, ZIP, volumes or LDP.
//!
//! How to read it:
//!
//! - [`Store`] (in `seam.rs`) is the trait; its methods' comments are its promises, and [`suite`] proves each of them.
//! - [`Step`], [`Outcome`] and [`Guard`] are how something is changed: an ordered list, of which any prefix does no harm.
//! - [`Call`] travels with each request: class of data, strength of reads, deadline.
//! - [`envelope`] puts a format version and a checksum around each value, above every engine.
//! - [`suite`] is the behaviour suite: an engine's test file is a list of calls to its macros.
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
