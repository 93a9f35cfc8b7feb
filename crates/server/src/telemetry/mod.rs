//! Metrics, and what is measured and logged of each request.
//!
//! `families.rs` lists the metrics; `request.rs` has the layer that sees each request;
//! `process.rs` has the process and its allocator. This file sets what a scrape shows of the
//! present state.

mod families;
mod process;
mod request;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use door_records::{Door, METRICS as RECORDS};
use fixity::Auditor;
use heads::{Chore, Queue};
use http::header;
use library::Library;
use metrics::{Label, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use store::{Health, Lane, Measure, Measured};
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

use crate::error::ServerError;
use crate::health::Readiness;
use crate::logging;

pub(crate) use families::{
    ATTRIBUTES_RECLAIMED, AUDIT_OLDEST, FIXITY_ERRORS, OF_BRIDGES, OF_WEBHOOKS, OTLP_FAILED, ReceiverMetrics,
    SEARCH_CHANGES, SEARCH_COMPLETE, SEARCH_FAILURES, SEARCH_LAG, SEARCH_REBUILDING, SEARCH_RESOURCES, SEARCH_WRITING,
    TASK_FAILURES, TASK_SUCCESS, TASKS,
};
pub(crate) use request::{OpenConnection, observe};

use families::*;

/// How long a scrape waits for the state of the fixity auditor.
const FIXITY_PATIENCE: Duration = Duration::from_secs(2);

/// How often recorded observations are moved into their buckets.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Bounds of the buckets of histograms in seconds: from a cached page to a big plan.
const BUCKETS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// Likewise for commands on records.
const RECORDS_BUCKETS: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];

/// The hours of which a scrape says how many records expire.
const HOURS: usize = 24;

/// The process's metrics; the recorder is installed at the first call.
pub(crate) fn metrics() -> Result<&'static PrometheusHandle, ServerError> {
    static HANDLE: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();
    HANDLE.get_or_init(install).as_ref().map_err(|error| ServerError::Telemetry(format!("metrics: {error}")))
}

fn install() -> Result<PrometheusHandle, String> {
    let handle = PrometheusBuilder::new()
        .set_buckets(&BUCKETS)
        .and_then(|builder| {
            builder.set_buckets_for_metric(Matcher::Full(RECORDS.duration.to_owned()), &RECORDS_BUCKETS)
        })
        .map_err(|error| error.to_string())?
        .install_recorder()
        .map_err(|error| error.to_string())?;
    families::register();
    process::describe();
    let started = seconds_since_1970();
    for task in TASKS {
        gauge!(TASK_SUCCESS, "task" => task).set(started);
    }
    Ok(handle)
}

/// What a scrape looks at.
#[derive(Clone)]
pub(crate) struct Watched {
    pub(crate) handle: &'static PrometheusHandle,
    pub(crate) library: Library,
    pub(crate) readiness: Readiness,
    pub(crate) records: Arc<Door>,
    /// `None`: this server audits no fixity.
    pub(crate) fixity: Option<Arc<Auditor>>,
}

impl Watched {
    /// The metrics in Prometheus's text format, with the present state.
    pub(crate) async fn text(&self) -> String {
        let Self { handle, library, readiness, records, fixity } = self;
        let store = library.store();
        let measured = store.clone();
        // The process's files are listed by the kernel, and an engine may read its disk.
        let measures = tokio::task::spawn_blocking(move || {
            process::record();
            measured.measures()
        });
        let fixity = async {
            if let Some(auditor) = fixity {
                record_fixity(auditor).await;
            }
        };
        let ((ready, checked), measures, ()) = futures::join!(readiness.check_now(), measures, fixity);
        if let Some(health) = &checked.health {
            record_health(health, store.capabilities().folder.is_some());
        }
        // If an engine's measuring fails, the rest is of use.
        measures.unwrap_or_default().into_iter().for_each(record_measure);
        gauge!(READY).set(f64::from(u8::from(ready.is_ok())));
        gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        record_library(library);
        counter!(DAMAGE).absolute(library.heads.damage_found() + records.damage_found());
        counter!(DROPPED_LINES).absolute(logging::dropped_lines());
        handle.run_upkeep();
        handle.render()
    }

