//! Digests of responses: `Digest` and `Want-Digest` (RFC 3230, with the algorithms of RFC 5843);
//! `Repr-Digest`, `Content-Digest` and the headers that request them (RFC 9530).
//!
//! Bytes stored here have digests. `Digest` and `Repr-Digest` cover all bytes of a resource,
//! whichever are sent. `Content-Digest` covers the content of the response. It is sent only with
//! all bytes; there is no coding, so it is the same digest. A response to HEAD has no content, and
//! a range would have to be read before it is sent: these have no `Content-Digest`. Graphs, which
//! are written while they are sent, and archives have no digests. Bytes stored elsewhere are read
//! for a digest if the client asks for one.

use std::collections::BTreeSet;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use door_http::digests::{CONTENT_DIGEST, DIGEST, REPR_DIGEST, algorithm, name};
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use repository::upload::Hashing;
use repository::{Binary, DigestAlgorithm, Elsewhere, Resource};

use crate::body::pieces;
use crate::errors::LdpError;
use crate::links::{parameter, split, values};
use crate::request::LdpRequest;

/// Digests by their algorithms.
pub type Digests = Vec<(DigestAlgorithm, Vec<u8>)>;

/// A header with a digest.
struct Field {
    name: HeaderName,
    /// The header that requests it.
    wish: &'static str,
    /// Whether its value is a structured field (RFC 9651).
    is_structured: bool,
    /// Whether it covers the content of the response, rather than the representation.
    is_of_content: bool,
}

const FIELDS: [Field; 3] = [
    Field { name: DIGEST, wish: "want-digest", is_structured: false, is_of_content: false },
    Field { name: REPR_DIGEST, wish: "want-repr-digest", is_structured: true, is_of_content: false },
    Field { name: CONTENT_DIGEST, wish: "want-content-digest", is_structured: true, is_of_content: true },
];

impl Field {
    fn value(&self, algorithm: DigestAlgorithm, digest: &[u8]) -> Option<HeaderValue> {
        let (name, digest) = (name(algorithm), STANDARD.encode(digest));
        let text = if self.is_structured { format!("{name}=:{digest}:") } else { format!("{name}={digest}") };
        // Base64 is a value.
        HeaderValue::try_from(text).ok()
    }
}

