//! Runs all tests, and lists those that did not run.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Seek as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cargo_metadata::{MetadataCommand, Package, Target};
use clap::{Args, ValueEnum};

use crate::failures::Failures;
use crate::{cargo, in_ci, proofs, root, tools};

/// The options of the tests.
#[derive(Args)]
pub struct Options {
    /// Whose tests
    #[arg(value_enum, default_value = "product")]
    houses: Vec<House>,
    /// Rounds of each crash test (kill -9 at random moments), in place of the number that each has
    #[arg(long)]
    crash_rounds: Option<u32>,
    /// Minutes after which a test program is killed, so that one that hangs does not hide the
    /// results of all others
    #[arg(long, default_value_t = 45)]
    program_minutes: u32,
}

/// A part of the workspace with a program of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum House {
    /// The store and its doors (`crates`), and the chores
    Product,
    /// The testbed, the lab, the simulator and what else measures or judges (`instruments`)
    Instruments,
}

impl House {
    /// The house of a package.
    fn of(package: &Package) -> Self {
        match package.manifest_path.as_str().contains("/instruments/") {
            true => Self::Instruments,
            false => Self::Product,
        }
    }
}

/// Tests append a line "what: why" to the file this variable names, for each part that they could
/// not run.
const NOT_RUN_VARIABLE: &str = "PENATES_NOT_RUN";

/// How a line begins of what the machine does not permit: containers, say. Nothing that could be
/// installed helps, so it is listed and is no failure.
const NOT_PERMITTED: &str = "not permitted here: ";

/// Test programs that run one after the other, beside those of other lanes and beside all that are
/// in no lane. A processor is free while a program waits for a node, a disk or a process.
struct Lane {
    programs: &'static [&'static str],
    /// See [`TESTS_MORE`].
    tests_more: usize,
}

const LANES: [Lane; 2] = [
    // They mostly wait for nodes of Cassandra.
    Lane { programs: &["node", "node_away", "nodes", "on_cassandra"], tests_more: TESTS_MORE },
    // It has the most tests that mostly wait for the processes that they start.
    Lane { programs: &["cli"], tests_more: 2 * TESTS_MORE },
];

/// So many more tests of a program run at the same time than there are processors, unless
/// `RUST_TEST_THREADS` says otherwise: they wait for disks, processes and nodes for a third of their time.
const TESTS_MORE: usize = 1;

/// The variable that sets how many tests of a program run at the same time.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// Runs all tests.
pub fn run(options: &Options) -> Result<()> {
    let missing = tools::provide();
    let not_run_file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    let houses: BTreeSet<House> = options.houses.iter().copied().collect();
    let packages = packages(&houses)?;
    let programs = programs(&packages);
    let tests_beside = |tests_more: usize| {
        let mut tests = cargo();
        // One run reports everything that fails.
        tests.args(["test", "--locked", "--no-fail-fast"]);
        // All of them with the features of the workspace, so that nothing is built twice.
        match houses.len() {
            1 => tests.args(packages.iter().flat_map(|package| ["--package", package.name.as_str()])),
            _ => tests.arg("--workspace"),
        };
        tests.args(["--config", &killed_after(Duration::from_mins(u64::from(options.program_minutes)))]);
        tests.env(NOT_RUN_VARIABLE, not_run_file.path());
        if std::env::var_os(THREADS_VARIABLE).is_none() {
            let processors = thread::available_parallelism().map_or(1, usize::from);
            tests.env(THREADS_VARIABLE, (processors + tests_more).to_string());
        }
        if let Some(rounds) = options.crash_rounds {
            tests.env("PENATES_CRASH_ROUNDS", rounds.to_string());
        }
        tests
    };
    let tests = || tests_beside(TESTS_MORE);
    crate::run(tests().arg("--no-run"))?;
    let mut in_lanes: Vec<Command> = Vec::new();
    for (number, lane) in LANES.iter().enumerate() {
        let mut tests = tests_beside(lane.tests_more);
        tests.args(arguments(&programs, Some(number)));
        in_lanes.push(tests);
    }
    run_beside(&mut in_lanes, tests().arg("--lib").args(arguments(&programs, None)))?;
    crate::run(tests().arg("--doc"))?;

    let mut not_run = read_lines(not_run_file.path())?;
    not_run.extend(
        missing.iter().map(|tool| format!("{}: {} is not installed and could not be", tool.tests, tool.program)),
    );
    report(&not_run, &proofs::names())
}

