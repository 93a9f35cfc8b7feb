//! Runs all tests, and lists those that did not run.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Message, MetadataCommand, Package};
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
    program_minutes: u64,
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

/// Tests over any engine run on the one that this variable names, and on the embedded one without it.
const ENGINE_VARIABLE: &str = "PENATES_TEST_ENGINE";

/// A test program over any engine, which runs on a real Cassandra node too.
struct Suite {
    package: &'static str,
    program: &'static str,
    /// Modules that do not run there, and why.
    left_out: &'static [(&'static str, &'static str)],
}

const SUITES: [Suite; 4] = [
    Suite {
        package: "library",
        program: "all",
        left_out: &[
            ("broken_block::", "it is about files of the embedded engine"),
            ("full_disk::", "it is about disks of the embedded engine"),
            ("histories::", "all stored rows are copied at each moment, which only a store in memory allows"),
            ("resources::moments::", "all stored rows are copied at each moment"),
            ("collecting::moments::", "time stands still, which drivers do not bear"),
            ("in_turns::", "time stands still"),
            ("unsure::", "time stands still"),
            ("bounds::", "it computes with keys"),
            ("broken_pages::", "no engine breaks pages on demand"),
            ("following::", "whole stores are copied in each test; the proof `following` has a keyspace"),
            ("home::", "it needs two data centers, which the proof `two_datacenters` has"),
        ],
    },
    Suite { package: "door-ldp", program: "door", left_out: &[] },
    Suite { package: "door-data", program: "all", left_out: &[] },
    Suite { package: "fixity", program: "auditing", left_out: &[] },
];

/// Programs that mostly wait for nodes of Cassandra. They run one after the other, so that one node has the memory.
const OF_NODES: [&str; 4] = ["node", "node_away", "nodes", "on_cassandra"];

/// The program that starts the most servers.
const OF_SERVERS: &str = "cli";

/// So many more tests of a program run at the same time than there are processors: they wait for disks, processes
/// and nodes for a third of their time.
const TESTS_MORE: usize = 1;

/// The variable that sets how many tests of a program run at the same time.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// Names the program of Penates to tests of the instruments, which would build it again.
const PENATES_VARIABLE: &str = "PENATES_PROGRAM";

/// Programs of the list of those that took the most time.
const SLOWEST: usize = 8;

/// A test program that is built.
#[derive(Debug)]
struct Program {
    package: String,
    name: String,
    file: PathBuf,
    /// The folder of its package, in which it runs.
    folder: PathBuf,
}

/// A run of a program.
struct Run<'a> {
    program: &'a Program,
    /// On Cassandra, as this says.
    suite: Option<&'static Suite>,
}

/// A run that has ended.
struct Ended {
    name: String,
    took: Duration,
    is_passed: bool,
}

