//! A store whose calls are spans of the request that makes them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use store::{
    Call, ContentHeader, ContentId, ContentStream, Outcome, Row, RowPage, Rows, Scan, Step, Store, StoreResult, Table,
    Wrapper,
};

/// A store over an inner one. Calls without a request, such as those of background passes, and those
/// of requests that are not sampled, leave no span.
pub(crate) struct Traced(pub(crate) Arc<dyn Store>);

impl Traced {
    /// Runs a call within a span.
    async fn spanned<T>(
        &self,
        name: &'static str,
        table: Option<Table>,
        call: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        let parent = Context::current();
        let Some(tracer) = super::tracer().filter(|_| parent.span().span_context().is_sampled()) else {
            return call.await;
        };
        let table = table.map(|table| KeyValue::new("db.collection.name", table.name()));
        let span = tracer.span_builder(name).with_kind(SpanKind::Client).with_attributes(table);
        let span = parent.with_span(tracer.build_with_context(span, &parent));
        let answer = call.await;
        if let Err(error) = &answer {
            span.span().set_status(Status::error(error.to_string()));
        }
        span.span().end();
        answer
    }
}

impl Wrapper for Traced {
    fn inner(&self) -> &dyn Store {
        self.0.as_ref()
    }

    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        self.spanned("store.get", Some(table), self.0.get(call, table, partition, sort)).await
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        self.spanned("store.get_many", Some(table), self.0.get_many(call, table, keys)).await
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        self.spanned("store.scan", Some(table), self.0.scan(call, table, partition, scan)).await
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        let table = scans.first().map(|(table, _, _)| *table);
        self.spanned("store.scan_many", table, self.0.scan_many(call, scans)).await
    }

    async fn walk_rows(
        &self,
        call: Call,
        table: Table,
        from: Option<Bytes>,
        max: usize,
        max_bytes: usize,
    ) -> StoreResult<RowPage> {
        self.spanned("store.walk_rows", Some(table), self.0.walk_rows(call, table, from, max, max_bytes)).await
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        let table = steps.first().map(Step::table);
        self.spanned("store.run", table, self.0.run(call, steps)).await
    }

    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        self.spanned("store.put_content", Some(Table::Contents), self.0.put_content_as(call, id, owner, content)).await
    }

    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>> {
        self.spanned("store.content_header", Some(Table::Contents), self.0.content_header(call, id)).await
    }

    async fn read_content(&self, call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        self.spanned("store.read_content", Some(Table::Contents), self.0.read_content(call, id, range)).await
    }
}
