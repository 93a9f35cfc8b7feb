//! Importing many volumes in parallel: from wherever they come, to a store of this process or to a server.

mod failed;
mod source;
mod target;

use futures::{Stream, StreamExt};
use indicatif::ProgressBar;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use failed::{FailedList, FailedVolume};
pub use source::{MemoryVolume, Source, Wanted};
pub use target::{Mode, Target};

/// How importing one volume ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// It was not there before.
    New,
    /// Another revision was there before.
    Replaced,
    /// The same digests are stored already.
    Unchanged,
    /// It was only checked, and is sound.
    Checked,
}

/// One volume that is done.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// How it ended.
    pub result: Result,
    /// Its pages.
    pub pages: u64,
}

/// What came of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Volumes that were not there before.
    pub new: u64,
    /// Volumes of which another revision was there before.
    pub replaced: u64,
    /// Volumes that are stored already with the same digests.
    pub unchanged: u64,
    /// Volumes that were only checked, and are sound.
    pub checked: u64,
    /// Volumes (or paths) that failed.
    pub failed: u64,
    /// Pages of the volumes that did not fail.
    pub pages: u64,
    /// Bytes of the ZIPs that were read.
    pub zip_bytes: u64,
    /// Whether it was stopped before it had seen all.
    pub interrupted: bool,
}

impl Summary {
    /// Volumes that did not fail.
    pub fn sound(&self) -> u64 {
        self.new + self.replaced + self.unchanged + self.checked
    }

    /// How far it is, in few words.
    fn told(&self) -> String {
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        format!("{} volumes, {} pages{failed}", self.sound(), self.pages)
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

/// What importing many volumes needs besides the volumes.
pub struct Ingest<'a> {
    /// Where they go.
    pub target: &'a Target,
    /// What is done to each.
    pub mode: Mode,
    /// How many at once.
    pub jobs: usize,
    /// A bar in bytes of ZIPs.
    pub bar: ProgressBar,
    /// No further volume is begun once this is cancelled; those under way are ended.
    pub stop: CancellationToken,
}

impl Ingest<'_> {
    /// Imports all that `sources` gives. What fails is put on the list and stops nothing else, unless nothing else could
    /// succeed either: then `stop` is cancelled.
    pub async fn run(
        &self,
        sources: impl Stream<Item = std::result::Result<Source, FailedVolume>>,
        failed: &mut FailedList,
    ) -> anyhow::Result<Summary> {
        let mut summary = Summary::default();
        let sources = sources.take_until(self.stop.cancelled());
        let mut ended = std::pin::pin!(sources.map(|source| self.one(source)).buffer_unordered(self.jobs));
        while let Some((zip_bytes, outcome)) = ended.next().await {
            self.bar.inc(zip_bytes);
            summary.zip_bytes += zip_bytes;
            match outcome {
                Ok(done) => summary.add(done),
                Err(volume) => {
                    summary.failed += 1;
                    if volume.stops_all {
                        self.stop.cancel();
                    }
                    self.bar.suspend(|| failed.add(&volume))?;
                }
            }
            self.bar.set_message(summary.told());
        }
        summary.interrupted = self.stop.is_cancelled();
        Ok(summary)
    }

    async fn one(
        &self,
        source: std::result::Result<Source, FailedVolume>,
    ) -> (u64, std::result::Result<Done, FailedVolume>) {
        match source {
            Ok(source) => {
                let zip_bytes = source.zip_bytes();
                (zip_bytes, self.target.take(source, self.mode).await)
            }
            Err(volume) => (0, Err(volume)),
        }
    }
}
