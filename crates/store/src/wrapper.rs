//! Wrappers: stores that change some methods of an inner store and pass the others on.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    AtOnce, Call, Capabilities, ContentHeader, ContentId, ContentStream, Cut, FormatLevel, Health, Limits, Measure,
    Outcome, Row, RowPage, Rows, Scan, Step, Store, StoreResult, Table, WalkPage,
};

/// Defines [`Wrapper`] and its implementation of [`Store`] from one list of methods.
macro_rules! wrapper {
    (
        async { $(fn $method:ident($($argument:ident: $type:ty),*) -> $answer:ty;)* }
        sync { $(fn $fact:ident() -> $value:ty;)* }
    ) => {
        /// A store over an inner one. An implementation states only the methods that it changes;
        /// every other one is passed on to the inner store.
        ///
        /// A wrapper implements this trait instead of [`Store`]. The methods of `Store` that have
        /// a default are passed on too: a wrapper that implements `Store` itself could forget one,
        /// and would then bypass the inner store's own.
        pub trait Wrapper: Send + Sync + 'static {
            /// The inner store.
            fn inner(&self) -> &dyn Store;

            $(
                #[doc = concat!("See [`Store::", stringify!($method), "`].")]
                fn $method(
                    &self,
                    $($argument: $type),*
                ) -> impl Future<Output = $answer> + Send {
                    async move { self.inner().$method($($argument),*).await }
                }
            )*

            $(
                #[doc = concat!("See [`Store::", stringify!($fact), "`].")]
                fn $fact(&self) -> $value {
                    self.inner().$fact()
                }
            )*
        }

        // Without the lint, a default method that is added to `Store` and not to the list below
        // would bypass every inner store.
        #[deny(clippy::missing_trait_methods)]
        #[async_trait]
        impl<W: Wrapper> Store for W {
            $(
                async fn $method(&self, $($argument: $type),*) -> $answer {
                    Wrapper::$method(self, $($argument),*).await
                }
            )*

            /// Not passed on: the upload has to go through the wrapper's `put_content_as`.
            async fn put_content(
                &self,
                call: Call,
                owner: Bytes,
                content: ContentStream,
            ) -> StoreResult<ContentId> {
                let id = Wrapper::fresh_content_id(self);
                Wrapper::put_content_as(self, call, id, owner, content).await?;
                Ok(id)
            }

            $(
                fn $fact(&self) -> $value {
                    Wrapper::$fact(self)
                }
            )*
        }
    };
}

