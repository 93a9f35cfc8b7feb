//! Large contents: bytes in, bytes out, ranges, leases, and deletion.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::channel::mpsc;
use futures::future::{Either, join_all, select};
use futures::{SinkExt, StreamExt, TryStreamExt, stream};

use super::{Shortcuts, Subject, bytes, call, eventually, guard};
use crate::{
    Clock, ContentHeader, ContentId, ContentState, ContentStream, Direction, Expect, Scan, Step, Store, StoreError,
    StoreResult, Table, UnixMillis,
};

/// Uploads that run, a number of them at once, while a number of sweepers sweep; and how often all
/// leases are ended meanwhile, after how many sweeps of each.
const UPLOADS_DURING_SWEEPS: usize = 200;
const UPLOADS_AT_ONCE: usize = 4;
const SWEEPERS: usize = 16;
const LEASES_ENDED: usize = 8;
const SWEEPS_OF_A_LEASE: usize = 32;

/// Bytes without repetition, so that no two ranges are alike.
fn sample(len: usize) -> Bytes {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect::<Vec<_>>().into()
}

fn in_pieces(content: &Bytes, piece: usize) -> ContentStream {
    let pieces: Vec<_> = content.chunks(piece).map(|piece| Ok(bytes(piece))).collect();
    stream::iter(pieces).boxed()
}

async fn put(store: &Arc<dyn Store>, content: &Bytes) -> ContentId {
    store.put_content(call(), bytes("owner"), in_pieces(content, 10_000)).await.unwrap()
}

async fn read(store: &Arc<dyn Store>, id: ContentId, range: std::ops::Range<u64>) -> Option<Bytes> {
    let pieces: Vec<Bytes> = store.read_content(call(), id, range).await.unwrap()?.try_collect().await.unwrap();
    Some(pieces.concat().into())
}

/// An upload that lasts as long as the test wants.
struct Upload {
    pieces: mpsc::Sender<StoreResult<Bytes>>,
    ended: tokio::task::JoinHandle<StoreResult<ContentId>>,
    id: ContentId,
}

impl Upload {
    /// Begins an upload and waits until the store shows it.
    async fn begin(store: &Arc<dyn Store>) -> Self {
        let (mut pieces, stream) = mpsc::channel(1);
        let ended = tokio::spawn({
            let store = store.clone();
            async move { store.put_content(call(), bytes("owner"), stream.boxed()).await }
        });
        pieces.send(Ok(bytes("begin"))).await.unwrap();
        let id = eventually(async || known(store).await.first().copied()).await;
        Self { pieces, ended, id }
    }

    async fn end(mut self) -> StoreResult<ContentId> {
        self.pieces.close().await.unwrap();
        self.ended.await.unwrap()
    }
}

/// The contents that the store knows, in any state.
async fn known(store: &Arc<dyn Store>) -> Vec<ContentId> {
    let page = store.walk(call(), Table::Contents, None, 100).await.unwrap();
    page.partitions.iter().filter_map(|id| id[..].try_into().ok().map(ContentId)).collect()
}

async fn header(store: &Arc<dyn Store>, id: ContentId) -> Option<ContentHeader> {
    store.content_header(call().strong(), id).await.unwrap()
}

/// The content has many pieces and is longer than the piece that engines read at once.
pub async fn a_content_comes_back_byte_for_byte(subject: &mut impl Subject) {
    let store = subject.store();
    let content = sample(1_234_567);
    let id = put(&store, &content).await;
    assert!(read(&store, id, 0..u64::MAX).await.unwrap() == content, "another content came back");
    let other = put(&store, &content).await;
    assert_ne!(other, id, "two contents have one id");
}

/// The id is the one that it had in the store it was copied from.
pub async fn a_content_keeps_the_id_that_it_is_given(subject: &mut impl Subject) {
    let store = subject.store();
    let (id, content) = (ContentId([9; 16]), sample(100_000));
    store.put_content_as(call(), id, bytes("owner"), in_pieces(&content, 10_000)).await.unwrap();
    assert!(read(&store, id, 0..u64::MAX).await.unwrap() == content, "another content came back");
    assert_eq!(known(&store).await, [id]);
}

/// The content that has the id does not change.
pub async fn an_id_that_is_taken_is_refused(subject: &mut impl Subject) {
    let store = subject.store();
    let content = sample(100);
    let id = put(&store, &content).await;
    let refused = store.put_content_as(call(), id, bytes("owner"), in_pieces(&sample(200), 50)).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    assert_eq!(read(&store, id, 0..u64::MAX).await, Some(content));
}

