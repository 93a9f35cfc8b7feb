//! What a head says of the transaction that holds it ([`transaction`](crate::transaction)).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::revision::RevisionId;

/// The id of a transaction: sixteen random bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TransactionId(pub [u8; 16]);

impl TransactionId {
    /// The id that a text (32 hexadecimal digits in five groups) names.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        hex::decode_to_slice(text.replace('-', ""), &mut bytes).ok()?;
        Some(Self(bytes)).filter(|id| id.to_string() == text)
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e] = [0..4, 4..6, 6..8, 8..10, 10..16].map(|group| hex::encode(&self.0[group]));
        write!(f, "{a}-{b}-{c}-{d}-{e}")
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a transaction is going to make of an object. In its head, so that every writer meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The transaction.
    pub transaction: TransactionId,
    /// The operation of it that counts. Its rows name earlier ones too.
    pub operation: RevisionId,
}

/// In whose name a head is switched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holder {
    /// In the name of no transaction: a claim prevents it.
    #[default]
    Nobody,
    /// As a claim says, and only as long as the head carries it.
    Claim(Claim),
    /// Of what is above the object: it is deleted with its container, whoever holds it.
    Above,
}
