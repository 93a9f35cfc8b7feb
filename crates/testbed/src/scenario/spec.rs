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

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    /// Its name in tables and charts.
    pub name: String,
    /// Its method; `GET` unless set.
    #[serde(default = "get")]
    pub method: String,
    /// The path on the candidate, with its query, or an address there that a step has saved.
    pub path: String,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(default)]
    pub body: Option<BodySpec>,
    /// How long the user waits before it.
    #[serde(default, with = "humantime_serde")]
    pub pause: Duration,
    /// How often it is sent, one after the other.
    #[serde(default = "once")]
    pub repeat: u32,
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
    /// Header fields that must match regular expressions.
    pub header: BTreeMap<String, String>,
    /// The number of bytes of the body.
    pub bytes: Option<String>,
    /// SHA-256 of the body, in hexadecimal.
    pub sha256: Option<String>,
    /// A text that the body must contain.
    pub contains: Option<String>,
}

/// What is kept of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum SaveSpec {
    /// A header field.
    Header(String),
    /// A part of a JSON body, by its pointer (RFC 6901).
    Json(String),
    /// What the first group of a regular expression finds in the body.
    Regex(String),
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

fn get() -> String {
    "GET".to_owned()
}

fn once() -> u32 {
    1
}
