//! Certificates for nodes that clients may reach by TLS.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::cache;
use crate::error::{Doing, Result};
use crate::plan::NodePlan;

/// The class with which Cassandra reads keys and certificates as text (PEM) in its configuration.
const FROM_PEM: &str = "org.apache.cassandra.security.PEMBasedSslContextFactory";

/// The certificate of the authority that signs the nodes' certificate, for clients to trust.
pub(crate) fn authority(cluster: &Path) -> PathBuf {
    cluster.join("tls/ca.pem")
}

/// The nodes' key and certificate.
fn identity(cluster: &Path) -> PathBuf {
    cluster.join("tls/nodes.pem")
}

/// Creates the authority and the nodes' certificate, unless they exist.
pub(crate) fn provide(cluster: &Path, plans: &[NodePlan]) -> Result<()> {
    let (authority, identity) = (authority(cluster), identity(cluster));
    if identity.exists() {
        return Ok(());
    }
    let folder = cluster.join("tls");
    std::fs::create_dir_all(&folder).doing("making the folder", &folder)?;
    let addresses = plans.iter().map(|plan| plan.address.to_string()).collect();
    let (ca, nodes) = certify(addresses).map_err(std::io::Error::other).doing("making certificates in", &folder)?;
    cache::write(&authority, &ca)?;
    // Written last: if it exists, everything does.
    cache::write(&identity, &nodes)
}

/// An authority's certificate, and a key with a certificate that the authority signed for these
/// addresses.
fn certify(addresses: Vec<String>) -> std::result::Result<(String, String), rcgen::Error> {
    let mut authority = named("Penates cluster: authority", Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    let authority_certificate = authority.self_signed(&authority_key)?;
    let key = KeyPair::generate()?;
    let issuer = Issuer::new(authority, authority_key);
    let certificate = named("Penates cluster: nodes", addresses)?.signed_by(&key, &issuer)?;
    Ok((authority_certificate.pem(), key.serialize_pem() + &certificate.pem()))
}

/// A certificate's parameters. Names must differ: a certificate whose issuer has the same name
/// looks self-signed.
fn named(name: &str, addresses: Vec<String>) -> std::result::Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(addresses)?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

/// `client_encryption_options`. The port also accepts clients without TLS, such as this crate when
/// it asks whether the node is up.
pub(crate) fn client_encryption_options(cluster: &Path) -> Result<Value> {
    let read = |path: PathBuf| std::fs::read_to_string(&path).doing("reading", &path);
    let parameters =
        json!({"private_key": read(identity(cluster))?, "trusted_certificates": read(authority(cluster))?});
    let factory = json!({"class_name": FROM_PEM, "parameters": parameters});
    Ok(json!({"enabled": true, "optional": true, "ssl_context_factory": factory}))
}
