//! How a coordinator and a worker or a monitor show each other that they know the token, which never
//! travels. Each sends a number that it uses once, and proves what it knows by HMAC-SHA-256 (RFC 2104)
//! over both numbers. The coordinator proves it first: a stranger that connects to a worker gets nothing
//! by which it could try tokens.

use aws_lc_rs::hmac;

use crate::coordinator::ask;
use crate::record::{Machine, Program};
use crate::wire::{Nonce, Proof, ToCoordinator, ToWorker, VERSION, Wire};

/// Who proves something. What one side has proved is no proof of the other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    Coordinator,
    Worker,
}

/// The numbers of both sides, and the token of one of them.
pub(crate) struct Handshake<'a> {
    pub token: &'a str,
    pub of_coordinator: Nonce,
    pub of_worker: Nonce,
}

impl Handshake<'_> {
    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.token.as_bytes())
    }

    /// What is signed. All but the first part have the same length always.
    fn message(&self, side: Side) -> Vec<u8> {
        let side = match side {
            Side::Coordinator => "lares testbed, coordinator",
            Side::Worker => "lares testbed, worker",
        };
        [side.as_bytes(), &VERSION.to_be_bytes(), &self.of_coordinator, &self.of_worker].concat()
    }

    /// Proves that this side knows the token.
    pub fn prove(&self, side: Side) -> Proof {
        let mut proof = Proof::default();
        proof.copy_from_slice(hmac::sign(&self.key(), &self.message(side)).as_ref());
        proof
    }

    /// Whether the other side knows the token.
    pub fn is_proved(&self, side: Side, proof: &Proof) -> bool {
        hmac::verify(&self.key(), &self.message(side), proof).is_ok()
    }
}

/// What a worker or a monitor says of itself.
#[derive(Debug)]
pub(crate) struct Greeted {
    pub program: Program,
    pub machine: Machine,
    pub command: Vec<String>,
}

/// Shows a worker or a monitor that the token is known here. Returns what it says of itself, if it knows
/// the token, too.
pub(crate) async fn greet(wire: &mut Wire, token: &str) -> Result<Greeted, String> {
    let of_coordinator = rand::random();
    let hello = ToWorker::Hello { version: VERSION, nonce: of_coordinator };
    let ToCoordinator::Challenge { nonce: of_worker } = ask(wire, &hello).await? else {
        return Err("it does not keep to the protocol".to_owned());
    };
    let handshake = Handshake { token, of_coordinator, of_worker };
    match ask(wire, &ToWorker::Proof(handshake.prove(Side::Coordinator))).await? {
        ToCoordinator::Proof(proof) if handshake.is_proved(Side::Worker, &proof) => {}
        _ => return Err("it does not know the token".to_owned()),
    }
    wire.trust();
    match wire.receive().await.map_err(|error| error.to_string())? {
        ToCoordinator::Welcome { program, machine, command } => Ok(Greeted { program, machine: *machine, command }),
        _ => Err("it does not welcome us".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_side_one_token_and_one_pair_of_numbers() {
        let handshake = |token, of_coordinator, of_worker| Handshake {
            token,
            of_coordinator: [of_coordinator; 32],
            of_worker: [of_worker; 32],
        };
        let proof = handshake("secret", 1, 2).prove(Side::Coordinator);
        assert!(handshake("secret", 1, 2).is_proved(Side::Coordinator, &proof));
        assert!(!handshake("secret", 1, 2).is_proved(Side::Worker, &proof));
        assert!(!handshake("guessed", 1, 2).is_proved(Side::Coordinator, &proof));
        assert!(!handshake("secret", 1, 3).is_proved(Side::Coordinator, &proof), "it is shown again");
        assert!(!handshake("secret", 2, 1).is_proved(Side::Coordinator, &proof));
    }
}
