//! Bulk archives over HTTPS, compared with nginx with the same cipher.

use anyhow::{Context, Result};

use super::bench::Bench;
use super::beside_nginx::Comparison;
use crate::rig::figures::{Figures, Goal};
use crate::rig::tls::Identity;

/// Measures it.
pub fn run(bench: &mut Bench) -> Result<Figures> {
    let comparison = Comparison {
        connect: Identity::connect,
        penates: |server| server.https.context("the server does not speak HTTPS"),
        nginx: |nginx| nginx.https,
        text: None,
        of_nginx: Goal::AtLeast(1.0),
    };
    comparison.run(bench)
}
