//! The examples of the README and of the guides, run as a reader would: against a demo, in a new
//! folder for each document.
//!
//! A block marked `console` is a session: a line that begins with `$ ` is a command (for bash), and
//! the lines below it are its output. In the output, `...` matches anything: any lines if it is
//! alone on a line, any characters within a line.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The address that the examples use.
const DOCUMENTED_ADDRESS: &str = "127.0.0.1:8080";

#[test]
fn every_example_of_the_readme_works() {
    run_examples_of("README.md");
}

#[test]
fn every_example_of_the_data_door_guide_works() {
    run_examples_of("docs/data-door.md");
}

#[test]
fn every_example_of_the_repository_door_guide_works() {
    run_examples_of("docs/repository-door.md");
}

#[test]
fn every_example_of_the_operations_guide_works() {
    run_examples_of("docs/operations.md");
}

#[test]
fn every_example_of_the_feed_guide_works() {
    run_examples_of("docs/feed.md");
}

/// Runs the examples of a document, given its path from the root of the workspace.
fn run_examples_of(document: &str) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(workspace.join("samples"), folder.path().join("samples")).unwrap();
    let text = std::fs::read_to_string(workspace.join(document)).unwrap();
    let examples = examples(&text);
    assert!(examples.len() > 7, "{document} has lost its examples: {} are left", examples.len());

    let demo = Demo::start(folder.path());
    for example in &examples {
        let command = example.command.replace(DOCUMENTED_ADDRESS, &demo.address);
        let output = Command::new("bash")
            .args(["-c", &format!("set -o pipefail; {command}")])
            .current_dir(folder.path())
            .env("PATH", path_with_penates())
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).replace(&demo.address, DOCUMENTED_ADDRESS);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{command}` failed ({}): {printed}{complaint}", output.status);
        assert!(
            matches(&example.expected, &printed.lines().collect::<Vec<_>>()),
            "{document}: `{command}` should print\n{}\nbut printed\n{printed}",
            example.expected.join("\n")
        );
    }
}

/// A command, and its output.
struct Example {
    command: String,
    expected: Vec<String>,
}

fn examples(document: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut in_session = false;
    for line in document.lines() {
        match (in_session, line) {
            (false, "```console") => in_session = true,
            (true, "```") => in_session = false,
            (true, line) => match line.strip_prefix("$ ") {
                Some(command) => examples.push(Example { command: command.to_owned(), expected: Vec::new() }),
                None => examples.last_mut().expect("a session begins with a command").expected.push(line.to_owned()),
            },
            _ => {}
        }
    }
    examples
}

/// Whether `printed` matches the expected lines (see the head of this file).
fn matches(expected: &[String], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any == "..." => (0..=printed.len()).any(|skip| matches(rest, &printed[skip..])),
        Some((line, rest)) => {
            printed.split_first().is_some_and(|(first, others)| line_matches(line, first) && matches(rest, others))
        }
    }
}

fn line_matches(expected: &str, printed: &str) -> bool {
    match expected.split_once("...") {
        None => expected == printed,
        Some((before, after)) => printed.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| line_matches(after, &rest[at..]))
        }),
    }
}

/// The demo, running.
struct Demo {
    process: Child,
    address: String,
}

impl Demo {
    fn start(folder: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_penates"))
            .args(["demo", "--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| address_in(&line))
            .expect("the demo prints its address");
        // Keeps reading, so that the demo never waits for its reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, address }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The `host:port` of the first address in a line.
fn address_in(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("http://")?;
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || ".:".contains(c))).unwrap_or(rest.len());
    Some(rest[..end].to_owned())
}

fn path_with_penates() -> String {
    let binaries = PathBuf::from(env!("CARGO_BIN_EXE_penates")).parent().unwrap().to_path_buf();
    format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap())
}
