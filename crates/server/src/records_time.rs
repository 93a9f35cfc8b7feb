//! Keeps how late it is for records in a file of the data folder, so that what has expired stays so if
//! the clock of the machine is set back while no server runs, or after a crash. Servers that share a
//! store keep it in the store, in case the clocks of its nodes are set back: see
//! [`Records::keep_time`]. What they see later than that is not added there. They do not run on one
//! machine, and a server that starts must not wait while others serve.
//!
//! The file is written every ten seconds and at the end, so after a crash its time is too early. How
//! much later records may have seen follows from the time that has passed since. The clock of the
//! machine does not tell that. The kernel does, unless the machine has booted meanwhile. Then a
//! server takes the longest possible time. If the clock is hardly behind that, it may be right: then
//! the server waits for it, so that nothing expires early.
//!
//! The content of the [file](crate::sealed_file), with numbers of 8 bytes, little-endian, in
//! milliseconds: the time since 1970, how much later records may have seen, the time since the boot of
//! the machine; and the id of that boot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use records::{AHEAD_MAX, Records, RecordsError};
use rustix::time::ClockId;
use store::{Deadline, UnixMillis};
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::task::AbortOnDropHandle;

use crate::sealed_file::{self, Magic};

const MAGIC: Magic = *b"PNTTIM\0\x01";

/// The name of the file, and the most bytes that it has.
const NAME: &str = "records.time";
const FILE_BYTES_MAX: u64 = 256;

/// How often the file is written.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// What another server of a store has kept less long ago is not kept again.
const NEW_FOR: Duration = Duration::from_secs(5);

/// The time limit of keeping the time in a store, and of asking for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Records see nothing that is so much later than the time of the file: it is written before, also by
/// a slow disk. A longer time would let servers wait longer.
const LATER_MAX: Duration = Duration::from_secs(20);

/// Differences that say nothing: of one clock that is read at two times, and of several ones.
const USUAL_OF_ONE: Duration = Duration::from_millis(100);
const USUAL_OF_SEVERAL: Duration = Duration::from_secs(10);

/// Where the kernel gives the id of the boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The time of the records of one server.
pub(crate) struct RecordsTime {
    records: Arc<Records>,
    /// `None`: the store has no folder. Servers that share it keep the time in the store.
    file: Option<PathBuf>,
    /// Whether the time was kept for the last time. Locked while it is kept.
    has_ended: Mutex<bool>,
}

/// A boot of the machine, and how long ago it was. No clock that is set changes that.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Boot {
    id: Vec<u8>,
    ago_ms: u64,
}

impl Boot {
    fn now() -> Self {
        let since = rustix::time::clock_gettime(ClockId::Boottime);
        let ago_ms = u64::try_from(since.tv_sec * 1_000 + since.tv_nsec / 1_000_000).unwrap_or(0);
        Self { id: fs::read(BOOT_ID).unwrap_or_default(), ago_ms }
    }

    /// The time since an earlier moment of the same boot; `None`: the machine has booted since, or
    /// may have, because the kernel does not tell the id.
    fn since(&self, earlier: &Self) -> Option<Duration> {
        let is_same = !self.id.is_empty() && self.id == earlier.id && self.ago_ms >= earlier.ago_ms;
        is_same.then(|| Duration::from_millis(self.ago_ms - earlier.ago_ms))
    }
}

/// What the file says.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    time: UnixMillis,
    /// How much later records may have seen before the file was written again.
    later_max: Duration,
    boot: Boot,
}

impl Kept {
    fn encode(&self) -> Vec<u8> {
        let later_max_ms = u64::try_from(self.later_max.as_millis()).unwrap_or(u64::MAX);
        let numbers = [self.time.0, later_max_ms, self.boot.ago_ms];
        let numbers = numbers.into_iter().flat_map(u64::to_le_bytes);
        numbers.chain(self.boot.id.iter().copied()).collect()
    }

    /// `None`: it is none.
    fn decode(mut content: Bytes) -> Option<Self> {
        let mut number = || content.try_get_u64_le().ok();
        let (time, later_max_ms, ago_ms) = (number()?, number()?, number()?);
        let boot = Boot { id: content.to_vec(), ago_ms };
        Some(Self { time: UnixMillis(time), later_max: Duration::from_millis(later_max_ms), boot })
    }
}

impl RecordsTime {
    /// Lets records begin at the latest time that they have seen, if the clock is behind it.
    pub(crate) async fn restored(records: Arc<Records>, folder: Option<&Path>) -> Arc<Self> {
        let (time, wait) = Self::begun(records, folder, &Boot::now());
        if time.file.is_none() {
            time.begin_at_kept().await;
        }
        if !wait.is_zero() {
            tracing::info!(?wait, "the machine has booted after a crash: waiting until nothing can expire early");
            tokio::time::sleep(wait).await;
        }
        time
    }

    /// The same, and how long to wait before records are used.
    fn begun(records: Arc<Records>, folder: Option<&Path>, boot: &Boot) -> (Arc<Self>, Duration) {
        let file = folder.map(|folder| folder.join(NAME));
        let wait = file.as_ref().map(|file| restore(&records, file, boot)).unwrap_or_default();
        (Arc::new(Self { records, file, has_ended: Mutex::new(false) }), wait)
    }

