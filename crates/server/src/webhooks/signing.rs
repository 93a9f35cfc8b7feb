//! Signatures of Standard Webhooks 1.0 (standardwebhooks.com), the symmetric ones: `v1`.

use std::fmt;
use std::ops::RangeInclusive;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use thiserror::Error;

/// The beginning of a secret.
const PREFIX: &str = "whsec_";

/// Bytes of a secret (Standard Webhooks, "Signature scheme").
const KEY_BYTES: RangeInclusive<usize> = 24..=64;

/// Secrets of one webhook: the present one, and others while it is being replaced.
const SECRETS_MAX: usize = 4;

/// Why a text is no secret. It does not repeat the text.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "it must be `whsec_` and the Base64 of 24 to 64 random bytes, or up to {SECRETS_MAX} of these, separated by spaces"
)]
pub(crate) struct InvalidSecret;

/// The secrets of a webhook.
#[derive(Clone)]
pub(crate) struct Secrets(Vec<hmac::Key>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl Secrets {
    /// Reads secrets, separated by white space. All of them sign, so that the receiver can change
    /// from one to another.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let keys = text.split_whitespace().map(|secret| {
            let encoded = secret.strip_prefix(PREFIX)?;
            let bytes = BASE64_STANDARD.decode(encoded).ok().filter(|bytes| KEY_BYTES.contains(&bytes.len()))?;
            Some(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
        });
        let keys: Vec<_> = keys.collect::<Option<_>>().ok_or(InvalidSecret)?;
        if (1..=SECRETS_MAX).contains(&keys.len()) { Ok(Self(keys)) } else { Err(InvalidSecret) }
    }

    /// The value of `webhook-signature`: one signature for each secret.
    pub(crate) fn sign(&self, id: &str, timestamp_s: u64, body: &[u8]) -> String {
        let signatures = self.0.iter().map(|key| {
            let mut signed = hmac::Context::with_key(key);
            signed.update(format!("{id}.{timestamp_s}.").as_bytes());
            signed.update(body);
            format!("v1,{}", BASE64_STANDARD.encode(signed.sign()))
        });
        signatures.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    /// The vector that the libraries of Standard Webhooks share.
    #[test]
    fn a_signature_is_that_of_the_libraries_of_the_standard() {
        let signed = Secrets::parse(SECRET).unwrap().sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn each_secret_signs_while_one_replaces_the_other() {
        let other = format!("{PREFIX}{}", BASE64_STANDARD.encode([7; 64]));
        let both = Secrets::parse(&format!("{SECRET}\n{other}\n")).unwrap().sign("a", 1, b"body");
        let each = [SECRET, &other].map(|secret| Secrets::parse(secret).unwrap().sign("a", 1, b"body"));
        assert_eq!(both, each.join(" "));
        assert_ne!(each[0], each[1]);
    }

    #[test]
    fn what_is_no_secret_is_refused_without_being_repeated() {
        let encoded = |bytes: usize| format!("{PREFIX}{}", BASE64_STANDARD.encode(vec![7; bytes]));
        let many = [SECRET; SECRETS_MAX + 1].join(" ");
        for text in ["", " ", "secret", &SECRET[1..], "whsec_!", &encoded(23), &encoded(65), &many] {
            let error = Secrets::parse(text).unwrap_err();
            assert!(text.trim().is_empty() || !error.to_string().contains(text), "{error}");
        }
        assert_eq!(format!("{:?}", Secrets::parse(SECRET).unwrap()), "Secrets");
    }
}
