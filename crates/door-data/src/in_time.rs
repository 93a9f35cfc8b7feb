//! Volumes in time (RFC 7089): a volume and each of its members is its own TimeGate, and versions
//! have addresses of their own, below `versions/` of the volume, named by their revisions.
//!
//! [`around`] runs before the handlers: it redirects a request with `Accept-Datetime`, and reads
//! the version that a path names. Handlers take it, or the present volume, by [`Asked`].

use std::sync::Arc;

use axum::extract::{FromRequestParts, OriginalUri, RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use door_http::{Second, one_value};
use hathi::VolumeId;
use heads::{ObjectsError, RevisionId};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use library::Library;
use volumes::{Then, VersionInfo, Versions, Volume};

use crate::DataDoor;
use crate::asking::{self, segment};
use crate::errors::{AsProblem, DoorError};
use crate::params::Params;

/// RFC 7089, section 2.1.1.
const ACCEPT_DATETIME: HeaderName = HeaderName::from_static("accept-datetime");
/// RFC 7089, section 2.1.2.
const MEMENTO_DATETIME: HeaderName = HeaderName::from_static("memento-datetime");

/// The volume that a path names, as it is or in a version.
#[derive(Clone)]
pub struct Asked {
    /// Its id.
    pub id: VolumeId,
    /// The version; `None` means the present one.
    version: Option<Arc<Volume>>,
}

impl Asked {
    /// The volume at the requested revision.
    pub async fn volume(&self, library: &Library) -> Result<Volume, ObjectsError> {
        match &self.version {
            Some(version) => Ok(Volume::clone(version)),
            None => library.volumes.volume(&self.id).await,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = AsProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AsProblem> {
        let asking::VolumePath(id) = asking::VolumePath::from_request_parts(parts, state).await?;
        Ok(Self { id, version: parts.extensions.get::<Arc<Volume>>().cloned() })
    }
}

/// Where a request is among the addresses of a volume.
struct Place {
    id: VolumeId,
    /// The version in the path.
    revision: Option<RevisionId>,
    /// The address of the volume, as the client sees it.
    volume: String,
    /// The member, with the slash before it: `/mets`.
    member: String,
}

impl Place {
    async fn of(parts: &mut Parts, door: &Arc<DataDoor>) -> Result<Self, DoorError> {
        let params = RawPathParams::from_request_parts(parts, door).await.map_err(|_| DoorError::NotUtf8("path"))?;
        let named = params.iter().find(|(name, _)| *name == "revision").map(|(_, value)| value.to_owned());
        let path = parts.extensions.get::<OriginalUri>().map_or(parts.uri.path(), |OriginalUri(uri)| uri.path());
        let path = path.to_owned();
        let asking::VolumePath(id) =
            asking::VolumePath::from_request_parts(parts, door).await.map_err(|AsProblem(error)| error)?;
        // What follows `volumes` and the id.
        let (mount, rest) = path.split_once("/volumes/").unwrap_or((&path, ""));
        let mut member = rest.split_once('/').map_or("", |(_, member)| member);
        let mut revision = None;
        if let Some(text) = named {
            let parsed = RevisionId::parse(&text).filter(|revision| revision.to_string() == text);
            revision = Some(parsed.ok_or_else(|| no_version(&id, &text))?);
            member = member.strip_prefix("versions/").and_then(|rest| rest.strip_prefix(&*text)).unwrap_or_default();
            member = member.strip_prefix('/').unwrap_or(member);
        }
        let member = if member.is_empty() { String::new() } else { format!("/{member}") };
        let volume = format!("{mount}/volumes/{}", segment(&id));
        Ok(Self { id, revision, volume, member })
    }

    fn version(&self, revision: RevisionId) -> String {
        format!("{}/versions/{revision}{}", self.volume, self.member)
    }

    /// The links of a version to those beside it, and to the first and the last one (RFC 7089,
    /// section 2.2.4). Its members have none: each page that is read would cost three more reads.
    async fn around(&self, versions: &Versions, revision: RevisionId) -> Result<Vec<String>, ObjectsError> {
        if !self.member.is_empty() {
            return Ok(Vec::new());
        }
        let (first, before, after, last) = futures::try_join!(
            versions.list(RevisionId::ZERO, 1),
            versions.before(revision),
            versions.list(revision.successor(), 1),
            versions.before(RevisionId::LAST),
        )?;
        let around =
            [("first", first.first()), ("prev", before.as_ref()), ("next", after.first()), ("last", last.as_ref())];
        let linked = |(relation, version): (&str, Option<&VersionInfo>)| {
            let VersionInfo { revision, since, .. } = version?;
            let datetime = attribute("datetime", Second::of(since.time()));
            Some(link(&self.version(*revision), &format!("{relation} memento"), &datetime))
        };
        Ok(around.into_iter().filter_map(linked).collect())
    }

    /// What a response says about a volume in time (RFC 7089, section 2.2).
    fn describe(&self, headers: &mut HeaderMap) {
        let original = format!("{}{}", self.volume, self.member);
        let links = [(&original, "original timegate"), (&format!("{}/versions/", self.volume), "timemap")];
        for (target, rel) in links {
            headers.extend(HeaderValue::try_from(link(target, rel, "")).ok().map(|link| (header::LINK, link)));
        }
        if self.revision.is_none() {
            headers.append(header::VARY, HeaderValue::from_static("accept-datetime"));
        }
    }
}

/// A link, as in a header and in `application/link-format` (RFC 6690).
pub fn link(target: &str, rel: &str, parameters: &str) -> String {
    format!("<{target}>; rel=\"{rel}\"{parameters}")
}

/// A parameter of a link with a time (RFC 7089, section 2.2).
pub fn attribute(name: &str, second: Second) -> String {
    format!("; {name}=\"{}\"", second.http())
}

/// The error for a version that there is not, or not any more.
pub fn no_version(id: &VolumeId, revision: &str) -> DoorError {
    not_there(id, format!("version `{revision}` that is kept"))
}

/// The error for what a volume does not have.
pub fn not_there(id: &VolumeId, what: String) -> DoorError {
    DoorError::NotInVolume { volume: id.to_string(), what }
}

/// Answers requests for a time, and finds the version that a path names.
pub async fn around(State(door): State<Arc<DataDoor>>, request: Request, next: Next) -> Response {
    in_time(&door, request, next).await.unwrap_or_else(|error| AsProblem(error).into_response())
}

async fn in_time(door: &Arc<DataDoor>, request: Request, next: Next) -> Result<Response, DoorError> {
    let volumes = &door.library.volumes;
    let (mut parts, body) = request.into_parts();
    Params::refuse_as_of(parts.uri.query())?;
    let place = Place::of(&mut parts, door).await?;
    if !volumes.keeps_versions() {
        return match place.revision {
            Some(revision) => Err(no_version(&place.id, &revision.to_string())),
            None => Ok(next.run(Request::from_parts(parts, body)).await),
        };
    }
    let mut memento = None;
    match (place.revision, wanted(&parts.headers)?) {
        (None, Some(second)) => {
            // Without a version the response says what became of the volume.
            if let Some(version) = volumes.versions(&place.id).await?.nearest(second.end()).await? {
                return found(&place, version.revision);
            }
        }
        (None, None) => {}
        (Some(revision), _) => {
            let versions = volumes.versions(&place.id).await?;
            let Then::Version(version) = versions.version(revision).await? else {
                return Err(no_version(&place.id, &revision.to_string()));
            };
            let links = place.around(&versions, revision).await?;
            memento = versions.since(revision).await?.map(|since| (since, links));
            parts.extensions.insert(Arc::new(*version));
        }
    }
    let mut response = next.run(Request::from_parts(parts, body)).await;
    place.describe(response.headers_mut());
    if let Some((since, links)) = memento
        && let Ok(value) = HeaderValue::try_from(Second::of(since.time()).http())
        && !response.status().is_client_error()
        && !response.status().is_server_error()
    {
        let headers = response.headers_mut();
        headers.insert(MEMENTO_DATETIME, value);
        headers.extend(links.into_iter().filter_map(|link| Some((header::LINK, HeaderValue::try_from(link).ok()?))));
    }
    Ok(response)
}

/// The time of `Accept-Datetime`, if a request has it.
pub fn wanted(headers: &HeaderMap) -> Result<Option<Second>, DoorError> {
    let wanted = one_value(headers, &ACCEPT_DATETIME).map_err(|_| ambiguous(headers))?;
    let second = |wanted: &HeaderValue| wanted.to_str().ok().and_then(Second::of_http).ok_or_else(|| malformed(wanted));
    wanted.map(second).transpose()
}

/// Redirects to a version.
fn found(place: &Place, revision: RevisionId) -> Result<Response, DoorError> {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::FOUND;
    let location = HeaderValue::try_from(place.version(revision));
    let location = location.map_err(|error| ObjectsError::Internal(error.to_string()))?;
    response.headers_mut().insert(header::LOCATION, location);
    place.describe(response.headers_mut());
    Ok(response)
}

fn ambiguous(headers: &HeaderMap) -> DoorError {
    let values: Vec<_> = headers.get_all(ACCEPT_DATETIME).iter().map(|value| value.as_bytes()).collect();
    DoorError::MalformedParameter {
        name: "accept-datetime",
        value: String::from_utf8_lossy(&values.join(&b", "[..])).into_owned(),
        expected: "one time",
    }
}

fn malformed(value: &HeaderValue) -> DoorError {
    DoorError::MalformedParameter {
        name: "accept-datetime",
        value: String::from_utf8_lossy(value.as_bytes()).into_owned(),
        expected: "a time like `Sun, 15 Jun 2025 15:06:40 GMT`, with the weekday of its date",
    }
}
