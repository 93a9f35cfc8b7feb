//! Tests of records over the Redis protocol and over HTTP. One program, which is built and linked
//! once.
#![allow(clippy::unwrap_used)]

mod clients;
mod connections;
mod counted;
mod damaged;
mod deadlines;
mod expiring;
mod fast;
mod hostile;
mod hot;
mod http_memory;
mod lagging;
mod reclaiming;
mod records_http;
mod several_servers;
mod side_by_side;
mod support;
mod watching;
