//! The settings of the engine, as a program reads them from a configuration.

use std::path::{Path, PathBuf};
use std::time::Duration;

use documented::DocumentedFields;
use serde::{Deserialize, Serialize};
use store::{Hidden, StoreError, StoreResult};
use thiserror::Error;

use crate::address::AddressError;
use crate::credentials::{Credentials, Password};
use crate::levels::{ClassLevels, Level, Levels, Serial};
use crate::options::CassandraOptions;

/// Why settings are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct InvalidSettings(&'static str);

/// How to reach a store in a cluster: the section `[cassandra]`.
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct CassandraSettings {
    /// The user, if the cluster requires a password.
    pub user: Option<String>,
    /// The password of `cassandra.user`; never printed.
    pub password: Option<Hidden>,
    /// A file that holds the password instead. It is read for each new connection.
    pub password_file: Option<PathBuf>,
    /// CA certificates (PEM) that sign the nodes' certificates, which name the nodes' IP addresses.
    /// Not set: no TLS.
    pub tls_ca: Option<PathBuf>,
    /// The local data center; required if there are several.
    pub datacenter: Option<String>,
    /// Level of reads of descriptions: heads, directories, containment, selections, tokens.
    pub description_read: Level,
    /// Level of writes of these.
    pub description_write: Level,
    /// Level of reads of page text and large contents.
    pub content_read: Level,
    /// Level of writes of these.
    pub content_write: Level,
    /// Level of reads of records.
    pub record_read: Level,
    /// Level of writes of records.
    pub record_write: Level,
    /// Level of reads of the audit.
    pub audit_read: Level,
    /// Level of writes of the audit.
    pub audit_write: Level,
    /// Which replicas decide heads: `SERIAL` or `LOCAL_SERIAL`.
    pub serial: Serial,
    /// Time without an answer after which a read asks a second node; `0s`, or `3s` and more: never.
    #[serde(with = "humantime_serde")]
    pub speculative_after: Duration,
    /// Concurrent requests to the cluster.
    pub requests_max: usize,
    /// Deadline of connecting.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
}

impl Default for CassandraSettings {
    fn default() -> Self {
        let quorum = Level::LocalQuorum;
        Self {
            user: None,
            password: None,
            password_file: None,
            tls_ca: None,
            datacenter: None,
            description_read: quorum,
            description_write: quorum,
            content_read: quorum,
            content_write: quorum,
            record_read: quorum,
            record_write: quorum,
            audit_read: quorum,
            audit_write: quorum,
            serial: Serial::Serial,
            speculative_after: Duration::from_millis(200),
            requests_max: 1024,
            connect_timeout: Duration::from_secs(10),
        }
    }
}

impl CassandraSettings {
    /// Refuses settings that contradict one another. It reads no file.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        if self.password.is_some() && self.password_file.is_some() {
            return Err(InvalidSettings("cassandra.password and cassandra.password_file are alternatives: set one"));
        }
        if self.user.is_some() != (self.password.is_some() || self.password_file.is_some()) {
            return Err(InvalidSettings(
                "cassandra.user and cassandra.password (or password_file) belong together: set both or none",
            ));
        }
        if self.requests_max == 0 {
            return Err(InvalidSettings("cassandra.requests_max must be at least 1"));
        }
        Ok(())
    }

    /// The options of the store at `address`, with the password and the certificates that are in
    /// files. `clock_skew_max` is the greatest difference between the clocks of two servers.
    ///
    /// Returns [`StoreError::Invalid`] if the address is none, or a file cannot be read.
    pub fn options(&self, address: &str, clock_skew_max: Duration) -> StoreResult<CassandraOptions> {
        let address = address.parse().map_err(|error: AddressError| invalid(error))?;
        Ok(CassandraOptions {
            credentials: self.credentials()?,
            tls_ca_pem: self.tls_ca.as_deref().map(|path| read("cassandra.tls_ca", path)).transpose()?,
            local_datacenter: self.datacenter.clone(),
            levels: self.levels(),
            speculative_after: (!self.speculative_after.is_zero()).then_some(self.speculative_after),
            requests_max: self.requests_max,
            connect_timeout: self.connect_timeout,
            clock_skew_max: Some(clock_skew_max),
            ..CassandraOptions::new(address)
        })
    }

    fn credentials(&self) -> StoreResult<Option<Credentials>> {
        let Some(user) = self.user.clone() else { return Ok(None) };
        let password = match (&self.password, &self.password_file) {
            (Some(password), _) => Password::Text(password.reveal().to_owned()),
            (None, Some(path)) => {
                Password::of_file(read("cassandra.password_file", path)?)
                    .map_err(|error| invalid(error.utf8_error()))?;
                Password::File(path.clone())
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(Credentials { user, password }))
    }

    fn levels(&self) -> Levels {
        let class = |read, write| ClassLevels { read, write };
        Levels {
            description: class(self.description_read, self.description_write),
            content: class(self.content_read, self.content_write),
            record: class(self.record_read, self.record_write),
            audit: class(self.audit_read, self.audit_write),
            serial: self.serial,
        }
    }
}