/// Runs all tests.
pub fn run(options: &Options) -> Result<()> {
    let missing = tools::provide();
    let not_run_file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    let houses: BTreeSet<House> = options.houses.iter().copied().collect();
    let selected = selection(&houses)?;
    let begun = Instant::now();
    let programs = built(cargo().args(["test", "--locked", "--no-run"]).args(&selected))?;
    println!("built {} test programs within {} s", programs.len(), begun.elapsed().as_secs());

    let penates = houses.contains(&House::Product).then(|| penates_beside(&programs)).flatten();
    let environment = |run: &Run<'_>, command: &mut Command| {
        command.env(NOT_RUN_VARIABLE, not_run_file.path());
        if let Some(penates) = &penates {
            command.env(PENATES_VARIABLE, penates);
        }
        if std::env::var_os(THREADS_VARIABLE).is_none() {
            command.env(THREADS_VARIABLE, run.tests_at_once().to_string());
        }
        if let Some(rounds) = options.crash_rounds {
            command.env("PENATES_CRASH_ROUNDS", rounds.to_string());
        }
    };
    let limit = Duration::from_secs(60 * options.program_minutes);
    let lanes = lanes(&programs);
    let failures = Mutex::new(Failures::default());
    let run_lane = |lane: &Vec<Run<'_>>| -> Result<Vec<Ended>> {
        let one = |run: &Run<'_>| {
            let mut command = run.command(limit);
            environment(run, &mut command);
            ended(&run.name(), &mut command, &failures)
        };
        lane.iter().map(one).collect()
    };
    let ended: Vec<Result<Vec<Ended>>> = thread::scope(|scope| {
        let running: Vec<_> = lanes.iter().map(|lane| scope.spawn(|| run_lane(lane))).collect();
        running.into_iter().map(|lane| lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut ended: Vec<Ended> = ended.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    let is_documented = cargo().args(["test", "--locked", "--doc", "--quiet"]).args(&selected).status();
    let is_documented = is_documented.context("cannot start cargo")?.success();

    ended.sort_by_key(|one| std::cmp::Reverse(one.took));
    let slowest = ended.iter().take(SLOWEST).map(|one| format!("{} {} s", one.name, one.took.as_secs()));
    println!("\nslowest: {}", slowest.collect::<Vec<_>>().join(", "));
    if let Some(summary) = failures.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).summary() {
        println!("\n{summary}");
    }
    let mut not_run = read_lines(not_run_file.path())?;
    not_run.extend(
        missing.iter().map(|tool| format!("{}: {} is not installed and could not be", tool.tests, tool.program)),
    );
    let reported = report(&not_run, &proofs::names());
    let failed: Vec<_> = ended.iter().filter(|one| !one.is_passed).map(|one| one.name.as_str()).collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    ensure!(is_documented, "examples of the documentation failed");
    reported
}

/// The arguments that select the packages of houses. All of them together have the features of the workspace, so
/// that nothing is built twice.
fn selection(houses: &BTreeSet<House>) -> Result<Vec<String>> {
    if houses.len() > 1 {
        return Ok(vec!["--workspace".to_owned()]);
    }
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec();
    let packages = metadata.context("cargo metadata")?.packages;
    let named = packages.iter().filter(|package| houses.contains(&House::of(package)));
    Ok(named.flat_map(|package| ["--package".to_owned(), package.name.to_string()]).collect())
}

/// The test programs that a command of Cargo builds.
fn built(command: &mut Command) -> Result<Vec<Program>> {
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut building = command.spawn().context("cannot start cargo")?;
    let output = building.stdout.take().context("cargo has no output")?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        let Message::CompilerArtifact(artifact) = message.context("reading what cargo says")? else { continue };
        let Some(file) = artifact.executable.filter(|_| artifact.profile.test) else { continue };
        let folder = artifact.manifest_path.parent().context("a package has no folder")?;
        let package = folder.file_name().unwrap_or_default().to_owned();
        let is_library = !artifact.target.is_test() && !artifact.target.is_bin();
        let name = if is_library { "lib".to_owned() } else { artifact.target.name };
        programs.push(Program { package, name, file: file.into(), folder: folder.into() });
    }
    let status = building.wait().context("cannot wait for cargo")?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(programs)
}

/// The program of Penates, which Cargo has built for its own tests: it is beside the folder of test programs.
fn penates_beside(programs: &[Program]) -> Option<PathBuf> {
    let of_cli = programs.iter().find(|program| program.name == OF_SERVERS)?;
    Some(of_cli.file.parent()?.with_file_name("penates")).filter(|penates| penates.is_file())
}

/// Runs that follow each other, beside those of other lanes: what waits for nodes, what starts servers, and the rest.
/// A processor is free while a program waits.
fn lanes(programs: &[Program]) -> [Vec<Run<'_>>; 3] {
    let mut lanes = [const { Vec::new() }; 3];
    for program in programs {
        let lane = match program.name.as_str() {
            name if OF_NODES.contains(&name) => 0,
            OF_SERVERS => 1,
            _ => 2,
        };
        lanes[lane].push(Run { program, suite: None });
        let is_it = |suite: &&Suite| (suite.package, suite.program) == (&program.package, &program.name);
        lanes[0].extend(SUITES.iter().find(is_it).map(|suite| Run { program, suite: Some(suite) }));
    }
    lanes
}

