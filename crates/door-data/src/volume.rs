//! One volume: its description, its list of pages, its METS and record; deleting and verifying it.

use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{BoxError, Json};
use bytes::Bytes;
use door_http::conditional::last_modified;
use futures::stream::{self, StreamExt, TryStreamExt};
use headers::LastModified;
use heads::{Entry, ObjectsError, ObjectsResult};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use library::Library;
use serde::Serialize;
use volumes::damage::WHOLE_VOLUME;
use volumes::{DamagedMember, MemberRead, PageFixity, Volume, VolumePart};

use crate::DataDoor;
use crate::asking::{Asking, VolumePath};
use crate::audit;
use crate::damage;
use crate::errors::{AsProblem, DoorError};
use crate::in_time::Asked;
use crate::representation::Described;
use crate::time::rfc3339;

/// Pages read for a list at a time.
const PAGES_AT_ONCE: u32 = 256;

/// The description of a volume.
#[derive(Serialize)]
struct VolumeInfo<'a> {
    id: &'a str,
    cleaned_id: String,
    revision: String,
    /// Time of the revision.
    imported: String,
    pages: u64,
    /// Bytes of its pages' texts.
    size_bytes: u64,
    /// Bytes of the same as stored.
    frame_bytes: u64,
    mets_bytes: u32,
    record_bytes: Option<u32>,
    rights: Option<&'a str>,
    access_profile: Option<&'a str>,
    title: Option<&'a str>,
    pub_date: Option<&'a str>,
    language: Option<&'a str>,
    /// Number of members (pages, METS, record) that are marked as damaged.
    damaged: u32,
}

/// `GET /volumes/{id}`: JSON.
pub async fn info(State(door): State<Arc<DataDoor>>, asked: Asked) -> Result<Response, AsProblem> {
    let volume = asked.volume(&door.library).await?;
    let body = &volume.body;
    let info = VolumeInfo {
        id: volume.id.as_str(),
        cleaned_id: volume.id.cleaned().to_string(),
        revision: volume.revision.to_string(),
        imported: rfc3339(volume.revision.time()),
        pages: body.pages.count,
        size_bytes: body.pages.bytes,
        frame_bytes: body.pages.frame_bytes,
        mets_bytes: body.mets.member.size,
        record_bytes: body.record.map(|record| record.member.size),
        rights: body.rights.as_deref(),
        access_profile: body.access_profile.as_deref(),
        title: body.title.as_deref(),
        pub_date: body.pub_date.as_deref(),
        language: body.language.as_deref(),
        damaged: body.damaged,
    };
    Ok(Json(info).into_response())
}

/// A page in a list of pages.
#[derive(Serialize)]
struct PageInfo {
    seq: u32,
    size_bytes: u32,
    label: Option<String>,
    features: Vec<String>,
    md5: String,
    sha256: String,
    /// Its file's name in the source.
    file_name: String,
}

/// `GET /volumes/{id}/pages/`: a JSON array, streamed, of one revision.
pub async fn pages(State(door): State<Arc<DataDoor>>, asked: Asked) -> Result<Response, AsProblem> {
    let volume = asked.volume(&door.library).await?;
    let library = door.library.clone();
    let count = u32::try_from(volume.body.pages.count).unwrap_or(u32::MAX);
    let ranges = (0..count).step_by(PAGES_AT_ONCE as usize).map(move |from| from..count.min(from + PAGES_AT_ONCE));
    let read = move |range: Range<u32>| json_of_pages(library.clone(), volume.clone(), range);
    let mut pieces = stream::iter(ranges).then(read).boxed();
    // The first piece is read before the response begins, so that an early error has its status.
    let first = pieces.try_next().await?;
    let pieces = stream::iter(first.map(Ok)).chain(pieces).map_err(BoxError::from);
    let bracket = |text: &'static str| stream::iter([Ok(Bytes::from_static(text.as_bytes()))]);
    let body = bracket("[").chain(pieces).chain(bracket("]\n"));
    Ok(json_response(Body::from_stream(body)))
}

/// Some pages as elements of a JSON array, with the commas that separate them from those before.
async fn json_of_pages(library: Library, volume: Volume, range: Range<u32>) -> ObjectsResult<Bytes> {
    let generation = volume.body.generation;
    let entries = library.volumes.entries(&volume.id, generation, range.clone()).await?;
    let fixity = library.volumes.fixity(&volume.id, generation, range.clone()).await?;
    let mut json = Vec::new();
    for (index, (entry, fixity)) in range.zip(entries.iter().zip(fixity)) {
        json.extend_from_slice(if index == 0 { b"\n" } else { b",\n" });
        let internal = |error: serde_json::Error| ObjectsError::Internal(error.to_string());
        serde_json::to_writer(&mut json, &page_info(entry, fixity)).map_err(internal)?;
    }
    Ok(json.into())
}

