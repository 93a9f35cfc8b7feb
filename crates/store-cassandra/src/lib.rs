//! The Cassandra engine: the seam over Apache Cassandra (4.0 or later, tested with 5.0.6), one keyspace, any number of processes in front of it.
//!
//! One CQL table stands for each [`store::Table`]; a partition is a partition and a sort key is a clustering key. Two kinds of rows
//! live there and never change into one another:
//!
//! - **plain** rows are written by unconditional inserts with write times of our own, which never run back. The value is a single
//!   cell (with the expiry in it), because two writes with equal write times merge cell by cell;
//! - **guarded** rows (heads) are written by lightweight transactions only, always, also when they are made and taken away. The
//!   immutable rows that appear with a head go into the same one-partition conditional batch.
//!
//! What follows from Cassandra, and is not as on the embedded engine:
//!
//! - A list of steps runs step by step; a refused or failed step leaves the earlier ones applied. The seam allows that, and every
//!   protocol above it is built for it. A list that failed after something was applied ends as unknown, not as an error.
//! - A page of a scan may need several reads of the cluster, and is a snapshot only if one was enough.
//! - Removing looks first: it writes a tombstone with the write time of the newest row it saw, and around guarded rows. So it
//!   takes also what a server with a faster clock wrote, and never shadows what is written later. It costs a read.
//! - A row that one server removed and another, whose clock lags behind, puts again under the same key within that lag, stays
//!   removed: no protocol above puts a removed key again, except marks on damage, which a verification finds anew.
//!
//! Strong reads are reads at a level that meets every finished write (see `levels.rs`); SERIAL reads are used where the outcome of
//! a lightweight transaction is not known.
//!
//! How to read it: `engine.rs` (the [`CassandraStore`]), `connect.rs` (session, data center, schema version), `routing.rs` (which node is asked), `statements.rs` and
//! `requests.rs` (every request to the cluster goes through there: deadline, level, repeating, the meaning of errors), `read.rs`, `write.rs`
//! and `compare.rs` (lightweight transactions), `contents.rs` and `chunks.rs`; `lag.rs` (how far other data centers are away); at the bottom what is stored: `schema.rs`, `value.rs`, and
//! `write_times.rs`. `testing.rs` is for tests only.

mod address;
mod chunks;
mod compare;
mod connect;
mod contents;
mod engine;
mod failure;
mod lag;
mod levels;
mod options;
mod read;
mod requests;
mod routing;
mod schema;
mod statements;
#[cfg(feature = "testing")]
pub mod testing;
mod value;
mod write;
mod write_times;

pub use address::{Address, AddressError};
pub use engine::CassandraStore;
pub use levels::{ClassLevels, Level, Levels, Serial};
pub use options::{CassandraOptions, Credentials};
pub use schema::{InitError, Initialised, Replication, ReplicationError, SchemaPlan};
