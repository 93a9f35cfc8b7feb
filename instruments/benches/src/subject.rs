//! The measurements, and how each is taken once.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use axum::body::Body;
use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use hathi::{Seq, VolumeId};
use heads::keys;
use http::{Request, header};
use pack::memory::MemorySource;
use pack::{Archive, Layout, Level};

use crate::corpus::{self, CorpusVolume, Sizes};
use crate::doors::Door;

/// The engine below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The embedded engine.
    Embedded,
    /// The one that returns constants at once, within the limits of the seam.
    Null,
}

/// The subject of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `POST /volumes` of all ids: layout `pages`, unchanged frames.
    ZipByDoor(Engine),
    /// The same ZIP as over that engine, from frames in memory: no HTTP, no domain, no store.
    ZipFromMemory(Engine),
    /// `GET /volumes/{id}/pages/{seq}`, always the same page, uncompressed; with its entry in the
    /// audit.
    PageByDoor(Engine),
    /// The same page from the domain, with its text: no HTTP, no audit.
    PageByLibrary(Engine),
    /// One call of the store: the head row of the page's volume.
    HeadRow(Engine),
}

impl Subject {
    /// All of them, in the order of measuring and reporting.
    pub const ALL: [Self; 10] = [
        Self::ZipByDoor(Engine::Embedded),
        Self::ZipFromMemory(Engine::Embedded),
        Self::ZipByDoor(Engine::Null),
        Self::ZipFromMemory(Engine::Null),
        Self::PageByDoor(Engine::Embedded),
        Self::PageByDoor(Engine::Null),
        Self::PageByLibrary(Engine::Embedded),
        Self::PageByLibrary(Engine::Null),
        Self::HeadRow(Engine::Embedded),
        Self::HeadRow(Engine::Null),
    ];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZipByDoor(Engine::Embedded) => "ZIP of all volumes: door, embedded engine",
            Self::ZipByDoor(Engine::Null) => "ZIP of one volume as often: door, null engine",
            Self::ZipFromMemory(Engine::Embedded) => "ZIP of all volumes: pack alone, frames in memory",
            Self::ZipFromMemory(Engine::Null) => "ZIP of one volume as often: pack alone, frames in memory",
            Self::PageByDoor(Engine::Embedded) => "page: door and audit, embedded engine",
            Self::PageByDoor(Engine::Null) => "page: door and audit, null engine",
            Self::PageByLibrary(Engine::Embedded) => "page: domain alone, embedded engine",
            Self::PageByLibrary(Engine::Null) => "page: domain alone, null engine",
            Self::HeadRow(Engine::Embedded) => "head row: one call, embedded engine",
            Self::HeadRow(Engine::Null) => "head row: one call, null engine within limits",
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The time of all operations, one after the other.
    pub seconds: f64,
    /// The number of operations.
    pub operations: u64,
    /// The bytes sent or read in all; zero if they do not matter.
    pub sizes: Sizes,
}

/// How many operations make one measurement; a ZIP is always one.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Requested pages.
    pub pages: u64,
    /// Calls of the store.
    pub calls: u64,
}

/// The inputs of all subjects.
pub struct Bench {
    embedded: Door,
    null: Door,
    all_in_memory: InMemory,
    alike_in_memory: InMemory,
    ids: Bytes,
    page: ThePage,
    counts: Counts,
    all: Sizes,
    all_null: Sizes,
}

/// A ZIP to be made from frames in memory.
struct InMemory {
    source: Arc<MemorySource>,
    archive: Arc<Archive>,
}

/// The page that is requested repeatedly.
struct ThePage {
    volume: VolumeId,
    seq: Seq,
    path: String,
    sizes: Sizes,
}

/// The length of an archive, and its CRC-32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    bytes: u64,
    crc32: u32,
}

impl Bench {
    /// Prepares the inputs: `embedded` holds `volumes`. Fails if a door's ZIP and that from memory
    /// are not the same bytes.
    pub async fn new(embedded: Door, volumes: &[CorpusVolume], counts: Counts) -> Result<Self> {
        let usual = corpus::most_usual(volumes).context("there is no volume")?;
        let ids: Vec<&str> = volumes.iter().map(|volume| volume.id().as_str()).collect();
        let bench = Self {
            null: embedded.null(usual.id()).await?,
            embedded,
            all_in_memory: InMemory::new(corpus::in_memory(volumes, None)),
            alike_in_memory: InMemory::new(corpus::in_memory(volumes, Some(usual))),
            ids: ids.join("\n").into(),
            page: ThePage::of(usual)?,
            counts,
            all: volumes.iter().map(CorpusVolume::sizes).fold(Sizes::default(), Sizes::plus),
            all_null: usual.sizes().times(volumes.len() as u64),
        };
        for engine in [Engine::Embedded, Engine::Null] {
            let by_door = fingerprint(bench.zip(engine).await?).await?;
            let from_memory = fingerprint(bench.zip_from_memory(engine)).await?;
            ensure!(by_door == from_memory, "{engine:?}: the door sends {by_door:?}, but pack makes {from_memory:?}");
        }
        Ok(bench)
    }

