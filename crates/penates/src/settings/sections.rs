//! All settings: of the server, of the place of its store, and of the engines. An engine that joins
//! adds its settings here, and is opened in `local.rs`.

use std::path::{Path, PathBuf};

use documented::DocumentedFields;
use figment::Figment;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use server::Finding;
use server::config::{Config, Described, described};
use store_embedded::EmbeddedSettings;

use super::load::{SettingsError, origin_in};
use crate::cassandra::{Address, CassandraSettings};

/// An address for checking the settings of the engine while the store is in a folder.
const SOME_CLUSTER: &str = "cassandra://localhost/penates";

/// All settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Of the server and its doors.
    pub server: Config,
    /// Where the store is: a data folder, or `cassandra://HOST[:PORT][,HOST…]/KEYSPACE`.
    pub path: PathBuf,
    /// Of a store in a folder.
    pub embedded: EmbeddedSettings,
    /// Of a store in a Cassandra cluster.
    pub cassandra: CassandraSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            server: Config::default(),
            path: PathBuf::from("data"),
            embedded: EmbeddedSettings::default(),
            cassandra: CassandraSettings::default(),
        }
    }
}

/// Where a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreLocation<'a> {
    /// In a folder.
    Folder(&'a Path),
    /// In a Cassandra cluster, at this address.
    Cluster(&'a str),
}

impl Settings {
    /// Where the store is.
    pub fn place(&self) -> StoreLocation<'_> {
        match self.path.to_str() {
            Some(address) if Address::is_meant(address) => StoreLocation::Cluster(address),
            _ => StoreLocation::Folder(&self.path),
        }
    }

    /// All values, by section and name. Secrets are hidden.
    pub fn values(&self) -> Map<String, Value> {
        let mut sections = Map::new();
        let server = serde_json::to_value(&self.server).unwrap_or_default();
        for (section, values) in server.as_object().into_iter().flatten() {
            add(&mut sections, section, values.clone());
        }
        add(&mut sections, "store", serde_json::json!({ "path": self.path }));
        add(&mut sections, "store", serde_json::to_value(self.embedded).unwrap_or_default());
        add(&mut sections, "cassandra", serde_json::to_value(&self.cassandra).unwrap_or_default());
        sections
    }

    /// What all sections and their settings mean.
    pub fn described() -> Vec<Described> {
        let mut sections = Config::described();
        if let Some(store) = sections.iter_mut().find(|section| section.name == "store") {
            store.settings.splice(..0, described::<Location>());
            store.settings.extend(described::<EmbeddedSettings>());
        }
        #[cfg(feature = "cassandra")]
        {
            let about = "How to reach a store in a Cassandra cluster.";
            let cassandra = Described { name: "cassandra", about, settings: described::<CassandraSettings>() };
            sections.insert(1, cassandra);
        }
        sections
    }

    /// Opens the files that the settings name. Returns what is wrong with them.
    pub fn check_files(&self) -> Vec<Finding> {
        let mut findings = server::check_files(&self.server);
        let address = match self.place() {
            StoreLocation::Cluster(address) => address,
            StoreLocation::Folder(_) if cfg!(not(feature = "cassandra")) => return findings,
            StoreLocation::Folder(_) => SOME_CLUSTER,
        };
        let refused = self.cassandra.options(address, self.server.store.clock_skew_max).err();
        findings.extend(refused.map(|error| Finding::fault(error.to_string())));
        findings
    }

    /// Takes each part from the merged layers.
    pub(super) fn extract(layers: &Figment) -> Result<Self, SettingsError> {
        let values: Value = layers.extract()?;
        // From the root each time, so that an error names the whole key.
        Ok(Self {
            server: part(layers, &values)?,
            path: part::<InStore<Location>>(layers, &values)?.store.path,
            embedded: part::<InStore<EmbeddedSettings>>(layers, &values)?.store,
            cassandra: part::<InCassandra>(layers, &values)?.cassandra,
        })
    }

    /// Refuses what is not allowed together.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        self.server.check()?;
        Ok(self.cassandra.check()?)
    }
}

/// One part of the merged values. It is read from JSON, because reading it from the layers themselves
/// compiles to five times as much.
fn part<T: DeserializeOwned>(layers: &Figment, values: &Value) -> Result<T, SettingsError> {
    serde_path_to_error::deserialize(values).map_err(|error| {
        let key = error.path().to_string();
        SettingsError::Value { origin: origin_in(layers, &key), key, reason: error.into_inner().to_string() }
    })
}

/// A part of the section `[store]`, which has parts of the server and of the embedded engine too.
#[derive(Deserialize)]
struct InStore<T> {
    store: T,
}

#[derive(Deserialize, DocumentedFields)]
struct Location {
    /// Data folder, or `cassandra://HOST[:PORT][,HOST…]/KEYSPACE`.
    path: PathBuf,
}

#[derive(Deserialize)]
struct InCassandra {
    cassandra: CassandraSettings,
}

/// Adds values to a section, which may have some already.
fn add(sections: &mut Map<String, Value>, section: &str, values: Value) {
    let Value::Object(values) = values else { return };
    let known = sections.entry(section).or_insert_with(|| Value::Object(Map::new()));
    if let Some(known) = known.as_object_mut() {
        known.extend(values);
    }
}
