//! The examples of the README and of the guides, run as a reader would: against a demo, in a new
//! folder for each document.
//!
//! A block marked `console` is a session: a line that begins with `$ ` is a command (for bash), and
//! the lines below it are its output. In the output, `...` matches anything: any lines if it is
//! alone on a line, any characters within a line.
//!
//! A guide for a language is one program: its blocks in that language, whose output is the last
//! block of text.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../preservation/tests/all/aip/mod.rs"]
mod aip;
#[allow(dead_code)]
#[path = "cli/guide.rs"]
mod guide;
#[allow(dead_code)]
#[path = "../../door-records/tests/all/support/python.rs"]
mod python;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use python::run;

/// The address that the examples use.
const DOCUMENTED_ADDRESS: &str = "127.0.0.1:8080";

/// How the examples call the client of records.
const REDIS_CLI: &str = "redis-cli ";

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
    run_examples(guide::FOLDER, &guide::text(), |_| {});
}

#[test]
fn every_example_of_the_feed_guide_works() {
    run_examples_of("docs/feed.md");
}

#[test]
fn every_example_of_the_records_door_guide_works() {
    match run(Command::new("redis-cli").arg("--version")) {
        Ok(_) => run_examples_of("docs/records.md"),
        Err(reason) => not_run(&format!("the records door guide: {reason}")),
    }
}

#[test]
fn every_example_of_the_guide_for_the_shell_works() {
    run_examples_of("docs/guides/curl.md");
}

#[test]
fn every_example_of_moving_from_fedora_works() {
    run_examples_in("docs/guides/moving-from-fedora.md", |folder| {
        let root = folder.join("fcrepo/data/ocfl-root");
        std::fs::create_dir_all(&root).unwrap();
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/fedora/roots/on-request.tar.gz");
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--gzip", "--file"]).arg(recorded).arg("--directory").arg(root);
        assert!(tar.status().unwrap().success());
    });
}

#[test]
fn every_example_of_moving_from_dspace_works() {
    run_examples_in("docs/guides/moving-from-dspace.md", |folder| aip::write_library(&folder.join("aips")));
}

#[test]
fn the_program_of_the_guide_for_python_works() {
    let python = python::with("pandas==3.1.1", "pandas").and_then(|python| {
        run(Command::new(&python).args(["-m", "pip", "install", "-q", "requests==2.34.2"])).map(|_| python)
    });
    match python {
        Ok(python) => run_program_of("docs/guides/python.md", "python", &[python.to_str().unwrap(), "guide.py"]),
        Err(reason) => not_run(&format!("the guide for Python: {reason}")),
    }
}

#[test]
fn the_program_of_the_guide_for_r_works() {
    match run(Command::new("Rscript").arg("--version")) {
        Ok(_) => run_program_of("docs/guides/r.md", "r", &["Rscript", "guide.r"]),
        Err(reason) => not_run(&format!("the guide for R: {reason}")),
    }
}

#[test]
fn the_program_of_the_guide_for_java_works() {
    run_program_of("docs/guides/java.md", "java", &["java", "Guide.java"]);
}

/// Reports a test that was left out, in the file that `PENATES_NOT_RUN` names.
fn not_run(what: &str) {
    eprintln!("not run: {what}");
    if let Some(path) = std::env::var_os("PENATES_NOT_RUN") {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        list.write_all(format!("{what}\n").as_bytes()).unwrap();
    }
}

/// Runs the blocks of a document in one language as one program, in the file that ends the command,
/// and compares its output with the document's last block of text.
fn run_program_of(document: &str, language: &str, command: &[&str]) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let text = std::fs::read_to_string(workspace.join(document)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(workspace.join("samples"), folder.path().join("samples")).unwrap();
    let demo = Demo::start(folder.path());
    let program = blocks(&text, language).join("\n").replace(DOCUMENTED_ADDRESS, &demo.address);
    std::fs::write(folder.path().join(command[command.len() - 1]), program).unwrap();
    let output = Command::new(command[0]).args(&command[1..]).current_dir(folder.path()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{document}: {printed}{}", String::from_utf8_lossy(&output.stderr));
    let expected = blocks(&text, "text").pop().unwrap();
    let expected: Vec<String> = expected.lines().map(str::to_owned).collect();
    assert!(matches(&expected, &printed.lines().collect::<Vec<_>>()), "{document} printed\n{printed}");
}

/// The blocks of a document in one language.
fn blocks(document: &str, language: &str) -> Vec<String> {
    let (mut blocks, mut block): (Vec<String>, Option<String>) = (Vec::new(), None);
    for line in document.lines() {
        match (&mut block, line) {
            (None, line) if line.strip_prefix("```") == Some(language) => block = Some(String::new()),
            (Some(_), "```") => blocks.extend(block.take()),
            (Some(text), line) => *text += &format!("{line}\n"),
            _ => {}
        }
    }
    blocks
}

/// Runs the examples of a document, given its path from the root of the workspace.
fn run_examples_of(document: &str) {
    run_examples_in(document, |_| {});
}

/// The same in a folder that is prepared for them.
fn run_examples_in(document: &str, prepare: impl Fn(&Path)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    run_examples(document, &std::fs::read_to_string(path).unwrap(), prepare);
}

/// The same, given the text of the document.
fn run_examples(document: &str, text: &str, prepare: impl Fn(&Path)) {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(workspace.join("samples"), folder.path().join("samples")).unwrap();
    let examples = examples(text);
    assert!(examples.len() > 7, "{document} has lost its examples: {} are left", examples.len());

    prepare(folder.path());
    let demo = Demo::start(folder.path());
    for example in &examples {
        let command = example.command.replace(DOCUMENTED_ADDRESS, &demo.address).replace(REDIS_CLI, &demo.redis_cli);
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
    /// The client of its records, which prints as in a terminal.
    redis_cli: String,
}

impl Demo {
    fn start(folder: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_penates"))
            .args(["demo", "--listen", "127.0.0.1:0", "--records-listen", "127.0.0.1:0"])
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
        let redis_cli = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, rest) = line.split_once(REDIS_CLI)?;
                Some(format!("{REDIS_CLI}--no-raw {} ", rest.strip_suffix(" DBSIZE")?))
            })
            .expect("the demo prints how to ask for records");
        // Keeps reading, so that the demo never waits for its reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, address, redis_cli }
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
