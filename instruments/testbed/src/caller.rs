//! The coordinator, as a worker and a monitor on another machine see it: how it is let in, what may be
//! wrong with it, and when it lets them begin.

use std::io;
use std::time::{Duration, Instant};

use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::handshake::{Handshake, Side};
use crate::record::{Machine, Program};
use crate::wire::{ToCoordinator, ToWorker, VERSION, Wire, WireError};

/// How long a stranger may take for each of the two messages by which it is let in.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// So many strangers are heard at once. Others wait until one of them is let in or refused.
const STRANGERS_MAX: usize = 32;

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

/// Who lets coordinators in.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Coordinators must know this.
    pub token: &'a str,
    /// Its program, for the record.
    pub program: &'a Program,
    /// Its machine, for the record.
    pub machine: &'a Machine,
}

impl Host<'_> {
    /// Waits for a coordinator that knows the token. Strangers do not hold it up. `report` gets why one of
    /// them is refused.
    ///
    /// # Errors
    /// No connection can be accepted.
    pub(crate) async fn wait_for_one(
        self,
        listener: &TcpListener,
        mut report: impl FnMut(CallerError),
    ) -> io::Result<Wire> {
        let mut strangers = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = listener.accept(), if strangers.len() < STRANGERS_MAX => {
                    strangers.push(self.hear(accepted?.0));
                }
                Some(heard) = strangers.next() => match heard {
                    Ok(wire) => return Ok(wire),
                    Err(error) => report(error),
                },
            }
        }
    }

    /// Lets a stranger in, or says why not.
    async fn hear(self, stream: TcpStream) -> Result<Wire, CallerError> {
        let mut wire = Wire::new(stream).map_err(WireError::from)?;
        match self.let_in(&mut wire).await {
            Ok(()) => Ok(wire),
            Err(error) => {
                // It may have gone: that is why, then.
                let _ = wire.send(&ToCoordinator::Refused(error.to_string())).await;
                Err(error)
            }
        }
    }

    /// Welcomes a coordinator that knows the token and has this version.
    ///
    /// # Errors
    /// It does not, or is silent.
    pub async fn let_in(self, wire: &mut Wire) -> Result<(), CallerError> {
        let Self { token, program, machine } = self;
        let ToWorker::Hello { version, nonce: of_coordinator } = heard(wire, HELLO_TIMEOUT).await? else {
            return Err(CallerError::Protocol("no hello"));
        };
        if version != VERSION {
            return Err(CallerError::Protocol("it is of another version"));
        }
        let handshake = Handshake { token, of_coordinator, of_worker: rand::random() };
        wire.send(&ToCoordinator::Challenge { nonce: handshake.of_worker }).await?;
        let ToWorker::Proof(proof) = heard(wire, HELLO_TIMEOUT).await? else {
            return Err(CallerError::Protocol("no proof"));
        };
        if !handshake.is_proved(Side::Coordinator, &proof) {
            return Err(CallerError::Token);
        }
        wire.send(&ToCoordinator::Proof(handshake.prove(Side::Worker))).await?;
        wire.trust();
        let (program, machine) = (program.clone(), Box::new(machine.clone()));
        let command = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        Ok(wire.send(&ToCoordinator::Welcome { program, machine, command }).await?)
    }
}

/// What a coordinator says, in time.
pub(crate) async fn heard(wire: &mut Wire, patience: Duration) -> Result<ToWorker, CallerError> {
    let said = timeout(patience, wire.receive()).await.map_err(|_| CallerError::Protocol("it is silent"))?;
    Ok(said?)
}

/// What the clock on the wall says, for a coordinator that asks.
pub(crate) fn clock() -> ToCoordinator {
    ToCoordinator::Clock { unix_us: Timestamp::now().as_microsecond() }
}

/// An instant of the clock on the wall as one of the clock that never jumps. What the latter cannot
/// express is now.
pub(crate) fn instant(at_unix_us: i64) -> Instant {
    let (now, left_us) = (Instant::now(), at_unix_us.saturating_sub(Timestamp::now().as_microsecond()));
    let time = Duration::from_micros(left_us.unsigned_abs());
    let instant = if left_us >= 0 { now.checked_add(time) } else { now.checked_sub(time) };
    instant.unwrap_or(now)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::handshake::greet;

    #[test]
    fn an_instant_that_no_clock_can_express_is_no_failure() {
        let now = Instant::now();
        let in_a_second = instant(Timestamp::now().as_microsecond() + 1_000_000);
        assert!(in_a_second > now && in_a_second < now + Duration::from_secs(600));
        assert!(instant(i64::MIN) <= Instant::now());
        assert!(instant(i64::MAX) >= now);
    }

    #[tokio::test]
    async fn strangers_that_are_silent_or_do_not_know_the_token_hold_no_coordinator_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (program, machine) = (Program { name: "a worker".to_owned(), ..Program::default() }, Machine::default());
        let host = Host { token: "secret", program: &program, machine: &machine };
        let mut refused = Vec::new();
        let (waiting, coming) =
            tokio::join!(host.wait_for_one(&listener, |error| refused.push(error.to_string())), async {
                let mut silent = Vec::new();
                for _ in 0..STRANGERS_MAX - 1 {
                    silent.push(TcpStream::connect(address).await.unwrap());
                }
                let connect = async || Wire::new(TcpStream::connect(address).await.unwrap()).unwrap();
                let guessed = greet(&mut connect().await, "guessed").await.unwrap_err();
                (guessed, greet(&mut connect().await, "secret").await.unwrap().program, silent.len())
            });
        waiting.unwrap();
        assert_eq!((coming.0.as_str(), coming.1), ("the token is wrong", program.clone()));
        assert_eq!(refused, ["the token is wrong"]);
    }

    #[tokio::test]
    async fn what_does_not_know_the_token_learns_nothing_and_gets_no_job() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let pretending = async {
            let mut wire = Wire::new(listener.accept().await.unwrap().0).unwrap();
            wire.receive::<ToWorker>().await.unwrap();
            wire.send(&ToCoordinator::Challenge { nonce: [7; 32] }).await.unwrap();
            let said = wire.receive::<ToWorker>().await.unwrap();
            wire.send(&ToCoordinator::Proof([7; 32])).await.unwrap();
            let is_over = wire.receive::<ToWorker>().await.is_err();
            (format!("{said:?}"), is_over)
        };
        let greeting = async {
            let mut wire = Wire::new(TcpStream::connect(address).await.unwrap()).unwrap();
            greet(&mut wire, "secret").await
        };
        let ((said, is_over), greeted) = tokio::join!(pretending, greeting);
        assert_eq!(greeted.unwrap_err(), "it does not know the token");
        assert!(said.starts_with("Proof([") && is_over, "{said}");
    }
}
