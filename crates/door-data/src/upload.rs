//! `PUT /volumes/{id}`: a volume as `multipart/form-data` with the parts `zip`, `mets` and,
//! optional, `record` (RFC 7578).

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::{OriginalUri, Request, State};
use axum::response::Response;
use budget::{Memory, Party, Share};
use bytes::Bytes;
use door_http::form::PARSER_BYTES;
use door_http::{Form, NoForm};
use hathi::{PagesOf, VolumeId, VolumeParts};
use http::{HeaderName, HeaderValue, StatusCode, header};
use multer::{Constraints, Field, SizeLimit};
use tempfile::SpooledTempFile;
use volumes::{Imported, Unchanged};

use crate::DataDoor;
use crate::asking::{Asking, VolumePath};
use crate::errors::{AsProblem, DoorError};
use crate::params::Params;

/// Most bytes of a ZIP in memory. A larger one goes to a temporary file.
const SPOOL_MEMORY_BYTES: usize = 4 << 20;

/// First share of memory of an upload, in bytes.
const FIRST_SHARE_BYTES: u64 = PARSER_BYTES + (64 << 10);

/// Most bytes of a METS.
const METS_BYTES_MAX: u64 = 64 << 20;

/// Most bytes of a record.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// Result of the import: `new`, `replaced` or `unchanged`.
const PENATES_IMPORT: HeaderName = HeaderName::from_static("penates-import");

/// The handler. `?force=true` imports a volume again that is stored already; `?check=true` only
/// checks; `?replaced=true` takes pages that differ from the METS in size and MD5.
pub async fn put(
    State(door): State<Arc<DataDoor>>,
    VolumePath(id): VolumePath,
    Asking(requester): Asking,
    OriginalUri(uri): OriginalUri,
    request: Request,
) -> Result<Response, AsProblem> {
    let params = Params::of_query(request.uri().query()).only(&["check", "force", "replaced"])?;
    let check = params.truth("check")?.unwrap_or(false);
    let unchanged = if params.truth("force")?.unwrap_or(false) { Unchanged::Force } else { Unchanged::Skip };
    let pages = if params.truth("replaced")?.unwrap_or(false) { PagesOf::Zip } else { PagesOf::Mets };
    let memory = Kept::new(&door.library.memory, &requester.party()).await?;
    let parts = Parts::read(request, door.settings.import_bytes_max, memory).await?;
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    if check {
        volumes::check(parts.source(&id), pages).await?;
        return Ok(response);
    }
    let did = match door.library.volumes.import_pages(parts.source(&id), pages, unchanged, |_| ()).await? {
        Imported::New { .. } => {
            *response.status_mut() = StatusCode::CREATED;
            if let Ok(location) = HeaderValue::try_from(uri.path()) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            "new"
        }
        Imported::Replaced { .. } => "replaced",
        Imported::Unchanged { .. } => {
            // By the CRCs in the ZIP's directory. Whether its pages match them was not checked yet.
            volumes::check(parts.source(&id), pages).await?;
            "unchanged"
        }
    };
    response.headers_mut().insert(PENATES_IMPORT, HeaderValue::from_static(did));
    Ok(response)
}

/// The parts of an upload.
struct Parts {
    zip: SharedZip,
    mets: Vec<u8>,
    record: Option<Vec<u8>>,
    _memory: Kept,
}

/// The part of an upload in memory, with what reads it, and its share.
struct Kept {
    bytes: u64,
    /// The most that fits into the memory.
    bytes_max: u64,
    share: Share,
}

impl Kept {
    async fn new(memory: &Memory, party: &Party) -> Result<Self, DoorError> {
        let bytes_max = memory.request_bytes_max();
        Ok(Self { bytes: PARSER_BYTES, bytes_max, share: memory.reserve(party, FIRST_SHARE_BYTES).await? })
    }

    /// Makes room for more by doubling the share. What never fits is too large.
    fn add(&mut self, bytes: usize) -> Result<(), DoorError> {
        self.bytes += bytes as u64;
        if self.bytes > self.bytes_max {
            let what = "the memory that the parts take (that of the METS is twice its length)".to_owned();
            return Err(DoorError::TooLarge { what, max_bytes: self.bytes_max });
        }
        let has = self.share.bytes();
        if self.bytes > has {
            self.share.resize(self.bytes.max((2 * has).min(self.bytes_max)))?;
        }
        Ok(())
    }
}

