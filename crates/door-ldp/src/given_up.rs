//! Work for a change that stops when its client leaves: waiting for a turn and computing what to
//! write. The write itself is completed, in a task of its own.

use budget::{Party, Turn, Turns};
use rdf::update::Cancellation;
use tokio_util::sync::CancellationToken;

use crate::errors::LdpError;

/// Stops what a request waits for and computes.
#[derive(Clone, Default)]
pub struct Stop {
    waiting: CancellationToken,
    computing: Cancellation,
}

impl Stop {
    /// Waits for a turn.
    ///
    /// Errors: the client leaves meanwhile.
    pub async fn turn(&self, turns: &Turns, party: &Party) -> Result<Turn, LdpError> {
        let turn = self.waiting.run_until_cancelled(turns.turn(party)).await;
        Ok(turn.ok_or(LdpError::GivenUp)??)
    }

    /// For what is computed on another thread.
    pub fn computing(&self) -> Cancellation {
        self.computing.clone()
    }
}

/// Stops the work for a request when the request is dropped.
pub struct GivenUp(pub Stop);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.waiting.cancel();
        self.0.computing.cancel();
    }
}
