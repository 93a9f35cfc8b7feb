//! The number of connections at the same time: each needs a descriptor, and the operating system
//! limits those of a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are reserved for the store, its files and the listeners. If the limit is low, a
/// quarter of it is reserved.
const KEPT_BACK: u64 = 2_048;

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

/// The number of connections that are possible of each of so many kinds, at most `wanted`.
pub(crate) fn connections(wanted: usize, kinds: usize) -> usize {
    let descriptors = raise_descriptor_limit();
    let most = most(wanted, kinds, descriptors);
    if most < wanted {
        tracing::warn!(
            descriptors,
            connections = most,
            "limits.connections is more than the limit of descriptors allows"
        );
    }
    most
}

fn most(wanted: usize, kinds: usize, descriptors: Option<u64>) -> usize {
    let allowed = descriptors.map(|descriptors| descriptors - KEPT_BACK.min(descriptors / 4));
    let allowed = allowed.map(|allowed| usize::try_from(allowed).unwrap_or(usize::MAX));
    allowed.map_or(wanted, |allowed| wanted.min(allowed / kinds)).max(1)
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
    fn the_soft_limit_becomes_the_hard_one() {
        let allowed = raise_descriptor_limit();
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!((current, allowed), (maximum, maximum));
    }
}
