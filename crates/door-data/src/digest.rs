//! Digests of responses: `Repr-Digest` (RFC 9530, section 3) and, for older clients, `Digest` (RFC
//! 3230 with the algorithms of RFC 5843). Both cover the selected representation, including its
//! content coding.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
const DIGEST: HeaderName = HeaderName::from_static("digest");

/// Sets both headers.
pub fn insert(headers: &mut HeaderMap, sha256: &[u8; 32]) {
    let encoded = STANDARD.encode(sha256);
    for (name, value) in [(REPR_DIGEST, format!("sha-256=:{encoded}:")), (DIGEST, format!("sha-256={encoded}"))] {
        // Base64 is always a valid header value.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_digest_of_the_example_in_rfc_9530_is_right() {
        // Appendix B.1: the representation `{"hello": "world"}` and a line feed.
        let mut headers = HeaderMap::new();
        insert(&mut headers, &Sha256::digest(b"{\"hello\": \"world\"}\n").into());
        assert_eq!(headers[REPR_DIGEST], "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:");
        assert_eq!(headers[DIGEST], "sha-256=RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=");
    }
}