/// It is not an absent one.
pub async fn an_empty_content_is_a_content(subject: &mut impl Subject) {
    let store = subject.store();
    let id = put(&store, &Bytes::new()).await;
    assert_eq!(read(&store, id, 0..10).await, Some(Bytes::new()));
    assert_eq!(header(&store, id).await.map(|header| header.len), Some(0));
}

/// A range has its bytes and no others; beyond the end it is empty.
pub async fn a_range_of_a_content_is_clipped_at_its_end(subject: &mut impl Subject) {
    let store = subject.store();
    let content = sample(600_000);
    let id = put(&store, &content).await;
    for (from, to) in [(0, 0), (0, 1), (1, 2), (262_143, 262_145), (599_999, 600_000), (100, 599_000)] {
        let found = read(&store, id, from..to).await.unwrap();
        assert!(found == content[from as usize..to as usize], "bytes {from} to {to}");
    }
    assert_eq!(read(&store, id, 599_990..u64::MAX).await, Some(content.slice(599_990..)));
    assert_eq!(read(&store, id, 600_000..600_001).await, Some(Bytes::new()));
    assert_eq!(read(&store, id, u64::MAX - 1..u64::MAX).await, Some(Bytes::new()));
}

/// The collector needs both.
pub async fn a_sealed_content_has_an_owner_and_a_length(subject: &mut impl Subject) {
    let store = subject.store();
    let id = put(&store, &sample(25_000)).await;
    let header = header(&store, id).await.unwrap();
    assert_eq!((header.state, header.owner, header.len), (ContentState::Sealed, bytes("owner"), 25_000));
}

/// It is not an error.
pub async fn an_unknown_content_is_none(subject: &mut impl Subject) {
    let store = subject.store();
    let unknown = ContentId([7; 16]);
    assert_eq!(header(&store, unknown).await, None);
    assert_eq!(read(&store, unknown, 0..1).await, None);
}

/// The upload fails with the error of the stream.
pub async fn nothing_of_a_failed_upload_is_readable(subject: &mut impl Subject) {
    let store = subject.store();
    let failing = stream::iter([Ok(sample(50_000)), Err(StoreError::Unavailable("the client went away".to_owned()))]);
    let error = store.put_content(call(), bytes("owner"), failing.boxed()).await.unwrap_err();
    assert!(error.to_string().contains("the client went away"), "{error}");
    for id in known(&store).await {
        assert_ne!(header(&store, id).await.unwrap().state, ContentState::Sealed);
        assert_eq!(read(&store, id, 0..1).await, None);
    }
}

/// However slow it is, it can still be sealed.
pub async fn an_upload_under_its_lease_is_not_condemned(subject: &mut impl Subject) {
    let store = subject.store();
    let upload = Upload::begin(&store).await;
    let id = upload.id;
    assert_eq!(header(&store, id).await.unwrap().state, ContentState::Uploading);
    assert!(!store.condemn_content(call(), id).await.unwrap());
    assert!(!store.delete_content(call(), id).await.unwrap());
    assert_eq!(read(&store, id, 0..1).await, None, "an upload is readable before its end");
    assert_eq!(upload.end().await.unwrap(), id);
    assert_eq!(read(&store, id, 0..100).await, Some(bytes("begin")));
}

fn end_lease(subject: &impl Subject, header: &ContentHeader) {
    subject.clock().advance(header.lease_until.since(subject.clock().now()));
}

/// That holds once its lease has expired.
pub async fn a_silent_upload_is_condemned_and_cannot_be_sealed(subject: &mut impl Subject) {
    let store = subject.store();
    let upload = Upload::begin(&store).await;
    let id = upload.id;
    eventually(async || {
        // The first bytes of the upload may still renew the lease once.
        end_lease(subject, &header(&store, id).await?);
        store.condemn_content(call(), id).await.unwrap().then_some(())
    })
    .await;
    upload.end().await.unwrap_err();
    assert_eq!(read(&store, id, 0..1).await, None);
    assert!(store.delete_content(call(), id).await.unwrap());
    assert_eq!(header(&store, id).await, None);
}

