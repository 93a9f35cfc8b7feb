//! The auditor leaves engines' caches to users.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use store::{
    Call, ContentHeader, ContentId, ContentStream, Lane, Row, Rows, Scan, Store, StoreResult, Table, WalkPage, Wrapper,
};

use crate::support::{Fixture, all_steps, fixture, quick};

/// A store that notes reads by callers that do not say that they read everything once.
struct Noting {
    inner: Arc<dyn Store>,
    others: Mutex<Vec<String>>,
}

impl Noting {
    fn note(&self, call: Call, table: Table, what: &str) {
        // Other lanes have other caches, and not only the auditor reads them.
        if !call.is_once && table.lane() == Lane::Text {
            self.others.lock().push(format!("{what} of {table}"));
        }
    }
}

impl Wrapper for Noting {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        self.note(call, table, "get");
        self.inner.get(call, table, partition, sort).await
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        self.note(call, table, "get_many");
        self.inner.get_many(call, table, keys).await
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        self.note(call, table, "scan");
        self.inner.scan(call, table, partition, scan).await
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        scans.iter().for_each(|(table, ..)| self.note(call, *table, "scan_many"));
        self.inner.scan_many(call, scans).await
    }

    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        self.note(call, table, "walk");
        self.inner.walk(call, table, from, max).await
    }

    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>> {
        self.note(call, Table::Contents, "content_header");
        self.inner.content_header(call, id).await
    }

    async fn read_content(&self, call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        self.note(call, Table::Contents, "read_content");
        self.inner.read_content(call, id, range).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_the_auditor_reads_it_reads_as_one_that_reads_everything_once() {
    let fixture = fixture().await;
    fixture.make(3).await;
    fixture.import("t.a", "one page", "").await;
    fixture.put_bytes("large", 300_000).await;
    let store = Arc::new(Noting { inner: fixture.store.clone(), others: Mutex::default() });
    let fixture = Fixture { store: store.clone(), ..fixture };
    let server = fixture.server(quick()).await;
    store.others.lock().clear();
    all_steps(&server).await;
    assert!(server.read_here().volumes > 0 && server.read_here().bytes > 300_000);
    assert_eq!(*store.others.lock(), Vec::<String>::new());
}
