//! Digests: `Digest` and `Want-Digest` (RFC 3230, with the algorithms of RFC 5843), `Repr-Digest`, `Content-Digest` and
//! `Want-Repr-Digest` (RFC 9530). Fedora writes the older ones in hexadecimal, though their RFC says base64: both are understood.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use objects::resources::{Binary, DigestAlgorithm, Resource, Uploaded};

use crate::ask::Asked;
use crate::errors::LdpError;
use crate::links::{parameter, split, values};

const DIGEST: HeaderName = HeaderName::from_static("digest");
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
const WANT_DIGEST: HeaderName = HeaderName::from_static("want-digest");
const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");

/// A digest that a client announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    algorithm: DigestAlgorithm,
    value: Vec<u8>,
}

/// The name of an algorithm in all of these headers, where it is the same.
fn name(algorithm: DigestAlgorithm) -> &'static str {
    match algorithm {
        DigestAlgorithm::Md5 => "md5",
        DigestAlgorithm::Sha1 => "sha",
        DigestAlgorithm::Sha256 => "sha-256",
        DigestAlgorithm::Sha512 => "sha-512",
    }
}

fn algorithm(name: &str) -> Option<DigestAlgorithm> {
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

/// All digests that a request announces of its body.
pub fn announced(headers: &HeaderMap) -> Result<Vec<Announced>, LdpError> {
    let mut announced = Vec::new();
    for (header, is_structured) in [(DIGEST, false), (REPR_DIGEST, true), (CONTENT_DIGEST, true)] {
        for value in values(headers, &header) {
            for element in split(&value, ',') {
                announced.push(read(element.trim(), is_structured)?);
            }
        }
    }
    Ok(announced)
}

fn read(element: &str, is_structured: bool) -> Result<Announced, LdpError> {
    let refused = |why: &str| LdpError::Header { name: "Digest", why: format!("`{element}`: {why}") };
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
    Ok(Announced { algorithm, value: bytes.ok_or_else(|| refused("the value is no digest of this algorithm"))? })
}

/// The algorithms that these need.
pub fn algorithms(announced: &[Announced]) -> Vec<DigestAlgorithm> {
    let mut algorithms: Vec<_> = announced.iter().map(|announced| announced.algorithm).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    algorithms
}

/// Whether what came in is what was announced.
pub fn check(announced: &[Announced], uploaded: &Uploaded) -> Result<(), LdpError> {
    for Announced { algorithm, value } in announced {
        let actual = uploaded.digests.iter().find(|(known, _)| known == algorithm);
        if let Some((_, actual)) = actual.filter(|(_, actual)| actual != value) {
            return Err(LdpError::DigestMismatch {
                algorithm: name(*algorithm),
                expected: hex::encode(value),
                actual: hex::encode(actual),
            });
        }
    }
    Ok(())
}

/// The algorithm that a client would like best, of a header that says so; `Ok(None)`: it does not.
fn wanted(headers: &HeaderMap, header: &HeaderName) -> Result<Option<DigestAlgorithm>, LdpError> {
    let values = values(headers, header);
    if values.is_empty() {
        return Ok(None);
    }
    let mut best: Option<(DigestAlgorithm, f32)> = None;
    for element in values.iter().flat_map(|value| split(value, ',')) {
        let mut fields = split(element, ';').into_iter().filter_map(parameter);
        // `sha-256;q=0.5` in the one header, `sha-256=5` in the other.
        let Some((name, weight)) = fields.next() else { continue };
        let quality = fields.find(|(name, _)| name == "q").map(|(_, value)| value).or(Some(weight));
        let quality = quality.and_then(|value| value.parse().ok()).unwrap_or(1.0);
        if let Some(algorithm) = algorithm(&name)
            && quality > 0.0
            && best.is_none_or(|(_, other)| quality > other)
        {
            best = Some((algorithm, quality));
        }
    }
    let refused = || LdpError::Header { name: "Want-Digest", why: "no algorithm of it is known".to_owned() };
    best.map(|(algorithm, _)| Some(algorithm)).ok_or_else(refused)
}

impl Asked {
    /// Says digests of all bytes of a resource: SHA-256, which is kept, and what else is asked for, which is reckoned up.
    pub async fn insert_digests(
        &self,
        resource: &Resource,
        binary: &Binary,
        headers: &mut HeaderMap,
    ) -> Result<(), LdpError> {
        let older = wanted(&self.headers, &WANT_DIGEST)?;
        let newer = wanted(&self.headers, &WANT_REPR_DIGEST)?;
        let mut others: Vec<_> = [older, newer].into_iter().flatten().collect();
        others.retain(|algorithm| *algorithm != DigestAlgorithm::Sha256);
        others.dedup();
        let mut known = match others.is_empty() {
            true => Vec::new(),
            false => self.library().digests(resource, binary, &others).await?,
        };
        known.push((DigestAlgorithm::Sha256, binary.sha256.to_vec()));
        let value_of =
            |algorithm| known.iter().find(|(known, _)| *known == algorithm).map(|(_, value)| STANDARD.encode(value));
        let mut insert = |header: HeaderName, algorithm, is_structured: bool| {
            let Some(value) = value_of(algorithm) else { return };
            let name = name(algorithm);
            let text = if is_structured { format!("{name}=:{value}:") } else { format!("{name}={value}") };
            // Base64 is a value.
            if let Ok(value) = HeaderValue::try_from(text) {
                headers.insert(header, value);
            }
        };
        insert(DIGEST, older.unwrap_or(DigestAlgorithm::Sha256), false);
        insert(REPR_DIGEST, newer.unwrap_or(DigestAlgorithm::Sha256), true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

    #[test]
    fn hexadecimal_and_base64_mean_the_same() {
        let bytes = hex::decode(MD5).unwrap();
        let expected = Announced { algorithm: DigestAlgorithm::Md5, value: bytes.clone() };
        assert_eq!(read(&format!("MD5={MD5}"), false).unwrap(), expected);
        assert_eq!(read(&format!("md5={}", STANDARD.encode(&bytes)), false).unwrap(), expected);
        assert_eq!(read(&format!("md5=:{}:", STANDARD.encode(&bytes)), true).unwrap(), expected);
        for (element, is_structured) in
            [("md5", false), ("crc=1", false), ("md5=12", false), ("md5=", true), (&*format!("sha-256={MD5}"), false)]
        {
            assert!(read(element, is_structured).is_err(), "{element}");
        }
    }

    #[test]
    fn the_best_liked_algorithm_that_is_known_is_given() {
        let wanted = |value: &str| wanted(&HeaderMap::from_iter([(WANT_DIGEST, value.parse().unwrap())]), &WANT_DIGEST);
        assert_eq!(wanted("md5;q=0.3, sha;q=1, crc32").unwrap(), Some(DigestAlgorithm::Sha1));
        assert_eq!(wanted("sha-512=3, md5=5").unwrap(), Some(DigestAlgorithm::Md5));
        assert_eq!(wanted("md5;q=0, sha-512;q=0.1").unwrap(), Some(DigestAlgorithm::Sha512));
        for value in ["crc32", "md5;q=0"] {
            assert!(wanted(value).is_err(), "{value}");
        }
    }
}
