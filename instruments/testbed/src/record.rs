//! What makes a run traceable: who measured what, with what, on what, when.

use std::path::Path;
use std::{fs, io};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::beside::Beside;
use crate::machine::sha256_of_file;

/// The form of a run's files. A later form keeps what this one has, or has a number of its own.
pub const FORMAT: u32 = 1;

/// What Git abbreviates a commit to, unless it is configured otherwise.
const COMMIT_DIGITS_MIN: usize = 7;

/// The record of a run: `record.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// The run's id: its start and its plan's name.
    pub id: String,
    /// Who measured.
    pub who: String,
    /// The start instant, after the preparation and before the warm-up.
    pub started_at: Timestamp,
    /// When the last worker was done.
    pub ended_at: Timestamp,
    /// The program that measured.
    pub testbed: Program,
    /// What was measured.
    pub candidate: CandidateRecord,
    /// SHA-256 and size of the plan, and of each scenario and each file of a feed, by name.
    pub inputs: Vec<Input>,
    /// The seed.
    pub seed: u64,
    /// The workers, in the order of their numbers.
    pub workers: Vec<WorkerRecord>,
    /// The machines.
    pub machines: Vec<Machine>,
    /// How the candidate was prepared.
    pub preparation: String,
    /// What should be known and is not. Such a run is untraceable.
    pub missing: Vec<String>,
    /// What was done beside the load.
    #[serde(default)]
    pub beside: Beside,
}

/// A program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Its version, as it says itself.
    pub version: String,
    /// The tag of that version in its repository, such as `v6.1.0`, if it has one.
    #[serde(default)]
    pub tag: Option<String>,
    /// SHA-256 of its file.
    pub sha256: Option<String>,
    /// The commit from which it was built.
    pub commit: Option<String>,
    /// Whether it was built from changed files.
    pub is_dirty: Option<bool>,
    /// Where its source is.
    pub repository: Option<String>,
}

impl Program {
    /// Adds the commit from which it was built. `-dirty` at its end, as `git describe --dirty` writes
    /// it, means changed files. What is no commit, such as a package's name, says nothing of them.
    pub(crate) fn set_commit(&mut self, commit: Option<String>) {
        let is_commit = |text: &str| {
            let word = text.split_whitespace().next().unwrap_or_default();
            // After a tag: `v1.2-3-g7dd9394`.
            let hash = word.rsplit_once("-g").map_or(word, |(_, hash)| hash);
            hash.len() >= COMMIT_DIGITS_MIN && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        self.is_dirty = commit.as_deref().and_then(|text| match text.ends_with("-dirty") {
            true => Some(true),
            false => is_commit(text).then_some(false),
        });
        self.commit = commit;
    }

    /// What should be known of it and is not. `whose` is `the testbed's`, for example.
    pub(crate) fn missing(&self, whose: &str) -> Vec<String> {
        let known = [
            ("name", !self.name.is_empty()),
            ("version", !self.version.is_empty()),
            ("digest of the program", self.sha256.is_some()),
            ("commit", self.commit.is_some()),
            ("repository", self.repository.is_some()),
        ];
        lacking(&known, |what| format!("{whose} {what}"))
    }
}

/// What is not known, in words.
fn lacking(known: &[(&str, bool)], words: impl Fn(&str) -> String) -> Vec<String> {
    known.iter().filter(|(_, is_known)| !is_known).map(|(what, _)| words(what)).collect()
}

/// Facts that every candidate states: how many nodes and copies it has, and its consistency. One that has no
/// such thing says `none`.
pub const FACTS: [&str; 3] = ["nodes", "copies", "consistency"];

/// What was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CandidateRecord {
    /// The program, with the version that the running server reports.
    pub program: Program,
    /// Where it answers.
    pub url: String,
    /// Its command line, if the testbed started it.
    pub command: Option<Vec<String>>,
    /// Its configuration, as read back from the running server.
    pub configuration: Option<String>,
    /// Further facts: [`FACTS`] and others.
    pub facts: Vec<(String, String)>,
}

impl CandidateRecord {
    /// The facts that it should state and does not.
    pub(crate) fn missing_facts(&self) -> Vec<String> {
        let is_stated = |name: &str| self.facts.iter().any(|(known, fact)| known == name && !fact.is_empty());
        lacking(&FACTS.map(|name| (name, is_stated(name))), |what| format!("the candidate's {what}"))
    }
}

/// A file that the run read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// How many bytes it has. Older records do not say it.
    #[serde(default)]
    pub bytes: Option<u64>,
}

