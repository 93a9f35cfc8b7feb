//! Digests that a client announces for its body: `Digest` (RFC 3230, with the algorithms of RFC
//! 5843), `Repr-Digest` and `Content-Digest` (RFC 9530). Fedora writes `Digest` in hexadecimal, its
//! RFC says base64; both are accepted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName};
use repository::DigestAlgorithm;
use thiserror::Error;

/// RFC 3230, section 4.3.2.
pub const DIGEST: HeaderName = HeaderName::from_static("digest");
/// RFC 9530, section 3.
pub const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
/// RFC 9530, section 2.
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");

/// A digest that a client announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    algorithm: DigestAlgorithm,
    /// In hexadecimal. A value that is not a digest of the algorithm is kept as sent, and matches
    /// no bytes.
    value: String,
}

/// What is wrong with an announced digest.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DigestError {
    /// It cannot be parsed.
    #[error("the digest `{element}` cannot be understood: {why}")]
    Malformed {
        /// The value as sent.
        element: String,
        /// Why not.
        why: &'static str,
    },
    /// The body has another digest.
    #[error("the {algorithm} digest of the body is {actual}, not {expected}")]
    Mismatch {
        /// The algorithm.
        algorithm: &'static str,
        /// The announced digest, in hexadecimal if it is a digest.
        expected: String,
        /// The digest of the body, in hexadecimal.
        actual: String,
    },
}

/// The name of an algorithm, which is the same in all of these headers.
pub fn name(algorithm: DigestAlgorithm) -> &'static str {
    match algorithm {
        DigestAlgorithm::Md5 => "md5",
        DigestAlgorithm::Sha1 => "sha",
        DigestAlgorithm::Sha256 => "sha-256",
        DigestAlgorithm::Sha512 => "sha-512",
    }
}

/// The algorithm with this name; `None` if it is not supported.
pub fn algorithm(name: &str) -> Option<DigestAlgorithm> {
    Some(match name.trim().to_ascii_lowercase().as_str() {
        "md5" => DigestAlgorithm::Md5,
        "sha" | "sha1" | "sha-1" => DigestAlgorithm::Sha1,
        "sha256" | "sha-256" => DigestAlgorithm::Sha256,
        "sha512" | "sha-512" => DigestAlgorithm::Sha512,
        _ => return None,
    })
}

fn len_bytes(algorithm: DigestAlgorithm) -> usize {
    match algorithm {
        DigestAlgorithm::Md5 => 16,
        DigestAlgorithm::Sha1 => 20,
        DigestAlgorithm::Sha256 => 32,
        DigestAlgorithm::Sha512 => 64,
    }
}

/// All digests that a request announces for its body.
pub fn announced(headers: &HeaderMap) -> Result<Vec<Announced>, DigestError> {
    let mut announced = Vec::new();
    for (header, is_structured) in [(DIGEST, false), (REPR_DIGEST, true), (CONTENT_DIGEST, true)] {
        for value in headers.get_all(header) {
            // One that is not ASCII is not passed over: it matches nothing.
            let value = String::from_utf8_lossy(value.as_bytes());
            // Neither hexadecimal nor base64 holds a comma.
            for element in value.split(',').map(str::trim) {
                // Empty elements of a list are ignored (RFC 9110, section 5.6.1). A dictionary has
                // none (RFC 9651, section 3.2).
                if !element.is_empty() || is_structured {
                    announced.push(read(element, is_structured)?);
                }
            }
        }
    }
    Ok(announced)
}

