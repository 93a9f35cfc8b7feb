//! Those tests of the library that go through a real engine once more, over a real Cassandra node that they share; each library in a
//! keyspace of its own.

mod support;

#[path = "bulk/audit.rs"]
mod audit;
#[path = "bulk/bench.rs"]
mod bench;
#[path = "bulk/damage.rs"]
mod damage;
#[path = "embedded.rs"]
mod embedded;
#[path = "bulk/missing.rs"]
mod missing;
#[path = "bulk/resume.rs"]
mod resume;
#[path = "bulk/selections.rs"]
mod selections;
#[path = "bulk/sharing.rs"]
mod sharing;
#[path = "bulk/tokens.rs"]
mod tokens;
#[path = "volumes.rs"]
mod volumes;
