//! One page: `GET|HEAD /volumes/{id}/pages/{seq}`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Method};
use objects::PageRead;

use crate::DataDoor;
use crate::asking::{Asking, PagePath};
use crate::conditional::last_modified;
use crate::errors::{AsProblem, DoorError};
use crate::negotiate::{self, Coding};
use crate::representation::Described;

/// The page's text, or its gzip form, which is its stored frame with a header and an end: nothing is compressed here.
pub async fn page(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    PagePath(id, seq): PagePath,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    negotiate::media_type(&headers, &["text/plain"]).ok_or_else(|| not_acceptable("text/plain"))?;
    let coding = negotiate::coding(&headers).ok_or_else(|| not_acceptable("gzip and identity"))?;
    let page = door.library.page(&id, seq).await?;
    let described = Described {
        content_type: "text/plain; charset=utf-8",
        coding: Some(coding),
        sha256: match coding {
            Coding::Identity => page.fixity.sha256,
            Coding::Gzip => page.fixity.gzip_sha256,
        },
        last_modified: last_modified(page.volume.revision.time().0),
    };
    if let Some(response) = described.unless_known(&headers)? {
        return Ok(response);
    }
    let bytes = encoded(&door, &page, coding).await?;
    if method == Method::GET {
        door.library.auditor().page(&requester, &id, seq).await?;
    }
    Ok(described.send(&method, &headers, bytes).await?)
}

/// The page's bytes in a coding. A text that is not what came in is marked as damaged, and not sent.
async fn encoded(door: &DataDoor, page: &PageRead, coding: Coding) -> Result<Bytes, DoorError> {
    let bytes = match coding {
        Coding::Gzip => page.gzip(),
        Coding::Identity => page.text().map(Bytes::from),
    };
    match bytes {
        Ok(bytes) => Ok(bytes),
        Err(error) => {
            if error.is_damage() {
                let (volume, detail) = (&page.volume, error.to_string());
                door.library.mark_damaged(&volume.id, volume.revision, page.index, &detail).await?;
            }
            Err(error.into())
        }
    }
}

fn not_acceptable(offered: &str) -> DoorError {
    DoorError::NotAcceptable(offered.to_owned())
}