impl Input {
    /// A file with these bytes.
    pub fn of(name: impl Into<String>, bytes: &[u8]) -> Self {
        Self { name: name.into(), sha256: hex::encode(Sha256::digest(bytes)), bytes: Some(bytes.len() as u64) }
    }

    /// A file on a disk.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn of_file(name: String, path: &Path) -> io::Result<Self> {
        Ok(Self { name, sha256: sha256_of_file(path)?, bytes: Some(fs::metadata(path)?.len()) })
    }
}

/// A worker.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// Its number.
    pub number: u32,
    /// Its address; `None`: the coordinator started it.
    pub address: Option<String>,
    /// How far its clock is ahead of the coordinator's, in microseconds.
    pub clock_offset_us: i64,
    /// How wrong that may be, in microseconds.
    pub clock_error_us: u64,
    /// Processor time that it used from the start instant to its end, in seconds.
    pub cpu_s: f64,
    /// The share of a processor that the thread of the load used until the last user had arrived.
    #[serde(default)]
    pub load_share: f64,
    /// The longest time in which the thread of the load did nothing, in milliseconds.
    #[serde(default)]
    pub longest_stall_ms: f64,
    /// Bytes of memory that its process had at the start instant.
    #[serde(default)]
    pub memory_at_start_bytes: Option<u64>,
    /// The most bytes of memory that its process had from then on.
    #[serde(default)]
    pub memory_peak_bytes: Option<u64>,
    /// Its program.
    pub program: Program,
    /// Its command line. It has no other configuration: the rest is in the plan.
    #[serde(default)]
    pub command: Option<Vec<String>>,
}

impl WorkerRecord {
    /// What should be known of its program and is not.
    pub(crate) fn missing(&self) -> Vec<String> {
        let whose = format!("worker {}'s", self.number);
        let mut missing = self.program.missing(&whose);
        missing.extend(lacking(&[("command line", self.command.is_some())], |what| format!("{whose} {what}")));
        missing
    }
}

/// A monitor on another machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MonitorRecord {
    /// Its address.
    pub address: String,
    /// The host name of its machine.
    pub machine: String,
    /// How far its clock is ahead of the coordinator's, in microseconds.
    pub clock_offset_us: i64,
    /// How wrong that may be, in microseconds.
    pub clock_error_us: u64,
    /// Its program.
    pub program: Program,
    /// Processors that others used on its machine during the load, on average; `None` if the candidate may be
    /// among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_during: Option<f64>,
    /// What it could not sample, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_sampled: Vec<String>,
    /// The processes of the candidate that it watches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessRecord>,
}

/// A process of a candidate that the testbed has not started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessRecord {
    /// Its id.
    pub pid: u32,
    /// The name of its program's file; empty if that may not be read.
    pub name: String,
    /// SHA-256 of that file; `None` if it may not be read.
    pub sha256: Option<String>,
    /// Its command line; `None` if it has ended.
    pub command: Option<Vec<String>>,
}

/// A machine, as it describes itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its host name.
    pub name: String,
    /// A digest of its id (`/etc/machine-id`). The id itself is nobody's business.
    #[serde(default)]
    pub id: Option<String>,
    /// A digest of the id that its kernel has since it has started.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// What ran there: `coordinator`, `worker 0`, `candidate`.
    pub roles: Vec<String>,
    /// Model of the processor.
    pub processor: Option<String>,
    /// Processors that this process may use.
    pub processors: usize,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// The disk and the file system of the data.
    pub disk: Option<String>,
    /// The kernel.
    pub kernel: Option<String>,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
    /// Limits of this process: open files, memory and processors of its control group.
    pub limits: Vec<(String, String)>,
    /// Whether it is a container.
    pub is_container: Option<bool>,
    /// Processors that others used just before the run.
    pub busy_before: Option<f64>,
}

