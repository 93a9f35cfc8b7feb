//! The store: opens the keyspace and passes calls to the modules that carry them out.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use store::{
    AtOnce, Call, Capabilities, Class, Clock, ContentHeader, ContentId, ContentStream, Deadline, FormatLevel, Health,
    Lane, Measure, Outcome, Row, Rows, Scan, Step, Store, StoreError, StoreResult, Table, WalkPage,
};
use tokio::time::timeout_at;

use crate::address::Address;
use crate::clocks::Clocks;
use crate::connect::{self, Connected};
use crate::engine::Engine;
use crate::home::KnownHome;
use crate::lag::Lag;
use crate::lease::Lease;
use crate::levels::InForce;
use crate::options::CassandraOptions;
use crate::requests::Requests;
use crate::routing::Routes;
use crate::row_sizes::RowSizes;
use crate::statements::Statements;
use crate::turns::Turns;
use crate::upkeep;
use crate::write_times::WriteTimes;

/// The time limit of a check of the store's health.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// The error of a call of a store that is closed.
pub(crate) fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

/// A session with a store, and the statements prepared in it. Clones share both.
#[derive(Clone)]
pub(crate) struct Prepared {
    connected: Connected,
    /// The level of the store at that time. A store reads it again with its lease.
    level: FormatLevel,
    statements: Arc<Statements>,
}

impl Prepared {
    /// Connects and prepares. The session ends with the runtime on which this is done.
    pub(crate) async fn begin(options: &CassandraOptions) -> StoreResult<Self> {
        let (connected, level) = connect::store(options).await?;
        let statements = Statements::prepare(&connected.session, options.address.keyspace()).await?;
        Ok(Self { connected, level, statements: Arc::new(statements) })
    }
}

/// The Cassandra engine over one keyspace. See the head of the crate.
pub struct CassandraStore {
    address: Address,
    /// `None` after it is closed.
    engine: RwLock<Option<Arc<Engine>>>,
}

impl CassandraStore {
    /// Opens the store that [`CassandraStore::initialise`] made. `clock` decides expiries and
    /// leases, and gives write times.
    ///
    /// Errors: [`StoreError::Unavailable`] if no node answers (or none accepts the password);
    /// [`StoreError::Unreadable`] if there is no such store; [`StoreError::Format`] if it has
    /// another format; [`StoreError::Invalid`] if data center, levels or certificates do not match
    /// the cluster, or if this machine's clock differs too much from those of most nodes.
    pub fn open(options: CassandraOptions, clock: Arc<dyn Clock>) -> BoxFuture<'static, StoreResult<Arc<Self>>> {
        async move {
            let prepared = Prepared::begin(&options).await?;
            Self::over(prepared, options, clock).await
        }
        .boxed()
    }

    /// Opens the store over a session and statements of its keyspace, which other stores may use
    /// too. Everything else is its own.
    pub(crate) async fn over(
        prepared: Prepared,
        options: CassandraOptions,
        clock: Arc<dyn Clock>,
    ) -> StoreResult<Arc<Self>> {
        let Prepared { connected, level, statements } = prepared;
        let address = options.address.clone();
        let clocks = Clocks::compare(&connected, &options, clock.as_ref()).await?;
        let (copies, others) = connected.check_levels(&address, &options.levels)?;
        let home = match copies.others > 0 {
            true => Some(connected.home(address.keyspace()).await?),
            false => None,
        };
        home.iter().try_for_each(|home| home.check_serial(options.levels.serial))?;
        let home = KnownHome::new(options.levels.serial, connected.datacenter.clone(), home);
        let routes = Routes::new(&connected.datacenter, options.speculative_after);
        let lag = Lag::new(connected.datacenter, others);
        let engine = Engine {
            requests: Requests::new(connected.session, routes, options.requests_max),
            statements,
            levels: InForce { levels: options.levels, copies },
            home,
            write_times: WriteTimes::new(clock.clone()),
            clock_times: WriteTimes::new(clock.clone()),
            row_sizes: RowSizes::default(),
            turns: Turns::new(),
            lag,
            clocks,
            content_lease: options.content_lease,
            swept_until: Mutex::new(None),
            level: Mutex::new(level),
            lease: Lease::new(options.newest_level),
            address: address.clone(),
            clock,
        };
        engine.renew_lease().await?;
        let engine = Arc::new(engine);
        upkeep::begin(&engine);
        Ok(Arc::new(Self { address, engine: RwLock::new(Some(engine)) }))
    }

    /// The engine, whose lease holds. Reads of rows check that once more at their end, because the
    /// process may have been suspended meanwhile.
    async fn engine(&self, deadline: Deadline) -> StoreResult<Arc<Engine>> {
        let engine = self.open_engine()?;
        engine.hold_lease(deadline).await?;
        Ok(engine)
    }

    fn open_engine(&self) -> StoreResult<Arc<Engine>> {
        self.engine.read().clone().ok_or_else(closed)
    }
}

#[async_trait]
impl Store for CassandraStore {
    async fn get(&self, call: Call, table: Table, partition: &Bytes, sort: &Bytes) -> StoreResult<Option<Row>> {
        let engine = self.engine(call.deadline).await?;
        let found = engine.get(call, table, partition, sort).await?;
        engine.hold_lease(call.deadline).await?;
        Ok(found)
    }

    async fn get_many(&self, call: Call, table: Table, keys: Vec<(Bytes, Bytes)>) -> StoreResult<Vec<Option<Row>>> {
        let engine = self.engine(call.deadline).await?;
        let found = engine.get_many(call, table, keys).await?;
        engine.hold_lease(call.deadline).await?;
        Ok(found)
    }