    /// The response to a scrape.
    pub(crate) async fn respond(self) -> Response {
        let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
        (content_type, self.text().await).into_response()
    }
}

/// Moves what histograms have recorded into their buckets, until the handle is dropped. Otherwise
/// each observation takes memory until the next scrape, and perhaps nobody scrapes.
pub(crate) fn keep_up(handle: &'static PrometheusHandle) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(UPKEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            handle.run_upkeep();
        }
    }))
}

/// Notes how a task of the background ended.
pub(crate) fn record_task<E>(task: &'static str, ended: &Result<impl Sized, E>) {
    match ended {
        Ok(_) => gauge!(TASK_SUCCESS, "task" => task).set(seconds_since_1970()),
        Err(_) => counter!(TASK_FAILURES, "task" => task).increment(1),
    }
}

/// Reports when the certificate of HTTPS expires.
pub(crate) fn record_certificate(not_after: i64) {
    gauge!(CERTIFICATE_ENDS).set(not_after as f64);
}

/// The outcomes of a message to a receiver.
pub(crate) const ACCEPTED: &str = "accepted";
pub(crate) const FAILED: &str = "failed";

impl ReceiverMetrics {
    /// The metrics of a receiver from the start on.
    pub(crate) fn begin(&self, name: &str) {
        gauge!(self.lag, self.label => name.to_owned()).set(0.0);
        gauge!(self.parked, self.label => name.to_owned()).set(0.0);
        for outcome in [ACCEPTED, FAILED] {
            counter!(self.messages, self.label => name.to_owned(), "outcome" => outcome).absolute(0);
        }
    }
}

/// The time as metrics have it.
fn seconds_since_1970() -> f64 {
    jiff::Timestamp::now().as_second() as f64
}

/// Sets the metrics of the fixity auditor.
async fn record_fixity(auditor: &Auditor) {
    let read = auditor.read_here();
    counter!(FIXITY_OBJECTS, "kind" => "volume").absolute(read.volumes);
    counter!(FIXITY_OBJECTS, "kind" => "resource").absolute(read.resources);
    counter!(FIXITY_OBJECTS, "kind" => "record").absolute(auditor.records_read_here());
    counter!(FIXITY_BYTES).absolute(read.bytes);
    counter!(FIXITY_DAMAGED).absolute(read.damaged);
    counter!(FIXITY_FAILED).absolute(read.failed);
    let age = auditor.oldest_check_within(FIXITY_PATIENCE).await;
    gauge!(FIXITY_OLDEST).set(age.map_or(f64::INFINITY, |age| age.as_secs_f64()));
}

/// Sets the metrics of the domain.
fn record_library(library: &Library) {
    let auditor = library.audit.auditor();
    gauge!(AUDIT_LAG).set(auditor.lag().as_secs_f64());
    gauge!(AUDIT_WAITING).set(auditor.waiting_bytes() as f64);
    counter!(AUDIT_FAILURES).absolute(auditor.failures());
    let transactions = library.repository.transaction_counts();
    gauge!(TRANSACTIONS_OPEN).set(transactions.open as f64);
    counter!(TRANSACTION_CONFLICTS).absolute(transactions.conflicts);
    let ends = [
        ("committed", transactions.committed),
        ("rolled_back", transactions.rolled_back),
        ("expired", transactions.expired),
    ];
    for (outcome, count) in ends {
        counter!(TRANSACTIONS, "outcome" => outcome).absolute(count);
    }
    gauge!(MEMORY).set(library.memory.taken_bytes() as f64);
    gauge!(MEMORY_LIMIT).set(library.options().memory_bytes as f64);
    gauge!(BULK).set(library.volumes.bulk_requests() as f64);
    for (step, load) in library.volumes.turns() {
        gauge!(TURNS_TAKEN, "step" => step).set(load.taken as f64);
        gauge!(TURNS_WAITING, "step" => step).set(load.waiting as f64);
    }
    for chore in Chore::ALL {
        counter!(FAILED_RECORDS, "pass" => chore.name()).absolute(library.heads.failed_records(chore));
    }
    for queue in Queue::ALL {
        let due = library.heads.due_work(queue);
        gauge!(DUE, "queue" => queue.name()).set(due.records as f64);
        gauge!(OLDEST_DUE, "queue" => queue.name()).set(due.oldest.as_secs_f64());
    }
}