impl Run<'_> {
    fn name(&self) -> String {
        let Program { package, name, .. } = self.program;
        match self.suite {
            None => format!("{package} {name}"),
            Some(_) => format!("{package} {name} on Cassandra"),
        }
    }

    /// How many of its tests run at the same time.
    fn tests_at_once(&self) -> usize {
        let more = if self.program.name == OF_SERVERS { 2 * TESTS_MORE } else { TESTS_MORE };
        thread::available_parallelism().map_or(1, usize::from) + more
    }

    /// The command, which is killed after a limit. `timeout` names the program then, and the test harness has named
    /// each test that ran for more than a minute.
    fn command(&self, limit: Duration) -> Command {
        let mut command = Command::new("timeout");
        // In the foreground, so that Ctrl-C reaches the tests too.
        command.args(["--verbose", "--foreground", "--kill-after=10", &limit.as_secs().to_string()]);
        command.arg(&self.program.file).current_dir(&self.program.folder);
        if let Some(suite) = self.suite {
            command.env(ENGINE_VARIABLE, "cassandra");
            command.args(suite.left_out.iter().flat_map(|(module, _)| ["--skip", module]));
        }
        command
    }
}

/// Runs a command to its end, shows what it printed, and keeps what failed.
fn ended(name: &str, command: &mut Command, failures: &Mutex<Failures>) -> Result<Ended> {
    let begun = Instant::now();
    // A file, not a pipe, which a process that a test left behind would hold open.
    let printed = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    let output = || OpenOptions::new().append(true).open(printed.path()).context("cannot write a temporary file");
    let (stdout, stderr) = (output()?, output()?);
    let status = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).status();
    let status = status.with_context(|| format!("cannot run {name}"))?;
    let text = std::fs::read(printed.path()).context("cannot read what tests printed")?;
    let text = String::from_utf8_lossy(&text);
    let mut failures = failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let title = format!("Running {name}: {:.1} s, {status}", begun.elapsed().as_secs_f64());
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "\n{title}\n{}", text.trim_end()).context("cannot show the tests")?;
    failures.read(&title);
    text.lines().for_each(|line| failures.read(line));
    Ok(Ended { name: name.to_owned(), took: begun.elapsed(), is_passed: status.success() })
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

    fn program(package: &str, name: &str, file: &str) -> Program {
        Program { package: package.to_owned(), name: name.to_owned(), file: file.into(), folder: std::env::temp_dir() }
    }

    #[test]
    fn a_test_program_that_hangs_is_killed_and_what_it_printed_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hanging");
        std::fs::write(&file, "#!/bin/sh\necho error: one\necho error: two >&2\nsleep 600 &\nwait\n").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let hanging = program("a", "hanging", file.to_str().unwrap());
        let failures = Mutex::new(Failures::default());
        let mut command = Run { program: &hanging, suite: None }.command(Duration::from_secs(1));
        let ended = ended("a hanging", &mut command, &failures).unwrap();
        assert!(!ended.is_passed);
        let summary = failures.into_inner().unwrap().summary().unwrap();
        for line in ["error: one", "error: two", "timeout: sending signal TERM to command"] {
            assert!(summary.contains(line), "{summary}");
        }
    }

    #[test]
    fn a_suite_runs_on_both_engines_and_what_needs_nodes_runs_in_one_lane() {
        let programs = [("library", "all"), ("rdf", "all"), ("penates", "cli"), ("store-cassandra", "on_cassandra")];
        let programs = programs.map(|(package, name)| program(package, name, "/bin/true"));
        let names = lanes(&programs).map(|lane| lane.iter().map(Run::name).collect::<Vec<_>>());
        assert_eq!(names[0], ["library all on Cassandra", "store-cassandra on_cassandra"]);
        assert_eq!(
            (&names[1][..], &names[2][..]),
            (&["penates cli".to_owned()][..], &["library all", "rdf all"].map(str::to_owned)[..])
        );
        let run = &lanes(&programs)[0][0];
        let command = run.command(Duration::from_secs(1));
        assert!(command.get_args().any(|word| word == "full_disk::"), "{command:?}");
        assert!(command.get_envs().any(|(name, _)| name == ENGINE_VARIABLE), "{command:?}");
    }

    #[test]
    fn each_module_that_is_left_out_on_cassandra_exists() {
        for suite in &SUITES {
            let tests = root().join("crates").join(suite.package).join("tests");
            let files: Vec<_> = sources(&tests).into_iter().map(|file| file.with_extension("")).collect();
            assert!(!files.is_empty(), "{}", suite.package);
            for (module, _) in suite.left_out {
                let path = module.trim_end_matches("::").replace("::", "/");
                assert!(files.iter().any(|file| file.ends_with(&path)), "{}: {module}", suite.package);
            }
        }
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
