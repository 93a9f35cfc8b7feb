//! The versions of a volume: `GET /volumes/{id}/versions/` lists them, as JSON or as a TimeMap
//! (RFC 7089, section 5), and `POST` restores one; `GET /volumes/{id}/versions/{revision}`
//! describes one. What was in force at a time is restored exactly. Only reading leads to the
//! nearest version (`in_time.rs`).

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use door_http::Second;
use door_http::accept::{self, Offer};
use hathi::VolumeId;
use heads::{ObjectsError, RevisionId};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Serialize;
use volumes::{Then, VersionInfo, Versions, Volume};

use crate::DataDoor;
use crate::as_of::AS_OF;
use crate::asking::{Mount, VolumePath, segment};
use crate::errors::{AsProblem, DoorError};
use crate::in_time::{self, Asked, attribute, link};
use crate::params::Params;
use crate::time::rfc3339;
use crate::volume;

/// RFC 7089, section 5.
const LINK_FORMAT: &str = "application/link-format";
const JSON: &str = "application/json";
const ZIP: &str = "application/zip";

/// Versions on a page if the client does not say.
const PAGE_VERSIONS: usize = 1_000;
/// Most versions on a page.
const PAGE_VERSIONS_MAX: usize = 10_000;

/// A part of the list, as it is asked for.
struct Part {
    /// Where it begins.
    from: Option<RevisionId>,
    /// The most versions.
    limit: Option<usize>,
}

impl Part {
    fn of(params: &Params) -> Result<Self, DoorError> {
        let within = |text: &str| text.parse().ok().filter(|limit| (1..=PAGE_VERSIONS_MAX).contains(limit));
        Ok(Self { from: revision(params, "from")?, limit: params.keyword("limit", "1 to 10000", within)? })
    }

