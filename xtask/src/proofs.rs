//! Tests that take minutes, because they kill nodes of clusters and wait for them to return, or build
//! other programs: a validator, the packages. They are marked as ignored, so the usual run of all tests
//! skips them.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;

use crate::{cargo, tools};

/// A test program with proofs.
struct Proof {
    package: &'static str,
    program: &'static str,
    /// The prefix of the names of the tests to run.
    tests: &'static str,
}

const fn proof(package: &'static str, program: &'static str, tests: &'static str) -> Proof {
    Proof { package, program, tests }
}

const PROOFS: [Proof; 16] = [
    proof("store-cassandra", "copies", ""),
    proof("store-cassandra", "three_nodes", ""),
    proof("store-cassandra", "two_datacenters", ""),
    proof("door-records", "all", "clients"),
    proof("penates", "cli", "proofs::three_nodes"),
    proof("penates", "cli", "proofs::two_datacenters"),
    proof("penates", "cli", "proofs::following"),
    proof("penates", "cli", "proofs::restored"),
    proof("penates", "cli", "proofs::writers"),
    proof("penates", "cli", "proofs::rolling"),
    proof("penates", "cli", "proofs::transactions"),
    proof("penates", "cli", "proofs::rocfl"),
    proof("penates", "cli", "proofs::package"),
    proof("penates", "cli", "proofs::walk"),
    proof("penates", "cli", "proofs::fedora"),
    proof("lares", "all", "candidates"),
];

#[derive(Args)]
pub(crate) struct Options {
    /// Only the proofs whose names contain one of these
    names: Vec<String>,
    /// Print the names, and run nothing
    #[arg(long)]
    list: bool,
}

/// A proof that has run.
struct Ran {
    name: String,
    took: Duration,
    /// `None`: it holds.
    error: Option<String>,
}

impl Proof {
    fn name(&self) -> String {
        format!("{}: {} {}", self.package, self.program, self.tests).trim_end().to_owned()
    }

    fn run(&self) -> Ran {
        let mut tests = cargo();
        // With the features of the workspace, so that nothing is built again.
        tests.args(["test", "--locked", "--workspace", "--test", self.program, "--", self.tests]);
        tests.args(["--ignored", "--nocapture", "--test-threads=1"]);
        // A proof that cannot run here must fail.
        tests.env("CI", "true");
        let begun = Instant::now();
        let error = crate::run(&mut tests).err().map(|error| error.to_string());
        Ran { name: self.name(), took: begun.elapsed(), error }
    }
}

/// The names of the proofs.
pub fn names() -> Vec<String> {
    PROOFS.iter().map(Proof::name).collect()
}

/// Runs proofs one after the other, so that each has the machine for itself. After a failure the
/// others still run. A table at the end has all of them.
pub(crate) fn run(options: &Options) -> Result<()> {
    let is_meant = |proof: &&Proof| {
        options.names.is_empty() || options.names.iter().any(|name| proof.name().contains(name.as_str()))
    };
    let proofs: Vec<_> = PROOFS.iter().filter(is_meant).collect();
    if proofs.is_empty() {
        bail!("there is no such proof; there are:\n{}", names().join("\n"));
    }
    if options.list {
        proofs.iter().for_each(|proof| println!("{}", proof.name()));
        return Ok(());
    }
    tools::provide_for_proofs();
    let ran: Vec<_> = proofs
        .iter()
        .map(|proof| {
            println!("\n--- {}", proof.name());
            proof.run()
        })
        .collect();
    print!("\n{}", table(&ran));
    match ran.iter().filter(|ran| ran.error.is_some()).count() {
        0 => Ok(()),
        failed => bail!("{failed} of {} failed", ran.len()),
    }
}

fn table(ran: &[Ran]) -> String {
    let width = ran.iter().map(|ran| ran.name.len()).max().unwrap_or_default();
    let row = |Ran { name, took, error }: &Ran| {
        let result = error.as_deref().unwrap_or("holds");
        format!("{name:width$}  {:>6} s  {result}\n", took.as_secs())
    };
    ran.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use super::*;
    use crate::{root, sources};

    /// The program to which a file of a folder of tests belongs, and its module there.
    fn program_and_module(file: &Path) -> (String, String) {
        let mut names: Vec<_> = file.with_extension("").iter().map(|name| name.to_str().unwrap().to_owned()).collect();
        names.pop_if(|last| matches!(last.as_str(), "mod" | "main"));
        let modules = names.split_off(1);
        (names.remove(0), modules.join("::"))
    }

    #[test]
    fn every_test_that_says_that_the_proofs_run_it_is_in_the_table() {
        let mut said = 0;
        let packages = ["crates", "instruments"].map(|house| std::fs::read_dir(root().join(house)).unwrap());
        for package in packages.into_iter().flatten() {
            let package = package.unwrap();
            let tests = package.path().join("tests");
            for file in sources(&tests) {
                let text = std::fs::read_to_string(&file).unwrap();
                let says = |line: &str| line.contains("#[ignore = ") && line.contains("`cargo xtask proofs` runs it");
                if !text.lines().any(says) {
                    continue;
                }
                said += 1;
                let (program, module) = program_and_module(file.strip_prefix(&tests).unwrap());
                let runs = |proof: &Proof| {
                    package.path().ends_with(proof.package)
                        && program == proof.program
                        && module.starts_with(proof.tests)
                };
                assert!(PROOFS.iter().any(runs), "no proof runs {}", file.display());
            }
        }
        assert_eq!(said, PROOFS.len(), "a proof runs nothing");
    }

    #[test]
    fn the_table_has_each_proof_with_its_time_and_its_result() {
        let of = |name: &str, seconds, error: Option<&str>| {
            let (name, error) = (name.to_owned(), error.map(str::to_owned));
            Ran { name, took: Duration::from_secs(seconds), error }
        };
        let ran = [of("store: copies", 7, None), of("penates: cli proofs::walk", 1_234, Some("it ended with 101"))];
        let expected = "store: copies                   7 s  holds\n\
                        penates: cli proofs::walk    1234 s  it ended with 101\n";
        assert_eq!(table(&ran), expected);
    }

    #[test]
    fn the_proofs_have_different_names() {
        let mut names = names();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
