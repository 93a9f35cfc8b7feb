//! Proofs that `cargo xtask proofs` runs: with real servers on clusters of several Cassandra nodes,
//! which die meanwhile, and with a validator that takes minutes to build.

mod mix;
mod requests;
mod rocfl;
mod three_nodes;
mod two_datacenters;