    async fn scan(&self, call: Call, table: Table, partition: &Bytes, scan: Scan) -> StoreResult<Rows> {
        let engine = self.engine(call.deadline).await?;
        let found = engine.scan(call, table, partition, scan).await?;
        engine.hold_lease(call.deadline).await?;
        Ok(found)
    }

    async fn scan_many(&self, call: Call, scans: Vec<(Table, Bytes, Scan)>) -> StoreResult<Vec<Rows>> {
        let engine = self.engine(call.deadline).await?;
        let found = engine.scan_many(call, scans).await?;
        engine.hold_lease(call.deadline).await?;
        Ok(found)
    }

    async fn run(&self, call: Call, steps: Vec<Step>) -> StoreResult<Outcome> {
        let engine = self.engine(call.deadline).await?;
        engine.run(call, steps).await
    }

    async fn walk(&self, call: Call, table: Table, from: Option<Bytes>, max: usize) -> StoreResult<WalkPage> {
        self.engine(call.deadline).await?.walk(call, table, from, max).await
    }

    async fn put_content_as(&self, call: Call, id: ContentId, owner: Bytes, content: ContentStream) -> StoreResult<()> {
        let engine = self.engine(call.deadline).await?;
        let given = engine.levels.durability(Class::Content).min(engine.levels.committed_durability());
        call.wanted_of(Table::Contents).require(given)?;
        engine.upload(call, id, owner, content).await
    }

    async fn content_header(&self, call: Call, id: ContentId) -> StoreResult<Option<ContentHeader>> {
        let header = self.engine(call.deadline).await?.header(call.of(Class::Description), id).await?;
        Ok(header.map(|(_, header)| header))
    }

    async fn read_content(&self, call: Call, id: ContentId, range: Range<u64>) -> StoreResult<Option<ContentStream>> {
        self.engine(call.deadline).await?.download(call, id, range).await
    }

    async fn condemn_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.engine(call.deadline).await?.condemn(call.deadline, id).await
    }

    async fn delete_content(&self, call: Call, id: ContentId) -> StoreResult<bool> {
        self.engine(call.deadline).await?.delete(call.deadline, id).await
    }

    async fn sweep(&self, call: Call) -> StoreResult<u64> {
        self.engine(call.deadline).await?.sweep(call).await
    }

    fn check_home(&self) -> StoreResult<()> {
        self.open_engine()?.may_switch()
    }

    fn clock_correction_ms(&self) -> i64 {
        self.open_engine().map_or(0, |engine| engine.clocks.correction_ms())
    }

    fn level(&self) -> FormatLevel {
        self.open_engine().map_or(FormatLevel::FIRST, |engine| engine.level())
    }

    async fn health(&self) -> Health {
        let asked = async {
            // Any row will do: the question is whether enough replicas answer.
            let call = Call::new(Class::Description, Deadline::within(HEALTH_TIMEOUT));
            let engine = self.engine(call.deadline).await?;
            engine.get(call, Table::Tokens, b"health", &Bytes::new()).await?;
            if engine.requests.is_full() {
                // Reads succeed, but nothing is served without its audit. The lease is written by
                // and by in any case: if that succeeds now, there is room again.
                timeout_at(call.deadline.0, engine.renew_lease()).await.map_err(|_| StoreError::DeadlinePassed)??;
            }
            Ok::<_, StoreError>(())
        };
        // Load is no refusal: it passes, and all servers have it at once.
        let is_load = |error: &StoreError| matches!(error, StoreError::Overloaded(_) | StoreError::DeadlinePassed);
        let refusal =
            asked.await.err().filter(|error| !is_load(error)).map(|error| format!("{}: {error}", self.address));
        // All lanes are on the same nodes.
        let mut refusing_writes: BTreeMap<Lane, String> =
            refusal.iter().flat_map(|why| Lane::ALL.map(|lane| (lane, why.clone()))).collect();
        let engine = self.open_engine();
        if let Some(why) = engine.as_ref().ok().and_then(|engine| engine.clocks.refusal()) {
            // Reads go on, and so does what they write.
            for lane in [Lane::Text, Lane::Records] {
                refusing_writes.entry(lane).or_insert_with(|| why.clone());
            }
        }
        let replication_lag = engine.map(|engine| engine.lag.by_datacenter(engine.now())).unwrap_or_default();
        Health { refusing_writes, replication_lag, ..Health::default() }
    }

    fn measures(&self) -> Vec<Measure> {
        let Ok(engine) = self.open_engine() else { return Vec::new() };
        let mut measures = engine.requests.measures();
        measures.extend(engine.clocks.measure());
        measures
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { is_shared: true, has_atomic_lists: false, delays_syncs: false, folder: None }
    }

    /// Each imported volume waits for a dozen round trips to a node, and a node has several cores.
    /// With four batches at the same time instead of eight, a ZIP takes 4 % longer (measured on two
    /// cores).
    fn at_once(&self) -> AtOnce {
        AtOnce { reads: 8, writers_per_processor: 8 }
    }

    async fn close(&self) -> StoreResult<()> {
        // Everything acknowledged is durable already. The connections end with the last call that
        // uses them.
        let engine = self.engine.write().take();
        if let Some(engine) = engine {
            // Calls that are under way have the engine, and may renew its lease.
            engine.lease.end();
            engine.leave().await;
        }
        Ok(())
    }
}
