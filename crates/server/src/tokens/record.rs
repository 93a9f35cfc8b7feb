//! How a token is stored: as JSON, in one of three versions.
//!
//! Version 1 has no scopes: such a token allows everything that tokens allowed then. Version 2 is
//! written only at [`FormatLevel::SCOPES`] and later, because an earlier program would let a token
//! do more than its scopes say. Version 3 has limits, and is written for tokens with limits only,
//! at [`FormatLevel::LIMITED_TOKENS`] and later, for the same reason.

use std::collections::BTreeSet;

use area::Limit;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::{FormatLevel, StoreError, Table, UnixMillis, ValueKind, envelope};

use super::scope::{Scope, Scopes};
use super::{TokenError, TokenInfo};

/// A token with the hash of its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) info: TokenInfo,
    pub(super) sha256: [u8; 32],
}

/// Version 1.
#[derive(Serialize, Deserialize)]
struct First {
    name: String,
    created: UnixMillis,
    revoked: Option<UnixMillis>,
    #[serde(with = "hex::serde")]
    sha256: [u8; 32],
}

/// Version 2.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Second {
    name: String,
    created: UnixMillis,
    revoked: Option<UnixMillis>,
    scopes: BTreeSet<Scope>,
    expires: Option<UnixMillis>,
    #[serde(with = "hex::serde")]
    sha256: [u8; 32],
}

/// Version 3.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Third {
    name: String,
    created: UnixMillis,
    revoked: Option<UnixMillis>,
    scopes: BTreeSet<Scope>,
    limits: BTreeSet<Limit>,
    expires: Option<UnixMillis>,
    #[serde(with = "hex::serde")]
    sha256: [u8; 32],
}

impl Record {
    /// A token that was made now, and that no text is.
    pub(super) fn of_nobody(name: &str, now: UnixMillis) -> Self {
        // Every level can store these scopes.
        let scopes = Scopes::before_scopes();
        let info = TokenInfo { name: name.to_owned(), created: now, revoked: None, scopes, expires: None };
        Self { info, sha256: [0; 32] }
    }

    /// The sealed value for a store at `level`.
    pub(super) fn seal(&self, level: FormatLevel) -> Result<Bytes, TokenError> {
        let Self { info, sha256 } = self.clone();
        let TokenInfo { name, created, revoked, scopes, expires } = info;
        let (version, payload) = if scopes.area().is_limited() {
            if level < FormatLevel::LIMITED_TOKENS {
                return Err(TokenError::LimitsLevel { level });
            }
            let limits = scopes.area().limits().iter().cloned().collect();
            let scopes = scopes.everywhere().clone();
            (3, serde_json::to_vec(&Third { name, created, revoked, scopes, limits, expires, sha256 }))
        } else if level >= FormatLevel::SCOPES {
            let scopes = scopes.everywhere().clone();
            (2, serde_json::to_vec(&Second { name, created, revoked, scopes, expires, sha256 }))
        } else if scopes == Scopes::before_scopes() && expires.is_none() {
            (1, serde_json::to_vec(&First { name, created, revoked, sha256 }))
        } else {
            return Err(TokenError::Level { level });
        };
        let payload = payload.map_err(|error| StoreError::Invalid(error.to_string()))?;
        Ok(envelope::seal_version(ValueKind::Token, version, &payload))
    }

