//! What is counted in a test that runs in one thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use door_records::METRICS;
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;

type Values = Arc<Mutex<BTreeMap<String, u64>>>;

/// The commands on records by their kind and outcome, such as `read answered`.
#[derive(Default)]
pub struct Counts(Values);

impl Counts {
    /// What was counted since the last call.
    pub fn take(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() != METRICS.commands {
            return Counter::noop();
        }
        let labels: Vec<&str> = key.labels().map(|label| label.value()).collect();
        Counter::from_arc(Arc::new(Counted { values: self.0.clone(), labels: labels.join(" ") }))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

struct Counted {
    values: Values,
    labels: String,
}

impl CounterFn for Counted {
    fn increment(&self, value: u64) {
        *self.values.lock().entry(self.labels.clone()).or_default() += value;
    }

    fn absolute(&self, value: u64) {
        self.values.lock().insert(self.labels.clone(), value);
    }
}