/// A sweep may have seen it while it was uploading, even with an expired lease.
pub async fn an_upload_that_ends_during_a_sweep_stays(subject: &mut impl Subject) {
    let (store, subject) = (subject.store(), &*subject);
    let content = sample(1_000);
    let upload = async || {
        let Ok(id) = store.put_content(call(), bytes("owner"), in_pieces(&content, 500)).await else { return 0 };
        let found = read(&store, id, 0..u64::MAX).await;
        assert!(found.as_ref() == Some(&content), "content {id} was deleted");
        assert!(store.condemn_content(call(), id).await.unwrap() && store.delete_content(call(), id).await.unwrap());
        1
    };
    let uploads = stream::iter(0..UPLOADS_DURING_SWEEPS).map(|_| upload()).buffer_unordered(UPLOADS_AT_ONCE);
    let uploads = uploads.fold(0, async |sum, ended| sum + ended);
    let sweep = async || {
        let swept = join_all((0..SWEEPERS).map(|_| store.sweep(call()))).await;
        swept.into_iter().for_each(|swept| _ = swept.unwrap());
    };
    let sweeps = async {
        // Uploads under way when leases end may fail. Only few do, however slow the machine is.
        for _ in 0..LEASES_ENDED {
            for _ in 0..SWEEPS_OF_A_LEASE {
                sweep().await;
            }
            if let Some(id) = known(&store).await.first() {
                let known = header(&store, *id).await;
                known.iter().for_each(|header| end_lease(subject, header));
            }
        }
        loop {
            sweep().await;
        }
    };
    let (uploads, sweeps) = (pin!(uploads), pin!(sweeps));
    // The sweepers never end.
    let Either::Left((sealed, _)) = select(uploads, sweeps).await;
    assert!(sealed > 0, "no upload was ever sealed");
}

/// A slow upload is not a silent one.
pub async fn the_lease_is_renewed_while_bytes_come_in(subject: &mut impl Subject) {
    let store = subject.store();
    let mut upload = Upload::begin(&store).await;
    let id = upload.id;
    for _ in 0..3 {
        let until = header(&store, id).await.unwrap().lease_until;
        subject.clock().set(UnixMillis(until.0 - 1));
        upload.pieces.send(Ok(bytes("more"))).await.unwrap();
        eventually(async || (header(&store, id).await?.lease_until > until).then_some(())).await;
    }
    assert!(!store.condemn_content(call(), id).await.unwrap());
    upload.end().await.unwrap();
    assert_eq!(read(&store, id, 0..100).await, Some(bytes("beginmoremoremore")));
}

/// It cannot become readable again.
pub async fn a_condemned_content_is_not_readable(subject: &mut impl Subject) {
    let store = subject.store();
    let id = put(&store, &sample(100)).await;
    for _ in 0..2 {
        assert!(store.condemn_content(call(), id).await.unwrap());
        assert_eq!(read(&store, id, 0..1).await, None);
        assert_eq!(header(&store, id).await.map(|header| header.state), Some(ContentState::Condemned));
    }
}

/// A sealed one stays. For a content that is gone, the answer is true.
pub async fn only_a_condemned_content_is_deleted(subject: &mut impl Subject) {
    let store = subject.store();
    let id = put(&store, &sample(100)).await;
    assert!(!store.delete_content(call(), id).await.unwrap());
    assert_eq!(read(&store, id, 0..100).await, Some(sample(100)));
    assert!(store.condemn_content(call(), id).await.unwrap());
    for _ in 0..2 {
        assert!(store.delete_content(call(), id).await.unwrap());
        assert_eq!(header(&store, id).await, None);
        assert_eq!(read(&store, id, 0..1).await, None);
    }
    assert!(store.condemn_content(call(), id).await.unwrap());
}

/// The sweep reports it, passes over it, and sweeps the contents behind it.
pub async fn a_header_that_cannot_be_read_keeps_no_other_content_from_being_swept(subject: &mut impl Subject) {
    let store = subject.store();
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(put(&store, &sample(100)).await);
    }
    let (damaged, condemned) = ids.split_at(4);
    for id in damaged {
        let partition = bytes(id.0);
        let all = Scan { from: Bytes::new(), to: None, direction: Direction::Forward, max_bytes: 1 << 20 };
        let rows = store.scan(call().strong(), Table::Contents, &partition, all).await.unwrap().rows;
        let header = rows.into_iter().find(|row| row.guard.is_some()).unwrap();
        let step = Step::CompareAndWrite {
            table: Table::Contents,
            partition,
            sort: header.sort,
            expect: Expect::Stamp(header.guard.unwrap().stamp),
            guard: guard(""),
            value: bytes("no header"),
        };
        store.applied(vec![step]).await;
    }
    for id in condemned {
        assert!(store.condemn_content(call(), *id).await.unwrap());
    }
    assert_eq!(store.sweep(call()).await.unwrap(), 4);
    for id in condemned {
        assert_eq!(header(&store, *id).await, None);
    }
    assert!(store.content_header(call(), damaged[0]).await.is_err());
}
