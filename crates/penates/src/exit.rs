//! Exit codes, and the one place that prints an error.

use std::error::Error;
use std::process::ExitCode;

use http::StatusCode;

use crate::client::ClientError;

/// The exit codes of all commands; part of the help.
pub const CODES: &str = "Exit codes:
  0    all is well
  1    something failed, is missing or is damaged; what else was asked for is done
  2    the command line or the configuration is wrong
  3    the store or the server cannot be reached, or another process holds the store
  4    a run of the testbed or of the lab says nothing about what it measured
  130  interrupted";

/// The exit code for an invalid command line or configuration.
const USAGE: u8 = 2;

/// The exit code for a store or a server that cannot be reached.
const UNREACHABLE: u8 = 3;

/// The exit code for a run of the testbed or of the lab that is void.
const VOID: u8 = 4;

/// Errors that have an exit code of their own; any other error's is 1.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The command line or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// Neither the store nor a server can be reached.
    #[error("{0}")]
    Unreachable(String),
    /// Some operations failed, or something is missing. It was reported already.
    #[error("some operations failed")]
    Incomplete,
    /// A run of the testbed or of the lab says nothing about what it measured. It was reported
    /// already.
    #[error("the run is void")]
    Void,
    /// The reader of the output has left, which is fine (`penates ls | head`).
    #[error("the output was closed")]
    OutputClosed,
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl CliError {
    fn code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Incomplete => 1,
            Self::Usage(_) => USAGE,
            Self::Unreachable(_) => UNREACHABLE,
            Self::Void => VOID,
            Self::Interrupted => 130,
        }
    }

    /// Whether nothing is left to report.
    fn is_told(&self) -> bool {
        matches!(self, Self::Incomplete | Self::Void | Self::OutputClosed)
    }
}

/// Prints an error, unless it was reported already, and returns its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let known = error.downcast_ref::<CliError>();
    if !known.is_some_and(CliError::is_told) {
        let hint = error.downcast_ref().and_then(ClientError::hint);
        note!("penates: {}{}", full_message(error.as_ref()), hint.map(|hint| format!("; {hint}")).unwrap_or_default());
    }
    let code = match (known, error.downcast_ref::<ClientError>()) {
        (Some(known), _) => known.code(),
        (None, Some(ClientError::Unreachable(_))) => UNREACHABLE,
        // The request makes no sense, and it came from the command line.
        (None, Some(ClientError::Refused { status: StatusCode::BAD_REQUEST, .. })) => USAGE,
        (None, _) => 1,
    };
    ExitCode::from(code)
}

/// An error with its causes, as one line. Some errors contain their cause in their message: it is
/// not repeated.
pub fn full_message(error: &(dyn Error + 'static)) -> String {
    let causes = anyhow::Chain::new(error).map(ToString::to_string);
    causes
        .reduce(|message, cause| if message.contains(&cause) { message } else { format!("{message}: {cause}") })
        .unwrap_or_default()
}

/// A reason without the name of what failed at its beginning, for lines that begin with the name.
pub fn without_name<'a>(reason: &'a str, name: &str) -> &'a str {
    reason.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')).unwrap_or(reason)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    fn code(error: anyhow::Error) -> String {
        format!("{:?}", report(&error))
    }

    #[test]
    fn an_error_keeps_its_exit_code_when_a_context_is_added() {
        let usage = anyhow::Error::new(CliError::Usage("no".to_owned())).context("reading the list");
        assert_eq!(code(usage), format!("{:?}", ExitCode::from(2)));
        let unreachable = anyhow::Error::new(ClientError::Unreachable("refused".into())).context("downloading");
        assert_eq!(code(unreachable), format!("{:?}", ExitCode::from(3)));
    }

    #[test]
    fn a_cause_in_the_message_of_an_error_is_not_repeated() {
        let cause = std::io::Error::other("Address already in use");
        let itself = anyhow::Error::new(cause).context("cannot listen: Address already in use");
        assert_eq!(full_message(itself.as_ref()), "cannot listen: Address already in use");
        assert_eq!(full_message(anyhow!("no route").context("cannot connect").as_ref()), "cannot connect: no route");
    }

    #[test]
    fn any_other_error_is_a_failure() {
        assert_eq!(code(anyhow!("something")), format!("{:?}", ExitCode::from(1)));
    }
}
