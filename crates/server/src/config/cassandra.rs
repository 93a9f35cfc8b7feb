//! `[cassandra]`: how to reach a store in a cluster.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::{ConfigError, refused};

/// A secret that neither a log nor `penates config` ever prints.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    /// The secret itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("(hidden)")
    }
}

/// How many replicas must answer: Cassandra's consistency levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Consistency {
    /// One.
    One,
    /// Two.
    Two,
    /// Three.
    Three,
    /// More than half of all.
    Quorum,
    /// All.
    All,
    /// More than half of those in the local data center.
    LocalQuorum,
    /// More than half of those in each data center.
    EachQuorum,
    /// One in the local data center.
    LocalOne,
}

/// Which replicas decide heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SerialConsistency {
    /// All: a majority of all must answer.
    Serial,
    /// Those of the heads' home, which `penates home` names. Only servers there switch heads.
    LocalSerial,
}

/// `[cassandra]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CassandraConfig {
    /// The user, if the cluster requires a password.
    pub user: Option<String>,
    /// The password of `user`.
    pub password: Option<Hidden>,
    /// A file that holds the password of `user`, instead of `password`.
    pub password_file: Option<PathBuf>,
    /// CA certificates (PEM) that sign the nodes' certificates, which name the nodes' IP addresses.
    /// Not set: no TLS.
    pub tls_ca: Option<PathBuf>,
    /// The local data center; required if there are several.
    pub datacenter: Option<String>,
    /// Level of reads of descriptions: heads, directories, containment, selections, tokens.
    pub description_read: Consistency,
    /// Level of writes of these.
    pub description_write: Consistency,
    /// Level of reads of page text and large contents.
    pub content_read: Consistency,
    /// Level of writes of these.
    pub content_write: Consistency,
    /// Level of reads of records.
    pub record_read: Consistency,
    /// Level of writes of records.
    pub record_write: Consistency,
    /// Level of reads of the audit.
    pub audit_read: Consistency,
    /// Level of writes of the audit.
    pub audit_write: Consistency,
    /// Which replicas decide heads.
    pub serial: SerialConsistency,
    /// Time without an answer after which a read asks a second node; 0s: never.
    #[serde(with = "humantime_serde")]
    pub speculative_after: Duration,
    /// Concurrent requests to the cluster.
    pub requests_max: usize,
    /// Deadline of connecting.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
}

impl Default for CassandraConfig {
    fn default() -> Self {
        let quorum = Consistency::LocalQuorum;
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
            serial: SerialConsistency::Serial,
            speculative_after: Duration::from_millis(200),
            requests_max: 1024,
            connect_timeout: Duration::from_secs(10),
        }
    }
}

impl CassandraConfig {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.password.is_some() && self.password_file.is_some() {
            return Err(refused("cassandra.password and cassandra.password_file are alternatives: set one"));
        }
        if self.user.is_some() != (self.password.is_some() || self.password_file.is_some()) {
            return Err(refused(
                "cassandra.user and cassandra.password (or password_file) belong together: set both or none",
            ));
        }
        if self.requests_max == 0 {
            return Err(refused("cassandra.requests_max must be at least 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn with_password() -> CassandraConfig {
        CassandraConfig {
            user: Some("penates".to_owned()),
            password: Some(Hidden("a-secret".to_owned())),
            ..CassandraConfig::default()
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let config = with_password();
        config.check().unwrap();
        let told = format!("{config:?} {}", serde_json::to_string(&config).unwrap());
        assert!(told.contains("(hidden)") && !told.contains("a-secret"), "{told}");
    }

    #[test]
    fn user_and_password_belong_together_and_only_one_password_is_allowed() {
        assert!(CassandraConfig { password: None, ..with_password() }.check().is_err());
        assert!(CassandraConfig { user: None, ..with_password() }.check().is_err());
        assert!(CassandraConfig { password_file: Some("file".into()), ..with_password() }.check().is_err());
        CassandraConfig { password: None, password_file: Some("file".into()), ..with_password() }.check().unwrap();
    }

    #[test]
    fn levels_are_written_as_in_cql() {
        assert_eq!(serde_json::to_value(Consistency::LocalQuorum).unwrap(), "LOCAL_QUORUM");
        assert_eq!(serde_json::from_str::<Consistency>("\"EACH_QUORUM\"").unwrap(), Consistency::EachQuorum);
        assert_eq!(serde_json::to_value(SerialConsistency::LocalSerial).unwrap(), "LOCAL_SERIAL");
    }
}
