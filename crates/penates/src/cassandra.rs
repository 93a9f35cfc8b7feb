//! Turns the configuration of a store in a Cassandra cluster into the engine's options.

use std::path::Path;

use server::config::cassandra::{Consistency, SerialConsistency};
use server::config::{CassandraConfig, Config};
use store::{StoreError, StoreResult};
use store_cassandra::{CassandraOptions, ClassLevels, Credentials, Level, Levels, Serial};

/// The engine's options for the store at `address`. An invalid value is [`StoreError::Invalid`].
pub fn options(address: &str, config: &Config) -> StoreResult<CassandraOptions> {
    let address = address.parse().map_err(|error: store_cassandra::AddressError| invalid(error))?;
    let cassandra = &config.cassandra;
    Ok(CassandraOptions {
        credentials: credentials(cassandra)?,
        tls_ca_pem: cassandra.tls_ca.as_deref().map(|path| read("cassandra.tls_ca", path)).transpose()?,
        local_datacenter: cassandra.datacenter.clone(),
        levels: levels(cassandra),
        speculative_after: (!cassandra.speculative_after.is_zero()).then_some(cassandra.speculative_after),
        requests_max: cassandra.requests_max,
        connect_timeout: cassandra.connect_timeout,
        clock_skew_max: Some(config.store.clock_skew_max),
        ..CassandraOptions::new(address)
    })
}

fn credentials(cassandra: &CassandraConfig) -> StoreResult<Option<Credentials>> {
    let Some(user) = cassandra.user.clone() else { return Ok(None) };
    let password = match (&cassandra.password, &cassandra.password_file) {
        (Some(password), _) => password.reveal().to_owned(),
        (None, Some(path)) => {
            let text = String::from_utf8(read("cassandra.password_file", path)?).map_err(invalid)?;
            text.trim_end_matches(['\r', '\n']).to_owned()
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(Credentials { user, password }))
}

fn levels(cassandra: &CassandraConfig) -> Levels {
    let class = |read, write| ClassLevels { read: level(read), write: level(write) };
    Levels {
        description: class(cassandra.description_read, cassandra.description_write),
        content: class(cassandra.content_read, cassandra.content_write),
        record: class(cassandra.record_read, cassandra.record_write),
        audit: class(cassandra.audit_read, cassandra.audit_write),
        serial: match cassandra.serial {
            SerialConsistency::Serial => Serial::Serial,
            SerialConsistency::LocalSerial => Serial::LocalSerial,
        },
    }
}

fn level(consistency: Consistency) -> Level {
    match consistency {
        Consistency::One => Level::One,
        Consistency::Two => Level::Two,
        Consistency::Three => Level::Three,
        Consistency::Quorum => Level::Quorum,
        Consistency::All => Level::All,
        Consistency::LocalQuorum => Level::LocalQuorum,
        Consistency::EachQuorum => Level::EachQuorum,
        Consistency::LocalOne => Level::LocalOne,
    }
}

fn read(key: &str, path: &Path) -> StoreResult<Vec<u8>> {
    std::fs::read(path).map_err(|error| invalid(format!("{key}: cannot read {}: {error}", path.display())))
}

fn invalid(what: impl ToString) -> StoreError {
    StoreError::Invalid(what.to_string())
}
