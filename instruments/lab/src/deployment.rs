//! What lies around a node and can be varied: how many nodes there are, how many copies of each
//! record they keep, how many of them have to answer, and in what container each runs.

use std::fmt;

use cluster::Limits;
use scylla::statement::Consistency;

use crate::value;

/// The factor that says how many nodes there are.
pub const NODES: &str = "nodes";

/// The factor that says how many of them keep a record.
pub const COPIES: &str = "copies";

/// The factor that says how many of these have to answer: `ONE`, or of writes and of reads
/// `TWO/ONE`.
pub const CONSISTENCY: &str = "consistency";

/// The factor that says what each node may use, in a control group of its own: `memory=2GiB`,
/// `cpus=1.5`, or both. By itself a node is a bare process.
pub const CONTAINER: &str = "container";

/// The most nodes of a study. They share a machine.
pub const NODES_MAX: u8 = 9;

/// The least memory of a container: a node with the smallest heap does not start with less.
const MEMORY_BYTES_MIN: f64 = (256_u64 << 20) as f64;

/// What a node takes beside its heap, in MiB, at least.
pub const BESIDE_HEAP_MIB: u64 = 256;

/// The fewest processors of a container: with less, a node does not start in time.
const CPUS_MIN: f64 = 0.2;

/// A page of memory, by which Linux rounds limits.
const PAGE_BYTES: u64 = 4_096;

/// A number of nodes or copies; `None` if a value means none.
pub fn count(value: &str) -> Option<u8> {
    value.parse().ok().filter(|count| (1..=NODES_MAX).contains(count))
}

/// How many nodes have to answer a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// A write, and a deletion.
    pub write: Consistency,
    /// A read.
    pub read: Consistency,
}

impl Default for Levels {
    fn default() -> Self {
        Self { write: Consistency::One, read: Consistency::One }
    }
}

/// The levels by their names.
const LEVELS: [(&str, Consistency); 7] = [
    ("ONE", Consistency::One),
    ("TWO", Consistency::Two),
    ("THREE", Consistency::Three),
    ("QUORUM", Consistency::Quorum),
    ("ALL", Consistency::All),
    ("LOCAL_ONE", Consistency::LocalOne),
    ("LOCAL_QUORUM", Consistency::LocalQuorum),
];

impl Levels {
    /// The levels that a value means; `None` if it means none.
    pub fn parse(value: &str) -> Option<Self> {
        let level = |text: &str| LEVELS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim())).map(|it| it.1);
        let (write, read) = value.split_once('/').unwrap_or((value, value));
        Some(Self { write: level(write)?, read: level(read)? })
    }

    /// How many nodes have to answer a write, and a read, of so many copies.
    pub fn answers(self, copies: u8) -> (u8, u8) {
        let of = |level| match level {
            Consistency::Two => 2,
            Consistency::Three => 3,
            Consistency::Quorum | Consistency::LocalQuorum => copies / 2 + 1,
            Consistency::All => copies,
            _ => 1,
        };
        (of(self.write), of(self.read))
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |level| LEVELS.iter().find(|(_, known)| *known == level).map_or("?", |(name, _)| name);
        match self.write == self.read {
            true => f.write_str(name(self.write)),
            false => write!(f, "{}/{}", name(self.write), name(self.read)),
        }
    }
}

/// What a change of copies and levels loses, in words: no metric shows it.
pub fn losses(before: (u8, Levels), after: (u8, Levels)) -> Vec<String> {
    let is_strong = |(copies, levels): (u8, Levels)| {
        let (write, read) = levels.answers(copies);
        write + read > copies
    };
    let (written_before, written) = (before.1.answers(before.0).0, after.1.answers(after.0).0);
    let mut lost = Vec::new();
    if after.0 < before.0 {
        lost.push(format!("Durability: a record is on {} node(s) instead of {}.", after.0, before.0));
    }
    if written < written_before {
        let only = "an acknowledged write may be on so few nodes at first";
        lost.push(format!("Durability: {only}: {written} instead of {written_before}."));
    }
    if is_strong(before) && !is_strong(after) {
        lost.push("Consistency: a read may miss writes that were acknowledged.".to_owned());
    }
    lost
}

