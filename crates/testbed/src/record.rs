//! What makes a run traceable: who measured what, with what, on what, when.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::beside::Beside;

/// The form of a run's files. A later form keeps what this one has, or has a number of its own.
pub const FORMAT: u32 = 1;

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
    /// SHA-256 of the plan, and of each scenario and each file of a feed, by name.
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
    /// What should be known of it and is not. `whose` is `the testbed's`, for example.
    pub(crate) fn missing(&self, whose: &str) -> Vec<String> {
        let known = [
            ("name", !self.name.is_empty()),
            ("version", !self.version.is_empty()),
            ("digest of the program", self.sha256.is_some()),
            ("commit", self.commit.is_some()),
        ];
        lacking(&known, |what| format!("{whose} {what}"))
    }
}

/// What is not known, in words.
fn lacking(known: &[(&str, bool)], words: impl Fn(&str) -> String) -> Vec<String> {
    known.iter().filter(|(_, is_known)| !is_known).map(|(what, _)| words(what)).collect()
}

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
    /// Further facts: nodes, copies, consistency.
    pub facts: Vec<(String, String)>,
}

/// A file that the run read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
}

/// A worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// Its program.
    pub program: Program,
}

impl WorkerRecord {
    /// What should be known of its program and is not.
    pub(crate) fn missing(&self) -> Vec<String> {
        self.program.missing(&format!("worker {}'s", self.number))
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
            ("number of processors", self.processors > 0),
            ("memory", self.memory_bytes.is_some()),
            ("kernel", self.kernel.is_some()),
        ];
        lacking(&known, |what| format!("the {what} of the machine of {who}"))
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
            ..Program::default()
        };
        assert!(whole.missing("the testbed's").is_empty());
        let wanted = ["name", "version", "digest of the program", "commit"].map(|what| format!("the testbed's {what}"));
        assert_eq!(Program::default().missing("the testbed's"), wanted);
        let worker = |program: Program| WorkerRecord {
            number: 3,
            address: None,
            clock_offset_us: 0,
            clock_error_us: 0,
            cpu_s: 0.0,
            load_share: 0.0,
            longest_stall_ms: 0.0,
            program,
        };
        assert!(worker(whole.clone()).missing().is_empty());
        let nameless = Program { name: String::new(), commit: None, ..whole };
        assert_eq!(worker(nameless).missing(), ["worker 3's name", "worker 3's commit"]);
        let wanted = [
            "the number of processors of the machine of worker 3",
            "the memory of the machine of worker 3",
            "the kernel of the machine of worker 3",
        ];
        assert_eq!(Machine::default().missing("worker 3"), wanted);
        assert!(Machine::find(None).missing("the testbed").is_empty());
    }
}
