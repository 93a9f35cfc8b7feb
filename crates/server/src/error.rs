//! Why a server does not start, or stops.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::config::ConfigError;

/// Why a server does not start, or stops. The messages name the operation and the file or address.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The library failed, or the store below it.
    #[error(transparent)]
    Library(#[from] heads::ObjectsError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The configured address.
        address: String,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file that the server needs cannot be used.
    #[error("{what} {}: {reason}", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The tokens cannot be read.
    #[error("tokens: {0}")]
    Tokens(String),
    /// A door cannot be set up.
    #[error("{door}: {reason}")]
    Door {
        /// The door.
        door: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// A webhook cannot be set up.
    #[error("webhook `{name}`: {reason}")]
    Webhook {
        /// Its name.
        name: String,
        /// What went wrong; no secret.
        reason: String,
    },
    /// A bridge cannot be set up.
    #[error("bridge `{name}`: {reason}")]
    Bridge {
        /// Its name.
        name: String,
        /// What went wrong; no password.
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
