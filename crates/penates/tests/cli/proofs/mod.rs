//! Proofs that `cargo xtask proofs` runs: with real servers on clusters of several Cassandra nodes,
//! which die meanwhile, with a change feed that waits for a minute, and with a validator that takes
//! minutes to build.

mod following;
mod mix;
mod requests;
mod restored;
mod rocfl;
mod three_nodes;
mod two_datacenters;
