//! The header of a large content: its row, and the file that it belongs to.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use store::{ContentHeader, ContentId, Stamp, StoreError, StoreResult, Table, UnixMillis, stored};

use crate::read;
use crate::tables::View;

/// The sort key of a header in the content's partition.
pub(crate) const HEADER: Bytes = Bytes::from_static(b"header");

/// Where a content's file is.
pub(crate) fn path(contents: &Path, id: ContentId) -> PathBuf {
    contents.join(format!("{:02x}", id.0[0])).join(id.to_string())
}

/// The content that a file belongs to; `None`: the engine did not make the file.
pub(crate) fn id_of_file(name: &str) -> Option<ContentId> {
    let id = u128::from_str_radix(name, 16).ok().map(|id| ContentId(id.to_be_bytes()))?;
    (id.to_string() == name).then_some(id)
}

/// The header of a content, and its stamp.
pub(crate) fn header_in(
    view: &View<'_>,
    id: ContentId,
    now: UnixMillis,
) -> StoreResult<Option<(Stamp, ContentHeader)>> {
    let Some(row) = read::get(view, Table::Contents, &id.0, &HEADER, now)? else { return Ok(None) };
    let guard = row.guard.ok_or_else(|| corrupt(id, "its header is not guarded"))?;
    Ok(Some((guard.stamp, decode_header(id, &row.value)?)))
}

pub(crate) fn encode_header(id: ContentId, header: &ContentHeader) -> StoreResult<Bytes> {
    stored::seal(header).map_err(|error| StoreError::Invalid(format!("header of {id}: {error}")))
}

pub(crate) fn decode_header(id: ContentId, value: &Bytes) -> StoreResult<ContentHeader> {
    stored::open(value).map_err(|error| corrupt(id, &error.to_string()))
}

pub(crate) fn corrupt(id: ContentId, what: &str) -> StoreError {
    StoreError::Corrupt { table: Table::Contents, detail: format!("content {id}: {what}") }
}
