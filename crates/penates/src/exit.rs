//! Exit codes, and the one place that prints an error.

use std::process::ExitCode;

use http::StatusCode;
pub use terminal::exit::{CliError, full_message};

use crate::client::ClientError;

/// The exit codes of all commands; part of the help.
pub const CODES: &str = "Exit codes:
  0    all is well
  1    something failed, is missing or is damaged; what else was asked for is done
  2    the command line or the configuration is wrong
  3    the store or the server cannot be reached, or another process holds the store
  130  interrupted";

/// Prints an error, unless it was reported already, and returns its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let of_client = error.downcast_ref::<ClientError>();
    let known = terminal::exit::report("penates", error, of_client.and_then(ClientError::hint));
    let code = match (known, of_client) {
        (Some(code), _) => code,
        (None, Some(ClientError::Unreachable(_))) => CliError::UNREACHABLE,
        // The request makes no sense, and it came from the command line.
        (None, Some(ClientError::Refused { status: StatusCode::BAD_REQUEST, .. })) => CliError::USAGE,
        (None, _) => 1,
    };
    ExitCode::from(code)
}

/// A reason without the name of what failed at its beginning, for lines that begin with the name.
pub fn without_name<'a>(reason: &'a str, name: &str) -> &'a str {
    reason.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')).unwrap_or(reason)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn an_error_keeps_its_exit_code_when_a_context_is_added() {
        let code = |error: anyhow::Error| format!("{:?}", report(&error));
        let unreachable = anyhow::Error::new(ClientError::Unreachable("refused".into())).context("downloading");
        assert_eq!(code(unreachable), format!("{:?}", ExitCode::from(3)));
        assert_eq!(code(anyhow!("something")), format!("{:?}", ExitCode::from(1)));
    }
}
