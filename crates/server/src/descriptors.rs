//! The number of connections at the same time: each needs memory and a descriptor, and the
//! operating system limits those of a process.

use budget::usable_memory;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are reserved for the store, its files and the listeners. If the limit is low, a
/// quarter of it is reserved.
const KEPT_BACK: u64 = 2_048;

/// What a connection takes that was used, about, in bytes. All together take at most one part in
/// [`MEMORY_ONE_OF`] of the memory.
pub(crate) const CONNECTION_BYTES: u64 = 16 << 10;
const MEMORY_ONE_OF: u64 = 4;

/// The number of connections of each kind, where it is not set and there is room for them.
pub(crate) const USUAL: usize = 16_384;

/// So many connections of each kind are possible, however little memory there is.
const IN_ANY_MEMORY: usize = 64;

/// Raises the process's soft limit of descriptors to its hard one, if the operating system allows
/// it. Returns how many descriptors it may have; `None`: any number.
pub fn raise_descriptor_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of descriptors stays unchanged");
            current
        }
    }
}

/// The number of connections that are possible of each of so many kinds, at most `wanted`, or as many
/// as is usual. Warns of a wanted number that is not possible.
pub(crate) fn connections(wanted: Option<usize>, kinds: usize) -> usize {
    let (descriptors, memory) = (raise_descriptor_limit(), usable_memory());
    let of = |wanted| [most(wanted, kinds, descriptors), most_in_memory(wanted, kinds, memory)];
    let Some(wanted) = wanted else {
        let [by_descriptors, by_memory] = of(USUAL);
        let connections = by_descriptors.min(by_memory);
        tracing::info!(connections, descriptors, memory, "limits.connections fits itself to the machine");
        return connections;
    };
    let [by_descriptors, by_memory] = of(wanted);
    if by_descriptors < wanted {
        tracing::warn!(
            descriptors,
            connections = by_descriptors,
            "limits.connections is more than the limit of descriptors allows"
        );
    }
    if by_memory < wanted {
        tracing::warn!(
            memory,
            connections = by_memory,
            "limits.connections is more than the memory allows, of which connections take a quarter"
        );
    }
    by_descriptors.min(by_memory)
}

fn most(wanted: usize, kinds: usize, descriptors: Option<u64>) -> usize {
    let allowed = descriptors.map(|descriptors| descriptors - KEPT_BACK.min(descriptors / 4));
    let allowed = allowed.map(|allowed| usize::try_from(allowed).unwrap_or(usize::MAX));
    allowed.map_or(wanted, |allowed| wanted.min(allowed / kinds)).max(1)
}

/// The same by the memory (`None`: nobody knows how much there is).
pub(crate) fn most_in_memory(wanted: usize, kinds: usize, memory: Option<u64>) -> usize {
    let allowed = memory.map(|memory| memory / MEMORY_ONE_OF / CONNECTION_BYTES);
    let allowed = allowed.map(|allowed| usize::try_from(allowed).unwrap_or(usize::MAX));
    allowed.map_or(wanted, |allowed| wanted.min((allowed / kinds).max(IN_ANY_MEMORY)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_reserved_for_the_store() {
        assert_eq!(most(16_384, 1, None), 16_384);
        assert_eq!(most(16_384, 1, Some(1 << 20)), 16_384);
        assert_eq!(most(16_384, 1, Some(10_000)), 7_952);
        assert_eq!(most(16_384, 1, Some(1_024)), 768);
        assert_eq!(most(100, 1, Some(1_024)), 100);
        assert_eq!(most(100, 1, Some(0)), 1);
    }

    #[test]
    fn each_kind_has_as_many_connections_and_all_have_descriptors() {
        assert_eq!(most(16_384, 2, Some(65_536)), 16_384);
        assert_eq!(most(16_384, 2, Some(10_000)), 3_976);
    }

    #[test]
    fn connections_of_all_kinds_take_a_quarter_of_the_memory_and_some_are_always_possible() {
        assert_eq!(most_in_memory(16_384, 2, None), 16_384);
        assert_eq!(most_in_memory(16_384, 2, Some(2 << 30)), 16_384);
        assert_eq!(most_in_memory(16_384, 2, Some(512 << 20)), 4_096);
        assert_eq!(most_in_memory(16_384, 1, Some(512 << 20)), 8_192);
        assert_eq!(most_in_memory(16_384, 2, Some(200_000_000)), 1_525);
        assert_eq!(most_in_memory(16_384, 2, Some(100_000_000)), 762);
        assert_eq!(most_in_memory(16_384, 2, Some(0)), 64);
        assert_eq!(most_in_memory(10, 2, Some(0)), 10);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let allowed = raise_descriptor_limit();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!((current, allowed), (maximum, maximum));
    }
}
