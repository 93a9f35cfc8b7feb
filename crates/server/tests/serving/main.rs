//! The server over real sockets on loopback, with the embedded engine and real volumes behind it.

#![allow(clippy::unwrap_used, missing_docs)]

mod access;
mod audited;
mod browser;
mod clients;
mod folder;
mod hostile;
mod layers;
mod limited;
mod nginx;
mod openapi;
mod people;
mod proxies;
mod repository;
mod signing_in;
mod sites;
mod support;
