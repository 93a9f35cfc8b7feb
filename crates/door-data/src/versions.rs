//! The versions of a volume: `GET /volumes/{id}/versions/` lists them, as JSON or as a TimeMap
//! (RFC 7089, section 5), and `POST` restores one; `GET /volumes/{id}/versions/{revision}` describes
//! one.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use door_http::Second;
use door_http::accept::{self, Offer};
use heads::{ObjectsError, RevisionId};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use volumes::{Then, VersionInfo};

use crate::DataDoor;
use crate::asking::{Mount, VolumePath, segment};
use crate::errors::{AsProblem, DoorError};
use crate::in_time::{self, Asked, link};
use crate::params::Params;
use crate::time::{rfc3339, rfc3339_millis};
use crate::volume;

/// RFC 7089, section 5.
const LINK_FORMAT: &str = "application/link-format";
const JSON: &str = "application/json";
const ZIP: &str = "application/zip";

/// Versions on a page if the client does not say.
const PAGE_VERSIONS: usize = 1_000;
/// Most versions on a page.
const PAGE_VERSIONS_MAX: usize = 10_000;

/// How many versions a request wants.
fn limit(params: &Params) -> Result<usize, DoorError> {
    let within = |text: &str| text.parse().ok().filter(|limit| (1..=PAGE_VERSIONS_MAX).contains(limit));
    Ok(params.keyword("limit", "1 to 10000", within)?.unwrap_or(PAGE_VERSIONS))
}

/// The revision in a parameter.
fn revision(params: &Params, name: &'static str) -> Result<Option<RevisionId>, DoorError> {
    params.keyword(name, "a revision", RevisionId::parse)
}

/// A list of versions, oldest first.
#[derive(Serialize)]
struct List<'a> {
    id: &'a str,
    versions: Vec<Version>,
    /// The revision with which the next part begins (`from=`).
    next: Option<String>,
    /// When the volume was deleted, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<String>,
}

#[derive(Serialize)]
struct Version {
    revision: String,
    /// Its path.
    address: String,
    /// When it became current.
    time: String,
    /// Whether it is current.
    current: bool,
    pages: u64,
    /// Bytes of its pages' texts.
    size_bytes: u64,
    mets_sha256: String,
}

