//! Connects to the cluster: nodes, data center, TLS, and the check of the stored format.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use scylla::client::execution_profile::ExecutionProfileHandle;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::ClusterState;
use scylla::cluster::metadata::Strategy;
use scylla::errors::ExecutionError;
use scylla::serialize::row::SerializeRow;
use scylla::statement::unprepared::Statement;
use scylla::statement::{Consistency, SerialConsistency};
use store::{FormatLevel, StoreError, StoreResult};

use crate::address::Address;
use crate::credentials::Login;
use crate::failure::{Failure, readable};
use crate::levels::{Copies, Levels};
use crate::options::CassandraOptions;
use crate::requests::applied;
use crate::routing;
use crate::schema;

/// Creating a table takes a busy node seconds, and all nodes have to agree.
const SCHEMA_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause between two questions whether all nodes have a change of the schema. A store has a
/// dozen tables, each of which is one.
const SCHEMA_PAUSE: Duration = Duration::from_millis(50);

/// A connection that is silent for this time is probed, and closed after the same time again.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// A session, and the data center in which it stays. Clones share the session.
#[derive(Clone)]
pub(crate) struct Connected {
    pub(crate) session: Arc<Session>,
    pub(crate) datacenter: String,
    /// Leads requests to nodes of that data center.
    nearby: ExecutionProfileHandle,
    timeout: Duration,
}

/// Begins a session. It is not tied to the keyspace, which may not exist yet.
pub(crate) async fn session(options: &CassandraOptions) -> StoreResult<Connected> {
    let address = &options.address;
    let mut builder = SessionBuilder::new()
        .known_nodes(address.hosts())
        .connection_timeout(options.connect_timeout)
        .keepalive_interval(KEEPALIVE)
        .keepalive_timeout(KEEPALIVE)
        .schema_agreement_timeout(SCHEMA_TIMEOUT)
        .schema_agreement_interval(SCHEMA_PAUSE)
        // No session here needs new metadata after it changed the schema, and reading them takes a
        // dozen queries.
        .refresh_metadata_on_auto_schema_agreement(false)
        .keyspaces_to_fetch([address.keyspace()]);
    if let Some(credentials) = &options.credentials {
        builder = builder.authenticator_provider(Arc::new(Login(credentials.clone())));
    }
    if let Some(pem) = &options.tls_ca_pem {
        builder = builder.tls_context(Some(tls(pem)?));
    }
    let building = tokio::time::timeout(options.connect_timeout, builder.build()).await;
    let unreachable = |why: String| StoreError::Unavailable(format!("cannot connect to {address}: {why}"));
    let session = building
        .map_err(|_| unreachable(format!("no answer within {:?}", options.connect_timeout)))?
        .map_err(|error| unreachable(error.to_string()))?;
    let datacenter = local_datacenter(&session, options)?;
    let (session, nearby) = (Arc::new(session), routing::nearby(&datacenter));
    Ok(Connected { session, datacenter, nearby, timeout: options.connect_timeout })
}

/// Begins a session with a store that is there, at a level that this program knows. Returns the
/// level too.
pub(crate) async fn store(options: &CassandraOptions) -> StoreResult<(Connected, FormatLevel)> {
    let connected = session(options).await?;
    match connected.recorded_level(options).await? {
        Some(level) => Ok((connected, level)),
        None => Err(StoreError::Unreadable {
            location: options.address.to_string(),
            detail: "there is no store: create it with `penates init`".to_owned(),
        }),
    }
}