/// A program that has tests, besides those of libraries.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Program {
    /// The option of Cargo that names it. `--bins` would also run programs that are no tests: a fuzz
    /// target never ends.
    option: &'static str,
    name: String,
}

impl Program {
    /// Its lane; `None`: it runs while the programs in lanes do.
    fn lane(&self) -> Option<usize> {
        let is_of = |lane: &Lane| self.option == "--test" && lane.programs.contains(&self.name.as_str());
        LANES.iter().position(is_of)
    }
}

/// The packages of houses.
fn packages(houses: &BTreeSet<House>) -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec();
    let packages = metadata.context("cargo metadata")?.packages;
    Ok(packages.into_iter().filter(|package| houses.contains(&House::of(package))).collect())
}

/// The programs of packages that have tests.
fn programs(packages: &[Package]) -> BTreeSet<Program> {
    let targets = packages.iter().flat_map(|package| &package.targets).filter(|target| target.test);
    let program = |target: &Target| {
        let option = if target.is_test() { "--test" } else { "--bin" };
        (target.is_test() || target.is_bin()).then(|| Program { option, name: target.name.clone() })
    };
    targets.filter_map(program).collect()
}

/// The arguments that make Cargo run the programs of a lane.
fn arguments(programs: &BTreeSet<Program>, lane: Option<usize>) -> impl Iterator<Item = &str> {
    let programs = programs.iter().filter(move |program| program.lane() == lane);
    programs.flat_map(|program| [program.option, &program.name])
}

/// Runs commands at the same time. Prints what `first` ones printed after the last one has ended, so
/// that lines of two do not mix, and then what failed in all. Fails if one of them fails.
fn run_beside(first: &mut [Command], last: &mut Command) -> Result<()> {
    let mut running = Vec::new();
    for command in first.iter_mut() {
        let printed = tempfile::tempfile().context("cannot make a temporary file")?;
        let output = || printed.try_clone().context("cannot write a temporary file");
        let child = command.stdin(Stdio::null()).stdout(output()?).stderr(output()?).spawn();
        let child = child.with_context(|| format!("cannot start {:?}", command.get_program()))?;
        running.push((child, printed));
    }
    let mut failures = Failures::default();
    let last_status = show_and_read(last, &mut failures)?;
    let mut ended = vec![(&*last, last_status)];
    for (command, (mut child, mut printed)) in first.iter().zip(running) {
        let status = child.wait().with_context(|| format!("cannot wait for {:?}", command.get_program()))?;
        printed.rewind().context("cannot read a temporary file")?;
        let mut shown = Ok(());
        read_lines_of(BufReader::new(printed), |line| {
            shown = show(&line, &mut failures);
            shown.is_ok()
        });
        shown?;
        ended.push((command, status));
    }

    if let Some(summary) = failures.summary() {
        println!("\n{summary}");
    }
    match ended.iter().find(|(_, status)| !status.success()) {
        Some((command, status)) => bail!("{command:?} ended with {status}"),
        None => Ok(()),
    }
}

/// Runs a command to its end. Prints and reads what it prints.
fn show_and_read(command: &mut Command, failures: &mut Failures) -> Result<ExitStatus> {
    let (printed, output) = io::pipe().context("cannot make a pipe")?;
    let errors = output.try_clone().context("cannot use a pipe twice")?;
    let child = command.stdout(output).stderr(errors).spawn();
    let mut child = child.with_context(|| format!("cannot start {:?}", command.get_program()))?;
    // The command holds the ends for writing, and while one is open, reading does not end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (sender, lines) = mpsc::channel();
    // A process that a test left behind may hold the pipe for ever, so this thread is not waited for.
    thread::spawn(move || read_lines_of(BufReader::new(printed), |line| sender.send(line).is_ok()));
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => show(&line, failures)?,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    break;
                }
            }
        }
    }
    child.wait().with_context(|| format!("cannot wait for {:?}", command.get_program()))
}

