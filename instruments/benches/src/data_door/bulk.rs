//! Bulk archives over HTTP, compared with nginx.

use std::net::TcpStream;

use anyhow::Result;

use super::bench::Bench;
use super::beside_nginx::Comparison;
use crate::rig::client::Client;
use crate::rig::figures::{Figures, Goal};

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let comparison = Comparison::<TcpStream> {
        connect: |_, address| Client::connect(address),
        penates: |server| Ok(server.http),
        nginx: |nginx| nginx.http,
        text: Some(Goal::AtLeast(3.0)),
        of_nginx: Goal::AtLeast(1.1),
    };
    comparison.run(bench)
}