fn tls(ca_pem: &[u8]) -> StoreResult<Arc<rustls::ClientConfig>> {
    let invalid = |what: String| StoreError::Invalid(format!("the certificates for the cluster's TLS: {what}"));
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem) {
        let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
        roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(invalid("the file contains none".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(error.to_string()))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn nodes_by_datacenter(session: &Session) -> BTreeMap<String, usize> {
    let mut nodes = BTreeMap::new();
    for node in session.get_cluster_state().get_nodes_info() {
        *nodes.entry(node.datacenter.clone().unwrap_or_default()).or_default() += 1;
    }
    nodes
}

/// The configured data center, or the only one.
fn local_datacenter(session: &Session, options: &CassandraOptions) -> StoreResult<String> {
    let nodes = nodes_by_datacenter(session);
    let names = nodes.keys().cloned().collect::<Vec<_>>().join(", ");
    match &options.local_datacenter {
        Some(name) if nodes.contains_key(name) => Ok(name.clone()),
        Some(name) => Err(StoreError::Invalid(format!(
            "the cluster has no data center `{name}` (cassandra.datacenter); it has: {names}"
        ))),
        None if nodes.len() == 1 => Ok(names),
        None => Err(StoreError::Invalid(format!(
            "the cluster has several data centers ({names}): name the one nearby as cassandra.datacenter"
        ))),
    }
}

/// The data centers other than `local` in which a strategy keeps copies, in order.
fn others(strategy: &Strategy, local: &str) -> Vec<String> {
    let Strategy::NetworkTopologyStrategy { datacenter_repfactors } = strategy else { return Vec::new() };
    let others = datacenter_repfactors.iter().filter(|(name, copies)| **copies > 0 && *name != local);
    let mut others: Vec<String> = others.map(|(name, _)| name.clone()).collect();
    others.sort();
    others
}

/// The data centers other than `local` in which a keyspace keeps copies, in order, as the driver
/// knows them now; `None`: it does not know the keyspace. Nodes tell it of changes.
pub(crate) fn others_now(state: &ClusterState, keyspace: &str, local: &str) -> Option<Vec<String>> {
    state.get_keyspace(keyspace).map(|keyspace| others(&keyspace.strategy, local))
}

impl Connected {
    /// The number of nodes of each data center.
    pub(crate) fn nodes_by_datacenter(&self) -> BTreeMap<String, usize> {
        nodes_by_datacenter(&self.session)
    }

    /// The level of the store in the keyspace; `None` if it holds none. Fails if this program does
    /// not know the level.
    pub(crate) async fn recorded_level(&self, options: &CassandraOptions) -> StoreResult<Option<FormatLevel>> {
        let (address, level) = (&options.address, options.levels.description.read);
        let keyspace = address.keyspace();
        let tables = format!(
            "SELECT table_name FROM system_schema.tables WHERE keyspace_name = '{keyspace}' AND table_name = '{}'",
            schema::META
        );
        if self.first_text(&tables, Consistency::One).await?.is_none() {
            return Ok(None);
        }
        let format = format!("SELECT value FROM {keyspace}.{} WHERE key = '{}'", schema::META, schema::FORMAT_KEY);
        let Some(found) = self.first_text(&format, level.consistency()).await? else { return Ok(None) };
        let newest = options.newest_level;
        match schema::level_of(&found).filter(|level| *level <= newest) {
            Some(level) => Ok(Some(level)),
            None if schema::is_unreleased(&found) => Err(StoreError::Unreleased { location: address.to_string() }),
            None => {
                let expected = schema::formats(newest);
                Err(StoreError::Format { location: address.to_string(), found, expected })
            }
        }
    }

    /// The copies that the keyspace keeps, and the other data centers that have some. Refuses
    /// levels that they can never meet.
    pub(crate) fn check_levels(&self, address: &Address, levels: &Levels) -> StoreResult<(Copies, Vec<String>)> {
        let state = self.session.get_cluster_state();
        let Some(keyspace) = state.get_keyspace(address.keyspace()) else {
            return Ok((Copies { local: 1, all: 1, others: 0 }, Vec::new()));
        };
        let (local, replicas): (usize, usize) = match &keyspace.strategy {
            Strategy::NetworkTopologyStrategy { datacenter_repfactors } => {
                let local = datacenter_repfactors.get(&self.datacenter).copied().unwrap_or(0);
                if local == 0 {
                    return Err(StoreError::Invalid(format!(
                        "keyspace {} has no copy in the data center `{}`",
                        address.keyspace(),
                        self.datacenter
                    )));
                }
                (local, datacenter_repfactors.values().sum())
            }
            Strategy::SimpleStrategy { replication_factor } => (*replication_factor, *replication_factor),
            _ => (1, 1),
        };
        let others = others(&keyspace.strategy, &self.datacenter);
        for (class, levels) in levels.classes() {
            for (what, level) in [("reads", levels.read), ("writes", levels.write)] {
                if level.replicas_min() > replicas {
                    return Err(StoreError::Invalid(format!(
                        "level {level} for {what} of {class:?} needs {} replicas, keyspace {} has {replicas}",
                        level.replicas_min(),
                        address.keyspace()
                    )));
                }
            }
        }
        if replicas == 2 {
            tracing::warn!(
                "with two replicas a quorum is both of them: while a node is away, nothing is written at QUORUM"
            );
        }
        Ok((Copies { local, all: replicas, others: others.len() }, others))
    }

    /// The data centers where the keyspace has replicas. Fails if there is only one.
    pub(crate) fn several_datacenters(&self, options: &CassandraOptions) -> StoreResult<Vec<String>> {
        let (_, mut datacenters) = self.check_levels(&options.address, &options.levels)?;
        if datacenters.is_empty() {
            return Err(StoreError::Invalid(format!(
                "heads need no home where copies are in one data center only: keyspace {} keeps them in `{}`",
                options.address.keyspace(),
                self.datacenter
            )));
        }
        datacenters.push(self.datacenter.clone());
        Ok(datacenters)
    }

    /// Runs a lightweight transaction of all data centers, once. Returns whether it was applied.
    /// After an error it may have been.
    pub(crate) async fn decide(
        &self,
        change: &str,
        level: Consistency,
        parameters: impl SerializeRow,
    ) -> StoreResult<bool> {
        let mut change = self.statement(change, level);
        change.set_is_idempotent(false);
        change.set_retry_policy(Some(routing::sent_once()));
        change.set_serial_consistency(Some(SerialConsistency::Serial));
        let answer = self.session.query_unpaged(change, parameters).await;
        applied(answer.map_err(|error| Failure::from(error).of_read())?)
    }

    /// Runs a statement that changes the schema, and waits until all nodes have the change. The
    /// driver may repeat it: each of them does nothing if its work is done already.
    pub(crate) async fn run_schema(&self, statement: &str) -> Result<(), ExecutionError> {
        let mut statement = Statement::new(statement);
        statement.set_request_timeout(Some(SCHEMA_TIMEOUT));
        statement.set_consistency(Consistency::Quorum);
        statement.set_serial_consistency(Some(SerialConsistency::Serial));
        self.session.query_unpaged(statement, ()).await.map(drop)
    }

    /// Leads a request to nodes of the data center.
    pub(crate) fn nearby(&self) -> ExecutionProfileHandle {
        self.nearby.clone()
    }

    pub(crate) fn statement(&self, text: &str, level: Consistency) -> Statement {
        let mut statement = Statement::new(text);
        statement.set_request_timeout(Some(self.timeout));
        statement.set_is_idempotent(true);
        statement.set_consistency(level);
        // Local levels are meant of this data center.
        statement.set_execution_profile_handle(Some(self.nearby()));
        statement
    }

    pub(crate) async fn first_text(&self, text: &str, level: Consistency) -> StoreResult<Option<String>> {
        self.ask_text(text, level).await?.map_err(|error| Failure::from(error).of_read())
    }

    /// The same; the inner error is why there is no answer.
    pub(crate) async fn ask_text(
        &self,
        text: &str,
        level: Consistency,
    ) -> StoreResult<Result<Option<String>, ExecutionError>> {
        let answer = match self.session.query_unpaged(self.statement(text, level), ()).await {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        let rows = readable(answer.into_rows_result())?;
        Ok(Ok(readable(rows.maybe_first_row::<(String,)>())?.map(|(text,)| text)))
    }
}
