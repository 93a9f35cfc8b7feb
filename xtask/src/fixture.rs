//! Makes a fixture: whole stores of both engines as this program writes them, which the tests of
//! every later program read. `crates/penates/tests/cli/fixtures` does the work.

use anyhow::Result;
use clap::Args;

use crate::{cargo, run, tools};

#[derive(Args)]
pub(crate) struct Options {
    /// The name of the new folder in `crates/penates/fixtures`: a-z, 0-9 and `-`. `backups/NAME` makes
    /// backups in place of stores
    name: String,
}

pub(crate) fn make(options: &Options) -> Result<()> {
    tools::provide();
    let mut making = cargo();
    making.args(["test", "--locked", "--workspace", "--test", "cli", "--", "--exact", "fixtures::makes_a_fixture"]);
    making.args(["--ignored", "--nocapture"]);
    // Where Cassandra cannot run, no fixture is made.
    run(making.env("CI", "true").env("PENATES_FIXTURE", &options.name))
}
