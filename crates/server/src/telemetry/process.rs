//! The process and its allocator.

use metrics::gauge;
use metrics_process::Collector;
use tikv_jemalloc_ctl::{epoch, stats};

use super::families::{ACTIVE_PAGES, ALLOCATED, MAPPED, RESIDENT};

/// Describes the metrics of the process, which have the names that Prometheus's clients share.
pub(super) fn describe() {
    Collector::default().describe();
}

/// Sets all of them.
pub(super) fn record() {
    Collector::default().collect();
    // Without a new epoch the numbers stay the same. If the allocator does not say them, they stay.
    if epoch::advance().is_err() {
        return;
    }
    let numbers = [
        (ALLOCATED, stats::allocated::read()),
        (ACTIVE_PAGES, stats::active::read()),
        (RESIDENT, stats::resident::read()),
        (MAPPED, stats::mapped::read()),
    ];
    for (name, number) in numbers {
        if let Ok(bytes) = number {
            gauge!(name).set(bytes as f64);
        }
    }
}
