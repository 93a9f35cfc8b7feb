//! The coordinator, as a worker and a monitor on another machine see it: how it is let in, and what may
//! be wrong with it.

use std::time::Duration;

use subtle::ConstantTimeEq;
use tokio::time::timeout;

use crate::record::{Machine, Program};
use crate::wire::{ToCoordinator, ToWorker, VERSION, Wire, WireError};

/// How long a stranger may take to show its token.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a coordinator is not served to its end.
#[derive(Debug, thiserror::Error)]
pub enum CallerError {
    /// Nobody can talk to it.
    #[error("coordinator: {0}")]
    Wire(#[from] WireError),
    /// It does not keep to the protocol, or has another version of it.
    #[error("coordinator: {0}")]
    Protocol(&'static str),
    /// It does not know the token.
    #[error("the token is wrong")]
    Token,
}

/// Welcomes a coordinator that shows the token and has this version.
pub(crate) async fn let_in(
    wire: &mut Wire,
    token: &str,
    program: &Program,
    machine: &Machine,
) -> Result<(), CallerError> {
    let ToWorker::Hello { version, token: shown } = heard(wire, HELLO_TIMEOUT).await? else {
        return Err(CallerError::Protocol("no hello"));
    };
    if !bool::from(shown.as_bytes().ct_eq(token.as_bytes())) {
        return Err(CallerError::Token);
    }
    if version != VERSION {
        return Err(CallerError::Protocol("it is of another version"));
    }
    let welcome = ToCoordinator::Welcome { program: program.clone(), machine: Box::new(machine.clone()) };
    Ok(wire.send(&welcome).await?)
}

/// What a coordinator says, in time.
pub(crate) async fn heard(wire: &mut Wire, patience: Duration) -> Result<ToWorker, CallerError> {
    let said = timeout(patience, wire.receive()).await.map_err(|_| CallerError::Protocol("it is silent"))?;
    Ok(said?)
}
