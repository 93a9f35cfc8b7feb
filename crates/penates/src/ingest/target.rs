//! The targets of volumes: none (they are only checked), a store of this process, or a server.

use std::time::Duration;

use audit::EventResult;
use futures::TryStreamExt;
use hathi::{PagesOf, VolumeId};
use heads::ObjectsError;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use library::Library;
use store::AtOnce;
use volumes::{ImportProgress, Imported, Unchanged};

use super::meter::VolumeMeter;
use super::{Done, FailedVolume, MemoryVolume, Result as Ended, Source};
use crate::audited;
use crate::client::multipart::{Content, Form, Part};
use crate::client::{self, Client, ClientError};
use crate::settings::Settings;

/// How often a volume is tried when the store or the server is overloaded or away.
const TRIES: u32 = 6;

/// The first pause before another try; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// The longest pause before another try.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The treatment of each volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Import it, unless the same digests are stored already.
    Import,
    /// Import it again, whatever is stored.
    Force,
    /// Only check it (always so without a target).
    Check,
}

/// The target of volumes.
pub enum ImportTarget {
    /// None: volumes are only checked.
    Nowhere,
    /// Into a store that this process holds.
    Library(Local),
    /// To a server.
    Server(Client),
}

/// A store that this process holds.
pub struct Local {
    library: Library,
    /// Whether the audit records what is imported.
    is_audited: bool,
}

impl Local {
    /// The library of a store, as it is configured.
    pub fn new(library: Library, settings: &Settings) -> Self {
        Self { library, is_audited: audited::is_on(settings) }
    }

    /// The library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Records the end of an import. The records of many volumes are written together.
    fn record(&self, id: Option<&VolumeId>, result: &Result<Done, FailedVolume>) {
        let result = match result {
            Ok(Done { result: Ended::New | Ended::Replaced, .. }) => EventResult::Done,
            Ok(_) => return,
            Err(_) => EventResult::Failed,
        };
        if self.is_audited {
            let target = id.map(|id| format!("/volumes/{id}")).unwrap_or_default();
            self.library.audit.auditor().event_later(&audited::change("import", &target, result));
        }
    }
}

impl ImportTarget {
    /// Default number of volumes per processor to work on at once.
    pub fn jobs_per_processor(&self) -> usize {
        match self {
            Self::Library(local) => local.library.store().at_once().writers_per_processor,
            Self::Nowhere | Self::Server(_) => AtOnce::default().writers_per_processor,
        }
    }

    /// Imports one volume, retrying transient errors.
    pub(super) async fn take(&self, source: Source, mode: Mode, meter: &VolumeMeter) -> Result<Done, FailedVolume> {
        let outcome = match self {
            Self::Nowhere => check(&source).await.map_err(FailedVolume::from),
            Self::Library(local) => into_local(local, &source, mode, meter).await,
            Self::Server(client) => to_server(client, &source, mode, meter).await,
        };
        outcome.map_err(|failed| failed.of(source.path(), source.named().as_ref()))
    }
}

/// Retries with growing pauses while errors are passing. `passing_after` returns the shortest time
/// after which an error may have passed.
async fn retried<T, E, F>(
    mut attempt: impl FnMut() -> F,
    passing_after: impl Fn(&E) -> Option<Duration>,
) -> Result<T, FailedVolume>
where
    F: Future<Output = Result<T, E>>,
    FailedVolume: From<E>,
{
    let mut pause = FIRST_PAUSE;
    for _ in 1..TRIES {
        let error = match attempt().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let Some(least) = passing_after(&error) else { return Err(error.into()) };
        tokio::time::sleep(pause.max(least).min(PAUSE_MAX)).await;
        pause *= 2;
    }
    attempt().await.map_err(FailedVolume::from)
}

fn passing_after(error: &ObjectsError) -> Option<Duration> {
    error.is_passing().then_some(Duration::ZERO)
}

async fn into_local(local: &Local, source: &Source, mode: Mode, meter: &VolumeMeter) -> Result<Done, FailedVolume> {
    let done = retried(|| into_library(&local.library, source, mode, meter), passing_after).await;
    if local.is_audited {
        let id = match source.named() {
            Some(id) => Some(id),
            None => source.identify().await.ok().map(|(id, _)| id),
        };
        local.record(id.as_ref(), &done);
    }
    done
}