    /// Measures once.
    pub async fn measure(&self, subject: Subject) -> Result<Sample> {
        let (operations, sizes) = match subject {
            Subject::ZipByDoor(Engine::Embedded) | Subject::ZipFromMemory(Engine::Embedded) => (1, self.all),
            Subject::ZipByDoor(Engine::Null) | Subject::ZipFromMemory(Engine::Null) => (1, self.all_null),
            Subject::PageByDoor(_) | Subject::PageByLibrary(_) => {
                (self.counts.pages, self.page.sizes.times(self.counts.pages))
            }
            Subject::HeadRow(_) => (self.counts.calls, Sizes::default()),
        };
        let begun = Instant::now();
        match subject {
            Subject::ZipByDoor(engine) => ensure_holds(self.zip(engine).await?, sizes).await?,
            Subject::ZipFromMemory(engine) => ensure_holds(self.zip_from_memory(engine), sizes).await?,
            Subject::PageByDoor(engine) => self.pages_by_door(engine).await?,
            Subject::PageByLibrary(engine) => self.pages_by_library(engine).await?,
            Subject::HeadRow(engine) => self.head_rows(engine).await?,
        }
        Ok(Sample { seconds: begun.elapsed().as_secs_f64(), operations, sizes })
    }

    fn door(&self, engine: Engine) -> &Door {
        match engine {
            Engine::Embedded => &self.embedded,
            Engine::Null => &self.null,
        }
    }

    async fn zip(&self, engine: Engine) -> Result<impl Stream<Item = Result<Bytes>> + use<>> {
        let request = Request::post("/volumes").header(header::CONTENT_TYPE, "text/plain");
        let response = self.door(engine).send(request.body(self.ids.clone().into())?).await?;
        Ok(response.into_body().into_data_stream().map_err(anyhow::Error::from))
    }

    fn zip_from_memory(&self, engine: Engine) -> impl Stream<Item = Result<Bytes>> + use<> {
        let InMemory { source, archive } = match engine {
            Engine::Embedded => &self.all_in_memory,
            Engine::Null => &self.alike_in_memory,
        };
        pack::stream(archive.clone(), source.clone(), pack::WHOLE).map_err(anyhow::Error::from)
    }

    async fn pages_by_door(&self, engine: Engine) -> Result<()> {
        for _ in 0..self.counts.pages {
            let request = Request::get(&self.page.path).body(Body::empty())?;
            let body = self.door(engine).send(request).await?.into_body();
            let bytes = len_of(body.into_data_stream().map_err(anyhow::Error::from)).await?;
            ensure!(bytes == self.page.sizes.text_bytes, "the door sends {bytes} bytes of the page");
        }
        Ok(())
    }

    async fn pages_by_library(&self, engine: Engine) -> Result<()> {
        for _ in 0..self.counts.pages {
            let bytes = self.door(engine).library.volumes.page(&self.page.volume, self.page.seq).await?.text()?.len();
            ensure!(bytes as u64 == self.page.sizes.text_bytes, "the domain reads {bytes} bytes of the page");
        }
        Ok(())
    }

    async fn head_rows(&self, engine: Engine) -> Result<()> {
        let (partition, sort) = (keys::volume_partition(&self.page.volume), keys::head());
        for _ in 0..self.counts.calls {
            self.door(engine).head_row(&partition, &sort).await?;
        }
        Ok(())
    }
}

impl InMemory {
    fn new(source: MemorySource) -> Self {
        let groups = source.groups();
        let archive = Archive { layout: Layout::Pages, level: Level::Frames, groups, errors: None, descriptors: false };
        Self { source: Arc::new(source), archive: Arc::new(archive) }
    }
}

impl ThePage {
    /// The page whose text has the median length of those of a volume.
    fn of(volume: &CorpusVolume) -> Result<Self> {
        let mut pages: Vec<_> = volume.pages.iter().collect();
        pages.sort_by_key(|(_, frame)| frame.size);
        let (seq, frame) = pages.get(pages.len() / 2).context("the volume has no pages")?;
        let seq = Seq::new(*seq).context("a page without a sequence")?;
        let path = format!("/volumes/{}/pages/{}", door_data::segment(volume.id()), seq.get());
        Ok(Self { volume: volume.id().clone(), seq, path, sizes: Sizes::of(frame) })
    }
}

async fn len_of(pieces: impl Stream<Item = Result<Bytes>>) -> Result<u64> {
    pieces.try_fold(0, async |bytes, piece| Ok(bytes + piece.len() as u64)).await
}

/// Reads a ZIP to its end. It must be longer than its frames, since their headers take some bytes
/// too.
async fn ensure_holds(zip: impl Stream<Item = Result<Bytes>>, sizes: Sizes) -> Result<()> {
    let bytes = len_of(zip).await?;
    ensure!(bytes > sizes.frame_bytes, "a ZIP of {bytes} bytes cannot hold frames of {} bytes", sizes.frame_bytes);
    Ok(())
}

async fn fingerprint(zip: impl Stream<Item = Result<Bytes>>) -> Result<Fingerprint> {
    let whole = (0, crc32fast::Hasher::new());
    let (bytes, hasher) = zip
        .try_fold(whole, async |(bytes, mut hasher), piece| {
            hasher.update(&piece);
            Ok((bytes + piece.len() as u64, hasher))
        })
        .await?;
    Ok(Fingerprint { bytes, crc32: hasher.finalize() })
}
