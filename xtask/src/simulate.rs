//! Runs the simulator, built with optimization so that many seeds can be tried.

use anyhow::Result;
use clap::Args;

use crate::{cargo, run};

#[derive(Args)]
pub(crate) struct Options {
    /// Arguments of the simulator: `--seed N`, or `--seeds N`, `--from N` and `--every N`;
    /// `--stop-at STEP`, `--leave-out RULE`, `--keep-going`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run_seeds(options: &Options) -> Result<()> {
    run(cargo()
        .args(["run", "--quiet", "--locked", "--release", "--package", "simulator", "--"])
        .args(&options.arguments))
}
