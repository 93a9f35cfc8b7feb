//! Reads records after a start, so that the caches have them before the server is ready.
//!
//! With `hottest` the server remembers the ids that are asked for most, in a
//! [file](crate::sealed_file) of the data folder. Its content is each id: 2 bytes of its length,
//! little-endian; the id. A damaged one costs a cold start, and nothing else.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use records::{ID_BYTES_MAX, Records, RecordsError};
use store::Deadline;
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::config::Warm;
use crate::sealed_file::{self, Magic, damaged};

const MAGIC: Magic = *b"PNTHOT\0\x01";

/// The name of the file.
const NAME: &str = "records.hot";

/// A larger file is none of ours.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// How often the file is written.
const SAVE_EVERY: Duration = Duration::from_secs(300);

/// How often the log has the progress.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Records of one read, and reads at the same time.
const AT_ONCE: usize = 64;
const READS: usize = 8;

/// Ids of a page, if all records are read.
const PAGE: usize = 1_000;

/// How far the warming has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Records that were read.
    read: u64,
    /// Of so many, if that is known.
    of: Option<u64>,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.of {
            Some(of) => write!(f, "{} of {of} records are read", self.read),
            None => write!(f, "{} records are read", self.read),
        }
    }
}

/// The warming of one server.
pub(crate) struct Warming {
    records: Arc<Records>,
    warm: Warm,
    time_max: Duration,
    /// `None`: the store has no folder, so nothing is warmed.
    folder: Option<PathBuf>,
    /// `None`: it has ended.
    progress: Mutex<Option<Progress>>,
    /// Held while the file is written. A write goes on if the task that waits for it is aborted.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Warming {
    /// The warming of records for at most `time_max`. It is under way until [`Warming::run`] ends.
    pub(crate) fn new(records: Arc<Records>, warm: Warm, time_max: Duration, folder: Option<PathBuf>) -> Arc<Self> {
        let is_needed = warm != Warm::Off && folder.is_some();
        let progress = is_needed.then_some(Progress { read: 0, of: None });
        Arc::new(Self { records, warm, time_max, folder, progress: Mutex::new(progress), turn: Arc::default() })
    }

    /// How far it has come; `None`: it has ended.
    pub(crate) fn progress(&self) -> Option<Progress> {
        *self.progress.lock()
    }

    /// Warms, and then keeps the file, until the handle is dropped.
    pub(crate) fn start(self: &Arc<Self>) -> AbortOnDropHandle<()> {
        let warming = self.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            warming.run().await;
            let mut ticks = tokio::time::interval(SAVE_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks.tick().await;
            while warming.file().is_some() {
                ticks.tick().await;
                warming.save().await;
            }
        }))
    }

    /// Warms.
    pub(crate) async fn run(&self) {
        if self.warm != Warm::Off && self.folder.is_none() {
            tracing::warn!("records.warm is for data folders: the caches of this store's servers are their own");
        }
        if self.progress().is_none() {
            return;
        }
        let began = Instant::now();
        let ended = timeout(self.time_max, async {
            match self.file() {
                Some(file) => {
                    self.read_hottest(&file).await;
                    Ok(())
                }
                None => self.read_all().await,
            }
        });
        let ended = ended.await;
        let Some(progress) = self.progress.lock().take() else { return };
        let took = began.elapsed();
        match ended {
            Ok(Ok(())) => tracing::info!(%progress, ?took, "the records are warm"),
            Ok(Err(error)) => tracing::warn!(%progress, %error, "the records could not be warmed"),
            Err(_) => tracing::warn!(%progress, ?took, "warming the records took too long, and ended early"),
        }
    }

    async fn read_hottest(&self, file: &Path) {
        let ids = match read(file) {
            Ok(ids) => ids,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "the hottest records are not known");
                Vec::new()
            }
        };
        *self.progress.lock() = Some(Progress { read: 0, of: Some(ids.len() as u64) });
        let reads = stream::iter(ids.chunks(AT_ONCE).map(<[Bytes]>::to_vec)).map(async |ids| {
            match self.records.read_listed(Deadline::within(self.time_max), &ids).await {
                // The next file has them, even if the server soon stops again.
                Ok(found) => {
                    let found = ids.iter().zip(&found).filter(|(_, found)| found.is_some());
                    found.for_each(|(id, _)| self.records.recall(id));
                }
                // The others are warmed nevertheless.
                Err(error) => tracing::warn!(%error, "some of the hottest records cannot be read"),
            }
            ids.len()
        });
        let mut reads = std::pin::pin!(reads.buffer_unordered(READS));
        let mut told_at = Instant::now();
        while let Some(read) = reads.next().await {
            self.advance(read, &mut told_at);
        }
    }

    async fn read_all(&self) -> Result<(), RecordsError> {
        let (mut from, mut told_at) = (None, Instant::now());
        loop {
            // The engine reads blocks of whole rows, so their ids are enough.
            let page = self.records.ids(Deadline::within(self.time_max), from, PAGE).await?;
            self.advance(page.ids.len(), &mut told_at);
            match page.next {
                Some(next) => from = Some(next),
                None => return Ok(()),
            }
        }
    }

    fn advance(&self, count: usize, told_at: &mut Instant) {
        let Some(progress) = &mut *self.progress.lock() else { return };
        progress.read += count as u64;
        if told_at.elapsed() >= TELL_EVERY {
            *told_at = Instant::now();
            tracing::info!(%progress, "the records are being warmed");
        }
    }

    /// The file, if the hottest records are remembered.
    fn file(&self) -> Option<PathBuf> {
        (self.warm == Warm::Hottest).then(|| Some(self.folder.as_ref()?.join(NAME))).flatten()
    }

    /// Writes the file, unless the warming is under way: until then the server knows less than the
    /// file.
    pub(crate) async fn save(&self) {
        let Some(file) = self.file().filter(|_| self.progress().is_none()) else { return };
        let turn = self.turn.clone().lock_owned().await;
        let ids = self.records.hottest();
        if ids.is_empty() {
            return;
        }
        let path = file.clone();
        let writing = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            write(&path, &ids)
        });
        let written = writing.await;
        let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
        if let Err(error) = written {
            tracing::warn!(file = %file.display(), %error, "the hottest records could not be remembered");
        }
    }
}

