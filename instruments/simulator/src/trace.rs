//! Records a run turn by turn: the last turns as text, and a hash of all of them, which verifies a
//! replay.

use std::collections::VecDeque;

/// The number of an operation of the workload.
pub(crate) type Op = u64;

/// Turns that are kept as text.
const KEPT: usize = 200;

/// The record so far.
pub(crate) struct Trace {
    hash: u64,
    last: VecDeque<String>,
}

impl Default for Trace {
    fn default() -> Self {
        Self { hash: 0xcbf2_9ce4_8422_2325, last: VecDeque::new() }
    }
}

impl Trace {
    /// Notes an event.
    pub(crate) fn note(&mut self, what: String) {
        // FNV-1a: a replay that differs anywhere differs from there on.
        for byte in what.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(what);
    }

    /// The hash of all notes.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// The last notes.
    pub(crate) fn last(&self) -> Vec<String> {
        self.last.iter().cloned().collect()
    }
}
