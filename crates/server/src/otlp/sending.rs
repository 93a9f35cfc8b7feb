//! Whether what is sent to the collector arrives.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

use metrics::counter;

use crate::telemetry::OTLP_FAILED;

/// Counts failures of one signal, and logs when they begin and end.
#[derive(Debug)]
pub(super) struct Sending {
    signal: &'static str,
    fails: AtomicBool,
}

impl Sending {
    pub(super) fn of(signal: &'static str) -> Self {
        Self { signal, fails: AtomicBool::new(false) }
    }

    /// Notes how one message was sent.
    pub(super) fn note<E: Display>(&self, sent: &Result<(), E>) {
        let signal = self.signal;
        let failed_before = self.fails.swap(sent.is_err(), Ordering::Relaxed);
        match sent {
            Ok(()) if failed_before => tracing::info!("{signal} are sent by OTLP again"),
            Ok(()) => {}
            Err(error) => {
                counter!(OTLP_FAILED, "signal" => signal).increment(1);
                if !failed_before {
                    tracing::warn!(%error, "{signal} cannot be sent by OTLP");
                }
            }
        }
    }
}
