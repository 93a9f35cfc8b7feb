//! The life of a content: from upload under a lease to sealed, and through condemned to deleted.
//!
//! These are the decisions of every engine that keeps headers. An engine reads a header, asks here
//! what to do, and writes the new header by compare-and-write over the one that it read. If that is
//! refused, it reads again. So an upload that ends and a sweep that condemns exclude each other.
//!
//! ```text
//! (none) ─ begins ─▶ uploading ─ all bytes are durable ─▶ sealed
//!                        │  lease expired, or it failed      │
//!                        └────────────▶ condemned ◀──────────┘
//!                                           │ bytes, then header
//!                                           ▼
//!                                         (none)
//! ```

use std::time::Duration;

use bytes::Bytes;

use crate::clock::UnixMillis;
use crate::content::{ContentHeader, ContentId, ContentState};
use crate::error::StoreError;
use crate::row::Stamp;

/// A header as it was read, with its stamp; `None`: there is none.
pub type Found = Option<(Stamp, ContentHeader)>;

/// How to condemn a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToCondemn {
    /// Write nothing; this is the answer.
    Answer(bool),
    /// Write this header over the one with that stamp. If that one has changed, read again.
    Write(Stamp, ContentHeader),
}

/// How to delete a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToDelete {
    /// Delete nothing; this is the answer.
    Answer(bool),
    /// Delete the bytes, and then the header if it has this stamp. If it has another one, somebody
    /// else has deleted it, since a condemned header changes in no other way.
    Delete(Stamp),
}

/// How to sweep a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToSweep {
    /// It stays.
    Leave,
    /// Write this header over the one with that stamp, and then delete the content. If that one has
    /// changed, the content stays.
    Condemn(Stamp, ContentHeader),
    /// Delete it.
    Delete,
}

/// How to condemn a content. An upload under its lease is not condemned.
pub fn to_condemn(found: Found, now: UnixMillis) -> ToCondemn {
    let Some((stamp, header)) = found else { return ToCondemn::Answer(true) };
    match header.state {
        ContentState::Condemned => ToCondemn::Answer(true),
        ContentState::Uploading if header.is_leased(now) => ToCondemn::Answer(false),
        ContentState::Uploading | ContentState::Sealed => ToCondemn::Write(stamp, condemned(&header)),
    }
}

/// How to delete a content. Only condemned ones are deleted.
pub fn to_delete(found: Found) -> ToDelete {
    let Some((stamp, header)) = found else { return ToDelete::Answer(true) };
    match header.state {
        ContentState::Condemned => ToDelete::Delete(stamp),
        ContentState::Uploading | ContentState::Sealed => ToDelete::Answer(false),
    }
}

/// How to sweep a content. Condemned contents are deleted, and uploads whose lease has expired.
pub fn to_sweep(found: Found, now: UnixMillis) -> ToSweep {
    let Some((stamp, header)) = found else { return ToSweep::Leave };
    match header.state {
        ContentState::Sealed => ToSweep::Leave,
        ContentState::Uploading if header.is_leased(now) => ToSweep::Leave,
        // As it was read: its upload may end meanwhile.
        ContentState::Uploading => ToSweep::Condemn(stamp, condemned(&header)),
        ContentState::Condemned => ToSweep::Delete,
    }
}

/// The header with which an upload begins, where there is none.
pub fn begun(owner: Bytes, now: UnixMillis, lease: Duration) -> ContentHeader {
    ContentHeader { state: ContentState::Uploading, owner, len: 0, lease_until: now.plus(lease) }
}

/// The header of an upload with a renewed lease; `None`: half of it is left.
pub fn renewed(header: &ContentHeader, now: UnixMillis, lease: Duration) -> Option<ContentHeader> {
    let is_due = header.lease_until.since(now) <= lease / 2;
    is_due.then(|| ContentHeader { lease_until: now.plus(lease), ..header.clone() })
}