    /// Lets records begin at the latest time that servers of the store have kept.
    async fn begin_at_kept(&self) {
        match self.records.begin_at_kept_time(Deadline::within(PATIENCE)).await {
            Ok(ahead) => report(ahead, USUAL_OF_SEVERAL),
            Err(error) => tracing::warn!(%error, "how late it was for records is not known"),
        }
    }

    /// Keeps the time until the handle is dropped. It is kept before records are used, because
    /// they see what is much later than the time that the last server kept.
    pub(crate) async fn start(self: &Arc<Self>) -> AbortOnDropHandle<()> {
        self.keep(Boot::now()).await;
        let time = self.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut ticks = tokio::time::interval_at(Instant::now() + SAVE_EVERY, SAVE_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            while time.file.is_some() || time.records.is_shared() {
                ticks.tick().await;
                time.keep(Boot::now()).await;
            }
        }))
    }

    /// Keeps the time, unless that was done for the last time.
    async fn keep(&self, boot: Boot) {
        let has_ended = self.has_ended.lock().await;
        if !*has_ended {
            self.write(boot, LATER_MAX).await;
        }
    }

    /// Keeps the time for the last time: records are not used any more.
    pub(crate) async fn save(&self) {
        let mut has_ended = self.has_ended.lock().await;
        *has_ended = true;
        self.write(Boot::now(), Duration::ZERO).await;
    }

    async fn write(&self, boot: Boot, later_max: Duration) {
        let Some(file) = self.file.clone() else { return self.keep_in_store(NEW_FOR.min(later_max)).await };
        let kept = Kept { time: self.records.now(), later_max, boot };
        let path = file.clone();
        let written = tokio::task::spawn_blocking(move || sealed_file::write(&path, MAGIC, &kept.encode())).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            tracing::warn!(file = %file.display(), %error, "how late it was for records could not be kept");
        }
    }

    /// Keeps the time in the store, unless what is kept is behind it by at most `behind`.
    async fn keep_in_store(&self, behind: Duration) {
        match self.records.keep_time(Deadline::within(PATIENCE), behind).await {
            Ok(()) => {}
            // While nodes do not answer, the log has more important lines.
            Err(RecordsError::Store(error)) if error.is_passing() => {
                tracing::debug!(%error, "how late it is for records was not kept");
            }
            Err(error) => tracing::warn!(%error, "how late it is for records could not be kept"),
        }
    }
}

/// Lets records begin where the file says. Returns how long the clock takes to get there, if it may
/// be right.
fn restore(records: &Records, file: &Path, boot: &Boot) -> Duration {
    let kept = match read(file) {
        Ok(kept) => kept,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Duration::ZERO,
        Err(error) => {
            tracing::warn!(file = %file.display(), %error, "how late it was for records is not known");
            return Duration::ZERO;
        }
    };
    let passed = boot.since(&kept.boot);
    let seen = kept.time.plus(passed.map_or(kept.later_max, |passed| passed.min(kept.later_max)));
    let ahead = seen.since(records.now());
    if ahead <= AHEAD_MAX {
        records.not_before(seen);
        if passed.is_none() && ahead <= kept.later_max {
            return ahead;
        }
    }
    report(ahead, USUAL_OF_ONE);
    Duration::ZERO
}

/// Says in the log by how much the clock is behind the kept time, if that is more than usual.
fn report(ahead: Duration, usual: Duration) {
    if ahead > AHEAD_MAX {
        let hint = "what expired in between may be seen again";
        tracing::warn!(?ahead, hint, "the clock is far behind that of the last server, which is ignored");
    } else if ahead > usual {
        tracing::warn!(?ahead, "the clock was set back: time stands still for records until it has caught up");
    }
}

