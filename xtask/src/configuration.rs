//! Writes what is made of the settings in the code: the tables of `docs/configuration.md`, and
//! `packaging/penates.toml`. A test of the settings does the work; by itself it compares.

use anyhow::Result;

use crate::{cargo, run};

/// The test.
const TEST: &str = "settings::documents::the_documents_are_made_of_the_code";

pub(crate) fn write() -> Result<()> {
    let mut writing = cargo();
    writing.args(["test", "--locked", "--workspace", "--lib", "--", "--exact", TEST]);
    run(writing.env("PENATES_WRITE_CONFIGURATION", "1"))
}
