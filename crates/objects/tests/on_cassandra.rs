//! Those tests of the library in which it matters what the engine does, once more over a real Cassandra node that they share; each
//! library in a keyspace of its own. (What is missing, how readers share, and tokens are decided above every engine.)

#![allow(clippy::unwrap_used)]
#![allow(clippy::duplicate_mod)] // Each of these files names the support that it needs, as it does where it is a test by itself.

mod support;

#[path = "bulk/audit.rs"]
mod audit;
#[path = "bulk/bench.rs"]
mod bench;
#[path = "bulk/damage.rs"]
mod damage;
#[path = "embedded.rs"]
mod embedded;
#[path = "bulk/resume.rs"]
mod resume;
#[path = "bulk/selections.rs"]
mod selections;
#[path = "volumes.rs"]
mod volumes;
