//! A candidate as its author describes it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::CandidateError;
use crate::beside::marks::{self, MarkSpec};
use crate::plan::from_toml;

/// A candidate, as its file describes it. In commands, `${data}` is a folder for its data, `${port}`
/// and `${port2}` are free ports on loopback, `${folder}` is the candidate's own folder, and `${self}` this
/// program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateSpec {
    /// Its name.
    pub name: String,
    /// What it is, in a sentence.
    #[serde(default)]
    pub description: String,
    /// Where its source is.
    #[serde(default)]
    pub repository: Option<String>,
    /// Programs that must be installed.
    #[serde(default)]
    pub needs: Vec<String>,
    /// How they can be had, for people: `apt-get install nginx`.
    #[serde(default)]
    pub install: Option<String>,
    /// Where it answers, with the same places as commands. The scheme names the protocol.
    #[serde(default = "http_address")]
    pub url: String,
    /// Commands that prepare it, one after the other.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// The command that runs it.
    pub start: Vec<String>,
    /// The path, or a whole address, that answers with 2xx when it is ready. Without it `url` is asked:
    /// for its root, or by `PING`.
    #[serde(default)]
    pub ready: Option<String>,
    /// How long that may take.
    #[serde(default = "a_minute", with = "humantime_serde")]
    pub ready_within: Duration,
    /// The command that prints its version; otherwise the server is asked.
    #[serde(default)]
    pub version: Option<Vec<String>>,
    /// The command that prints the commit from which it was built.
    #[serde(default)]
    pub commit: Option<Vec<String>>,
    /// The command that prints its configuration in force.
    #[serde(default)]
    pub configuration: Option<Vec<String>>,
    /// The path, or a whole address, of its metrics in Prometheus's text format.
    #[serde(default)]
    pub metrics: Option<String>,
    /// How its flushes, compactions and pauses are found, for marks in the report.
    #[serde(default)]
    pub marks: Vec<MarkSpec>,
    /// Commands that events of plans run, by name. `${pid}` is the id of its process.
    #[serde(default)]
    pub commands: BTreeMap<String, Vec<String>>,
    /// Variables of its environment. It inherits [`INHERITED`](super::INHERITED) and nothing else.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Further facts for the record: nodes, copies, consistency.
    #[serde(default)]
    pub facts: BTreeMap<String, String>,
}

impl CandidateSpec {
    /// Parses a candidate.
    ///
    /// # Errors
    /// [`CandidateError::Spec`] names the key.
    pub fn parse(text: &str) -> Result<Self, CandidateError> {
        let spec: Self = from_toml("candidate", text)?;
        marks::check(&spec.marks, spec.metrics.is_some())?;
        Ok(spec)
    }
}

fn http_address() -> String {
    "http://127.0.0.1:${port}".to_owned()
}

fn a_minute() -> Duration {
    Duration::from_secs(60)
}
