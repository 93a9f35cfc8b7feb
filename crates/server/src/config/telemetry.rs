//! `[telemetry]`

use std::time::Duration;

use documented::DocumentedFields;
use serde::{Deserialize, Serialize};

use super::{ConfigError, refused};

/// `[telemetry]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct TelemetryConfig {
    /// Address of a collector that takes OTLP over HTTP (`http://127.0.0.1:4318`), without path,
    /// user and password.
    pub otlp: Option<String>,
    /// How often metrics are sent.
    #[serde(with = "humantime_serde")]
    pub every: Duration,
    /// One of so many requests is traced, if its client does not say whether it traces it.
    pub sample_one_of: u32,
    /// The name of the service in traces and metrics.
    pub service: String,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { otlp: None, every: Duration::from_secs(60), sample_one_of: 1, service: "penates".to_owned() }
    }
}

impl TelemetryConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.every.is_zero() || self.sample_one_of == 0 {
            return Err(refused("telemetry.every and telemetry.sample_one_of must be at least 1"));
        }
        let Some(address) = &self.otlp else { return Ok(()) };
        if address.contains('@') {
            // The message must not repeat a password.
            return Err(refused("telemetry.otlp must not name a user or a password"));
        }
        let is_address = address.parse::<::http::Uri>().is_ok_and(|uri| {
            let scheme = uri.scheme_str().unwrap_or_default();
            ["http", "https"].contains(&scheme) && uri.query().is_none()
        });
        match is_address {
            true => Ok(()),
            false => Err(refused(format!("telemetry.otlp `{address}` must be http:// or https:// with a host"))),
        }
    }
}
