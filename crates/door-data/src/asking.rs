//! What each handler extracts from a request first: the requester, its area, and the volume or page
//! in the path. No handler gets a volume from the path that is not within the client's area.

use std::collections::HashMap;

use ::audit::Requester;
use area::Area;
use axum::extract::{FromRequestParts, OriginalUri, Path};
use hathi::{Seq, VolumeId};
use http::Extensions;
use http::request::Parts;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

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

/// Characters that are not encoded in a segment of a path (RFC 3986, section 2.3: the unreserved
/// characters).
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An id as one segment of a path: itself, percent-encoded; or its cleaned form, if the id itself
/// could be read as the cleaned form of another.
pub fn segment(id: &VolumeId) -> String {
    let reads_back = VolumeId::from_path_segment(id.as_str()).is_ok_and(|read| read == *id);
    let cleaned = id.cleaned();
    utf8_percent_encode(if reads_back { id.as_str() } else { cleaned.as_str() }, UNRESERVED).to_string()
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    fn read(segment: &str) -> VolumeId {
        VolumeId::from_path_segment(&percent_decode_str(segment).decode_utf8().unwrap()).unwrap()
    }

    #[test]
    fn an_id_is_written_as_itself_if_possible() {
        assert_eq!(segment(&"uc2.ark:/13960/t8ff3zh99".parse().unwrap()), "uc2.ark%3A%2F13960%2Ft8ff3zh99");
        assert_eq!(segment(&"x.a=b".parse().unwrap()), "x.a%5E3db", "`x.a=b` is the cleaned form of `x.a/b`");
    }

    proptest! {
        #[test]
        fn every_id_is_found_under_its_segment(library in "[a-z]{1,4}", local in "[ -~äß]{1,12}") {
            let id = VolumeId::parse(&format!("{library}.{local}"));
            prop_assume!(id.is_ok());
            let id = id.unwrap();
            prop_assert_eq!(read(&segment(&id)), id);
        }
    }
}
