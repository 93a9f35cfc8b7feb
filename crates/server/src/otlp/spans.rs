//! Sends spans to the collector.
//!
//! The exporter of `opentelemetry-otlp` takes headers, compression and more from the environment.
//! Here only the configuration counts.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

use super::client::Collector;
use super::sending::Sending;

/// An exporter for the SDK, which calls it on a thread of its own.
#[derive(Debug)]
pub(super) struct Spans {
    collector: Collector,
    address: String,
    resource: ResourceAttributesWithSchema,
    sending: Sending,
}

impl Spans {
    pub(super) fn new(collector: Collector, address: String) -> Self {
        let resource = ResourceAttributesWithSchema::default();
        Self { collector, address, resource, sending: Sending::of("spans") }
    }
}

impl SpanExporter for Spans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        let sent = self.collector.post(&self.address, &ExportTraceServiceRequest { resource_spans }).await;
        self.sending.note(&sent);
        sent.map_err(|error| OTelSdkError::InternalFailure(error.to_string()))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}