/// Sets the gauges of a store. A store in a folder expires records itself, and has all metrics of
/// that from the first scrape on.
fn record_health(health: &Health, has_folder: bool) {
    for lane in Lane::ALL {
        let refuses = health.refusing_writes.contains_key(&lane);
        gauge!(REFUSING, "lane" => lane.name()).set(if refuses { 1.0 } else { 0.0 });
    }
    if let Some(free) = health.free_bytes {
        gauge!(FREE).set(free as f64);
    }
    gauge!(UNKNOWN).set(health.unknown_contents as f64);
    if has_folder {
        gauge!(RECLAIM_LAG).set(health.reclaim_lag.unwrap_or_default().as_secs_f64());
        for hour in 0..HOURS {
            let count = health.expiring.get(hour).copied().unwrap_or_default();
            gauge!(EXPIRING, "hour" => hour.to_string()).set(count as f64);
        }
    }
    for (datacenter, lag) in &health.replication_lag {
        gauge!(REPLICATION_LAG, "datacenter" => datacenter.clone()).set(lag.as_secs_f64());
    }
}

/// Sets what an engine has measured.
fn record_measure(measure: Measure) {
    let Measure { family, help, labels, value } = measure;
    let labels: Vec<Label> = labels.into_iter().map(|(name, value)| Label::new(name, value)).collect();
    match value {
        Measured::Counter(value) => {
            describe_counter!(family, help);
            counter!(family, labels).absolute(value);
        }
        Measured::Gauge(value) => {
            describe_gauge!(family, help);
            gauge!(family, labels).set(value);
        }
        Measured::Recorded => {
            describe_histogram!(family, help);
            drop(histogram!(family, labels));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_lag_of_each_other_data_center_is_a_gauge() {
        let handle = metrics().unwrap();
        let lags = [("dc2", 1_500), ("dc3", 0)].map(|(name, ms)| (name.to_owned(), Duration::from_millis(ms)));
        record_health(&Health { replication_lag: lags.into(), ..Health::default() }, false);
        let rendered = handle.render();
        for line in [
            "penates_store_replication_lag_seconds{datacenter=\"dc2\"} 1.5\n",
            "penates_store_replication_lag_seconds{datacenter=\"dc3\"} 0\n",
        ] {
            assert!(rendered.contains(line), "{line} is not in\n{rendered}");
        }
    }

    #[test]
    fn what_an_engine_measures_is_published_with_its_text() {
        let handle = metrics().unwrap();
        record_measure(Measure::new("an_engine_bytes", "What it is", Measured::Gauge(3.0)).of("lane", "text"));
        record_measure(Measure::new("an_engine_total", "How often", Measured::Counter(4)));
        record_measure(Measure::new("an_engine_seconds", "How long", Measured::Recorded));
        let rendered = handle.render();
        for lines in [
            "# HELP an_engine_bytes What it is\n# TYPE an_engine_bytes gauge\nan_engine_bytes{lane=\"text\"} 3\n",
            "# TYPE an_engine_total counter\nan_engine_total 4\n",
            "an_engine_seconds_bucket{le=\"+Inf\"} 0\n",
        ] {
            assert!(rendered.contains(lines), "{lines} is not in\n{rendered}");
        }
    }

    #[test]
    fn a_task_that_fails_keeps_the_time_of_its_last_success() {
        let handle = metrics().unwrap();
        let success = || {
            let rendered = handle.render();
            rendered
                .lines()
                .find(|line| line.starts_with(TASK_SUCCESS) && line.contains("\"deletions\""))
                .unwrap()
                .to_owned()
        };
        let before = success();
        record_task("deletions", &Err::<(), _>("it failed"));
        assert_eq!(success(), before);
        assert!(handle.render().contains("penates_background_failures_total{task=\"deletions\"} 1\n"));
    }
}
