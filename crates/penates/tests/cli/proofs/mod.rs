//! Proofs with real servers on clusters of several Cassandra nodes, which die meanwhile. `cargo
//! xtask proofs` runs them.

mod mix;
mod requests;
mod three_nodes;
mod two_datacenters;
