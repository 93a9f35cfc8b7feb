//! The login at the cluster.

use std::fmt;
use std::path::{Path, PathBuf};

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

async fn read(path: &Path) -> Result<String, AuthError> {
    let unreadable = |why: &dyn fmt::Display| format!("cassandra.password_file: cannot read {}: {why}", path.display());
    let bytes = tokio::fs::read(path).await.map_err(|error| unreadable(&error))?;
    Password::of_file(bytes).map_err(|error| unreadable(&error.utf8_error()))
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
