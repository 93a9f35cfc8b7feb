//! What each handler takes out of a request before it looks at anything else: who asks, and which volume or page the path names.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, OriginalUri, Path};
use hathi::{Seq, VolumeId};
use http::request::Parts;
use objects::Requester;

use crate::errors::{AsProblem, DoorError};

/// Who asks: what the server's middleware found out, or nobody in particular.
pub struct Asking(pub Requester);

impl<S: Sync> FromRequestParts<S> for Asking {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(parts.extensions.get::<Requester>().cloned().unwrap_or_default()))
    }
}

/// The volume that `{id}` of the path names: its id, percent-encoded as one segment, or its cleaned form.
pub struct VolumePath(pub VolumeId);

impl<S: Send + Sync> FromRequestParts<S> for VolumePath {
    type Rejection = AsProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AsProblem> {
        let segments = segments(parts, state).await?;
        Ok(Self(volume(&segments)?))
    }
}

/// The page that `{id}` and `{seq}` of the path name.
pub struct PagePath(pub VolumeId, pub Seq);

impl<S: Send + Sync> FromRequestParts<S> for PagePath {
    type Rejection = AsProblem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, AsProblem> {
        let segments = segments(parts, state).await?;
        let volume = volume(&segments)?;
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
    // What is refused here is a segment that is not UTF-8, and no volume id is that.
    segments.map(|Path(segments)| segments).map_err(|_| DoorError::NotUtf8)
}

fn volume(segments: &HashMap<String, String>) -> Result<VolumeId, DoorError> {
    Ok(VolumeId::from_path_segment(segments.get("id").map(String::as_str).unwrap_or_default())?)
}

/// The path under which this door is mounted, as the client sees it: what stands before `/volumes`, `/pages` or `/selections`.
pub struct Mount(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Mount {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let original = parts.extensions.get::<OriginalUri>().map_or(parts.uri.path(), |OriginalUri(uri)| uri.path());
        // Nesting takes the mount off the path, so it is what the original path has in addition.
        Ok(Self(original.strip_suffix(parts.uri.path()).unwrap_or_default().to_owned()))
    }
}
