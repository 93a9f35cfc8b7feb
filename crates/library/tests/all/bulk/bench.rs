//! A library over a store with injected faults, and functions that read archives back.

use std::io::{Cursor, Read};
use std::sync::Arc;
use std::time::Duration;

use audit::{AuditAction, AuditRecord, Requester};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use hathi::{Seq, VolumeId};
use heads::{LibraryOptions, ObjectsError, keys};
use library::Library;
use pack::{Layout, Level};
use store::faults::{Damage, Faults, Harm};
use store::{Call, Class, Deadline, ManualClock, NewRow, Outcome, Step, Store, Table, UnixMillis};
use tempfile::TempDir;
use volumes::{BulkPlan, BulkRequest, BulkStream, OnDamage, Unchanged, Wanted};

use crate::support::{START, engine, import, samples, volume};

pub struct Bench {
    pub library: Library,
    pub clock: Arc<ManualClock>,
    pub faults: Arc<Faults>,
    _folder: TempDir,
}

pub async fn bench() -> Bench {
    bench_with(LibraryOptions::default()).await
}

pub async fn bench_with(options: LibraryOptions) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START));
    let faults = Arc::new(Faults::new(engine(&folder, clock.clone()).await));
    let library = Library::open(faults.clone(), clock.clone(), options).await.unwrap();
    Bench { library, clock, faults, _folder: folder }
}

impl Bench {
    /// Imports a made-up volume.
    pub async fn add(&self, id: &str, texts: &[&str]) -> VolumeId {
        import(&self.library, volume(id, texts)).await.unwrap();
        crate::support::id(id)
    }

    /// Imports the sample volumes with at most `pages_max` pages, in the order in which they are
    /// found.
    pub async fn add_samples(&self, pages_max: usize) -> Vec<VolumeId> {
        let mut ids = Vec::new();
        for files in samples() {
            let reader = hathi::VolumeReader::new(files.open().unwrap()).unwrap();
            if reader.page_count() <= pages_max {
                ids.push(reader.id().clone());
                self.library.volumes.import(files.open().unwrap(), Unchanged::Skip, |_| {}).await.unwrap();
            }
        }
        ids
    }

    pub async fn plan(&self, request: &BulkRequest) -> Arc<BulkPlan> {
        self.library.volumes.plan(request, OnDamage::Break).await.unwrap()
    }

    /// All of a plan's archive.
    pub async fn whole(&self, plan: &Arc<BulkPlan>) -> Vec<u8> {
        let stream = self.library.volumes.stream(plan, pack::WHOLE, somebody()).await.unwrap();
        let (bytes, error) = read(stream).await;
        assert!(error.is_none(), "{error:?}");
        bytes
    }

    /// A part of a plan's archive.
    pub async fn part(&self, plan: &Arc<BulkPlan>, range: std::ops::Range<u64>) -> Vec<u8> {
        let stream = self.library.volumes.stream(plan, range, somebody()).await.unwrap();
        let (bytes, error) = read(stream).await;
        assert!(error.is_none(), "{error:?}");
        bytes
    }

    /// All records of the audit.
    pub async fn audit(&self) -> Vec<AuditRecord> {
        let entries = self.library.audit.read(UnixMillis(0), UnixMillis(u64::MAX));
        entries.map_ok(|entry| entry.record().unwrap()).try_collect().await.unwrap()
    }

    /// The volumes that were accessed according to the audit, in order.
    pub async fn accessed(&self) -> Vec<VolumeId> {
        let records = self.audit().await.into_iter().filter(|record| record.action == AuditAction::Accessed);
        records.flat_map(|record| record.volumes).map(|volume| volume.volume).collect()
    }

    /// From now on every call of the store fails, until `faults.revive()`.
    pub async fn crash(&self) {
        self.faults.crash_after_steps(0);
        let row = NewRow::new("never", "written");
        let put = Step::Put { table: Table::Work, partition: "tests".into(), rows: vec![row] };
        let call = Call::new(Class::Description, Deadline::within(Duration::from_secs(60)));
        assert!(!matches!(self.faults.run(call, vec![put]).await, Ok(Outcome::Applied)));
        assert!(self.faults.is_crashed());
    }

    /// Harms a pack of a volume's current revision.
    pub async fn harm_pack(&self, id: &VolumeId, pack: u32, harm: Harm, strong_reads_are_whole: bool) {
        let generation = self.library.volumes.volume(id).await.unwrap().body.generation;
        let sort = keys::pack(generation, pack);
        let partition = keys::partition_of(&keys::volume_partition(id), &sort);
        let sort = Some(sort);
        self.faults.damage(Damage { table: Table::Packs, partition, sort, harm, strong_reads_are_whole });
    }

    /// Loses a row of a volume, for all readers.
    pub fn lose(&self, id: &VolumeId, sort: Bytes) {
        let (table, partition) = (keys::table_of(&sort), keys::partition_of(&keys::volume_partition(id), &sort));
        let (sort, harm) = (Some(sort), Harm::Lost);
        self.faults.damage(Damage { table, partition, sort, harm, strong_reads_are_whole: false });
    }
}

pub fn somebody() -> Requester {
    Requester { name: Some("somebody".to_owned()), address: None, request_id: "r1".to_owned() }
}

pub fn request(wanted: Vec<Wanted>, layout: Layout, level: Level, mets: bool) -> BulkRequest {
    BulkRequest { wanted, layout, level, mets, as_of: None }
}

pub fn whole_volumes(ids: &[VolumeId]) -> Vec<Wanted> {
    ids.iter().cloned().map(Wanted::all).collect()
}

pub fn pages(volume: &VolumeId, seqs: &[u32]) -> Wanted {
    Wanted { volume: volume.clone(), pages: Some(seqs.iter().map(|seq| Seq::new(*seq).unwrap()).collect()) }
}

/// Reads a stream to its end. Returns the bytes, and the error that ended it early.
pub async fn read(mut stream: BulkStream) -> (Vec<u8>, Option<ObjectsError>) {
    let mut bytes = Vec::new();
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(piece) => bytes.extend_from_slice(&piece),
            Err(error) => return (bytes, Some(error)),
        }
    }
    (bytes, None)
}

/// Names and texts of an archive's entries, in order. Also checks their CRCs.
pub fn entries(archive: &[u8]) -> Vec<(String, String)> {
    let mut zip = zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    (0..zip.len())
        .map(|index| {
            let mut entry = zip.by_index(index).unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            (entry.name().unwrap().to_string(), text)
        })
        .collect()
}

pub fn names(archive: &[u8]) -> Vec<String> {
    entries(archive).into_iter().map(|(name, _)| name).collect()
}

/// The text of an entry.
pub fn entry(archive: &[u8], name: &str) -> String {
    entries(archive).into_iter().find(|(found, _)| found == name).unwrap_or_else(|| panic!("no entry {name}")).1
}

/// Waits until a condition holds, within bounds.
pub async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    for _ in 0..2_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never came to that");
}
