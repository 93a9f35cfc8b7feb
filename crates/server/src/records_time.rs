//! Keeps how late it is for records in a file of the data folder, so that what has expired stays so if
//! the clock of the machine is set back while no server runs. The content of the
//! [file](crate::sealed_file) is the time in milliseconds since 1970, 8 bytes, little-endian.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use records::Records;
use store::UnixMillis;
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

use crate::sealed_file::{self, Magic};

const MAGIC: Magic = *b"PNTTIM\0\x01";

/// The name of the file, and the most bytes that it has.
const NAME: &str = "records.time";
const FILE_BYTES_MAX: u64 = 64;

/// How often the file is written.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// A time that is ahead of the clock by more than this counts as a mistake of the past: records would
/// not expire until the clock has caught up.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3_600);

/// The time of the records of one server.
pub(crate) struct RecordsTime {
    records: Arc<Records>,
    /// `None`: the store has no folder, and its servers go by their clocks.
    file: Option<PathBuf>,
}

impl RecordsTime {
    /// Lets records begin at the time that the last server kept, if the clock is behind it.
    pub(crate) fn restored(records: Arc<Records>, folder: Option<&Path>) -> Arc<Self> {
        let file = folder.map(|folder| folder.join(NAME));
        if let Some(file) = &file {
            restore(&records, file);
        }
        Arc::new(Self { records, file })
    }

    /// Keeps the file until the handle is dropped.
    pub(crate) fn start(self: &Arc<Self>) -> AbortOnDropHandle<()> {
        let time = self.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(SAVE_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while time.file.is_some() {
                ticks.tick().await;
                time.save().await;
            }
        }))
    }

    /// Writes the file.
    pub(crate) async fn save(&self) {
        let Some(file) = self.file.clone() else { return };
        let (now, path) = (self.records.now(), file.clone());
        let written = tokio::task::spawn_blocking(move || sealed_file::write(&path, MAGIC, &now.0.to_le_bytes())).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            tracing::warn!(file = %file.display(), %error, "how late it is for records could not be kept");
        }
    }
}

fn restore(records: &Records, file: &Path) {
    let kept = match read(file) {
        Ok(kept) => kept,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "how late it was for records is not known");
            return;
        }
    };
    let ahead = kept.since(records.now());
    if ahead > AHEAD_MAX {
        let hint = "what expired in between may be seen again";
        tracing::warn!(?ahead, hint, "the clock is far behind that of the last server, which is ignored");
    } else if !ahead.is_zero() {
        tracing::warn!(?ahead, "the clock was set back: time stands still for records until it has caught up");
        records.not_before(kept);
    }
}

fn read(file: &Path) -> io::Result<UnixMillis> {
    let content = sealed_file::read(file, MAGIC, FILE_BYTES_MAX)?;
    let time = <[u8; 8]>::try_from(&content[..]).map_err(|_| sealed_file::damaged())?;
    Ok(UnixMillis(u64::from_le_bytes(time)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;
    use records::Record;
    use store::{Deadline, ManualClock, Store};
    use store_embedded::{EmbeddedOptions, EmbeddedStore};

    use super::*;

    const HOUR_MS: u64 = 3_600_000;
    const NOW: UnixMillis = UnixMillis(1_000 * HOUR_MS);

    fn within() -> Deadline {
        Deadline::within(Duration::from_secs(60))
    }

    /// The records of a folder as a server that starts at a time sees them.
    fn started(store: &Arc<dyn Store>, clock: &Arc<ManualClock>, folder: &Path) -> Arc<RecordsTime> {
        RecordsTime::restored(Arc::new(Records::new(store.clone(), clock.clone())), Some(folder))
    }

    fn store(folder: &Path, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
        EmbeddedStore::open(folder, EmbeddedOptions::default(), clock.clone()).unwrap()
    }

    #[tokio::test]
    async fn what_has_expired_stays_so_if_the_clock_is_set_back_before_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(NOW));
        let store = store(folder.path(), &clock);
        let first = started(&store, &clock, folder.path());
        let id = Bytes::from_static(b"session");
        let put = |drafts: &mut [records::Draft]| {
            let expires_at = Some(NOW.plus(Duration::from_secs(60)));
            drafts[0].put(Record { expires_at, ..Record::text(Bytes::from_static(b"x")) });
        };
        first.records.change(within(), std::slice::from_ref(&id), put).await.unwrap();
        clock.advance(Duration::from_secs(120));
        first.save().await;
        assert_eq!(first.records.read(within(), &id).await.unwrap(), None);
        clock.set(NOW);
        let second = started(&store, &clock, folder.path());
        assert_eq!(second.records.now(), NOW.plus(Duration::from_secs(120)));
        assert_eq!(second.records.read(within(), &id).await.unwrap(), None);
        // Without the file it would be seen again.
        std::fs::remove_file(folder.path().join(NAME)).unwrap();
        assert!(started(&store, &clock, folder.path()).records.read(within(), &id).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_clock_that_was_far_ahead_once_does_not_keep_records_from_expiring() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(UnixMillis(NOW.0 + 25 * HOUR_MS)));
        let store = store(folder.path(), &clock);
        started(&store, &clock, folder.path()).save().await;
        clock.set(NOW);
        assert_eq!(started(&store, &clock, folder.path()).records.now(), NOW);
        clock.set(UnixMillis(NOW.0 + 2 * HOUR_MS));
        assert_eq!(started(&store, &clock, folder.path()).records.now(), UnixMillis(NOW.0 + 25 * HOUR_MS));
    }

    #[tokio::test]
    async fn a_damaged_file_counts_as_absent() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(NOW));
        let store = store(folder.path(), &clock);
        started(&store, &clock, folder.path()).save().await;
        let file = folder.path().join(NAME);
        let content = std::fs::read(&file).unwrap();
        clock.set(UnixMillis(NOW.0 - HOUR_MS));
        for at in 0..content.len() {
            let mut flipped = content.clone();
            flipped[at] ^= 1;
            for bytes in [&flipped[..], &content[..at]] {
                std::fs::write(&file, bytes).unwrap();
                assert_eq!(
                    started(&store, &clock, folder.path()).records.now(),
                    UnixMillis(NOW.0 - HOUR_MS),
                    "byte {at}"
                );
            }
        }
    }
}