impl Machine {
    /// What should be known of it and is not. `who` runs there.
    pub(crate) fn missing(&self, who: &str) -> Vec<String> {
        let known = [
            ("processor", self.processor.is_some()),
            ("number of processors", self.processors > 0),
            ("memory", self.memory_bytes.is_some()),
            ("kernel", self.kernel.is_some()),
            ("clock source", self.clock_source.is_some()),
            ("limits", !self.limits.is_empty()),
        ];
        let mut missing = lacking(&known, |what| format!("the {what} of the machine of {who}"));
        if self.is_container.is_none() {
            missing.push(format!("whether the machine of {who} is a container"));
        }
        if self.busy_before.is_none() {
            missing.push(format!("the processors that others used on the machine of {who} before the run"));
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_of_programs_and_machines_is_named() {
        let whole = Program {
            name: "penates".to_owned(),
            version: "0.1.0".to_owned(),
            sha256: Some("ab".to_owned()),
            commit: Some("cd".to_owned()),
            repository: Some("https://example.org/".to_owned()),
            ..Program::default()
        };
        assert!(whole.missing("the testbed's").is_empty());
        let wanted = ["name", "version", "digest of the program", "commit", "repository"];
        let wanted = wanted.map(|what| format!("the testbed's {what}"));
        assert_eq!(Program::default().missing("the testbed's"), wanted);
        let command = Some(vec!["penates".to_owned()]);
        let worker =
            |program: Program| WorkerRecord { number: 3, program, command: command.clone(), ..WorkerRecord::default() };
        assert!(worker(whole.clone()).missing().is_empty());
        let nameless = WorkerRecord { command: None, ..worker(Program { name: String::new(), commit: None, ..whole }) };
        assert_eq!(nameless.missing(), ["worker 3's name", "worker 3's commit", "worker 3's command line"]);
        let wanted = [
            "the processor of the machine of worker 3",
            "the number of processors of the machine of worker 3",
            "the memory of the machine of worker 3",
            "the kernel of the machine of worker 3",
            "the clock source of the machine of worker 3",
            "the limits of the machine of worker 3",
            "whether the machine of worker 3 is a container",
            "the processors that others used on the machine of worker 3 before the run",
        ];
        assert_eq!(Machine::default().missing("worker 3"), wanted);
    }

    #[test]
    fn whether_files_were_changed_is_known_of_a_commit_only() {
        let is_dirty = |commit: &str| {
            let mut program = Program::default();
            program.set_commit(Some(commit.to_owned()));
            assert_eq!(program.commit.as_deref(), Some(commit));
            program.is_dirty
        };
        for clean in ["7dd939412ab8c1d05e6f7dd939412ab8c1d05e6f", "7dd9394 of main", "v1.2-3-g7dd9394"] {
            assert_eq!(is_dirty(clean), Some(false), "{clean}");
        }
        assert_eq!((is_dirty("7dd9394-dirty"), is_dirty("v1.2-3-g7dd9394-dirty")), (Some(true), Some(true)));
        for other in ["fcrepo-webapp 6.1.0 of Maven Central", "nginx 1.22.1-9", "a package", "v1.2", ""] {
            assert_eq!(is_dirty(other), None, "{other}");
        }
    }

    #[test]
    fn a_machine_without_clock_source_or_processor_is_a_gap() {
        let known = |text: &str| Some(text.to_owned());
        let whole = Machine {
            processor: known("Example 9000"),
            processors: 2,
            memory_bytes: Some(1 << 30),
            kernel: known("Linux 6.12"),
            clock_source: known("tsc"),
            limits: vec![("open files".to_owned(), "1024".to_owned())],
            is_container: Some(false),
            busy_before: Some(0.0),
            ..Machine::default()
        };
        assert!(whole.missing("the testbed").is_empty());
        let missing = |machine: Machine| machine.missing("the testbed");
        let without = missing(Machine { clock_source: None, processor: None, ..whole.clone() });
        assert_eq!(
            without,
            ["the processor of the machine of the testbed", "the clock source of the machine of the testbed"]
        );
        let without = missing(Machine { limits: Vec::new(), is_container: None, ..whole.clone() });
        assert_eq!(
            without,
            ["the limits of the machine of the testbed", "whether the machine of the testbed is a container"]
        );
        let without = missing(Machine { busy_before: None, ..whole });
        assert_eq!(without, ["the processors that others used on the machine of the testbed before the run"]);
    }

    #[test]
    fn a_candidate_states_its_nodes_its_copies_and_its_consistency_or_that_it_has_none() {
        let candidate = |facts: &[(&str, &str)]| CandidateRecord {
            facts: facts.iter().map(|(name, fact)| ((*name).to_owned(), (*fact).to_owned())).collect(),
            ..CandidateRecord::default()
        };
        let silent = candidate(&[("engine", "embedded"), ("nodes", "1"), ("copies", "")]);
        assert_eq!(silent.missing_facts(), ["the candidate's copies", "the candidate's consistency"]);
        let stated = candidate(&[("nodes", "1"), ("copies", "none"), ("consistency", "none")]);
        assert!(stated.missing_facts().is_empty());
    }
}
