//! How a token is stored: as JSON.

use std::collections::BTreeSet;

use area::Limit;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::{StoreError, Table, UnixMillis, ValueKind, envelope};

use super::TokenInfo;
use super::scope::{Scope, Scopes};

/// A token with the hash of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) info: TokenInfo,
    pub(super) sha256: [u8; 32],
}

/// The stored form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    name: String,
    created: UnixMillis,
    revoked: Option<UnixMillis>,
    scopes: BTreeSet<Scope>,
    /// Empty: they hold everywhere.
    limits: BTreeSet<Limit>,
    expires: Option<UnixMillis>,
    #[serde(with = "hex::serde")]
    sha256: [u8; 32],
}

impl Record {
    /// A token that was made now, and that no text is.
    pub(super) fn of_nobody(name: &str, now: UnixMillis) -> Self {
        let info =
            TokenInfo { name: name.to_owned(), created: now, revoked: None, scopes: Scopes::usual(), expires: None };
        Self { info, sha256: [0; 32] }
    }

    /// The sealed value.
    pub(super) fn seal(&self) -> Result<Bytes, StoreError> {
        let Self { info, sha256 } = self.clone();
        let TokenInfo { name, created, revoked, scopes, expires } = info;
        let limits = scopes.area().limits().iter().cloned().collect();
        let scopes = scopes.everywhere().clone();
        let payload = serde_json::to_vec(&Stored { name, created, revoked, scopes, limits, expires, sha256 })
            .map_err(|error| StoreError::Invalid(error.to_string()))?;
        Ok(envelope::seal(ValueKind::Token, &payload))
    }

    /// The token in a stored value.
    pub(super) fn open(value: &Bytes) -> Result<Self, StoreError> {
        let corrupt = |detail: String| StoreError::Corrupt { table: Table::Tokens, detail };
        let payload = envelope::open(ValueKind::Token, value).map_err(|error| corrupt(error.to_string()))?;
        let Stored { name, created, revoked, scopes, limits, expires, sha256 } =
            serde_json::from_slice(&payload).map_err(|error| corrupt(error.to_string()))?;
        let scopes = Scopes::checked(scopes, limits).map_err(|error| corrupt(error.to_string()))?;
        Ok(Self { info: TokenInfo { name, created, revoked, scopes, expires }, sha256 })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn record(scopes: &str, expires: Option<u64>) -> Record {
        let info = TokenInfo {
            name: "harvester".to_owned(),
            created: UnixMillis(1_000),
            revoked: None,
            scopes: scopes.parse().unwrap(),
            expires: expires.map(UnixMillis),
        };
        Record { info, sha256: [7; 32] }
    }

    #[test]
    fn the_stored_bytes_do_not_change() {
        let payload = |record: &Record| {
            let opened = envelope::open_version(ValueKind::Token, &record.seal().unwrap()).unwrap();
            (opened.version, String::from_utf8(opened.payload.to_vec()).unwrap())
        };
        let (begin, hash) = (r#"{"name":"harvester","created":1000,"revoked":null,"#, "07".repeat(32));
        let json = format!(r#"{begin}"scopes":["read","metrics"],"limits":[],"expires":2000,"sha256":"{hash}"}}"#);
        assert_eq!(payload(&record("read metrics", Some(2_000))), (1, json));
        let limits = r#""limits":["volumes:a.*","rest:/b"]"#;
        let json = format!(r#"{begin}"scopes":["write"],{limits},"expires":null,"sha256":"{hash}"}}"#);
        assert_eq!(payload(&record("write volumes:a.* rest:/b", None)), (1, json));
    }

    #[test]
    fn a_record_reads_back() {
        for (scopes, expires) in
            [("read write admin", None), ("metrics", Some(9)), ("read rest:/a rest:/b%20c volumes:x.*", None)]
        {
            let record = record(scopes, expires);
            assert_eq!(Record::open(&record.seal().unwrap()).unwrap(), record);
        }
    }

    #[test]
    fn a_scope_or_a_version_that_this_program_does_not_know_is_refused() {
        let json = |scopes: &str, limits: &str| {
            format!(
                r#"{{"name":"a","created":1,"revoked":null,"scopes":[{scopes}],"limits":[{limits}],"expires":null,"sha256":"{}"}}"#,
                "00".repeat(32)
            )
        };
        let open = |version, payload: &str| {
            Record::open(&envelope::seal_version(ValueKind::Token, version, payload.as_bytes()))
        };
        let known = json(r#""read""#, "");
        open(1, &known).unwrap();
        let unknown = [json(r#""all""#, ""), json(r#""read""#, r#""years:1800""#), json(r#""admin""#, r#""rest:/a""#)];
        for (version, payload) in unknown.iter().map(|payload| (1, payload.as_str())).chain([(1, "{}"), (2, &known)]) {
            assert!(matches!(open(version, payload), Err(StoreError::Corrupt { .. })), "{payload}");
        }
    }
}
