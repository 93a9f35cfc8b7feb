//! What stands in for the Cassandra engine in a program that is built without it: addresses are known
//! as such, and every use of one is refused.

// What is never made has the shape of what the engine makes.
#![allow(dead_code)]

use std::convert::Infallible;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use store::{FormatLevel, Store, StoreError, StoreResult, SystemClock};
use thiserror::Error;

const ABSENT: &str = "this program is built without Cassandra (the feature `cassandra`): it has stores in folders only";

/// The address of a store in a cluster.
pub enum Address {}

impl Address {
    /// Whether a text is meant to be one.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("cassandra://")
    }
}

/// There are no settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CassandraSettings {}

impl CassandraSettings {
    /// There is nothing to refuse.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        Ok(())
    }

    /// There are none: [`StoreError::Invalid`] says why.
    pub fn options(&self, address: &str, _clock_skew_max: Duration) -> StoreResult<CassandraOptions> {
        Err(StoreError::Invalid(format!("{address}: {ABSENT}")))
    }
}

/// Never made.
#[derive(Debug, Error)]
pub enum InvalidSettings {}

/// Never made.
pub enum CassandraOptions {}

/// Never made.
pub enum CassandraStore {}

impl CassandraStore {
    /// Never called.
    pub async fn open(options: CassandraOptions, _clock: Arc<SystemClock>) -> StoreResult<Arc<dyn Store>> {
        match options {}
    }

    /// Never called.
    pub async fn initialise(
        options: &CassandraOptions,
        _replication: Option<&Replication>,
        _dry_run: bool,
    ) -> Result<Initialised, InitError> {
        match *options {}
    }

    /// Never called.
    pub async fn upgrading(options: &CassandraOptions, _clock: &SystemClock) -> StoreResult<Upgrading> {
        match *options {}
    }

    /// Never called.
    pub async fn raise_level(
        options: &CassandraOptions,
        _clock: &SystemClock,
    ) -> StoreResult<(FormatLevel, Upgrading)> {
        match *options {}
    }
}

/// The copies in each data center.
#[derive(Clone, Debug)]
pub enum Replication {}

impl FromStr for Replication {
    type Err = &'static str;

    fn from_str(_: &str) -> Result<Self, Self::Err> {
        Err(ABSENT)
    }
}

/// Never made.
pub enum Initialised {
    /// A keyspace.
    Made,
    /// A keyspace.
    WasThere,
    /// The statements.
    Planned(Infallible),
}

/// Never made.
#[derive(Debug, Error)]
#[error("{ABSENT}")]
pub enum InitError {
    /// Of the store.
    Store(StoreError),
    /// Of the cluster.
    ReplicationNeeded {},
    /// Of the cluster.
    TooFewNodes {},
    /// Of the cluster.
    Statement {},
}

/// The level of a store in a folder.
pub struct Upgrading {
    /// The level.
    pub level: FormatLevel,
    /// The servers that have it open, which nobody lists in a folder.
    pub servers: Vec<String>,
}

impl Upgrading {
    /// The servers that hinder an upgrade.
    pub fn hindering(&self, _next: FormatLevel) -> Vec<&String> {
        Vec::new()
    }
}