    /// The token in a stored value.
    pub(super) fn open(value: &Bytes) -> Result<Self, StoreError> {
        let corrupt = |detail: String| StoreError::Corrupt { table: Table::Tokens, detail };
        let opened = envelope::open_version(ValueKind::Token, value).map_err(|error| corrupt(error.to_string()))?;
        let checked = |scopes, limits| Scopes::checked(scopes, limits).map_err(|error| corrupt(error.to_string()));
        let json = |error: serde_json::Error| corrupt(error.to_string());
        let (info, sha256) = match opened.version {
            1 => {
                let First { name, created, revoked, sha256 } = serde_json::from_slice(&opened.payload).map_err(json)?;
                let scopes = Scopes::before_scopes();
                (TokenInfo { name, created, revoked, scopes, expires: None }, sha256)
            }
            2 => {
                let Second { name, created, revoked, scopes, expires, sha256 } =
                    serde_json::from_slice(&opened.payload).map_err(json)?;
                let scopes = checked(scopes, BTreeSet::new())?;
                (TokenInfo { name, created, revoked, scopes, expires }, sha256)
            }
            3 => {
                let Third { name, created, revoked, scopes, limits, expires, sha256 } =
                    serde_json::from_slice(&opened.payload).map_err(json)?;
                if limits.is_empty() {
                    return Err(corrupt("a token with limits has none".to_owned()));
                }
                let scopes = checked(scopes, limits)?;
                (TokenInfo { name, created, revoked, scopes, expires }, sha256)
            }
            version => {
                return Err(corrupt(format!("a token of version {version}, which this program does not read")));
            }
        };
        Ok(Self { info, sha256 })
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
    fn the_bytes_of_all_versions_do_not_change() {
        let first = record("read write admin", None).seal(FormatLevel::WEBHOOKS).unwrap();
        let second = record("read metrics", Some(2_000)).seal(FormatLevel::SCOPES).unwrap();
        let payload = |value: &Bytes| {
            let opened = envelope::open_version(ValueKind::Token, value).unwrap();
            (opened.version, String::from_utf8(opened.payload.to_vec()).unwrap())
        };
        let hash = "07".repeat(32);
        assert_eq!(
            payload(&first),
            (1, format!(r#"{{"name":"harvester","created":1000,"revoked":null,"sha256":"{hash}"}}"#))
        );
        let json = format!(
            r#"{{"name":"harvester","created":1000,"revoked":null,"scopes":["read","metrics"],"expires":2000,"sha256":"{hash}"}}"#
        );
        assert_eq!(payload(&second), (2, json));
        let third = record("write volumes:a.* rest:/b", None).seal(FormatLevel::LIMITED_TOKENS).unwrap();
        let json = format!(
            r#"{{"name":"harvester","created":1000,"revoked":null,"scopes":["write"],"limits":["volumes:a.*","rest:/b"],"expires":null,"sha256":"{hash}"}}"#
        );
        assert_eq!(payload(&third), (3, json));
    }

    #[test]
    fn a_record_reads_back_at_every_level() {
        let all = record("read write admin", None);
        for level in [FormatLevel::KINDS, FormatLevel::SCOPES] {
            assert_eq!(Record::open(&all.seal(level).unwrap()).unwrap(), all);
        }
        let limited = record("metrics", Some(9));
        assert_eq!(Record::open(&limited.seal(FormatLevel::SCOPES).unwrap()).unwrap(), limited);
        let in_trees = record("read rest:/a rest:/b%20c volumes:x.*", None);
        assert_eq!(Record::open(&in_trees.seal(FormatLevel::LIMITED_TOKENS).unwrap()).unwrap(), in_trees);
    }

    #[test]
    fn a_store_of_level_6_gets_no_token_with_limits() {
        let limited = record("read volumes:x.*", None);
        assert!(matches!(limited.seal(FormatLevel::SCOPES), Err(TokenError::LimitsLevel { .. })));
    }

    #[test]
    fn a_store_of_an_earlier_level_gets_no_token_that_an_earlier_program_would_not_limit() {
        for limited in [record("read", None), record("read write admin", Some(9))] {
            assert!(matches!(limited.seal(FormatLevel::WEBHOOKS), Err(TokenError::Level { .. })));
        }
    }

    #[test]
    fn a_scope_or_a_version_that_this_program_does_not_know_is_refused() {
        let unknown = r#"{"name":"a","created":1,"revoked":null,"scopes":["all"],"expires":null,"sha256":"00"}"#;
        let of_third = |scopes: &str, limits: &str| {
            format!(
                r#"{{"name":"a","created":1,"revoked":null,"scopes":[{scopes}],"limits":[{limits}],"expires":null,"sha256":"{}"}}"#,
                "00".repeat(32)
            )
        };
        let no_limit = of_third(r#""read""#, "");
        let unknown_limit = of_third(r#""read""#, r#""years:1800""#);
        let of_all = of_third(r#""admin""#, r#""rest:/a""#);
        for (version, payload) in
            [(2, unknown), (3, "{}"), (3, &no_limit), (3, &unknown_limit), (3, &of_all), (4, "{}")]
        {
            let value = envelope::seal_version(ValueKind::Token, version, payload.as_bytes());
            assert!(matches!(Record::open(&value), Err(StoreError::Corrupt { .. })));
        }
    }
}
