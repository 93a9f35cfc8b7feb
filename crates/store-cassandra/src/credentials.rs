//! The login at the cluster.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use scylla::authentication::{AuthError, AuthenticatorProvider, AuthenticatorSession, PlainTextAuthenticator};

/// The login at the cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The role.
    pub user: String,
    /// Its password.
    pub password: Password,
}

/// A password.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// Itself.
    Text(String),
    /// The file that has it. It is read for each new connection, so a new password counts without a
    /// restart.
    File(PathBuf),
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Password {
    /// The password in the bytes of a file: without the line break at its end.
    pub(crate) fn of_file(bytes: Vec<u8>) -> Result<String, std::string::FromUtf8Error> {
        Ok(String::from_utf8(bytes)?.trim_end_matches(['\r', '\n']).to_owned())
    }
}

/// How long a file may take: the driver has no limit there.
const READ_TIME_MAX: Duration = Duration::from_secs(5);

async fn read(path: &Path) -> Result<String, AuthError> {
    let unreadable = |why: &dyn fmt::Display| {
        let error = format!("cassandra.password_file: cannot read {}: {why}", path.display());
        // The driver tries again later, and does not say why.
        tracing::warn!("{error}");
        error
    };
    let reading = tokio::time::timeout(READ_TIME_MAX, tokio::fs::read(path)).await;
    let bytes = reading.map_err(|late| unreadable(&late))?.map_err(|error| unreadable(&error))?;
    let password = Password::of_file(bytes).map_err(|error| unreadable(&error.utf8_error()))?;
    // Somebody may be writing it.
    if password.is_empty() { Err(unreadable(&"it is empty")) } else { Ok(password) }
}

/// Logs new connections in.
pub(crate) struct Login(pub(crate) Credentials);

#[async_trait]
impl AuthenticatorProvider for Login {
    async fn start_authentication_session(
        &self,
        authenticator: &str,
    ) -> Result<(Option<Vec<u8>>, Box<dyn AuthenticatorSession>), AuthError> {
        let Credentials { user, password } = &self.0;
        let password = match password {
            Password::Text(text) => text.clone(),
            Password::File(path) => read(path).await?,
        };
        PlainTextAuthenticator::new(user.clone(), password).start_authentication_session(authenticator).await
    }
}
