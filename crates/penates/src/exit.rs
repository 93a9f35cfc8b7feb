//! Exit codes, and the one place that prints an error.

use std::process::ExitCode;

use thiserror::Error;

/// What every command's exit code means; part of the help.
pub const CODES: &str = "Exit codes:
  0    all is well
  1    something failed, is missing or is damaged; what else was asked for is done
  2    the command line or the configuration is wrong
  3    the store or the server cannot be reached, or another process holds the store
  130  interrupted";

/// Errors that have an exit code of their own; any other error's is 1.
#[derive(Debug, Error)]
pub enum CliError {
    /// The command line or the configuration is wrong.
    #[error("{0}")]
    Usage(String),
    /// Neither the store nor a server can be reached.
    #[error("{0}")]
    Unreachable(String),
    /// Some of what was asked for failed or is missing; it has been reported already.
    #[error("not all is well")]
    Incomplete,
    /// Whoever read the output has gone, which is its right (`penates ls | head`).
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
            Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
            Self::Interrupted => 130,
        }
    }

    /// Whether there is nothing left to say about it.
    fn is_told(&self) -> bool {
        matches!(self, Self::Incomplete | Self::OutputClosed)
    }
}

/// Prints an error, unless it was told already, and answers with its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let known = error.downcast_ref::<CliError>();
    if !known.is_some_and(CliError::is_told) {
        eprintln!("penates: {error:#}");
    }
    ExitCode::from(known.map_or(1, CliError::code))
}
