//! A scenario as its author writes it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::feed::FeedSpec;
use crate::plan::{PlanError, from_toml};

/// A scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioSpec {
    /// Its name, which is that of its file.
    #[serde(skip)]
    pub name: String,
    /// What its users do, in a sentence.
    #[serde(default)]
    pub description: String,
    /// Where values come from.
    #[serde(default)]
    pub feeds: Vec<FeedSpec>,
    /// What its users do, one after the other.
    pub steps: Vec<StepSpec>,
}

/// One request: over HTTP, or a command over the Redis protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    /// Its name in tables and charts.
    pub name: String,
    /// The method; `GET` unless set.
    #[serde(default)]
    pub method: Option<String>,
    /// The path on the candidate, with its query, or an address there that a step has saved.
    #[serde(default)]
    pub path: Option<String>,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(default)]
    pub body: Option<BodySpec>,
    /// The words of a command over the Redis protocol, instead of all of these.
    #[serde(default)]
    pub command: Option<Vec<String>>,
    /// How long the user waits before it.
    #[serde(default, with = "humantime_serde")]
    pub pause: Duration,
    /// How often it is sent, one after the other.
    #[serde(default = "once")]
    pub repeat: u32,
    /// For so long it is sent again while its check fails. Its time counts from the first of these requests.
    #[serde(default, with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub again_within: Option<Duration>,
    /// What is checked.
    #[serde(default)]
    pub check: CheckSpec,
    /// What later steps may use, by name.
    #[serde(default)]
    pub save: BTreeMap<String, SaveSpec>,
}

/// A body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum BodySpec {
    /// A text with values.
    Text(String),
    /// The bytes that the user has drawn from a feed.
    Feed(String),
}

/// What is checked of a response.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckSpec {
    /// The status codes that are right; any of 200 to 399 unless set.
    pub status: Vec<u16>,
    /// The status codes of a conflict with another user. Such an answer is right, is counted apart, and is not
    /// checked further.
    pub conflict: Vec<u16>,
    /// Header fields that must match regular expressions.
    pub header: BTreeMap<String, String>,
    /// A regular expression that the answer to a command must match.
    pub answer: Option<String>,
    /// The number of bytes of the body, or of the answer to a command.
    pub bytes: Option<String>,
    /// SHA-256 of the same bytes, in hexadecimal.
    pub sha256: Option<String>,
    /// A text that they must contain.
    pub contains: Option<String>,
    /// A file beside the plan with a graph in Turtle, which the body must be: in Turtle or N-Triples, with
    /// any labels of blank nodes.
    pub isomorphic_to: Option<String>,
}

/// What is kept of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SaveSpec {
    /// A header field.
    Header(String),
    /// A part of JSON in the body or the answer, by its pointer (RFC 6901).
    Json(String),
    /// What the first group of a regular expression finds in the body.
    Regex(String),
    /// What the first group of a regular expression finds in the answer to a command.
    Answer(String),
}

impl ScenarioSpec {
    /// Parses a scenario.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] names the key.
    pub fn parse(name: &str, text: &str) -> Result<Self, PlanError> {
        let name = name.strip_suffix(".toml").unwrap_or(name).to_owned();
        Ok(Self { name: name.clone(), ..from_toml(&format!("scenario {name}"), text)? })
    }
}

fn once() -> u32 {
    1
}