fn page_info(entry: &Entry, fixity: PageFixity) -> PageInfo {
    PageInfo {
        seq: entry.seq,
        size_bytes: entry.member.size,
        label: fixity.label,
        features: fixity.features,
        md5: hex::encode(fixity.md5),
        sha256: hex::encode(fixity.sha256),
        file_name: fixity.file_name,
    }
}

/// `GET|HEAD /volumes/{id}/mets`: the METS as imported.
pub async fn mets(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    asked: Asked,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    let read = async |library: Library, volume: Volume| {
        let mets = library.volumes.mets_of(volume).await?;
        Ok((mets.text()?, mets))
    };
    let (text, mets) = damage::noted(&door.library, &asked, read).await?;
    audit::member(&door.library, &asked.id, &requester, method == Method::GET).await?;
    Ok(send_member(&method, &headers, "application/xml", mets, text).await?)
}

/// `GET|HEAD /volumes/{id}/record`: the record as imported.
pub async fn record(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    asked: Asked,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    let none = || DoorError::NotInVolume { volume: asked.id.to_string(), what: "record".to_owned() };
    let read = async |library: Library, volume: Volume| {
        let Some(record) = library.volumes.record_of(volume).await? else { return Ok(None) };
        Ok(Some((record.text()?, record)))
    };
    let (text, record) = damage::noted(&door.library, &asked, read).await?.ok_or_else(none)?;
    audit::member(&door.library, &asked.id, &requester, method == Method::GET).await?;
    Ok(send_member(&method, &headers, "application/json", record, text).await?)
}

async fn send_member(
    method: &Method,
    headers: &HeaderMap,
    content_type: &'static str,
    member: MemberRead,
    text: Vec<u8>,
) -> Result<Response, DoorError> {
    let last_modified: LastModified = last_modified(member.volume.revision.time().0);
    let described = Described { content_type, coding: None, sha256: member.sha256, last_modified };
    match described.unless_known(headers)? {
        Some(response) => Ok(response),
        None => described.send(method, headers, text.into()).await,
    }
}

/// `DELETE /volumes/{id}`.
pub async fn delete(State(door): State<Arc<DataDoor>>, VolumePath(id): VolumePath) -> Result<StatusCode, AsProblem> {
    door.library.volumes.delete(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The result of verifying.
#[derive(Serialize)]
struct Report {
    id: String,
    revision: String,
    /// Members that were read: pages, METS, record.
    members: u64,
    /// Bytes of their texts.
    size_bytes: u64,
    /// Whether nothing is damaged.
    sound: bool,
    damaged: Vec<Damage>,
}

/// A damaged member.
#[derive(Serialize)]
struct Damage {
    /// The index of a page in METS order; the number of pages for METS, one more for the record;
    /// none for the whole volume.
    member: Option<u32>,
    /// `page`, `mets`, `record` or `volume`.
    part: &'static str,
    /// The sequence of a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u32>,
    /// The number that is printed on it, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    detail: String,
}

impl From<DamagedMember> for Damage {
    fn from(DamagedMember { member, part, detail }: DamagedMember) -> Self {
        let (part, seq, label) = match part {
            VolumePart::Page { seq, label } => ("page", Some(seq), label),
            VolumePart::Mets => ("mets", None, None),
            VolumePart::Record => ("record", None, None),
            VolumePart::Whole => ("volume", None, None),
        };
        Self { member: Some(member).filter(|member| *member != WHOLE_VOLUME), part, seq, label, detail }
    }
}

/// `POST /volumes/{id}/verify`: reads everything again, and reports in JSON.
pub async fn verify(State(door): State<Arc<DataDoor>>, VolumePath(id): VolumePath) -> Result<Response, AsProblem> {
    let verified = door.library.volumes.once().verify(&id).await?;
    let report = Report {
        id: verified.id.to_string(),
        revision: verified.revision.to_string(),
        members: verified.members,
        size_bytes: verified.bytes,
        sound: verified.damaged.is_empty(),
        damaged: verified.damaged.into_iter().map(Damage::from).collect(),
    };
    Ok(Json(report).into_response())
}

/// A response of type JSON whose body is streamed.
pub fn json_response(body: Body) -> Response {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