/// The header of an upload of which all bytes are durable.
pub fn sealed(header: &ContentHeader) -> ContentHeader {
    ContentHeader { state: ContentState::Sealed, ..header.clone() }
}

/// The header of a content that can no longer be sealed or read.
pub fn condemned(header: &ContentHeader) -> ContentHeader {
    ContentHeader { state: ContentState::Condemned, ..header.clone() }
}

/// The error of an upload whose id is taken.
pub fn taken(id: ContentId) -> StoreError {
    StoreError::Invalid(format!("content {id} exists already"))
}

/// The error of an upload whose header is not the one that it wrote last.
pub fn lost(id: ContentId) -> StoreError {
    StoreError::Unavailable(format!("the upload of content {id} was silent for too long and is condemned"))
}

impl ContentHeader {
    fn is_leased(&self, now: UnixMillis) -> bool {
        self.lease_until > now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(100);
    const BEGIN: UnixMillis = UnixMillis(1_000);

    fn uploading() -> ContentHeader {
        ContentHeader { len: 7, ..begun(Bytes::from_static(b"owner"), BEGIN, LEASE) }
    }

    fn after(millis: u64) -> UnixMillis {
        BEGIN.plus(Duration::from_millis(millis))
    }

    const STAMP: Stamp = Stamp([7; 16]);

    fn found(header: &ContentHeader) -> Found {
        Some((STAMP, header.clone()))
    }

    #[test]
    fn an_upload_is_condemned_once_its_lease_has_expired_and_not_before() {
        let upload = uploading();
        assert_eq!(to_condemn(found(&upload), after(99)), ToCondemn::Answer(false));
        assert_eq!(to_condemn(found(&upload), after(100)), ToCondemn::Write(STAMP, condemned(&upload)));
        assert_eq!(to_sweep(found(&upload), after(99)), ToSweep::Leave);
        assert_eq!(to_sweep(found(&upload), after(100)), ToSweep::Condemn(STAMP, condemned(&upload)));
        assert_eq!(to_delete(found(&upload)), ToDelete::Answer(false));
    }

    #[test]
    fn a_sealed_content_is_condemned_on_demand_and_never_swept_or_deleted() {
        let sealed = sealed(&uploading());
        assert_eq!(to_condemn(found(&sealed), after(0)), ToCondemn::Write(STAMP, condemned(&sealed)));
        assert_eq!(to_sweep(found(&sealed), after(1_000)), ToSweep::Leave);
        assert_eq!(to_delete(found(&sealed)), ToDelete::Answer(false));
    }

    #[test]
    fn a_condemned_content_is_deleted_by_any_caller() {
        let condemned = condemned(&uploading());
        assert_eq!(to_condemn(found(&condemned), after(0)), ToCondemn::Answer(true));
        assert_eq!(to_sweep(found(&condemned), after(0)), ToSweep::Delete);
        assert_eq!(to_delete(found(&condemned)), ToDelete::Delete(STAMP));
    }

    #[test]
    fn what_does_not_exist_counts_as_condemned_and_deleted() {
        assert_eq!(to_condemn(None, after(0)), ToCondemn::Answer(true));
        assert_eq!(to_delete(None), ToDelete::Answer(true));
        assert_eq!(to_sweep(None, after(0)), ToSweep::Leave);
    }

    #[test]
    fn a_lease_is_renewed_once_half_of_it_has_passed() {
        let upload = uploading();
        assert_eq!(renewed(&upload, after(49), LEASE), None);
        let expected = ContentHeader { lease_until: after(150), ..upload.clone() };
        assert_eq!(renewed(&upload, after(50), LEASE), Some(expected));
        // Nobody has condemned it, so it may go on.
        assert!(renewed(&upload, after(500), LEASE).is_some());
    }

    #[test]
    fn a_change_of_state_keeps_owner_and_length() {
        let upload = uploading();
        for (changed, state) in [(sealed(&upload), ContentState::Sealed), (condemned(&upload), ContentState::Condemned)]
        {
            assert_eq!(changed, ContentHeader { state, ..upload.clone() });
        }
    }
}