fn read(file: &Path) -> io::Result<Kept> {
    Kept::decode(sealed_file::read(file, MAGIC, FILE_BYTES_MAX)?).ok_or_else(sealed_file::damaged)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use records::Record;
    use store::{Capabilities, ManualClock, Store, Wrapper};
    use store_embedded::{EmbeddedOptions, EmbeddedStore};

    use super::*;

    const HOUR_MS: u64 = 3_600_000;
    const NOW: UnixMillis = UnixMillis(1_000 * HOUR_MS);

    fn within() -> Deadline {
        Deadline::within(Duration::from_secs(60))
    }

    /// The records of a folder as a server that starts at a time sees them.
    fn started(store: &Arc<dyn Store>, clock: &Arc<ManualClock>, folder: &Path) -> Arc<RecordsTime> {
        begun(store, clock, folder, &Boot::now()).0
    }

    /// The same after a boot, and how long it waits.
    fn begun(
        store: &Arc<dyn Store>,
        clock: &Arc<ManualClock>,
        folder: &Path,
        boot: &Boot,
    ) -> (Arc<RecordsTime>, Duration) {
        RecordsTime::begun(Arc::new(Records::new(store.clone(), clock.clone())), Some(folder), boot)
    }

    fn boot(id: &str, ago_s: u64) -> Boot {
        Boot { id: id.into(), ago_ms: ago_s * 1_000 }
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

    /// A server that crashes has not written the time at which it saw that something has expired.
    #[tokio::test]
    async fn what_expired_just_before_a_crash_stays_so_if_the_clock_is_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(NOW));
        let store = store(folder.path(), &clock);
        let at = |seconds: u64| NOW.plus(Duration::from_secs(seconds));
        let first = begun(&store, &clock, folder.path(), &boot("first", 500)).0;
        let id = Bytes::from_static(b"session");
        let put = |drafts: &mut [records::Draft]| {
            drafts[0].put(Record { expires_at: Some(at(4)), ..Record::text(Bytes::from_static(b"x")) });
        };
        first.records.change(within(), std::slice::from_ref(&id), put).await.unwrap();
        first.keep(boot("first", 500)).await;
        clock.set(at(6));
        assert_eq!(first.records.read(within(), &id).await.unwrap(), None);
        for (clock_s, boot, seen_s, wait_s) in [
            // The server starts again a second after that, or much later.
            (0, boot("first", 507), 7, 0),
            (3, boot("first", 9_000), 20, 0),
            (7, boot("first", 507), 7, 0),
            // The machine starts again, and nobody knows when.
            (3, boot("second", 600), 20, 17),
            (7, boot("second", 3), 20, 13),
            (21, boot("second", 3), 21, 0),
        ] {
            clock.set(at(clock_s));
            let (second, wait) = begun(&store, &clock, folder.path(), &boot);
            assert_eq!((second.records.now(), wait), (at(seen_s), Duration::from_secs(wait_s)), "{clock_s} {boot:?}");
            assert_eq!(second.records.read(within(), &id).await.unwrap(), None, "{clock_s} {boot:?}");
        }
        // A minute is more than there can have been between the file and the crash.
        clock.set(UnixMillis(NOW.0 - 60_000));
        let (second, wait) = begun(&store, &clock, folder.path(), &boot("second", 3));
        assert_eq!((second.records.now(), wait), (at(20), Duration::ZERO));
        // A server that has stopped saw nothing later, and waits for nothing.
        second.save().await;
        second.keep(boot("second", 4)).await;
        let (third, wait) = begun(&store, &clock, folder.path(), &boot("third", 3));
        assert_eq!((third.records.now(), wait), (at(20), Duration::ZERO));
    }

    #[test]
    fn the_time_since_is_known_within_one_boot_only() {
        assert_eq!(boot("first", 9).since(&boot("first", 7)), Some(Duration::from_secs(2)));
        assert_eq!(boot("first", 7).since(&boot("first", 9)), None);
        assert_eq!(boot("second", 9).since(&boot("first", 7)), None);
        // Not every container has it.
        assert_eq!(boot("", 9).since(&boot("", 7)), None);
    }

    #[tokio::test]
    async fn a_file_is_there_once_it_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(NOW));
        let store = store(folder.path(), &clock);
        let _keeping = started(&store, &clock, folder.path()).start().await;
        assert_eq!(read(&folder.path().join(NAME)).unwrap().time, NOW);
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

    /// A store that servers share.
    struct Shared(Arc<dyn Store>);

    impl Wrapper for Shared {
        fn inner(&self) -> &dyn Store {
            &*self.0
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { is_shared: true, folder: None, ..self.0.capabilities() }
        }
    }

    #[tokio::test]
    async fn servers_that_share_a_store_begin_at_the_latest_time_that_one_of_them_has_kept() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock::new(NOW));
        let store: Arc<dyn Store> = Arc::new(Shared(store(folder.path(), &clock)));
        let server = async |at: UnixMillis| {
            clock.set(at);
            RecordsTime::restored(Arc::new(Records::new(store.clone(), clock.clone())), None).await
        };
        let at = |seconds: u64| NOW.plus(Duration::from_secs(seconds));
        let first = server(at(60)).await;
        first.keep(Boot::now()).await;
        assert_eq!(server(NOW).await.records.now(), NOW, "without records nothing is kept");
        let put = |drafts: &mut [records::Draft]| drafts[0].put(Record::text(Bytes::from_static(b"x")));
        first.records.change(within(), &[Bytes::from_static(b"id")], put).await.unwrap();
        for (seconds, kept_s) in [(120, 120), (123, 120), (126, 126)] {
            clock.set(at(seconds));
            first.keep(Boot::now()).await;
            assert_eq!(server(NOW).await.records.now(), at(kept_s));
        }
        clock.set(at(127));
        first.save().await;
        assert_eq!(server(NOW).await.records.now(), at(127));
        // A time that is far ahead was a mistake, and does not stay.
        for later_ms in [25 * HOUR_MS, 0, 2 * HOUR_MS] {
            let server = server(UnixMillis(NOW.0 + later_ms)).await;
            assert_eq!(server.records.now(), UnixMillis(NOW.0 + later_ms));
            server.records.check_mode(within()).await.unwrap();
            server.keep(Boot::now()).await;
        }
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
