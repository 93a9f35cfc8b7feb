//! Collects orphaned contents: uploads whose process ended after storing them and before naming
//! them.
//!
//! Each content that a head is about to name gets a record of that head's object, put before the
//! head. A content is an orphan if, a grace after its upload, no recorded object names it in its
//! head, its head log or its list of received versions. No request takes that long: if the grace is
//! short, it waits until the request has ended ([`heads::Heads::requests_end`]).

use bytes::Bytes;
use heads::chores::Chore;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::{Body, Head};
use heads::keys;
use heads::resource_body::BytesPlace;
use store::{Class, ContentId, ContentState, Scan, Table, boxed};

use crate::handle::Repository;

/// Contents that one pass visits.
const CONTENTS_OF_A_PASS: usize = 1_000;

/// Bytes of one page of a scan over records.
const SCAN_BYTES: usize = 64 << 10;

impl Repository {
    /// Checks the next contents in turn and deletes orphans. Returns how many were deleted.
    #[boxed]
    pub async fn collect_contents(&self) -> ObjectsResult<u64> {
        if !self.heads.is_home() {
            return Ok(0);
        }
        let mut tally = self.heads.tally(Chore::Contents);
        let from = self.inner.content_in_turn.lock().clone();
        let walk = async || {
            let call = self.heads.call(Class::Description);
            Ok(self.heads.store().walk(call, Table::Contents, from.clone(), CONTENTS_OF_A_PASS).await?)
        };
        let page = self.heads.retry_transient(walk).await?;
        // Whatever happens to these, the next pass visits others.
        *self.inner.content_in_turn.lock() = page.next;
        let mut collected = 0;
        for partition in &page.partitions {
            let id = <[u8; 16]>::try_from(&partition[..]).map(ContentId);
            let id = id.map_err(|_| ObjectsError::corrupt(Table::Contents, "a partition of no content"));
            let Some(id) = tally.take(partition.escape_ascii(), id)? else { continue };
            collected += u64::from(tally.take(id, self.collect_content(id).await)?.unwrap_or(false));
        }
        Ok(collected)
    }

    /// Deletes a content if nothing names it. Returns whether it did.
    async fn collect_content(&self, id: ContentId) -> ObjectsResult<bool> {
        if !self.is_orphan(id).await? {
            return Ok(false);
        }
        let store = &self.heads.store();
        let is_condemned = store.condemn_content(self.heads.call(Class::Content), id).await?;
        Ok(is_condemned && store.delete_content(self.heads.call(Class::Content), id).await?)
    }

    /// Deletes a content that an operation of a transaction uploaded for an object, unless its head
    /// or an earlier one names it.
    pub(crate) async fn drop_content(&self, id: ContentId, object: &Bytes) -> ObjectsResult<()> {
        if self.is_named_by(id, object).await? {
            return Ok(());
        }
        let store = &self.heads.store();
        if store.condemn_content(self.heads.call(Class::Content), id).await? {
            store.delete_content(self.heads.call(Class::Content), id).await?;
        }
        Ok(())
    }

    async fn is_orphan(&self, id: ContentId) -> ObjectsResult<bool> {
        let header = self.heads.store().content_header(self.heads.call(Class::Content), id).await?;
        let Some(header) = header.filter(|header| header.state == ContentState::Sealed) else { return Ok(false) };
        if !self.heads.requests_passed(header.lease_until) {
            return Ok(false);
        }
        let mut scan = Some(Scan::prefix(Bytes::new(), SCAN_BYTES));
        while let Some(range) = scan {
            let call = self.heads.call(Class::Description).strong();
            let page = self.heads.store().scan(call, Table::Objects, &keys::keepers(id), range.clone()).await?;
            for row in &page.rows {
                if self.is_named_by(id, &row.sort).await? {
                    return Ok(false);
                }
            }
            scan = range.resumed(page.next);
        }
        Ok(true)
    }

    /// Whether the head, an earlier head or a received version of an object names a content.
    async fn is_named_by(&self, id: ContentId, object: &Bytes) -> ObjectsResult<bool> {
        let named = async {
            let Some(row) = self.heads.head_at(object).await? else { return Ok(false) };
            // What a transaction is going to make of the object may name it.
            let is_claimed = match row.head.claim {
                Some(claim) => self.heads.claim_is_over(claim).await?.is_err(),
                None => false,
            };
            if is_claimed || names(&row.head, id) {
                return Ok(true);
            }
            let log = self.heads.log_before(object, &row.head);
            let mut newest_first = log.newest_first().await?;
            while let Some(head) = newest_first.next_head().await? {
                if names(&head, id) {
                    return Ok(true);
                }
            }
            self.is_received(id, object).await
        };
        match named.await {
            // A head that cannot be read may name it.
            Err(error) if ObjectsError::is_damage(&error) => Ok(true),
            named => named,
        }
    }
}

fn names(head: &Head, id: ContentId) -> bool {
    let Body::Resource(resource) = &head.body else { return false };
    resource.binary().is_some_and(|binary| binary.place == BytesPlace::Content(id))
}
