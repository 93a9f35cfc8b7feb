//! Imports many volumes in parallel, from any source, into a store of this process or to a server.

mod failed;
mod meter;
mod source;
mod target;

use futures::{Stream, StreamExt};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use failed::{FailedList, FailedVolume, failed_paths};
pub use meter::Meter;
pub use source::{MemoryVolume, Source, Wanted};
pub use target::{ImportTarget, Local, Mode};

/// The outcome of importing one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// It is new.
    New,
    /// It replaced another revision.
    Replaced,
    /// The same digests are stored already.
    Unchanged,
    /// It was only checked, and is sound.
    Checked,
}

/// An imported volume.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The outcome.
    pub result: Result,
    /// Its pages.
    pub pages: u64,
}

/// The totals of an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// New volumes.
    pub new: u64,
    /// Volumes that replaced another revision.
    pub replaced: u64,
    /// Volumes that are stored already with the same digests.
    pub unchanged: u64,
    /// Volumes that were only checked, and are sound.
    pub checked: u64,
    /// Volumes (or paths) that failed.
    pub failed: u64,
    /// Pages of the volumes that did not fail.
    pub pages: u64,
    /// Bytes of ZIPs read.
    pub zip_bytes: u64,
    /// Whether Ctrl-C interrupted it before the end.
    pub interrupted: bool,
    /// Whether it stopped early because no other volume could be imported either (as with a full
    /// disk).
    pub given_up: bool,
}

impl Summary {
    /// Volumes that did not fail.
    pub fn sound(&self) -> u64 {
        self.new + self.replaced + self.unchanged + self.checked
    }

    fn add(&mut self, done: Done) {
        let count = match done.result {
            Result::New => &mut self.new,
            Result::Replaced => &mut self.replaced,
            Result::Unchanged => &mut self.unchanged,
            Result::Checked => &mut self.checked,
        };
        *count += 1;
        self.pages += done.pages;
    }
}

/// An import of many volumes, except for the volumes.
pub struct Ingest<'a> {
    /// Their target.
    pub target: &'a ImportTarget,
    /// What to do with each.
    pub mode: Mode,
    /// The number of volumes at the same time.
    pub jobs: usize,
    /// Shows the progress.
    pub meter: Meter,
    /// Once this is cancelled, no further volume starts. Running ones are completed.
    pub stop: CancellationToken,
}

impl Ingest<'_> {
    /// Imports all `sources`. A failure is added to the list and stops nothing else, unless nothing
    /// else could succeed either: then the rest is skipped. It takes a source only to begin it.
    pub async fn run(
        &self,
        sources: impl Stream<Item = std::result::Result<Source, FailedVolume>>,
        failed: &mut FailedList,
    ) -> anyhow::Result<Summary> {
        let mut summary = Summary::default();
        let enough = self.stop.child_token();
        let begun = sources.take_until(enough.cancelled());
        let mut ended = Box::pin(begun.map(|source| self.one(source)).buffer_unordered(self.jobs));
        while let Some((zip_bytes, outcome)) = ended.next().await {
            summary.zip_bytes += zip_bytes;
            match outcome {
                Ok(done) => summary.add(done),
                Err(volume) => {
                    summary.failed += 1;
                    if volume.stops_all {
                        summary.given_up = true;
                        enough.cancel();
                    }
                    self.meter.suspended(|| failed.add(&volume))?;
                }
            }
        }
        summary.interrupted = self.stop.is_cancelled();
        Ok(summary)
    }

    async fn one(
        &self,
        source: std::result::Result<Source, FailedVolume>,
    ) -> (u64, std::result::Result<Done, FailedVolume>) {
        let zip_bytes = source.as_ref().map_or(0, Source::zip_bytes);
        let volume = self.meter.begin(zip_bytes);
        let outcome = match source {
            Ok(source) => self.target.take(source, self.mode, &volume).await,
            Err(failed) => Err(failed),
        };
        volume.end(&outcome);
        (zip_bytes, outcome)
    }
}
