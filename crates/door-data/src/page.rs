//! One page: `GET|HEAD /volumes/{id}/pages/{seq}`.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use door_http::accept::{self, Coding, Offer};
use door_http::conditional::last_modified;
use hathi::Seq;
use heads::ObjectsResult;
use http::{HeaderMap, Method};
use library::Library;
use volumes::{PageRead, Volume};

use crate::DataDoor;
use crate::asking::{Asking, PagePath};
use crate::audit;
use crate::damage;
use crate::errors::{AsProblem, DoorError};
use crate::in_time::Asked;
use crate::representation::Described;

/// The page's text, or its gzip form: the stored frame with a header and a trailer. Nothing is
/// compressed here.
pub async fn page(
    State(door): State<Arc<DataDoor>>,
    Asking(requester): Asking,
    PagePath(id, seq): PagePath,
    asked: Asked,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, AsProblem> {
    accept::media_type(&headers, &[Offer::new("text/plain", ())]).ok_or_else(|| not_acceptable("text/plain"))?;
    let coding = accept::coding(&headers).ok_or_else(|| not_acceptable("gzip and identity"))?;
    let read = |library, volume| read(library, volume, seq, coding);
    let (page, bytes) = damage::noted(&door.library, &asked, read).await?;
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
        audit::page_requested(&door.library, &id, seq, &requester).await?;
        return Ok(response);
    }
    match method {
        Method::GET => door.library.audit.auditor().page(&requester, &id, seq).await?,
        _ => audit::page_requested(&door.library, &id, seq, &requester).await?,
    }
    Ok(described.send(&method, &headers, bytes).await?)
}

/// The page, and its bytes in a coding.
async fn read(library: Library, volume: Volume, seq: Seq, coding: Coding) -> ObjectsResult<(PageRead, Bytes)> {
    let page = library.volumes.page_of(volume, seq).await?;
    let bytes = match coding {
        Coding::Identity => page.text()?.into(),
        Coding::Gzip => page.gzip(),
    };
    Ok((page, bytes))
}

fn not_acceptable(offered: &str) -> DoorError {
    DoorError::NotAcceptable(offered.to_owned())
}
