//! A certificate and its key, as files have them: what is wrong with them, by its real name.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::certificate::X509Certificate;

use crate::check::Finding;
use crate::error::ServerError;

/// A certificate that ends within this time should have been renewed.
const SOON: SignedDuration = SignedDuration::from_hours(14 * 24);

/// A certificate with its key, and what is doubtful about it.
#[derive(Debug)]
pub(crate) struct Certificate {
    pub(crate) key: CertifiedKey,
    /// When it expires, in seconds since 1970.
    pub(crate) not_after: Option<i64>,
    pub(crate) findings: Vec<Finding>,
}

/// Reads a certificate chain and its key, both PEM. `now` decides what has expired.
pub(crate) fn read(cert: &Path, key: &Path, now: Timestamp) -> Result<Certificate, ServerError> {
    let of_cert = |reason: String| ServerError::file("the TLS certificate", cert, reason);
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(cert).and_then(Iterator::collect).map_err(|error| of_cert(error.to_string()))?;
    if chain.is_empty() {
        return Err(of_cert("there is no certificate in it (PEM)".to_owned()));
    }
    let key = read_key(key)?;
    let provider = aws_lc_rs::default_provider();
    let certified = match CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider) {
        Ok(certified) => certified,
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            return Err(of_cert(mismatch(&chain, &key, &provider)));
        }
        Err(error) => return Err(of_cert(error.to_string())),
    };
    let mut parsed = Vec::new();
    for (number, der) in (1..).zip(&chain) {
        let (_, certificate) = x509_parser::parse_x509_certificate(der)
            .map_err(|error| of_cert(format!("certificate {number} cannot be understood: {error}")))?;
        parsed.push(certificate);
    }
    let not_after = parsed.iter().map(|certificate| certificate.validity().not_after.timestamp()).min();
    let findings = findings(&parsed, now).into_iter();
    let findings = findings.map(|Finding { is_fault, what }| Finding { is_fault, what: of_cert(what).to_string() });
    Ok(Certificate { key: certified, not_after, findings: findings.collect() })
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, ServerError> {
    let refused = |reason: String| ServerError::file("the TLS key", path, reason);
    let pem = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
    let is_encrypted = String::from_utf8_lossy(&pem).contains("ENCRYPTED");
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| {
        refused(if is_encrypted {
            "it is encrypted, and nobody can be asked for its password: decrypt it (openssl pkey)".to_owned()
        } else {
            format!("there is no private key in it (PEM): {error}")
        })
    })
}

/// Why a key does not belong to the first certificate.
fn mismatch(chain: &[CertificateDer<'static>], key: &PrivateKeyDer<'static>, provider: &CryptoProvider) -> String {
    let is_of =
        |der: &CertificateDer<'static>| CertifiedKey::from_der(vec![der.clone()], key.clone_key(), provider).is_ok();
    match chain.iter().position(is_of) {
        Some(index) => format!(
            "the chain is in the wrong order: the key belongs to certificate {}, which has to be the first one",
            index + 1
        ),
        None => "the key does not belong to it".to_owned(),
    }
}

/// What is doubtful about a chain.
fn findings(chain: &[X509Certificate<'_>], now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, certificate) in (1..).zip(chain) {
        let time =
            |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).unwrap_or(Timestamp::MAX);
        let validity = certificate.validity();
        let (begins, ends) = (time(validity.not_before), time(validity.not_after));
        if ends < now {
            findings.push(Finding::fault(format!("certificate {number} expired at {ends}")));
        } else if now < begins {
            findings.push(Finding::fault(format!("certificate {number} is valid only from {begins} on")));
        } else if ends.duration_since(now) < SOON {
            findings.push(Finding::warning(format!("certificate {number} expires soon, at {ends}")));
        }
    }
    for (number, pair) in (1..).zip(chain.windows(2)) {
        if pair[0].issuer().as_raw() != pair[1].subject().as_raw() {
            let next = number + 1;
            let what =
                format!("the chain is in the wrong order: certificate {next} did not issue certificate {number}");
            findings.push(Finding::fault(what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::path::PathBuf;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

    use super::*;

    struct Made {
        folder: tempfile::TempDir,
        leaf: String,
        ca: String,
        key: String,
    }

    /// A certificate that a CA has signed, valid in 2026.
    fn made() -> Made {
        let mut of_ca = CertificateParams::new(Vec::new()).unwrap();
        of_ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        of_ca.distinguished_name.push(DnType::CommonName, "the CA");
        let ca = CertifiedIssuer::self_signed(of_ca, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut of_leaf = CertificateParams::new(vec!["books.example.org".to_owned()]).unwrap();
        (of_leaf.not_before, of_leaf.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2026, 12, 31));
        let leaf = of_leaf.signed_by(&key, &ca).unwrap().pem();
        Made { folder: tempfile::tempdir().unwrap(), leaf, ca: ca.pem(), key: key.serialize_pem() }
    }

    impl Made {
        fn file(&self, name: &str, text: &str) -> PathBuf {
            let path = self.folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        }

        /// What is found about a chain and a key on a day of the year 2026.
        fn read(&self, chain: &str, key: &str, day: &str) -> Result<Vec<String>, String> {
            let now = format!("2026-{day}T00:00:00Z").parse().unwrap();
            let read = super::read(&self.file("cert.pem", chain), &self.file("key.pem", key), now);
            let shown = |finding: Finding| format!("{}: {}", finding.is_fault, finding.what);
            read.map(|read| read.findings.into_iter().map(shown).collect()).map_err(|error| error.to_string())
        }
    }

    #[test]
    fn a_sound_chain_has_no_findings() {
        let made = made();
        assert_eq!(made.read(&format!("{}{}", made.leaf, made.ca), &made.key, "06-01"), Ok(Vec::new()));
    }

    #[test]
    fn each_fault_of_a_chain_or_a_key_is_named() {
        let (made, other) = (made(), made());
        let refused = |chain: &str, key: &str| made.read(chain, key, "06-01").unwrap_err();
        let reversed = refused(&format!("{}{}", made.ca, made.leaf), &made.key);
        assert!(reversed.contains("wrong order: the key belongs to certificate 2"), "{reversed}");
        let foreign = refused(&made.leaf, &other.key);
        assert!(foreign.contains("the key does not belong to it") && foreign.contains("cert.pem"), "{foreign}");
        let encrypted =
            refused(&made.leaf, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
        assert!(encrypted.contains("it is encrypted") && encrypted.contains("key.pem"), "{encrypted}");
        assert!(refused("", &made.key).contains("there is no certificate in it"));
        assert!(refused(&made.leaf, "").contains("there is no private key in it"));
    }

    #[test]
    fn a_certificate_that_has_expired_or_soon_will_is_found_by_its_dates() {
        let made = made();
        let found = |chain: &str, day| made.read(chain, &made.key, day).unwrap().join("\n");
        assert!(found(&made.leaf, "12-20").starts_with("false: "), "it expires soon");
        assert!(found(&made.leaf, "12-20").contains("expires soon, at 2026-12-31"));
        let now = "2027-02-01T00:00:00Z".parse().unwrap();
        let (cert, key) = (made.file("cert.pem", &made.leaf), made.file("key.pem", &made.key));
        let expired = super::read(&cert, &key, now).unwrap().findings;
        assert!(expired[0].is_fault && expired[0].what.contains("expired at 2026-12-31"), "{expired:?}");
        let order = found(&format!("{}{}", made.leaf, made.leaf), "06-01");
        assert!(order.contains("certificate 2 did not issue certificate 1"), "{order}");
    }
}