/// `GET /volumes/{id}/versions/`.
pub async fn list(
    State(door): State<Arc<DataDoor>>,
    VolumePath(id): VolumePath,
    mount: Mount,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    let offers = [JSON, LINK_FORMAT].map(|media_type| Offer::new(media_type, media_type));
    let not_acceptable = || DoorError::NotAcceptable(format!("{JSON}, {LINK_FORMAT}"));
    let media_type = *accept::media_type(&headers, &offers).ok_or_else(not_acceptable)?;
    let volumes = &door.library.volumes;
    if !volumes.keeps_versions() {
        let what = "list of versions: this server keeps no earlier versions of volumes (history.volumes)";
        return Err(DoorError::NotInVolume { volume: id.to_string(), what: what.to_owned() }.into());
    }
    let params = Params::of_query(query.as_deref()).only(&["limit", "from"])?;
    let (limit, from) = (limit(&params)?, revision(&params, "from")?.unwrap_or(RevisionId::ZERO));
    let versions = volumes.versions(&id).await?;
    let deleted = versions.deleted();
    let mut found = versions.list(from, limit + 1).await?;
    if found.is_empty() && from == RevisionId::ZERO {
        return Err(ObjectsError::Gone(id.to_string()).into());
    }
    let next = (found.len() > limit).then(|| found.pop()).flatten().map(|next| next.revision.to_string());
    let address = format!("{}/volumes/{}", mount.0, segment(&id));
    let mut response = match media_type {
        JSON => {
            let versions = found.into_iter().map(|version| Version::of(version, &address)).collect();
            let deleted = deleted.map(|since| rfc3339(since.time()));
            Json(List { id: id.as_str(), versions, next, deleted }).into_response()
        }
        _ => {
            let mut response = link_format(&address, &found, next.as_deref()).into_response();
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(LINK_FORMAT));
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

impl Version {
    fn of(version: VersionInfo, address: &str) -> Self {
        Self {
            revision: version.revision.to_string(),
            address: format!("{address}/versions/{}", version.revision),
            time: rfc3339(version.since.time()),
            current: version.is_current,
            pages: version.pages,
            size_bytes: version.bytes,
            mets_sha256: hex::encode(version.mets_sha256),
        }
    }
}

fn link_format(address: &str, versions: &[VersionInfo], next: Option<&str>) -> String {
    let typed = format!("; type=\"{LINK_FORMAT}\"");
    let mut lines = vec![link(address, "original timegate", ""), link(&format!("{address}/versions/"), "self", &typed)];
    lines.extend(next.map(|next| link(&format!("{address}/versions/?from={next}"), "timemap", &typed)));
    lines.extend(versions.iter().map(|version| {
        let datetime = format!("; datetime=\"{}\"", Second::of(version.since.time()).http());
        link(&format!("{address}/versions/{}", version.revision), "memento", &datetime)
    }));
    lines.join(",\n") + "\n"
}

/// `POST /volumes/{id}/versions/?restore={revision}`: makes a version the current one, as a new
/// one. Without a revision that is the one of `Accept-Datetime`, or the last one.
pub async fn restore(
    State(door): State<Arc<DataDoor>>,
    VolumePath(id): VolumePath,
    mount: Mount,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    let volumes = &door.library.volumes;
    let params = Params::of_query(query.as_deref()).only(&["restore"])?;
    let restore = params.value("restore")?.ok_or(DoorError::MissingParameter("restore"))?;
    let versions = volumes.versions(&id).await?;
    let named = if restore.is_empty() { None } else { revision(&params, "restore")? };
    let version = match named {
        None => {
            let second = in_time::wanted(&headers)?;
            versions.nearest(second.map_or(RevisionId::LAST, Second::end)).await?
        }
        Some(revision) => match versions.version(revision).await? {
            Then::Version(version) => Some(*version),
            Then::NotKept | Then::Absent => None,
        },
    };
    let version = version.ok_or_else(|| in_time::no_version(&id, restore))?;
    let revision = volumes.restore(&version).await?;
    let mut response = StatusCode::CREATED.into_response();
    let location = HeaderValue::try_from(format!("{}/volumes/{}/versions/{revision}", mount.0, segment(&id)));
    response.headers_mut().extend(location.ok().map(|location| (header::LOCATION, location)));
    Ok(response)
}

/// `GET /volumes/{id}/versions/{revision}`: JSON, or the way to its ZIP.
pub async fn one(
    State(door): State<Arc<DataDoor>>,
    asked: Asked,
    mount: Mount,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    let offers = [JSON, ZIP].map(|media_type| Offer::new(media_type, media_type));
    let not_acceptable = || DoorError::NotAcceptable(format!("{JSON}, {ZIP}"));
    let mut response = match *accept::media_type(&headers, &offers).ok_or_else(not_acceptable)? {
        JSON => volume::info(State(door), asked).await?,
        _ => to_archive(&door, &asked, &mount).await?,
    };
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// Redirects to the archive of the volume as of the time when the version became current.
async fn to_archive(door: &DataDoor, asked: &Asked, mount: &Mount) -> Result<Response, DoorError> {
    let volumes = &door.library.volumes;
    let revision = asked.volume(&door.library).await?.revision;
    let since = volumes.versions(&asked.id).await?.since(revision).await?.unwrap_or(revision);
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("volumeIDs", asked.id.as_str())
        .append_pair("as_of", &rfc3339_millis(since.time()))
        .finish();
    let location = HeaderValue::try_from(format!("{}/volumes?{query}", mount.0));
    let mut response = StatusCode::SEE_OTHER.into_response();
    let location = location.map_err(|error| ObjectsError::Internal(error.to_string()))?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}
