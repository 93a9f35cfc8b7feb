//! Runs fuzz targets (cargo-fuzz, libFuzzer) for a while each. A test of their package runs them over their
//! seeds.

use std::process::Command;
use std::time::Duration;

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
    if !provide_cargo_fuzz() {
        bail!("cargo-fuzz is not installed and could not be (cargo install cargo-fuzz)");
    }
    let only = options.target.as_deref();
    for target in targets()?.into_iter().filter(|target| only.is_none_or(|only| only == target)) {
        println!("fuzzing {target} for {} s", options.seconds);
        fuzz_one(&target, options.seconds)?;
    }
    Ok(())
}

/// The limits of one input.
fn limits() -> [String; 2] {
    [format!("-timeout={INPUT_SECONDS}"), format!("-rss_limit_mb={MEMORY_MB}")]
}

/// The names of the targets: the files in `instruments/fuzz/targets`.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("instruments/fuzz/targets");
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
    let corpus = format!("instruments/fuzz/corpus/{target}");
    std::fs::create_dir_all(root().join(&corpus)).with_context(|| format!("cannot make {corpus}"))?;
    // It is built before, so that the time of the run is that of the target.
    crate::run(&mut cargo_fuzz("build", target))?;
    let mut fuzz = cargo_fuzz("run", target);
    fuzz.args([corpus.as_str(), SEEDS]);
    let own_seeds = root().join("instruments/fuzz/seeds").join(target);
    if own_seeds.is_dir() {
        fuzz.arg(own_seeds);
    }
    fuzz.arg("--").args(limits()).arg(format!("-max_total_time={seconds}"));
    // Among the figures at the end is the peak of its memory.
    fuzz.args(["-verbosity=0", "-print_funcs=0", "-print_final_stats=1"]);
    let before = processor_time();
    let status = fuzz.status().context("cannot start cargo fuzz")?;
    if let (Some(before), Some(after)) = (before, processor_time()) {
        println!("{target}: {:.1} s of processor time", after.saturating_sub(before).as_secs_f64());
    }
    if !status.success() {
        bail!("fuzz target {target} ended with {status}; what it found is in instruments/fuzz/artifacts/{target}");
    }
    Ok(())
}

fn cargo_fuzz(command: &str, target: &str) -> Command {
    let mut fuzz = cargo();
    fuzz.args(["fuzz", command, "--sanitizer", "none", target]);
    // Coverage instrumentation is an unstable flag of the compiler. RUSTC_BOOTSTRAP makes the
    // pinned stable one accept it. What makes the server fast takes long to build.
    fuzz.envs([
        ("RUSTC_BOOTSTRAP", "1"),
        ("CARGO_PROFILE_RELEASE_LTO", "off"),
        ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ]);
    fuzz
}

/// Processor time of all children that have ended, of the program and of the system; `None` where
/// there is no `/proc`.
fn processor_time() -> Option<Duration> {
    children_time(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// The same from the text of that file (`man proc_pid_stat`). It counts hundredths of a second.
fn children_time(stat: &str) -> Option<Duration> {
    // The name of the program is in brackets, and may contain some. `cutime` and `cstime` are the
    // fields 16 and 17, and the one after the name is the third.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut times = after_name.split_whitespace().skip(16 - 3).map(str::parse::<u64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(Duration::from_millis(10 * (user + system)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_of_children_is_read_whatever_the_name_of_the_program_is() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 10 20 0 0 5 6 120 34 20 0 1 0 100 0 0";
        assert_eq!(children_time(stat), Some(Duration::from_millis(1_540)));
        assert_eq!(children_time("7 (a) S 1"), None);
    }
}
