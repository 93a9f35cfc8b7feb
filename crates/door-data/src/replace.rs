//! Replacing a page or the METS of a volume: `PUT /volumes/{id}/pages/{seq}` and `PUT
//! /volumes/{id}/mets`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use door_http::body::{self, Held};
use door_http::{conditional, digests};
use hathi::VolumeId;
use hathi::archive::MAX_PAGE_BYTES;
use hathi::mets::MAX_METS_BYTES;
use headers::{ETag, HeaderMapExt};
use heads::ObjectsError;
use http::{HeaderMap, StatusCode, header};
use repository::{DigestAlgorithm, upload};
use volumes::Replacement;
use volumes::Volume;

use crate::DataDoor;
use crate::asking::{Asking, PagePath, VolumePath};
use crate::errors::{AsProblem, DoorError};

/// Number of tries of a replacement while others change the same volume.
const TRIES_MAX: u32 = 4;

/// `PUT /volumes/{id}/pages/{seq}`: replaces the page's text by another one in UTF-8. The METS,
/// which describes the scan, stays.
pub async fn page(
    State(door): State<Arc<DataDoor>>,
    PagePath(id, seq): PagePath,
    asking: Asking,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, AsProblem> {
    check_type(&headers, &["text/plain"], "text/plain; charset=utf-8")?;
    let Held { bytes, share: _share } = whole(&door, asking, &headers, body, MAX_PAGE_BYTES).await?;
    if std::str::from_utf8(&bytes).is_err() {
        return Err(DoorError::NotUtf8("page").into());
    }
    let replacement = Replacement::Page(seq, bytes.into());
    Ok(replace(&door, &id, &headers, replacement).await?)
}

/// `PUT /volumes/{id}/mets`: replaces the METS by another one of the same pages.
pub async fn mets(
    State(door): State<Arc<DataDoor>>,
    VolumePath(id): VolumePath,
    asking: Asking,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, AsProblem> {
    check_type(&headers, &["application/xml", "text/xml", "application/mets+xml"], "application/xml")?;
    let Held { bytes, share: _share } = whole(&door, asking, &headers, body, MAX_METS_BYTES as u64).await?;
    let replacement = Replacement::Mets(bytes.into());
    Ok(replace(&door, &id, &headers, replacement).await?)
}

/// Replaces under the conditions of the request, which are checked again whenever another writer
/// was faster.
async fn replace(
    door: &DataDoor,
    id: &VolumeId,
    headers: &HeaderMap,
    replacement: Replacement,
) -> Result<Response, DoorError> {
    let mut tries = 0;
    loop {
        let volume = door.library.volumes.volume(id).await?;
        let modified = conditional::last_modified(volume.revision.time().0);
        conditional::writing(headers, &etags(door, &volume, &replacement).await?, modified)?;
        tries += 1;
        match door.library.volumes.replace_member(&volume, replacement.clone()).await {
            Ok(revision) => {
                let mut response = Response::default();
                *response.status_mut() = StatusCode::NO_CONTENT;
                let (Replacement::Page(_, new) | Replacement::Mets(new)) = &replacement;
                let sha256 = upload::digests_of(new, &[DigestAlgorithm::Sha256]);
                let etag = sha256.first().and_then(|(_, digest)| conditional::strong_etag(&hex::encode(digest)));
                etag.into_iter().for_each(|etag| response.headers_mut().typed_insert(etag));
                response.headers_mut().typed_insert(conditional::last_modified(revision.time().0));
                return Ok(response);
            }
            Err(error @ ObjectsError::Conflict(_)) => {
                // It can succeed later only if another writer was faster.
                let current = door.library.volumes.volume(id).await?.revision;
                if current == volume.revision || tries == TRIES_MAX {
                    return Err(error.into());
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// The entity tags of what is to be replaced, in each of its codings.
async fn etags(door: &DataDoor, volume: &Volume, replacement: &Replacement) -> Result<Vec<ETag>, DoorError> {
    let Replacement::Page(seq, _) = replacement else {
        return Ok(etag(&volume.body.mets_sha256).into_iter().collect());
    };
    let found = door.library.volumes.resolve_pages(volume, &[*seq]).await?.pop().flatten();
    let (index, _) = found.ok_or_else(|| ObjectsError::Absent(format!("{}[{seq}]", volume.id)))?;
    let known = door.library.volumes.fixity(&volume.id, volume.body.generation, index..index.saturating_add(1)).await?;
    Ok(known.iter().flat_map(|page| [etag(&page.sha256), etag(&page.gzip_sha256)]).flatten().collect())
}

fn etag(sha256: &[u8; 32]) -> Option<ETag> {
    conditional::strong_etag(&hex::encode(sha256))
}

/// Reads a body into memory and checks its announced digests. It takes twice its length, because it
/// is copied.
async fn whole(door: &DataDoor, asking: Asking, head: &HeaderMap, body: Body, max: u64) -> Result<Held, DoorError> {
    let announced = digests::announced(head)?;
    let held = body::held(&door.library.memory, &asking.0.party(), body, max, 2).await?;
    digests::check(&announced, &upload::digests_of(&held.bytes, &digests::algorithms(&announced)))?;
    Ok(held)
}

/// Refuses a body that is not of one of these types, not in UTF-8, or has a content coding.
fn check_type(headers: &HeaderMap, types: &[&str], supported: &'static str) -> Result<(), DoorError> {
    let value = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase();
    let (media_type, coding) = (value(header::CONTENT_TYPE), value(header::CONTENT_ENCODING));
    let mut parts = media_type.split(';').map(str::trim);
    let is_known = parts.next().is_some_and(|essence| types.contains(&essence));
    let charset = parts.find_map(|part| part.strip_prefix("charset="));
    let is_utf8 = charset.is_none_or(|charset| charset.trim_matches('"') == "utf-8");
    match is_known && is_utf8 && matches!(coding.as_str(), "" | "identity") {
        true => Ok(()),
        false => Err(DoorError::UnsupportedMediaType { found: media_type + &coding, supported }),
    }
}
