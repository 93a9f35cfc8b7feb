//! The progress of an import, page by page.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressState};

use super::{Done, FailedVolume};
use crate::progress;

/// The progress of an import: bytes of ZIPs, from which the bar computes rate and remaining time,
/// and volumes, pages and failures, which it reads whenever it is drawn. Clones show the same
/// progress.
#[derive(Clone, Debug)]
pub struct Meter {
    bar: ProgressBar,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    volumes: AtomicU64,
    pages: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    fn summary(&self) -> String {
        let [volumes, pages, failed] =
            [&self.volumes, &self.pages, &self.failed].map(|count| count.load(Ordering::Relaxed));
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        format!("{volumes} volumes, {pages} pages{failed}")
    }
}

impl Meter {
    /// A visible meter of ZIPs with this many bytes in all, as far as known yet.
    pub fn shown(zip_bytes: u64) -> Self {
        let counts = Arc::new(Counts::default());
        let summary = counts.clone();
        let key = move |_: &ProgressState, line: &mut dyn Write| {
            // A failure to draw a bar stops nothing.
            let _ = line.write_str(&summary.summary());
        };
        Self { bar: progress::import(zip_bytes, key), counts }
    }

    /// A hidden meter.
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), counts: Arc::default() }
    }

    /// Whether it is hidden.
    pub fn is_hidden(&self) -> bool {
        self.bar.is_hidden()
    }

    /// Adds ZIPs with this many bytes to the total.
    pub fn expect(&self, zip_bytes: u64) {
        self.bar.inc_length(zip_bytes);
    }

    /// Runs something that prints, with the bar hidden.
    pub fn suspended<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Starts a volume whose ZIP has this many bytes.
    pub(super) fn begin(&self, zip_bytes: u64) -> VolumeMeter {
        VolumeMeter { meter: self.clone(), zip_bytes, reached: Arc::default() }
    }
}

/// The progress of one volume. Clones count for the same volume. A second attempt never moves the
/// bar back.
#[derive(Clone, Debug)]
pub(super) struct VolumeMeter {
    meter: Meter,
    zip_bytes: u64,
    reached: Arc<Mutex<Reached>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reached {
    zip_bytes: u64,
    pages: u64,
}

impl VolumeMeter {
    /// Sets how many of its pages are done.
    pub(super) fn pages(&self, pages: u64, pages_total: u64) {
        self.reach(Reached { zip_bytes: self.zip_bytes * pages / pages_total.max(1), pages });
    }

    /// Sets how many of its bytes are sent.
    pub(super) fn sent(&self, bytes: u64) {
        self.reach(Reached { zip_bytes: bytes.min(self.zip_bytes), pages: 0 });
    }

    /// Ends it. Pages of a failed volume do not count.
    pub(super) fn end(self, outcome: &Result<Done, FailedVolume>) {
        let counts = &self.meter.counts;
        let pages = outcome.as_ref().map_or(0, |done| done.pages);
        let reached = self.reach(Reached { zip_bytes: self.zip_bytes, pages });
        let ended = match outcome {
            Ok(_) => &counts.volumes,
            Err(_) => {
                counts.pages.fetch_sub(reached.pages, Ordering::Relaxed);
                &counts.failed
            }
        };
        ended.fetch_add(1, Ordering::Relaxed);
    }

    fn reach(&self, now: Reached) -> Reached {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        self.meter.bar.inc(now.zip_bytes.saturating_sub(reached.zip_bytes));
        self.meter.counts.pages.fetch_add(now.pages.saturating_sub(reached.pages), Ordering::Relaxed);
        reached.zip_bytes = reached.zip_bytes.max(now.zip_bytes);
        reached.pages = reached.pages.max(now.pages);
        *reached
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use hathi::VolumeError;

    use super::*;
    use crate::ingest::Result as Ended;

    fn failed() -> FailedVolume {
        let error = std::io::Error::other("gone");
        FailedVolume::from(VolumeError::Io { path: "a.zip".into(), source: error })
    }

    #[test]
    fn every_page_moves_the_bar() {
        let meter = Meter::hidden();
        let volume = meter.begin(1000);
        volume.pages(1, 4);
        assert_eq!((meter.bar.position(), meter.counts.summary()), (250, "0 volumes, 1 pages".into()));
        volume.pages(3, 4);
        assert_eq!((meter.bar.position(), meter.counts.summary()), (750, "0 volumes, 3 pages".into()));
        volume.end(&Ok(Done { result: Ended::New, pages: 4 }));
        assert_eq!((meter.bar.position(), meter.counts.summary()), (1000, "1 volumes, 4 pages".into()));
    }

    #[test]
    fn a_second_attempt_moves_nothing_back_and_counts_nothing_twice() {
        let meter = Meter::hidden();
        let volume = meter.begin(1000);
        volume.sent(600);
        volume.sent(100);
        assert_eq!(meter.bar.position(), 600);
        volume.sent(5000);
        volume.end(&Ok(Done { result: Ended::New, pages: 7 }));
        assert_eq!((meter.bar.position(), meter.counts.summary()), (1000, "1 volumes, 7 pages".into()));
    }

    #[test]
    fn the_pages_of_a_volume_that_failed_do_not_count() {
        let meter = Meter::hidden();
        let volume = meter.begin(1000);
        volume.pages(3, 4);
        volume.end(&Err(failed()));
        assert_eq!((meter.bar.position(), meter.counts.summary()), (1000, "0 volumes, 0 pages, 1 failed".into()));
    }

    #[test]
    fn a_volume_without_pages_is_done_at_its_end() {
        let meter = Meter::hidden();
        let volume = meter.begin(10);
        volume.pages(0, 0);
        assert_eq!(meter.bar.position(), 0);
        volume.end(&Ok(Done { result: Ended::Checked, pages: 0 }));
        assert_eq!(meter.bar.position(), 10);
    }
}