fn write(path: &Path, ids: &[Bytes]) -> io::Result<()> {
    let mut content = Vec::new();
    for id in ids {
        let len = u16::try_from(id.len()).map_err(io::Error::other)?;
        content.extend(len.to_le_bytes());
        content.extend(id);
    }
    sealed_file::write(path, MAGIC, &content)
}

fn read(path: &Path) -> io::Result<Vec<Bytes>> {
    let content = sealed_file::read(path, MAGIC, FILE_BYTES_MAX)?;
    let (mut ids, mut left) = (Vec::new(), &content[..]);
    while let Some((len, rest)) = left.split_first_chunk::<2>() {
        let len = usize::from(u16::from_le_bytes(*len));
        let (id, rest) = rest.split_at_checked(len).ok_or_else(damaged)?;
        if !(1..=ID_BYTES_MAX).contains(&len) {
            return Err(damaged());
        }
        ids.push(content.slice_ref(id));
        left = rest;
    }
    if left.is_empty() { Ok(ids) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use records::Record;
    use store::faults::{Fault, Faults, Kind};
    use store::{Lane, Measure, Measured, Store, SystemClock};
    use store_embedded::{EmbeddedOptions, EmbeddedStore};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn within() -> Deadline {
        Deadline::within(PATIENCE)
    }

    fn id(number: usize) -> Bytes {
        Bytes::from(format!("user:{number}"))
    }

    /// A server's store with so many records.
    async fn with_records(count: usize) -> (tempfile::TempDir, Arc<Faults>, Arc<Records>) {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
        let store = Arc::new(Faults::new(store));
        let records = Records::new(store.clone() as Arc<dyn Store>, Arc::new(SystemClock)).remembering();
        let records = Arc::new(records.synced_within(PATIENCE));
        for number in 0..count {
            let put = |drafts: &mut [records::Draft]| drafts[0].put(Record::text(id(number)));
            records.change(within(), &[id(number)], put).await.unwrap();
        }
        (folder, store, records)
    }

    fn warming(warm: Warm, time_max: Duration, folder: &tempfile::TempDir, records: &Arc<Records>) -> Arc<Warming> {
        Warming::new(records.clone(), warm, time_max, Some(folder.path().to_path_buf()))
    }

    #[tokio::test]
    async fn the_hottest_records_are_remembered_and_read_at_the_next_start() {
        let (folder, store, records) = with_records(200).await;
        let first = warming(Warm::Hottest, PATIENCE, &folder, &records);
        assert_eq!(first.progress(), Some(Progress { read: 0, of: None }), "it has not begun");
        first.save().await;
        assert!(!folder.path().join(NAME).exists(), "a server that is not warm yet knows nothing");
        first.run().await;
        assert_eq!(first.progress(), None);
        for _ in 0..3 {
            records.read_many(within(), &[id(7), id(9)]).await.unwrap();
            records.read(within(), &id(7)).await.unwrap();
            records.read(within(), &"absent".into()).await.unwrap();
        }
        records.read_listed(within(), &(0..200).map(id).collect::<Vec<_>>()).await.unwrap();
        first.save().await;
        assert_eq!(read(&folder.path().join(NAME)).unwrap(), [id(7), id(9)]);
        let store = store.clone() as Arc<dyn Store>;
        let records = Arc::new(Records::new(store, Arc::new(SystemClock)).remembering());
        records.read(within(), &id(7)).await.unwrap();
        let second = warming(Warm::Hottest, PATIENCE, &folder, &records);
        second.run().await;
        second.save().await;
        assert_eq!(read(&folder.path().join(NAME)).unwrap(), [id(7), id(9)], "a short run forgets none");
    }

    /// How many reads of records by their ids the engine's cache of whole records did not answer.
    fn missed(store: &EmbeddedStore) -> u64 {
        let of = [("source", "database".to_owned()), ("lane", Lane::Records.name().to_owned())];
        let is_it = |measure: &Measure| {
            measure.family == "penates_embedded_row_reads_total"
                && of.iter().all(|label| measure.labels.contains(label))
        };
        match store.measures().into_iter().find(is_it).unwrap().value {
            Measured::Counter(count) => count,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn after_a_restart_the_hottest_records_are_in_memory_before_a_client_asks_for_them() {
        let (folder, store, records) = with_records(20).await;
        let first = warming(Warm::Hottest, PATIENCE, &folder, &records);
        first.run().await;
        records.read_many(within(), &[id(7), id(9)]).await.unwrap();
        first.save().await;
        store.close().await.unwrap();
        drop((store, records, first));
        let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default(), Arc::new(SystemClock)).unwrap();
        let records = Arc::new(Records::new(store.clone(), Arc::new(SystemClock)).remembering());
        let before = missed(&store);
        warming(Warm::Hottest, PATIENCE, &folder, &records).run().await;
        let warm = missed(&store);
        assert_eq!(warm, before + 2, "it reads those two");
        for number in [7, 9] {
            assert!(records.read(within(), &id(number)).await.unwrap().is_some());
        }
        assert_eq!(missed(&store), warm);
        assert!(records.read(within(), &id(8)).await.unwrap().is_some());
        assert_eq!(missed(&store), warm + 1, "it was not read before");
    }

    #[test]
    fn the_file_is_not_written_while_a_write_of_an_aborted_save_is_under_way() {
        // One thread that may block, so that the test decides when something is written.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (folder, _store, records) = with_records(1).await;
            let warming = warming(Warm::Hottest, PATIENCE, &folder, &records);
            warming.run().await;
            records.recall(&id(0));
            let (go_on, until) = std::sync::mpsc::channel();
            let busy = tokio::task::spawn_blocking(move || until.recv());
            let mut aborted = Box::pin(warming.save());
            assert!(futures::poll!(&mut aborted).is_pending());
            drop(aborted);
            assert!(warming.turn.try_lock().is_err(), "another save could write now");
            let mut last = Box::pin(warming.save());
            assert!(futures::poll!(&mut last).is_pending());
            go_on.send(()).unwrap();
            busy.await.unwrap().unwrap();
            last.await;
            assert_eq!(read(&folder.path().join(NAME)).unwrap(), [id(0)]);
        });
    }

    #[tokio::test]
    async fn a_damaged_file_is_ignored() {
        let (folder, _store, records) = with_records(1).await;
        let path = folder.path().join(NAME);
        write(&path, &(0..10).map(id).collect::<Vec<_>>()).unwrap();
        let content = fs::read(&path).unwrap();
        for at in 0..content.len() {
            let mut flipped = content.clone();
            flipped[at] ^= 1;
            fs::write(&path, &flipped).unwrap();
            assert!(read(&path).is_err(), "byte {at}");
            fs::write(&path, &content[..at]).unwrap();
            assert!(read(&path).is_err(), "cut at {at}");
        }
        let warming = warming(Warm::Hottest, PATIENCE, &folder, &records);
        warming.run().await;
        assert_eq!(warming.progress(), None);
    }

    #[tokio::test]
    async fn warming_ends_in_time_if_the_store_stalls() {
        let (folder, store, records) = with_records(10).await;
        tokio::time::pause();
        let began = Instant::now();
        let time_max = Duration::from_secs(20);
        let warming = warming(Warm::All, time_max, &folder, &records);
        store.next(Kind::Read, Fault::Delay(PATIENCE * 60));
        warming.run().await;
        assert!(began.elapsed() <= time_max + Duration::from_millis(5), "{:?}", began.elapsed());
        assert_eq!(warming.progress(), None);
    }

    #[tokio::test]
    async fn all_records_are_read_and_none_without_a_folder() {
        let (folder, store, records) = with_records(2_500).await;
        let all = warming(Warm::All, PATIENCE, &folder, &records);
        all.run().await;
        // A page fails: the server gets ready all the same.
        store.next(Kind::Read, Fault::Unavailable);
        let fails = warming(Warm::All, PATIENCE, &folder, &records);
        fails.run().await;
        assert_eq!((all.progress(), fails.progress()), (None, None));
        let elsewhere = Warming::new(records, Warm::All, PATIENCE, None);
        assert_eq!(elsewhere.progress(), None);
        elsewhere.run().await;
    }
}
