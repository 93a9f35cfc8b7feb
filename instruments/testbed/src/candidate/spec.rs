//! A candidate as its author describes it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::CandidateError;
use super::command::PLACES;
use crate::beside::LOGS_MAX;
use crate::beside::marks::{self, MarkSpec};
use crate::plan::{from_toml, invalid};
use crate::reach::Fields;
use crate::tls::TlsSpec;

/// A candidate, as its file describes it. In commands, `${data}` is a folder for its data, `${port}` and
/// `${port2}` to `${port4}` are free ports on loopback, `${folder}` is the candidate's own folder, `${self}`
/// this program, `${penates}` the program of Penates, and `${NAME}` a folder that the user names.
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
    /// Folders that the user names by variables of the environment, by the names of their places.
    #[serde(default)]
    pub folders: BTreeMap<String, FolderSpec>,
    /// Why it cannot be run, if nobody can run it here.
    #[serde(default)]
    pub not_run: Option<String>,
    /// How they can be had, for people: `apt-get install nginx`.
    #[serde(default)]
    pub install: Option<String>,
    /// Where it answers, with the same places as commands. The scheme names the protocol.
    #[serde(default = "http_address")]
    pub url: String,
    /// Further addresses, if several servers answer for it: workers take all in turn.
    #[serde(default)]
    pub further_urls: Vec<String>,
    /// Header fields of all requests over HTTP.
    #[serde(default)]
    pub headers: Fields,
    /// TLS, if an address begins with `https:`. Its file may be one that the candidate makes.
    #[serde(default)]
    pub tls: TlsSpec,
    /// Commands that prepare it, one after the other.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// The command that runs it.
    pub start: Vec<String>,
    /// The command that asks it to end. Then its processes get SIGTERM.
    #[serde(default)]
    pub stop: Option<Vec<String>>,
    /// The file whose digest is that of the program, if that is not the one that `start` runs: a script
    /// or an archive of Java.
    #[serde(default)]
    pub program: Option<String>,
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
    /// The version that it must have: a regular expression for a part of it, or its exact text.
    #[serde(default)]
    pub expect_version: Option<String>,
    /// The command that prints the commit from which it was built.
    #[serde(default)]
    pub commit: Option<Vec<String>>,
    /// The command that prints the tag of its version in its repository.
    #[serde(default)]
    pub tag: Option<Vec<String>>,
    /// The words of `start` that give it a setting, once for each. `${name}` is the setting's name, and
    /// `${value}` its value. Without them nobody can vary its settings.
    #[serde(default)]
    pub setting: Vec<String>,
    /// The command that prints, on its last line, the value of a setting that is in force in the process
    /// that runs. `${name}` is the setting's name.
    #[serde(default)]
    pub setting_in_force: Option<Vec<String>>,
    /// The command that prints its configuration in force.
    #[serde(default)]
    pub configuration: Option<Vec<String>>,
    /// The command that prints the folder of its control group (version 2), which is then watched.
    #[serde(default)]
    pub cgroup: Option<Vec<String>>,
    /// Further logs than what its processes print, with the same places: of a database behind it, or of a
    /// server that an event starts. One that is not there is left out.
    #[serde(default)]
    pub logs: Vec<String>,
    /// The path, or a whole address, of its metrics in Prometheus's text format.
    #[serde(default)]
    pub metrics: Option<String>,
    /// The command that prints the nodes of Cassandra whose figures are sampled, on a line each: a name, and
    /// the address of Jolokia in the node, or why there is none.
    #[serde(default)]
    pub jolokia: Option<Vec<String>>,
    /// How its flushes, compactions and pauses are found, for marks in the report.
    #[serde(default)]
    pub marks: Vec<MarkSpec>,
    /// Commands that events of plans run, by name. `${pid}` is the id of its process.
    #[serde(default)]
    pub commands: BTreeMap<String, Vec<String>>,
    /// Variables of its environment. It inherits [`INHERITED`](super::INHERITED) and nothing else.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Facts for the record: nodes, copies and consistency, or that it has none, and others.
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
        if spec.logs.len() > LOGS_MAX {
            return Err(invalid("candidate: logs", format!("at most {LOGS_MAX}")).into());
        }
        if let Some(name) = spec.folders.keys().find(|name| PLACES.contains(&name.as_str())) {
            return Err(invalid("candidate: folders", format!("`${{{name}}}` is a place of every candidate")).into());
        }
        if let Some(name) = spec.environment.keys().find(|name| !is_of_shell(name)) {
            let message = "a name of letters, digits and `_`: a shell starts the candidate, and passes on no other";
            return Err(invalid(format!("candidate: environment.{name}"), message).into());
        }
        Ok(spec)
    }
}

/// Whether shells pass on a variable of this name.
fn is_of_shell(name: &str) -> bool {
    let is_letter = |char: char| char.is_ascii_alphabetic() || char == '_';
    name.starts_with(is_letter) && name.chars().all(|char| is_letter(char) || char.is_ascii_digit())
}

/// A folder that the user names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderSpec {
    /// The variable of the environment with the folder.
    pub variable: String,
    /// Files that it must have. Their digests are in the record.
    #[serde(default)]
    pub files: Vec<String>,
}

impl FolderSpec {
    /// The folder, if the user has named one.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        std::env::var_os(&self.variable).filter(|folder| !folder.is_empty()).map(PathBuf::from)
    }

    /// What is missing, for people.
    pub(super) fn missing(&self) -> Option<String> {
        let Some(folder) = self.folder() else {
            return Some(match self.files.as_slice() {
                [] => format!("a folder that {} names", self.variable),
                files => format!("a folder that {} names, with {}", self.variable, files.join(" and ")),
            });
        };
        let file = self.files.iter().find(|file| !folder.join(file).is_file());
        file.map(|file| format!("{file} in the folder {} ({})", folder.display(), self.variable))
    }
}

fn http_address() -> String {
    "http://127.0.0.1:${port}".to_owned()
}

fn a_minute() -> Duration {
    Duration::from_secs(60)
}