/// Calls `take` with each line, until it returns `false` or nothing is left to read.
fn read_lines_of(mut printed: impl BufRead, mut take: impl FnMut(Vec<u8>) -> bool) {
    loop {
        let mut line = Vec::new();
        let read = printed.read_until(b'\n', &mut line);
        if !read.is_ok_and(|read| read > 0) || !take(line) {
            return;
        }
    }
}

/// Prints and reads a line.
fn show(line: &[u8], failures: &mut Failures) -> Result<()> {
    failures.read(String::from_utf8_lossy(line).trim_end());
    io::stdout().write_all(line).context("cannot show the tests")
}

/// The setting that makes Cargo run each test program under a time limit. `timeout` names the
/// program that it kills, and the test harness has named each test that ran for more than a minute
/// by then.
fn killed_after(limit: Duration) -> String {
    let seconds = limit.as_secs();
    // In the foreground, so that Ctrl-C reaches the tests too.
    format!(r#"target."cfg(unix)".runner = ["timeout", "--verbose", "--foreground", "--kill-after=10", "{seconds}"]"#)
}

fn read_lines(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

/// Prints what did not run. Fails if that is not allowed.
fn report(not_run: &[String], proofs: &[String]) -> Result<()> {
    println!("\n{}", summary(not_run, proofs));
    let missing = not_run.iter().filter(|line| !line.starts_with(NOT_PERMITTED)).count();
    if missing > 0 && in_ci() {
        bail!("{missing} part(s) of the tests did not run, and CI is set");
    }
    Ok(())
}

/// The report: what did not run, and what this command does not include.
fn summary(not_run: &[String], proofs: &[String]) -> String {
    let list = |lines: &[String]| lines.iter().map(|line| format!("\n  - {line}")).collect::<String>();
    let not_run = match not_run.is_empty() {
        true => "Not run, of what belongs to this command: nothing.".to_owned(),
        false => format!("Not run:{}", list(not_run)),
    };
    let fuzzing = "Fuzz targets ran over their seeds only; `cargo xtask fuzz` looks for more.";
    format!("{not_run}\n{fuzzing}\nNo part of this command; `cargo xtask proofs` runs it:{}", list(proofs))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sources;

    #[test]
    fn a_test_program_that_hangs_is_killed_and_named() {
        let package = tempfile::tempdir().unwrap();
        let manifest = package.path().join("Cargo.toml");
        std::fs::write(&manifest, "[package]\nname = \"hanging\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n")
            .unwrap();
        std::fs::write(package.path().join("lib.rs"), "#[test]\nfn hangs() {\n    loop {}\n}\n").unwrap();

        let mut tests = cargo();
        tests.args(["test", "--lib", "--manifest-path"]).arg(&manifest);
        tests.arg("--target-dir").arg(package.path().join("target"));
        let ended = tests.args(["--config", &killed_after(Duration::from_secs(1))]).output().unwrap();

        let reported = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success(), "{reported}");
        assert!(reported.contains("timeout: sending signal TERM to command"), "{reported}");
        assert!(reported.contains("/deps/hanging-"), "{reported}");
    }

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn runs_are_at_the_same_time_and_each_failure_counts() {
        let folder = tempfile::tempdir().unwrap();
        // Each waits for the next one, for 20 s at most.
        let meets = |own: &str, other: &str| {
            let folder = folder.path().display();
            shell(&format!(
                "touch {folder}/{own}; for i in $(seq 200); do test -e {folder}/{other} && exit 0; sleep 0.1; done; exit 1"
            ))
        };
        run_beside(&mut [meets("a", "b"), meets("b", "c")], &mut meets("c", "a")).unwrap();

        for [first, second, last] in
            [["exit 3", "true", "true"], ["true", "exit 3", "true"], ["true", "true", "exit 3"]]
        {
            let error = run_beside(&mut [shell(first), shell(second)], &mut shell(last)).unwrap_err().to_string();
            assert!(error.contains("\"exit 3\"") && error.contains("exit status: 3"), "{error}");
        }
    }

    #[test]
    fn a_process_that_a_test_left_behind_holds_nothing_up_and_failures_are_read() {
        let mut failures = Failures::default();
        let mut command = shell("sleep 30 & echo error: one; echo error: two >&2; exit 3");
        let status = show_and_read(&mut command, &mut failures).unwrap();
        assert_eq!(status.code(), Some(3));
        let summary = failures.summary().unwrap();
        assert!(summary.contains("error: one") && summary.contains("error: two"), "{summary}");
    }

    #[test]
    fn the_store_depends_on_no_instrument() {
        let crates_of = |package: &str| {
            let mut tree = cargo();
            tree.args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none", "--package", package]);
            String::from_utf8(tree.output().unwrap().stdout).unwrap()
        };
        let is_instrument = |line: &&str| line.contains("/instruments/");
        let of_store = crates_of("penates");
        assert!(of_store.lines().count() > 200, "{of_store}");
        assert_eq!(of_store.lines().find(is_instrument), None);
        assert!(crates_of("lares").lines().find(is_instrument).is_some(), "the test would see one");
    }

    #[test]
    fn each_program_runs_once_and_fuzz_targets_do_not() {
        let programs = programs(&packages(&[House::Product, House::Instruments].into()).unwrap());
        let has = |option, name: &str| programs.contains(&Program { option, name: name.to_owned() });
        assert!(LANES.iter().flat_map(|lane| lane.programs).all(|name| has("--test", name)), "{programs:?}");
        let runs: usize = [None, Some(0), Some(1)].map(|lane| arguments(&programs, lane).count()).iter().sum();
        assert_eq!(runs, 2 * programs.len());
        assert!(has("--test", "all") && has("--test", "cli") && has("--bin", "xtask"), "{programs:?}");
        assert!(!has("--bin", "frames"), "{programs:?}");
    }

    #[test]
    fn each_file_of_tests_runs_on_cassandra_too_or_its_suite_says_why_it_does_not() {
        for (package, folder) in [("library", "all"), ("door-ldp", "door")] {
            let tests = root().join("crates").join(package).join("tests");
            let suite = std::fs::read_to_string(tests.join("on_cassandra.rs")).unwrap();
            let (header, modules): (Vec<&str>, Vec<&str>) = suite.lines().partition(|line| line.starts_with("//!"));
            let (header, modules) = (header.join("\n"), modules.join("\n"));
            // Behind this it lists tests that do nothing, of files that run.
            let left_out = header.split("These tests are here").next().unwrap();
            let mut seen = 0;
            for file in sources(&tests.join(folder)) {
                let name = file.strip_prefix(tests.join(folder)).unwrap().to_str().unwrap();
                // The module `support` of the library includes the files of its folder.
                if matches!(name, "main.rs" | "mod.rs") || name.ends_with("/mod.rs") || name.starts_with("support/") {
                    continue;
                }
                seen += 1;
                let runs = modules.contains(&format!("#[path = \"{folder}/{name}\"]"));
                let is_left_out = left_out.contains(&format!("`{name}`"));
                assert_ne!(runs, is_left_out, "{package}, {name}: whether it runs, whether it is left out");
            }
            assert!(seen > 20, "{package}: {seen} files");
        }
    }

    #[test]
    fn the_proofs_are_always_listed() {
        for not_run in [vec![], vec!["a client: no interpreter".to_owned()]] {
            let summary = summary(&not_run, &proofs::names());
            for proof in [
                "store-cassandra: three_nodes",
                "store-cassandra: two_datacenters",
                "penates: cli proofs::three_nodes",
                "penates: cli proofs::two_datacenters",
                "penates: cli proofs::rocfl",
            ] {
                assert!(summary.contains(&format!("\n  - {proof}")), "{summary}");
            }
            assert!(summary.contains("cargo xtask proofs") && !summary.contains("All tests ran"), "{summary}");
            assert!(not_run.iter().all(|line| summary.contains(line)));
        }
    }
}
