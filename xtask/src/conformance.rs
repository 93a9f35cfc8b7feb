//! Judges a server by the crate `conformance`.

use anyhow::Result;
use clap::Args;

use crate::{cargo, run};

#[derive(Args)]
pub(crate) struct Options {
    /// The address of a container, and headers of each request: `--header 'NAME: VALUE'`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<String>,
}

pub(crate) fn judge(options: &Options) -> Result<()> {
    run(cargo().args(["run", "--quiet", "--locked", "--package", "conformance", "--"]).args(&options.arguments))
}
