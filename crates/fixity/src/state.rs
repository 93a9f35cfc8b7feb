//! What the auditor stores.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::{Stored, UnixMillis, ValueKind};

/// What was read, and what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Volumes that were checked.
    pub volumes: u64,
    /// Resources of the repository that were checked. In the row about records: records.
    pub resources: u64,
    /// Bytes of texts, descriptions and contents that were read.
    pub bytes: u64,
    /// Objects with damage.
    pub damaged: u64,
    /// Objects that could not be read for another reason, such as a node that is down.
    pub failed: u64,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: &Tally) {
        self.volumes += other.volumes;
        self.resources += other.resources;
        self.bytes += other.bytes;
        self.damaged += other.damaged;
        self.failed += other.failed;
    }
}

/// How far a walk over all objects has got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Next {
    /// It continues here; `None` means at the first object.
    From(Option<Bytes>),
    /// All objects were taken.
    End,
}

/// A pass over all objects. The present one is a guarded row; earlier ones are reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// Its number, counted from 1.
    pub number: u32,
    /// When it began.
    pub begun: UnixMillis,
    /// Which objects are to be taken next.
    pub next: Next,
    /// When it ended, and what was found; `None` while it runs.
    pub ended: Option<(UnixMillis, Tally)>,
}

impl Stored for Pass {
    const KIND: ValueKind = ValueKind::FixityPass;
}

/// What a server has taken of a pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reader {
    /// The server that took it: a number that it drew when it started.
    pub server: [u8; 16],
    /// When the others may count it as dead.
    pub leased_until: UnixMillis,
    /// The number of the pass.
    pub pass: u32,
    /// The objects that are still to be read, by their partitions; the last one is the next. In the
    /// row about records: where their walk continues; empty: at the first.
    pub pending: Vec<Bytes>,
    /// What was read and found in this pass by all servers that had this reader.
    pub found: Tally,
}

impl Stored for Reader {
    const KIND: ValueKind = ValueKind::FixityReader;
}

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// When it was found.
    pub at: UnixMillis,
    /// Whether it is damaged; otherwise it could not be read.
    pub is_damaged: bool,
    /// The damaged parts (`description`, `bytes`, `page 21 (printed 7)`, empty for all of it), each
    /// with how the damage was noticed; not all of them if there are many.
    pub parts: Vec<(String, String)>,
    /// How many more there are.
    pub more: u32,
}

impl Stored for Finding {
    const KIND: ValueKind = ValueKind::FixityFinding;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::stored;

    use super::*;

    const TALLY: Tally = Tally { volumes: 1, resources: 2, bytes: 300, damaged: 4, failed: 5 };

    /// A change of these bytes is a change of the stored format.
    #[test]
    fn the_bytes_of_stored_values_do_not_change() {
        let pass = Pass {
            number: 7,
            begun: UnixMillis(1),
            next: Next::From(Some(Bytes::from_static(b"v/a.b"))),
            ended: Some((UnixMillis(2), TALLY)),
        };
        let reader = Reader {
            server: [9; 16],
            leased_until: UnixMillis(3),
            pass: 7,
            pending: vec![Bytes::from_static(b"r/c")],
            found: TALLY,
        };
        let finding = Finding {
            at: UnixMillis(4),
            is_damaged: true,
            parts: vec![("bytes".to_owned(), "why".to_owned())],
            more: 6,
        };
        let payload = |value: Vec<u8>| value.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(payload(stored::encode(&pass).unwrap()), "070100010576 2f612e6201020102ac020405".replace(' ', ""));
        assert_eq!(
            payload(stored::encode(&reader).unwrap()),
            format!("{}0307010372 2f630102ac020405", "09".repeat(16)).replace(' ', "")
        );
        assert_eq!(payload(stored::encode(&finding).unwrap()), "04010105627974657303776879 06".replace(' ', ""));
        assert_eq!(stored::open::<Pass>(&stored::seal(&pass).unwrap()).unwrap(), pass);
        assert_eq!(stored::open::<Reader>(&stored::seal(&reader).unwrap()).unwrap(), reader);
        assert_eq!(stored::open::<Finding>(&stored::seal(&finding).unwrap()).unwrap(), finding);
    }
}