/// The algorithm that a client prefers, by the header that requests it; `Ok(None)` if it requests
/// none.
fn wanted(headers: &HeaderMap, wish: &'static str) -> Result<Option<DigestAlgorithm>, LdpError> {
    let values = values(headers, &HeaderName::from_static(wish));
    if values.is_empty() {
        return Ok(None);
    }
    let mut best: Option<(DigestAlgorithm, f32)> = None;
    for element in values.iter().flat_map(|value| split(value, ',')) {
        let mut fields = split(element, ';').into_iter().filter_map(parameter);
        // `sha-256;q=0.5` in the older header, `sha-256=5` in the others.
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
    let refused = || LdpError::Header { name: wish, why: "no algorithm of it is known".to_owned() };
    best.map(|(algorithm, _)| Some(algorithm)).ok_or_else(refused)
}

impl LdpRequest {
    /// Sets digests of a resource's bytes: SHA-256, which is stored, and other requested ones,
    /// which are computed. `all_are_sent`: whether the response has all bytes.
    pub async fn insert_digests(
        &self,
        resource: &Resource,
        binary: &Binary,
        all_are_sent: bool,
        headers: &mut HeaderMap,
    ) -> Result<(), LdpError> {
        let mut given = Vec::with_capacity(FIELDS.len());
        for field in FIELDS {
            let algorithm = wanted(&self.headers, field.wish)?.unwrap_or(DigestAlgorithm::Sha256);
            if all_are_sent || !field.is_of_content {
                given.push((field, algorithm));
            }
        }
        let others = given.iter().map(|(_, algorithm)| *algorithm).filter(|it| *it != DigestAlgorithm::Sha256);
        let others: Vec<_> = others.collect::<BTreeSet<_>>().into_iter().collect();
        let mut known = match others.is_empty() {
            true => Vec::new(),
            false => {
                let _reading = self.turn_to_read_whole().await?;
                self.library().repository.digests(resource, binary, &others).await?
            }
        };
        known.push((DigestAlgorithm::Sha256, binary.sha256.to_vec()));
        for (field, algorithm) in given {
            let digest = known.iter().find(|(known, _)| *known == algorithm);
            if let Some(value) = digest.and_then(|(_, digest)| field.value(algorithm, digest)) {
                headers.insert(field.name, value);
            }
        }
        Ok(())
    }
}

impl LdpRequest {
    /// Sets the requested digests of bytes stored elsewhere. They are read there for that, and only
    /// for that. Returns the promised digests.
    pub async fn insert_digests_elsewhere(
        &self,
        elsewhere: &Elsewhere,
        headers: &mut HeaderMap,
    ) -> Result<Digests, LdpError> {
        let mut given = Vec::new();
        for field in FIELDS.into_iter().filter(|field| !field.is_of_content) {
            given.extend(wanted(&self.headers, field.wish)?.map(|algorithm| (field, algorithm)));
        }
        if given.is_empty() {
            return Ok(Vec::new());
        }
        let algorithms = given.iter().map(|(_, algorithm)| *algorithm).collect::<BTreeSet<_>>();
        let known = self.digests_elsewhere(&elsewhere.url, &algorithms.into_iter().collect::<Vec<_>>()).await?;
        for (field, algorithm) in given {
            let digest = known.iter().find(|(known, _)| *known == algorithm);
            if let Some(value) = digest.and_then(|(_, digest)| field.value(algorithm, digest)) {
                headers.insert(field.name, value);
            }
        }
        Ok(known)
    }

    /// Digests of bytes stored elsewhere, which are read there for that.
    pub async fn digests_elsewhere(&self, url: &str, algorithms: &[DigestAlgorithm]) -> Result<Digests, LdpError> {
        let external = self.external()?;
        let _reading = self.turn_to_read_whole().await?;
        let there = external.ask(Method::GET, url, None).await?.into_body();
        let bytes = pieces(there, self.settings().binary_bytes_max);
        self.library().repository.summed_up(bytes, algorithms).await
    }
}

/// A body that ends with an error if it does not have these digests: content stored elsewhere may
/// change between two readings.
pub fn kept_to(body: Body, promised: Digests) -> Body {
    if promised.is_empty() {
        return body;
    }
    let algorithms: Vec<_> = promised.iter().map(|(algorithm, _)| *algorithm).collect();
    let state = (body.into_data_stream(), Hashing::new(&algorithms), promised);
    Body::from_stream(stream::try_unfold(state, |(mut pieces, mut hashing, promised)| async move {
        match pieces.next().await {
            Some(piece) => {
                let piece = piece?;
                hashing.update(&piece);
                Ok(Some((piece, (pieces, hashing, promised))))
            }
            None if hashing.others() == promised => Ok(None),
            None => Err(axum::Error::new("it changed while it was read")),
        }
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_preferred_known_algorithm_is_used() {
        let wanted = |value: &str| {
            let header = HeaderName::from_static("want-digest");
            wanted(&HeaderMap::from_iter([(header, value.parse().unwrap())]), "want-digest")
        };
        assert_eq!(wanted("md5;q=0.3, sha;q=1, crc32").unwrap(), Some(DigestAlgorithm::Sha1));
        assert_eq!(wanted("sha-512=3, md5=5").unwrap(), Some(DigestAlgorithm::Md5));
        assert_eq!(wanted("md5;q=0, sha-512;q=0.1").unwrap(), Some(DigestAlgorithm::Sha512));
        for value in ["crc32", "md5;q=0"] {
            assert!(wanted(value).is_err(), "{value}");
        }
    }
}
