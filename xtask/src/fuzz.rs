//! Runs fuzz targets (cargo-fuzz, libFuzzer) for a while each.

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::{cargo, root};

/// The smallest of the sample volumes.
const SEEDS: &str = "samples/pairtree/psia";

/// Memory of the process in megabytes, and seconds for one input: far more than any target may
/// take.
const MEMORY_MB: u32 = 768;
const INPUT_SECONDS: u32 = 10;

/// The options of fuzzing.
#[derive(Args)]
pub struct Options {
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Only this target
    #[arg(long)]
    target: Option<String>,
}

/// Fuzzes each target; fails if one finds something, or if fuzzing cannot be done here.
pub fn run(options: &Options) -> Result<()> {
    run_some(options.seconds, options.target.as_deref())?.map_err(anyhow::Error::msg)
}

/// Fuzzes each target. The inner error is the reason why nothing was fuzzed.
pub fn run_all(seconds: u32) -> Result<Result<(), String>> {
    run_some(seconds, None)
}

fn run_some(seconds: u32, only: Option<&str>) -> Result<Result<(), String>> {
    if seconds == 0 {
        return Ok(Err("asked for 0 seconds".to_owned()));
    }
    if !provide_cargo_fuzz() {
        return Ok(Err("cargo-fuzz is not installed and could not be (cargo install cargo-fuzz)".to_owned()));
    }
    for target in targets()?.into_iter().filter(|target| only.is_none_or(|only| only == target)) {
        println!("fuzzing {target} for {seconds} s");
        fuzz_one(&target, seconds)?;
    }
    Ok(Ok(()))
}

/// The names of the targets: the files in `fuzz/targets`.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/targets");
    let mut names = Vec::new();
    for file in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

fn fuzz_one(target: &str, seconds: u32) -> Result<()> {
    // Findings are written to the first folder. A real volume (ZIP, METS and record) is the seed of
    // all targets.
    let corpus = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(root().join(&corpus)).with_context(|| format!("cannot make {corpus}"))?;
    let own_seeds = format!("fuzz/seeds/{target}");
    let mut arguments = vec!["fuzz", "run", "--sanitizer", "none", target, corpus.as_str(), SEEDS];
    if root().join(&own_seeds).is_dir() {
        arguments.push(&own_seeds);
    }
    arguments.push("--");
    let limits = [
        format!("-max_total_time={seconds}"),
        format!("-timeout={INPUT_SECONDS}"),
        format!("-rss_limit_mb={MEMORY_MB}"),
        "-verbosity=0".into(),
        "-print_funcs=0".into(),
    ];
    // Coverage instrumentation is an unstable flag of the compiler. RUSTC_BOOTSTRAP makes the
    // pinned stable one accept it.
    let status =
        cargo().args(arguments).args(limits).env("RUSTC_BOOTSTRAP", "1").status().context("cannot start cargo fuzz")?;
    if !status.success() {
        bail!("fuzz target {target} ended with {status}; what it found is in fuzz/artifacts/{target}");
    }
    Ok(())
}

fn provide_cargo_fuzz() -> bool {
    let is_there =
        || Command::new("cargo").args(["fuzz", "--version"]).output().is_ok_and(|output| output.status.success());
    if is_there() {
        return true;
    }
    eprintln!("installing cargo-fuzz");
    let installed = Command::new("cargo").args(["install", "--quiet", "--locked", "cargo-fuzz"]).status();
    installed.is_ok_and(|status| status.success()) && is_there()
}