impl Parts {
    /// Reads the parts, each at most once, none larger than its limit.
    async fn read(request: Request, zip_bytes_max: u64, mut memory: Kept) -> Result<Self, DoorError> {
        // No other part is allowed, and none twice: this limits the whole.
        let limits = SizeLimit::new()
            .for_field("zip", zip_bytes_max)
            .for_field("mets", METS_BYTES_MAX)
            .for_field("record", RECORD_BYTES_MAX);
        let constraints = Constraints::new().allowed_fields(vec!["zip", "mets", "record"]).size_limit(limits);
        let (head, body) = request.into_parts();
        let mut form = Form::of(&head.headers, body, constraints).map_err(none)?;
        let (mut zip, mut mets, mut record) = (None, None, None);
        while let Some(field) = form.next_part().await.map_err(refused)? {
            match field.name() {
                Some("zip") => once(&mut zip, spooled(field, &mut memory).await?)?,
                Some("mets") => once(&mut mets, held(field, &mut memory).await?)?,
                Some("record") => once(&mut record, held(field, &mut memory).await?)?,
                // The constraints allow no other part.
                _ => {}
            }
        }
        let zip = zip.ok_or(DoorError::MissingPart("zip"))?;
        let mets = mets.ok_or(DoorError::MissingPart("mets"))?;
        Ok(Self { zip: SharedZip(Arc::new(Mutex::new(zip))), mets, record, _memory: memory })
    }

    /// The volume of these parts. The ZIP is shared: several sources read it one after the other.
    fn source(&self, id: &VolumeId) -> VolumeParts<SharedZip> {
        VolumeParts {
            id: Some(id.clone()),
            zip: self.zip.clone(),
            mets: self.mets.clone(),
            record: self.record.clone(),
        }
    }
}

/// A ZIP that can be read more than once.
#[derive(Clone)]
struct SharedZip(Arc<Mutex<SpooledTempFile>>);

impl SharedZip {
    fn file(&self) -> io::Result<MutexGuard<'_, SpooledTempFile>> {
        self.0.lock().map_err(|_| io::Error::other("an earlier reader of the upload has failed"))
    }
}

impl Read for SharedZip {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file()?.read(buffer)
    }
}

impl Seek for SharedZip {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file()?.seek(position)
    }
}

/// The response to a request without a form.
fn none(error: NoForm) -> DoorError {
    match error {
        NoForm::Boundary => DoorError::Multipart(error.to_string()),
        NoForm::Type(found) => DoorError::UnsupportedMediaType {
            found: if found.is_empty() { "unknown".to_owned() } else { found },
            supported: "multipart/form-data",
        },
    }
}

fn once<T>(place: &mut Option<T>, value: T) -> Result<(), DoorError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(DoorError::Multipart("a part is repeated".to_owned())),
    }
}

/// A part's bytes, in memory or in a temporary file. They are written on a blocking thread.
async fn spooled(mut field: Field<'_>, memory: &mut Kept) -> Result<SpooledTempFile, DoorError> {
    let mut spool = tempfile::spooled_tempfile(SPOOL_MEMORY_BYTES);
    let mut room_bytes = SPOOL_MEMORY_BYTES;
    while let Some(chunk) = field.chunk().await.map_err(refused)? {
        let in_memory = chunk.len().min(room_bytes);
        memory.add(in_memory)?;
        room_bytes -= in_memory;
        spool = on_blocking_thread(spool, move |spool| write(spool, &chunk)).await?;
    }
    on_blocking_thread(spool, |spool| spool.seek(SeekFrom::Start(0)).map(drop)).await
}

/// A part's bytes, in memory.
async fn held(mut field: Field<'_>, memory: &mut Kept) -> Result<Vec<u8>, DoorError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(refused)? {
        // A growing list is copied, which takes twice its length.
        memory.add(2 * chunk.len())?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn write(spool: &mut SpooledTempFile, chunk: &Bytes) -> io::Result<()> {
    spool.write_all(chunk)
}

async fn on_blocking_thread(
    mut spool: SpooledTempFile,
    work: impl FnOnce(&mut SpooledTempFile) -> io::Result<()> + Send + 'static,
) -> Result<SpooledTempFile, DoorError> {
    let worked = tokio::task::spawn_blocking(move || work(&mut spool).map(|()| spool)).await;
    Ok(worked.map_err(io::Error::other)??)
}

/// The response to an error of multer.
fn refused(error: multer::Error) -> DoorError {
    match error {
        multer::Error::FieldSizeExceeded { limit, field_name } => DoorError::TooLarge {
            what: field_name.map_or("a part".to_owned(), |name| format!("the part `{name}`")),
            max_bytes: limit,
        },
        multer::Error::StreamSizeExceeded { limit } => {
            DoorError::TooLarge { what: "what comes before a part".to_owned(), max_bytes: limit }
        }
        multer::Error::StreamReadFailed(error) => DoorError::BodyBroken(error.to_string()),
        error => DoorError::Multipart(error.to_string()),
    }
}
