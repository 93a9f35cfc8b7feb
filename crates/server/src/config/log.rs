//! `[log]`

use documented::DocumentedFields;
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::{ConfigError, refused};

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct LogConfig {
    /// Format of lines: `text` (for people) or `json` (one object per line).
    pub format: LogFormat,
    /// What is logged: a level (`trace`, `debug`, `info`, `warn`, `error`, `off`), or directives of
    /// `tracing-subscriber` such as `info,server=debug`.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info,fjall=warn,lsm_tree=warn".to_owned() }
    }
}

impl LogConfig {
    /// The filter of the log. A directive without `=` must be a level: the filter would take any
    /// other word for the name of a target, and log nothing else.
    pub(crate) fn filter(&self) -> Result<EnvFilter, ConfigError> {
        let invalid = |what: String| refused(format!("log.level `{}`: {what}", self.level));
        let directives = self.level.split(',').map(str::trim).filter(|directive| !directive.is_empty());
        for word in directives.filter(|directive| !directive.contains(['=', '[', ']', '{', '}'])) {
            let _: LevelFilter = word.parse().map_err(|_| {
                invalid(format!("`{word}` is no level: write trace, debug, info, warn, error or off, or TARGET=LEVEL"))
            })?;
        }
        EnvFilter::try_new(&self.level).map_err(|error| invalid(error.to_string()))
    }
}
