//! Why a server does not start, or stops.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::config::ConfigError;

/// Why a server does not start, or stops. The messages say what was tried and where.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The library, or the store below it.
    #[error(transparent)]
    Library(#[from] objects::ObjectsError),
    /// The store.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address, as it was configured.
        address: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A file that the server needs.
    #[error("{what} {}: {reason}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// TLS cannot be set up.
    #[error("TLS: {0}")]
    Tls(String),
    /// Logs or metrics cannot be set up.
    #[error("{0}")]
    Telemetry(String),
}

impl ServerError {
    pub(crate) fn file(what: &'static str, path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Self::File { what, path: path.into(), reason: reason.to_string() }
    }
}