/// The limits of a container that a value means; `None` if it means none.
pub fn limits(value: &str) -> Option<Limits> {
    let mut limits = Limits::default();
    for word in value.split_whitespace() {
        match word.split_once('=')? {
            ("memory", size) if limits.memory_bytes.is_none() => {
                let bytes = value::bytes(size).filter(|bytes| *bytes >= MEMORY_BYTES_MIN)?;
                limits.memory_bytes = Some(bytes as u64);
            }
            ("cpus", cpus) if limits.cpus.is_none() => {
                limits.cpus = Some(cpus.parse().ok().filter(|cpus| (CPUS_MIN..=1_024.0).contains(cpus))?);
            }
            _ => return None,
        }
    }
    (limits != Limits::default()).then_some(limits)
}

/// What limits of a process were read back, as a value is written; `none` if nothing limits it.
pub fn of_process(memory_bytes: Option<f64>, cpus: Option<f64>) -> String {
    let limit = |name: &str, limit: Option<f64>, unit: &str| {
        limit.filter(|limit| limit.is_finite()).map(|limit| format!("{name}={limit}{unit}"))
    };
    let found: Vec<_> = limit("memory", memory_bytes, "B").into_iter().chain(limit("cpus", cpus, "")).collect();
    if found.is_empty() { "none".to_owned() } else { found.join(" ") }
}

/// Whether limits that were read back have those that were asked for. Others may be there too, of
/// what is around the lab.
pub fn are_in_force(asked: &str, read: &str) -> bool {
    let (Some(asked), Some(read)) = (limits(asked), limits(read)) else { return asked.trim() == read.trim() };
    let is_memory =
        asked.memory_bytes.is_none_or(|asked| read.memory_bytes.is_some_and(|read| asked.abs_diff(read) < PAGE_BYTES));
    is_memory && asked.cpus.is_none_or(|asked| read.cpus.is_some_and(|read| (asked - read).abs() < 1e-3))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn levels_are_those_of_writes_and_of_reads() {
        let both = Levels::parse("quorum").unwrap();
        assert_eq!((both.answers(3), both.answers(2), both.to_string()), ((2, 2), (2, 2), "QUORUM".to_owned()));
        let apart = Levels::parse("TWO/ONE").unwrap();
        assert_eq!((apart.answers(2), apart.to_string()), ((2, 1), "TWO/ONE".to_owned()));
        assert_eq!(Levels::parse("ALL").unwrap().answers(3), (3, 3));
        assert!(["", "FOUR", "ONE/", "SERIAL", "ONE/TWO/ONE"].iter().all(|wrong| Levels::parse(wrong).is_none()));
    }

    #[test]
    fn fewer_copies_and_weaker_levels_are_losses_and_the_way_back_is_none() {
        let level = |text| Levels::parse(text).unwrap();
        let (strong, weak) = ((3, level("QUORUM")), (1, level("ONE")));
        let lost = losses(strong, weak);
        assert!(lost.len() == 2 && lost[0].contains("on 1 node(s) instead of 3"), "{lost:?}");
        let lost = losses(strong, (3, level("ONE")));
        assert!(lost.len() == 2 && lost[1].starts_with("Consistency"), "{lost:?}");
        assert!(losses(weak, strong).is_empty() && losses(strong, strong).is_empty());
    }

    #[test]
    fn a_container_limits_memory_or_processors_or_both() {
        let both = limits("memory=2GiB cpus=1.5").unwrap();
        assert_eq!((both.memory_bytes, both.cpus), (Some(2 << 30), Some(1.5)));
        assert_eq!(limits("cpus=1").unwrap().memory_bytes, None);
        let wrong = ["", "none", "memory", "memory=1MiB", "memory=much", "cpus=0", "cpus=1 cpus=2", "disk=1GiB"];
        assert!(wrong.iter().all(|wrong| limits(wrong).is_none()));
    }

    #[test]
    fn limits_are_in_force_if_the_process_has_them() {
        let read = of_process(Some(1_073_741_824.0), Some(1.5));
        assert!(are_in_force("memory=1GiB cpus=1.5", &read) && are_in_force("cpus=1.5", &read), "{read}");
        assert!(!are_in_force("memory=2GiB", &read) && !are_in_force("cpus=1", &read));
        assert!(!are_in_force("cpus=1", &of_process(Some(f64::INFINITY), None)));
        // The default, as the first run has found it.
        let bare = of_process(Some(f64::INFINITY), Some(f64::INFINITY));
        assert!(bare == "none" && are_in_force("none", &bare) && !are_in_force("none", &read));
    }
}