async fn into_library(
    library: &Library,
    source: &Source,
    mode: Mode,
    meter: &VolumeMeter,
) -> Result<Done, ObjectsError> {
    let meter = meter.clone();
    let progress = move |now: ImportProgress| meter.pages(now.pages, now.pages_total);
    let unchanged = if mode == Mode::Force { Unchanged::Force } else { Unchanged::Skip };
    let imported = match source {
        Source::Files(files) | Source::Replaced(files) => {
            library.volumes.import_pages(files.open()?, source.pages(), unchanged, progress).await?
        }
        Source::Memory(volume) => library.volumes.import(volume.parts(), unchanged, progress).await?,
    };
    Ok(match imported {
        Imported::New { pages, .. } => Done { result: Ended::New, pages },
        Imported::Replaced { pages, .. } => Done { result: Ended::Replaced, pages },
        Imported::Unchanged { pages, .. } => Done { result: Ended::Unchanged, pages },
    })
}

/// Reads and checks all of a volume, and stores nothing.
async fn check(source: &Source) -> Result<Done, ObjectsError> {
    let checked = match source {
        Source::Files(files) | Source::Replaced(files) => volumes::check(files.open()?, source.pages()).await?,
        Source::Memory(volume) => volumes::check(volume.parts(), PagesOf::Mets).await?,
    };
    Ok(Done { result: Ended::Checked, pages: checked.pages })
}

async fn to_server(client: &Client, source: &Source, mode: Mode, meter: &VolumeMeter) -> Result<Done, FailedVolume> {
    let (id, pages) = source.identify().await?;
    let sent = retried(|| put(client, &id, source, mode, meter), ClientError::passing_after).await;
    let result = sent.map_err(|failed| failed.of(None, Some(&id)))?;
    Ok(Done { result, pages })
}

async fn put(
    client: &Client,
    id: &VolumeId,
    source: &Source,
    mode: Mode,
    meter: &VolumeMeter,
) -> Result<Ended, ClientError> {
    let form = Form::new(parts(source));
    let query = match (mode, source.pages()) {
        (Mode::Import, PagesOf::Mets) => "",
        (Mode::Import, PagesOf::Zip) => "?replaced=true",
        (Mode::Force, PagesOf::Mets) => "?force=true",
        (Mode::Force, PagesOf::Zip) => "?force=true&replaced=true",
        (Mode::Check, PagesOf::Mets) => "?check=true",
        (Mode::Check, PagesOf::Zip) => "?check=true&replaced=true",
    };
    let request = Request::builder().method(Method::PUT).header(CONTENT_TYPE, form.content_type());
    let path = format!("/volumes/{}{query}", client::segment(id));
    let (meter, mut sent_bytes) = (meter.clone(), 0);
    let pieces = form.pieces().inspect_ok(move |piece| {
        sent_bytes += piece.len() as u64;
        meter.sent(sent_bytes);
    });
    let response = client.ask(&path, request, client::stream(pieces)).await?;
    if mode == Mode::Check {
        return Ok(Ended::Checked);
    }
    Ok(match response.headers().get("penates-import").map(|value| value.as_bytes()) {
        Some(b"new") => Ended::New,
        Some(b"unchanged") => Ended::Unchanged,
        _ => Ended::Replaced,
    })
}

fn parts(source: &Source) -> Vec<Part> {
    let (zip, mets, record) = match source {
        Source::Files(files) | Source::Replaced(files) => (
            Content::File(files.zip.clone()),
            Content::File(files.mets.clone()),
            files.record.clone().map(Content::File),
        ),
        Source::Memory(MemoryVolume { zip, mets, record }) => {
            (Content::Memory(zip.clone()), Content::Memory(mets.clone()), record.clone().map(Content::Memory))
        }
    };
    let part = |name, content_type, content| Part { name, content_type, content };
    let mut parts = vec![part("zip", "application/zip", zip), part("mets", "text/xml", mets)];
    parts.extend(record.map(|content| part("record", "application/json", content)));
    parts
}