fn read(element: &str, is_structured: bool) -> Result<Announced, DigestError> {
    let refused = |why| DigestError::Malformed { element: element.to_owned(), why };
    let (name, value) = element.split_once('=').ok_or_else(|| refused("there is no value"))?;
    let algorithm = algorithm(name).ok_or_else(|| refused("the algorithm is unknown"))?;
    let value = value.trim();
    let value = match is_structured {
        true => value.strip_prefix(':').and_then(|value| value.strip_suffix(':')).ok_or_else(|| refused("no bytes"))?,
        false => value,
    };
    let of_length = |bytes: &Vec<u8>| bytes.len() == len_bytes(algorithm);
    let hexadecimal = || hex::decode(value).ok().filter(of_length).filter(|_| !is_structured);
    let bytes = hexadecimal().or_else(|| STANDARD.decode(value).ok().filter(of_length));
    Ok(Announced { algorithm, value: bytes.map_or_else(|| value.to_owned(), hex::encode) })
}

/// The algorithms of these digests.
pub fn algorithms(announced: &[Announced]) -> Vec<DigestAlgorithm> {
    let mut algorithms: Vec<_> = announced.iter().map(|announced| announced.algorithm).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    algorithms
}

/// Compares the digests of a body with the announced ones.
pub fn check(announced: &[Announced], digests: &[(DigestAlgorithm, Vec<u8>)]) -> Result<(), DigestError> {
    for Announced { algorithm, value } in announced {
        let actual = digests.iter().find(|(known, _)| known == algorithm).map(|(_, actual)| hex::encode(actual));
        if let Some(actual) = actual.filter(|actual| actual != value) {
            return Err(DigestError::Mismatch { algorithm: name(*algorithm), expected: value.clone(), actual });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::HeaderValue;

    use super::*;

    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

    #[test]
    fn hexadecimal_and_base64_mean_the_same() {
        let bytes = hex::decode(MD5).unwrap();
        let expected = Announced { algorithm: DigestAlgorithm::Md5, value: MD5.to_owned() };
        assert_eq!(read(&format!("MD5={MD5}"), false).unwrap(), expected);
        assert_eq!(read(&format!("md5={}", STANDARD.encode(&bytes)), false).unwrap(), expected);
        assert_eq!(read(&format!("md5=:{}:", STANDARD.encode(&bytes)), true).unwrap(), expected);
        for (element, is_structured) in [("md5", false), ("crc=1", false), ("md5=", true), ("md5=12", true)] {
            assert!(read(element, is_structured).is_err(), "{element}");
        }
    }

    #[test]
    fn empty_elements_are_ignored_in_a_list_and_refused_in_a_dictionary() {
        let read_from = |header: HeaderName, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header, HeaderValue::from_str(value).unwrap());
            announced(&headers).map(|announced| announced.len())
        };
        for (value, count) in [(format!("md5={MD5},"), 1), (format!(", md5={MD5} ,,sha=1,"), 2), (String::new(), 0)] {
            assert_eq!(read_from(DIGEST, &value).unwrap(), count, "{value}");
        }
        let refused = read_from(REPR_DIGEST, "md5=:1B2M2Y8AsgTpgAmY7PhCfg==:,");
        assert!(matches!(refused, Err(DigestError::Malformed { .. })), "{refused:?}");
    }

    #[test]
    fn a_header_that_is_not_ascii_is_not_passed_over() {
        let mut headers = HeaderMap::new();
        let mut value = format!("md5={MD5}").into_bytes();
        value.push(0xe9);
        headers.insert(DIGEST, HeaderValue::from_bytes(&value).unwrap());
        let announced = announced(&headers).unwrap();
        let digests = repository::upload::digests_of(b"", &algorithms(&announced));
        assert!(matches!(check(&announced, &digests), Err(DigestError::Mismatch { .. })));
    }

    #[test]
    fn a_value_that_is_not_a_digest_matches_no_bytes() {
        for element in ["md5=1234", "md5=", &*format!("sha-256={MD5}"), "sha=:not base64:"] {
            let announced = [read(element, false).unwrap()];
            let digests = repository::upload::digests_of(b"", &algorithms(&announced));
            let error = check(&announced, &digests).unwrap_err();
            assert!(matches!(error, DigestError::Mismatch { .. }), "{element}: {error}");
        }
        assert!(read("md5=:MTI=:", true).is_ok(), "base64 of other bytes than a digest");
    }
}
