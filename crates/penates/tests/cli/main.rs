//! The real binary, on temporary folders, with the sample volumes.

#![allow(clippy::unwrap_used)]

mod audited;
mod backup;
mod bad_input;
mod bridges;
mod cassandra;
mod clients;
mod conformance;
mod connections;
mod container;
mod copy;
mod crash;
mod damage;
mod dashboard;
mod documentation;
mod dspace;
mod export;
mod fedora;
mod feed;
mod fixtures;
mod follow;
mod get;
mod harness;
mod import;
mod little_memory;
mod load;
mod nginx;
mod ocfl_volumes;
mod operating;
mod packaging;
mod plan;
mod proofs;
mod proxy;
mod reach;
mod records_command;
mod resources;
mod salvage;
mod serving;
mod store_commands;
mod synth;
mod validators;
mod watch;
mod webhooks;

/// The program that the tests run.
fn penates_program() -> &'static std::path::Path {
    std::path::Path::new(env!("CARGO_BIN_EXE_penates"))
}
