//! Traces and metrics for a collector, by OTLP over HTTP (`telemetry.otlp`); off by default.
//!
//! `request.rs` of `telemetry/` begins a span for each request, in the trace that the client names
//! (W3C Trace Context). `traced.rs` makes calls of the store spans within it; `convert.rs` turns a
//! scrape into a message; `spans.rs` is the exporter of spans; `client.rs` sends, and `sending.rs`
//! reports what is not sent.

mod client;
mod convert;
mod sending;
mod spans;
mod traced;

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::BoxError;
use http::Uri;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

use crate::config::TelemetryConfig;
use crate::error::ServerError;
use crate::telemetry::Watched;
use client::Collector;
use convert::Times;
use sending::Sending;
use spans::Spans;

pub(crate) use traced::Traced;

/// How long the end of the process waits until the last spans and numbers are sent.
const END_MAX: Duration = Duration::from_secs(2);

/// The tracer of this process, once there is one.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// The tracer; `None`: nothing is traced.
pub(crate) fn tracer() -> Option<&'static SdkTracer> {
    TRACER.get()
}

/// Sends until it is dropped.
pub(crate) struct Exporting {
    provider: SdkTracerProvider,
    metrics: Metrics,
    _task: AbortOnDropHandle<()>,
}

impl Exporting {
    /// Begins, if the configuration names a collector.
    ///
    /// Errors: the system's root certificates cannot be read, and the collector has TLS.
    pub(crate) fn start(config: &TelemetryConfig, watched: Watched) -> Result<Option<Self>, ServerError> {
        let Some(address) = &config.otlp else { return Ok(None) };
        let refused = |error: &dyn std::fmt::Display| ServerError::Telemetry(format!("telemetry.otlp: {error}"));
        let address = address.trim_end_matches('/');
        let collector = Collector::new(address).map_err(|error| refused(&error))?;
        let exporter = Spans::new(collector.clone(), format!("{address}/v1/traces"));
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name(config.service.clone()).with_attribute(version).build();
        let attributes = resource.iter().map(|(key, value)| convert::attribute(key.as_str(), value.as_str())).collect();
        let share = 1.0 / f64::from(config.sample_one_of.max(1));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share))))
            .with_resource(resource)
            .build();
        // A second server of the process traces with the first one's.
        let _ = TRACER.set(provider.tracer("penates"));
        let metrics =
            Metrics { collector, address: format!("{address}/v1/metrics"), attributes, began: now(), watched };
        let sending = metrics.clone();
        let every = config.every;
        let task = AbortOnDropHandle::new(tokio::spawn(async move { sending.send_every(every).await }));
        tracing::info!(collector = shown(address), "telemetry is sent by OTLP");
        Ok(Some(Self { provider, metrics, _task: task }))
    }

    /// Sends what is left, for a few seconds at most.
    pub(crate) async fn end(self) {
        let provider = self.provider.clone();
        let spans = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(END_MAX));
        let both = async { tokio::join!(spans, self.metrics.send()) };
        match tokio::time::timeout(END_MAX, both).await {
            Ok((Ok(Ok(())), Ok(()))) => {}
            _ => tracing::warn!("the last telemetry was not sent"),
        }
    }
}

/// Sends metrics.
#[derive(Clone)]
struct Metrics {
    collector: Collector,
    address: String,
    attributes: Vec<opentelemetry_proto::tonic::common::v1::KeyValue>,
    /// When the numbers began, in nanoseconds since 1970.
    began: u64,
    watched: Watched,
}

impl Metrics {
    async fn send_every(&self, every: Duration) {
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let sending = Sending::of("metrics");
        loop {
            ticks.tick().await;
            sending.note(&self.send().await);
        }
    }

    async fn send(&self) -> Result<(), BoxError> {
        let times = Times { began: self.began, now: now() };
        let message = convert::message(&self.watched.text().await, self.attributes.clone(), times);
        self.collector.post(&self.address, &message).await
    }
}

/// Scheme, host and port of an address. Its path may be a secret of the collector.
fn shown(address: &str) -> Option<String> {
    let uri: Uri = address.parse().ok()?;
    Some(format!("{}://{}", uri.scheme_str()?, uri.authority()?))
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::config::Config;

    #[test]
    fn an_address_with_a_password_is_refused_and_not_repeated() {
        let otlp = Some("https://someone:a-password@collector.example:4318".to_owned());
        let telemetry = TelemetryConfig { otlp, ..TelemetryConfig::default() };
        let why = Config { telemetry, ..Config::default() }.check().unwrap_err().to_string();
        assert!(why.contains("telemetry.otlp") && !why.contains("a-password"), "{why}");
    }

    #[test]
    fn the_log_has_the_host_of_a_collector_and_not_its_path() {
        let collector = shown("https://collector.example:4318/a-secret");
        assert_eq!(collector.as_deref(), Some("https://collector.example:4318"));
    }
}
