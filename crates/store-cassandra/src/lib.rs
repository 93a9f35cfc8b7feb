//! The Cassandra engine: the seam over Apache Cassandra (4.0 or later, tested with 5.0.6), with one
//! keyspace and any number of processes.
//!
//! One CQL table stores each [`store::Table`]. A partition is a partition, and a sort key is a
//! clustering key. There are two kinds of rows, and a row never changes its kind:
//!
//! - **plain** rows are written unconditionally with write times of Penates, which never run back,
//!   or replaced by lightweight transactions that compare the value ([`store::Step::Replace`]). The
//!   value is a single cell (including the expiry), because Cassandra merges two writes with equal
//!   write times cell by cell.
//!   A call may let the last write win instead ([`store::Call::is_by_clock`]); a row has one of the
//!   two orders for ever;
//! - **guarded** rows (heads) are created, changed and deleted only by lightweight transactions.
//!
//! Differences from the embedded engine:
//!
//! - A list of steps runs step by step, and a refused or failed step leaves the earlier ones
//!   applied. The seam allows that, and every protocol above is built for it. A list that failed
//!   after a step was applied ends as unknown, not as an error.
//! - A page of a scan may need several reads of the cluster. It is a snapshot only if one was
//!   enough.
//! - A removal reads first. It writes a tombstone with the write time of the newest row that it
//!   saw, and around guarded rows. So it also removes what a server with a faster clock wrote, and
//!   never hides what is written later. It costs a read.
//! - If one server removes a row and another, whose clock lags behind, puts the same key again
//!   within that lag after the removed row was put, the row stays removed. `docs/protocols.md` lists
//!   why no put of the domain is lost so (Removed rows): keys are new, nothing puts a row again once
//!   its work is done, or the put is read back or made again.
//!
//! Strong reads are reads at a level that meets every finished write (see `levels.rs`). SERIAL
//! reads are used only if the outcome of a lightweight transaction is unknown.
//!
//! How to read it:
//!
//! - `settings.rs`: what a configuration says; `options.rs`, `address.rs` and `credentials.rs`: what
//!   the engine needs to know;
//! - `cassandra_store.rs`: the [`CassandraStore`], which opens the keyspace; `engine.rs`: what is
//!   open; `upkeep.rs`: what it does by itself;
//! - `connect.rs` (session, data center, format), `routing.rs` (choice of nodes), `statements.rs`,
//!   and `requests.rs`, through which every request to the cluster goes (deadline, level, retries;
//!   `failure.rs`: meaning of errors);
//! - `read.rs` (`row_sizes.rs`: the size of pages; `parts.rs`: ranges with many tombstones),
//!   `write.rs`, `compare.rs` and `replace.rs` (lightweight transactions; `turns.rs`: one at a
//!   time), `by_clock.rs` (the last write wins), `contents.rs` and `chunks.rs`;
//! - several servers: `lease.rs` (the protocol), `leasing.rs` and `raising.rs` (the level of the
//!   store), `clocks.rs` (whether the clock is right); several data centers: `lag.rs`, `home.rs`
//!   and `move_home.rs` (which of them switches heads); `at_node.rs` reads tables at each node
//!   apart, to warm it (`warm.rs`) and to compare copies (`copies/`);
//! - at the bottom the stored form: `levels.rs`, `schema.rs` (`initialise.rs` creates it),
//!   `value.rs` and `write_times.rs`. `testing` is for tests only.

mod address;
mod at_node;
mod by_clock;
mod cassandra_store;
mod chunks;
mod clocks;
mod compare;
mod connect;
mod contents;
mod copies;
mod credentials;
mod engine;
mod failure;
mod home;
mod initialise;
mod lag;
mod lease;
mod leasing;
mod levels;
mod move_home;
mod options;
mod parts;
mod raising;
mod read;
mod replace;
mod requests;
mod routing;
mod row_sizes;
mod schema;
mod settings;
mod statements;
#[cfg(feature = "testing")]
#[path = "../tests/testing/mod.rs"]
pub mod testing;
mod traffic;
mod turns;
mod upkeep;
mod value;
mod warm;
mod write;
mod write_times;

pub use address::{Address, AddressError};
pub use cassandra_store::CassandraStore;
pub use copies::{Compared, Comparing, CopyFault, OnCompared, WrongCopy};
pub use credentials::{Credentials, Password};
pub use home::Home;
pub use initialise::{InitError, Initialised};
pub use lease::Server;
pub use levels::{ClassLevels, Level, Levels, Serial};
pub use options::CassandraOptions;
pub use raising::Upgrading;
pub use schema::{Replication, ReplicationError, SchemaPlan};
pub use settings::{CassandraSettings, InvalidSettings};
pub use warm::{Gap, WarmedNode, Warming};
