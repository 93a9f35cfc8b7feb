//! What each handler extracts from a request first: the requester, its area, and the volume or page
//! in the path. No handler gets a volume from the path that is not within the client's area.

use std::collections::HashMap;

use ::audit::Requester;
use area::Area;
use axum::extract::{FromRequestParts, OriginalUri, Path};
use hathi::{Seq, VolumeId};
use http::Extensions;
use http::request::Parts;

use crate::errors::{AsProblem, DoorError};

/// The requester that the server's middleware identified, or an anonymous one.
pub struct Asking(pub Requester);

impl<S: Sync> FromRequestParts<S> for Asking {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(parts.extensions.get::<Requester>().cloned().unwrap_or_default()))
    }
}

/// To which volumes the client is limited.
pub struct Within(pub Area);

impl Within {
    /// From the extensions of a request.
    pub fn of(extensions: &Extensions) -> Self {
        Self(extensions.get::<Area>().cloned().unwrap_or_default())
    }
}

impl<S: Sync> FromRequestParts<S> for Within {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::of(&parts.extensions))
    }
}

/// The volume in `{id}` of the path: its id, percent-encoded as one segment, or its cleaned form.
/// It is within the client's area.
pub struct VolumePath(pub VolumeId);

impl<S: Send + Sync> FromRequestParts<S> for VolumePath {
    type Rejection = AsProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AsProblem> {
        let segments = segments(parts, state).await?;
        Ok(Self(volume(&segments, parts)?))
    }
}

/// An id as one segment of a path.
pub fn segment(id: &VolumeId) -> String {
    id.path_segment()
}

/// The page in `{id}` and `{seq}` of the path. The volume is within the client's area.
pub struct PagePath(pub VolumeId, pub Seq);

impl<S: Send + Sync> FromRequestParts<S> for PagePath {
    type Rejection = AsProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AsProblem> {
        let segments = segments(parts, state).await?;
        let volume = volume(&segments, parts)?;
        let text = segments.get("seq").map(String::as_str).unwrap_or_default();
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse().ok().filter(|_| digits).and_then(Seq::new) {
            Some(seq) => Ok(Self(volume, seq)),
            None => Err(DoorError::NotInVolume { volume: volume.to_string(), what: format!("page `{text}`") }.into()),
        }
    }
}

/// The percent-decoded parameters of the path.
async fn segments<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<HashMap<String, String>, DoorError> {
    let segments = Path::<HashMap<String, String>>::from_request_parts(parts, state).await;
    // A segment that is not UTF-8 is refused here: no volume id is one.
    segments.map(|Path(segments)| segments).map_err(|_| DoorError::NotUtf8("path"))
}

fn volume(segments: &HashMap<String, String>, parts: &Parts) -> Result<VolumeId, DoorError> {
    let id = VolumeId::from_path_segment(segments.get("id").map(String::as_str).unwrap_or_default())?;
    Within::of(&parts.extensions).0.check_volume(&id)?;
    Ok(id)
}

/// The path under which this door is mounted, as the client sees it: the part before `/volumes`,
/// `/pages` or `/selections`.
pub struct Mount(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Mount {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let original = parts.extensions.get::<OriginalUri>().map_or(parts.uri.path(), |OriginalUri(uri)| uri.path());
        // Nesting removes the mount from the path, so the mount is what the original path has in
        // addition.
        Ok(Self(original.strip_suffix(parts.uri.path()).unwrap_or_default().to_owned()))
    }
}