    /// As in an address, with the question mark.
    fn query(&self) -> String {
        let from = self.from.map(|from| format!("from={from}"));
        let limit = self.limit.map(|limit| format!("limit={limit}"));
        let parameters: Vec<_> = from.into_iter().chain(limit).collect();
        if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) }
    }
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
    let part = Part::of(&params)?;
    let (limit, from) = (part.limit.unwrap_or(PAGE_VERSIONS), part.from.unwrap_or(RevisionId::ZERO));
    let versions = volumes.versions(&id).await?;
    let deleted = versions.deleted();
    let mut found = versions.list(from, limit + 1).await?;
    if found.is_empty() && from == RevisionId::ZERO {
        return Err(ObjectsError::Gone(id.to_string()).into());
    }
    let next = (found.len() > limit).then(|| found.pop()).flatten();
    let address = format!("{}/volumes/{}", mount.0, segment(&id));
    let mut response = match media_type {
        JSON => {
            let versions = found.into_iter().map(|version| Version::of(version, &address)).collect();
            let deleted = deleted.map(|since| rfc3339(since.time()));
            let next = next.map(|next| next.revision.to_string());
            Json(List { id: id.as_str(), versions, next, deleted }).into_response()
        }
        _ => {
            let has_first = match found.first() {
                Some(begin) if part.from.is_some() => versions.before(begin.revision).await?.is_none(),
                _ => true,
            };
            let mut response = link_format(&address, &part, has_first, &found, next.as_ref()).into_response();
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

/// A part of the list as links (RFC 7089, sections 5 and 5.1.2). `has_first`: it begins with the
/// first version of all.
fn link_format(
    address: &str,
    part: &Part,
    has_first: bool,
    versions: &[VersionInfo],
    next: Option<&VersionInfo>,
) -> String {
    let list = |part: &Part| format!("{address}/versions/{}", part.query());
    let time = |name: &str, version: &VersionInfo| attribute(name, Second::of(version.since.time()));
    let typed = |times: [Option<String>; 2]| {
        let times: String = times.into_iter().flatten().collect();
        format!("; type=\"{LINK_FORMAT}\"{times}")
    };
    let [from, until] = [("from", versions.first()), ("until", versions.last())]
        .map(|(name, version)| version.map(|version| time(name, version)));
    let mut lines = vec![
        link(address, "original", ""),
        link(address, "timegate", ""),
        link(&list(part), "self", &typed([from, until])),
    ];
    lines.extend(next.map(|next| {
        let rest = Part { from: Some(next.revision), limit: part.limit };
        link(&list(&rest), "timemap", &typed([Some(time("from", next)), None]))
    }));
    let last = versions.len().saturating_sub(1);
    lines.extend(versions.iter().enumerate().map(|(at, version)| {
        let rel = match (at == 0 && has_first, at == last && next.is_none()) {
            (true, true) => "first last memento",
            (true, false) => "first memento",
            (false, true) => "last memento",
            (false, false) => "memento",
        };
        link(&format!("{address}/versions/{}", version.revision), rel, &time("datetime", version))
    }));
    lines.join(",\n") + "\n"
}

/// `POST /volumes/{id}/versions/?restore={revision}`: makes a version the current one, as a new
/// one. Without a revision that is the one that was in force at the time of `Accept-Datetime`, or
/// the last one of what was deleted.
pub async fn restore(
    State(door): State<Arc<DataDoor>>,
    VolumePath(id): VolumePath,
    mount: Mount,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    let volumes = &door.library.volumes;
    if !volumes.keeps_versions() {
        return Err(DoorError::NoVersions.into());
    }
    let params = Params::of_query(query.as_deref()).only(&["restore"])?;
    let which = Which::of(&params, &headers)?;
    let version = which.found(&volumes.versions(&id).await?, &id).await?;
    let revision = volumes.restore(&version).await?;
    let mut response = StatusCode::CREATED.into_response();
    let location = HeaderValue::try_from(format!("{}/volumes/{}/versions/{revision}", mount.0, segment(&id)));
    response.headers_mut().extend(location.ok().map(|location| (header::LOCATION, location)));
    Ok(response)
}

/// Which version a request restores.
#[derive(Clone, Copy)]
enum Which {
    /// That with a name.
    Named(RevisionId),
    /// That which was in force at the end of a second.
    At(Second),
    /// What was deleted, as it was last.
    Last,
}

impl Which {
    fn of(params: &Params, headers: &HeaderMap) -> Result<Self, DoorError> {
        let restore = params.value("restore")?.ok_or(DoorError::MissingParameter("restore"))?;
        let named = if restore.is_empty() { None } else { revision(params, "restore")? };
        Ok(match named {
            Some(revision) => Self::Named(revision),
            None => in_time::wanted(headers)?.map_or(Self::Last, Self::At),
        })
    }

    /// The version, if it can be read.
    async fn found(self, versions: &Versions, id: &VolumeId) -> Result<Volume, DoorError> {
        let then = match self {
            Self::Named(revision) => versions.version(revision).await?,
            Self::At(second) => versions.then(second.end()).await?,
            Self::Last if versions.is_live() => return Err(DoorError::NotDeleted(id.to_string())),
            Self::Last => match versions.before(RevisionId::LAST).await? {
                Some(last) => versions.version(last.revision).await?,
                None => Then::NotKept,
            },
        };
        let what = match (then, self) {
            (Then::Version(version), _) => return Ok(*version),
            (_, Self::Named(revision)) => return Err(in_time::no_version(id, &revision.to_string())),
            (_, Self::Last) => "version that is kept".to_owned(),
            (Then::NotKept, Self::At(second)) => {
                format!("version of {} that is kept; versions/ lists those that are", second.http())
            }
            (Then::Absent, Self::At(second)) => {
                format!("version of {}: it did not exist then, or was deleted", second.http())
            }
        };
        Err(in_time::not_there(id, what))
    }
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

/// Redirects to the archive of the volume as of the position at which the version became current. A
/// time would not do: several versions may begin in one millisecond.
async fn to_archive(door: &DataDoor, asked: &Asked, mount: &Mount) -> Result<Response, DoorError> {
    let volumes = &door.library.volumes;
    let revision = asked.volume(&door.library).await?.revision;
    let since = volumes.versions(&asked.id).await?.since(revision).await?.unwrap_or(revision);
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("volumeIDs", asked.id.as_str())
        .append_pair(AS_OF, &since.to_string())
        .finish();
    let location = HeaderValue::try_from(format!("{}/volumes?{query}", mount.0));
    let mut response = StatusCode::SEE_OTHER.into_response();
    let location = location.map_err(|error| ObjectsError::Internal(error.to_string()))?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}
