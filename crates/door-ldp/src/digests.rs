//! Digests of what is sent: `Digest` and `Want-Digest` (RFC 3230, with the algorithms of RFC 5843), `Repr-Digest` and
//! `Want-Repr-Digest` (RFC 9530).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use door_http::digests::{DIGEST, REPR_DIGEST, algorithm, name};
use http::{HeaderMap, HeaderName, HeaderValue};
use objects::resources::{Binary, DigestAlgorithm, Resource};

use crate::ask::Asked;
use crate::errors::LdpError;
use crate::links::{parameter, split, values};

const WANT_DIGEST: HeaderName = HeaderName::from_static("want-digest");
const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");

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