wrapper! {
    async {
        fn get(call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>>;
        fn get_many(call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>>;
        fn scan(call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows>;
        fn scan_many(call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>>;
        fn run(call: Call, steps: Vec<Step>) -> StoreResult<Outcome>;
        fn walk(call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage>;
        fn walk_rows(
            call: Call,
            table: Table,
            from: Option<Bytes>,
            max: usize,
            max_bytes: usize
        ) -> StoreResult<RowPage>;
        fn put_content_as(call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()>;
        fn content_header(call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>>;
        fn read_content(call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>>;
        fn condemn_content(call: Call, id: ContentId) -> StoreResult<bool>;
        fn delete_content(call: Call, id: ContentId) -> StoreResult<bool>;
        fn sweep(call: Call) -> StoreResult<u64>;
        fn cut(call: Call) -> StoreResult<Cut>;
        fn health() -> Health;
        fn close() -> StoreResult<()>;
    }
    sync {
        fn fresh_content_id() -> ContentId;
        fn check_home() -> StoreResult<()>;
        fn clock_correction_ms() -> i64;
        fn level() -> FormatLevel;
        fn measures() -> Vec<Measure>;
        fn limits() -> Limits;
        fn at_once() -> AtOnce;
        fn capabilities() -> Capabilities;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::faults::{Damage, Fault, Faults, Harm, Kind};
    use crate::limited::Limited;
    use crate::null::NullStore;
    use crate::read_only::ReadOnlyGate;
    use crate::{Class, Deadline, Measured, StoreError};

    /// A store that overrides each default method of [`Store`], so that an answer shows whether
    /// it is the store's own.
    #[derive(Default)]
    struct Distinct(NullStore);

    const ID: ContentId = ContentId([7; 16]);
    const AT_ONCE: AtOnce = AtOnce { reads: 5, writers_per_processor: 9 };

    fn failed(what: &str) -> StoreError {
        StoreError::Unavailable(what.to_owned())
    }

    impl Wrapper for Distinct {
        fn inner(&self) -> &dyn Store {
            &self.0
        }

        async fn scan_many(&self, _: Call, _: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
            Err(failed("scan_many"))
        }

        async fn walk_rows(&self, _: Call, _: Table, _: Option<Bytes>, _: usize, _: usize) -> StoreResult<RowPage> {
            Err(failed("walk_rows"))
        }

        async fn sweep(&self, _: Call) -> StoreResult<u64> {
            Ok(11)
        }

        async fn cut(&self, _: Call) -> StoreResult<Cut> {
            Err(failed("cut"))
        }

        async fn close(&self) -> StoreResult<()> {
            Err(failed("close"))
        }

        fn fresh_content_id(&self) -> ContentId {
            ID
        }

        fn check_home(&self) -> StoreResult<()> {
            Err(failed("check_home"))
        }

        fn clock_correction_ms(&self) -> i64 {
            -13
        }

        fn level(&self) -> FormatLevel {
            FormatLevel::NEWEST.next()
        }

        fn measures(&self) -> Vec<Measure> {
            vec![Measure::new("a", "b", Measured::Gauge(1.0))]
        }

        fn limits(&self) -> Limits {
            Limits { steps: 3, ..Limits::default() }
        }

        fn at_once(&self) -> AtOnce {
            AT_ONCE
        }

        fn capabilities(&self) -> Capabilities {
            Capabilities { folder: Some("folder".into()), ..self.0.capabilities() }
        }
    }

    struct Unchanged(Arc<dyn Store>);

    impl Wrapper for Unchanged {
        fn inner(&self) -> &dyn Store {
            self.0.as_ref()
        }
    }

    fn call() -> Call {
        Call::new(Class::Description, Deadline::within(Duration::from_secs(30)))
    }

    fn says<T>(answer: StoreResult<T>, what: &str) -> bool {
        matches!(answer, Err(StoreError::Unavailable(said)) if said == what)
    }

    #[tokio::test]
    async fn every_wrapper_passes_on_what_it_does_not_change() {
        let distinct: Arc<dyn Store> = Arc::new(Distinct::default());
        let limits = distinct.limits();
        let wrappers: [Arc<dyn Store>; 5] = [
            distinct.clone(),
            Arc::new(Unchanged(distinct.clone())),
            Arc::new(Limited::new(distinct.clone(), limits)),
            Arc::new(ReadOnlyGate::new(distinct.clone()).await.unwrap()),
            Arc::new(Faults::new(distinct)),
        ];
        for store in wrappers {
            assert!(says(store.scan_many(call(), Vec::new()).await, "scan_many"));
            assert!(says(store.walk_rows(call(), Table::Objects, None, 1, 1).await, "walk_rows"));
            assert_eq!(store.sweep(call()).await.unwrap(), 11);
            assert!(says(store.cut(call()).await, "cut"));
            assert_eq!(store.fresh_content_id(), ID);
            let empty = Box::pin(futures::stream::empty());
            assert_eq!(store.put_content(call(), Bytes::new(), empty).await.unwrap(), ID);
            assert!(says(store.check_home(), "check_home"));
            assert_eq!(store.clock_correction_ms(), -13);
            assert_eq!(store.level(), FormatLevel::NEWEST.next());
            assert_eq!(store.measures().len(), 1);
            assert_eq!(store.limits(), limits);
            assert_eq!(store.at_once(), AT_ONCE);
            assert_eq!(store.capabilities().folder, Some("folder".into()));
            assert!(says(store.close().await, "close"));
        }
    }

    #[tokio::test]
    async fn an_injected_fault_meets_every_kind_of_read() {
        let faults = Arc::new(Faults::new(Arc::new(NullStore::new())));
        let store: Arc<dyn Store> = faults.clone();
        let (partition, sort) = (Bytes::new(), Bytes::new());
        let whole = || Scan::prefix("", 1000);
        let fail_next = || faults.next(Kind::Read, Fault::Unavailable);
        fail_next();
        assert!(store.get(call(), Table::Objects, &partition, &sort).await.is_err());
        fail_next();
        assert!(store.get_many(call(), Table::Objects, Vec::new()).await.is_err());
        fail_next();
        assert!(store.scan(call(), Table::Objects, &partition, whole()).await.is_err());
        fail_next();
        assert!(store.scan_many(call(), Vec::new()).await.is_err());
        fail_next();
        assert!(store.walk(call(), Table::Objects, None, 1).await.is_err());
        fail_next();
        assert!(store.walk_rows(call(), Table::Objects, None, 1, 1).await.is_err());
        fail_next();
        assert!(store.content_header(call(), ID).await.is_err());
        fail_next();
        assert!(store.read_content(call(), ID, 0..1).await.is_err());
        assert!(!faults.is_scripted());
    }

    #[tokio::test]
    async fn a_damaged_row_is_damaged_in_every_kind_of_read() {
        let row = Row { sort: "a".into(), value: "v".into(), guard: None, expires_at: None };
        let faults = Arc::new(Faults::new(Arc::new(NullStore::new().with_rows(Table::Objects, vec![row]))));
        let (table, partition, sort) = (Table::Objects, Bytes::from("p"), Bytes::from("a"));
        let strong_reads_are_whole = false;
        let harm = Harm::Lost;
        faults.damage(Damage { table, partition: partition.clone(), sort: None, harm, strong_reads_are_whole });
        let store: Arc<dyn Store> = faults;
        let whole = || Scan::prefix("", 1000);
        assert_eq!(store.get(call(), table, &partition, &sort).await.unwrap(), None);
        assert_eq!(store.get_many(call(), table, vec![(partition.clone(), sort)]).await.unwrap(), [None]);
        assert!(store.scan(call(), table, &partition, whole()).await.unwrap().rows.is_empty());
        let pages = store.scan_many(call(), vec![(table, partition, whole())]).await.unwrap();
        assert!(pages[0].rows.is_empty());
    }
}
