//! Errors that have an exit code of their own, and messages of errors.

use std::error::Error;

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
    /// A measurement says nothing about what it measured. It was reported already.
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
    /// The exit code for an invalid command line or configuration.
    pub const USAGE: u8 = 2;
    /// The exit code for a store or a server that cannot be reached.
    pub const UNREACHABLE: u8 = 3;
    /// The exit code for a measurement that is void.
    const VOID: u8 = 4;

    fn code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Incomplete => 1,
            Self::Usage(_) => Self::USAGE,
            Self::Unreachable(_) => Self::UNREACHABLE,
            Self::Void => Self::VOID,
            Self::Interrupted => 130,
        }
    }

    /// Whether nothing is left to report.
    fn is_told(&self) -> bool {
        matches!(self, Self::Incomplete | Self::Void | Self::OutputClosed)
    }
}

/// Prints an error of a program with a hint, unless it was reported already. Returns the exit code that it has by
/// itself.
pub fn report(program: &str, error: &anyhow::Error, hint: Option<&str>) -> Option<u8> {
    let known = error.downcast_ref::<CliError>();
    if !known.is_some_and(CliError::is_told) {
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        note!("{program}: {}{hint}", full_message(error.as_ref()));
    }
    known.map(CliError::code)
}

/// An error with its causes, as one line. Some errors contain their cause in their message: it is
/// not repeated.
pub fn full_message(error: &(dyn Error + 'static)) -> String {
    let causes = anyhow::Chain::new(error).map(ToString::to_string);
    causes
        .reduce(|message, cause| if message.contains(&cause) { message } else { format!("{message}: {cause}") })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_in_the_message_of_an_error_is_not_repeated() {
        let cause = std::io::Error::other("Address already in use");
        let itself = anyhow::Error::new(cause).context("cannot listen: Address already in use");
        assert_eq!(full_message(itself.as_ref()), "cannot listen: Address already in use");
        assert_eq!(full_message(anyhow!("no route").context("cannot connect").as_ref()), "cannot connect: no route");
    }

    #[test]
    fn an_error_keeps_its_exit_code_when_a_context_is_added() {
        let usage = anyhow::Error::new(CliError::Usage("no".to_owned())).context("reading the list");
        assert_eq!(report("penates", &usage, None), Some(2));
        assert_eq!(report("penates", &anyhow!("something"), None), None);
    }
}