fn read(key: &str, path: &Path) -> StoreResult<Vec<u8>> {
    std::fs::read(path).map_err(|error| invalid(format!("{key}: cannot read {}: {error}", path.display())))
}

fn invalid(what: impl ToString) -> StoreError {
    StoreError::Invalid(what.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn with_password() -> CassandraSettings {
        CassandraSettings {
            user: Some("penates".to_owned()),
            password: Some(Hidden::new("a-secret")),
            ..CassandraSettings::default()
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let config = with_password();
        config.check().unwrap();
        let shown = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
        assert!(shown.contains("(hidden)") && !shown.contains("a-secret"), "{shown}");
    }

    #[test]
    fn user_and_password_belong_together_and_only_one_password_is_allowed() {
        assert!(CassandraSettings { password: None, ..with_password() }.check().is_err());
        assert!(CassandraSettings { user: None, ..with_password() }.check().is_err());
        assert!(CassandraSettings { password_file: Some("file".into()), ..with_password() }.check().is_err());
        CassandraSettings { password: None, password_file: Some("file".into()), ..with_password() }.check().unwrap();
    }

    #[test]
    fn levels_are_written_as_in_cql() {
        assert_eq!(serde_json::to_value(Level::LocalQuorum).unwrap(), "LOCAL_QUORUM");
        assert_eq!(serde_json::from_str::<Level>("\"EACH_QUORUM\"").unwrap(), Level::EachQuorum);
        assert_eq!(serde_json::to_value(Serial::LocalSerial).unwrap(), "LOCAL_SERIAL");
    }

    #[test]
    fn settings_become_options_with_what_is_in_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "a-secret\n").unwrap();
        let settings = CassandraSettings {
            password: None,
            password_file: Some(file.clone()),
            audit_write: Level::One,
            serial: Serial::LocalSerial,
            speculative_after: Duration::ZERO,
            ..with_password()
        };
        let options = settings.options("cassandra://node/books", Duration::from_secs(1)).unwrap();
        assert!(options.credentials.unwrap().password == Password::File(file.clone()));
        assert_eq!((options.levels.audit.write, options.levels.serial), (Level::One, Serial::LocalSerial));
        assert_eq!((options.speculative_after, options.clock_skew_max), (None, Some(Duration::from_secs(1))));
        std::fs::remove_file(file).unwrap();
        let missing = settings.options("cassandra://node/books", Duration::ZERO).unwrap_err().to_string();
        assert!(missing.contains("cassandra.password_file"), "{missing}");
    }

    #[test]
    fn the_defaults_are_those_of_the_engine() {
        let options = CassandraSettings::default().options("cassandra://node/books", Duration::ZERO).unwrap();
        let expected = CassandraOptions::new(options.address.clone());
        assert_eq!(options.levels, expected.levels);
        assert_eq!(options.speculative_after, expected.speculative_after);
        assert_eq!(options.requests_max, expected.requests_max);
        assert_eq!(options.connect_timeout, expected.connect_timeout);
    }
}
