//! Reads what is loaded of Fedora ahead, in its order and on a thread of its own, so that the one who
//! makes the versions only sends them. It gives away several together, so that neither side wakes the
//! other for each.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use super::super::loader::{Loader, State, Statements};
use super::super::source::{Bytes, Source};
use super::archive::{Archive, Loading, Moment, What};
use super::changes::Changes;

/// Versions that are given away together. Three times as many are in memory at most: those that are
/// made, those that wait, and those that are being read.
const TOGETHER: usize = 16;

/// Versions with more bytes than this are given away without others after them.
const TOGETHER_BYTES_MAX: usize = 1 << 20;

/// The most bytes of statements, and of a binary, that are read ahead. Longer ones wait for their turn.
const STATEMENTS_BYTES_MAX: u64 = 1 << 20;
const BINARY_BYTES_MAX: u64 = 64 << 10;

/// The objects that are not loaded any further.
pub(super) type GivenUp = Arc<Mutex<HashSet<usize>>>;

/// A version whose turn comes.
pub(super) struct Ready {
    /// How many versions come before it.
    pub number: u64,
    pub moment: Moment,
    /// Its object; `None` if that is not read ahead.
    pub loading: Option<anyhow::Result<Loading>>,
    /// The state to make; `None` if it is not read ahead, or nothing is made.
    pub state: Option<anyhow::Result<State>>,
}

/// The versions that are read ahead, in their order.
pub(super) struct Versions {
    groups: mpsc::Receiver<Vec<Ready>>,
    /// The rest of the group that came last.
    group: std::vec::IntoIter<Ready>,
}

impl Versions {
    /// The next version; `None` after the last one.
    pub async fn recv(&mut self) -> Option<Ready> {
        loop {
            if let Some(ready) = self.group.next() {
                return Some(ready);
            }
            self.group = self.groups.recv().await?.into_iter();
        }
    }
}

/// Reads the versions of an archive, except those of objects that were given up.
pub(super) fn read_ahead(
    archive: &Arc<Archive>,
    loader: &Arc<Loader>,
    given_up: &GivenUp,
) -> (Versions, JoinHandle<()>) {
    let (sender, groups) = mpsc::channel(1);
    let (archive, loader, given_up) = (archive.clone(), loader.clone(), given_up.clone());
    let reader = spawn_blocking(move || {
        let (mut group, mut group_bytes) = (Vec::new(), 0);
        for (number, moment) in (0..).zip(&archive.order) {
            if given_up.lock().contains(&moment.object) {
                continue;
            }
            let loading = archive.is_of_fedora(moment.object).then(|| Loading::open(&archive, moment.object));
            let state = match &loading {
                Some(Ok(Loading { what: What::Resource(changes), .. })) => state(changes, moment.version, &loader),
                Some(Err(_)) => {
                    // It would fail again for each of its versions.
                    given_up.lock().insert(moment.object);
                    None
                }
                _ => None,
            };
            group_bytes += state.as_ref().map_or(0, len_bytes);
            group.push(Ready { number, moment: *moment, loading, state });
            if group.len() == TOGETHER || group_bytes > TOGETHER_BYTES_MAX {
                group_bytes = 0;
                // The other side leaves before the end only with an error of its own.
                if sender.blocking_send(std::mem::take(&mut group)).is_err() {
                    return;
                }
            }
        }
        let _ = sender.blocking_send(group);
    });
    (Versions { groups, group: Vec::new().into_iter() }, reader)
}

/// How many bytes of a state are in memory.
fn len_bytes(state: &anyhow::Result<State>) -> usize {
    let Ok(State { statements, bytes, .. }) = state else { return 0 };
    let statements = match statements {
        Statements::Exported(text) => text.len(),
        Statements::Moved(text) => text.len(),
    };
    let bytes = match bytes {
        Some(Bytes { source: Source::Held(bytes), .. }) => bytes.len(),
        _ => 0,
    };
    statements + bytes
}

/// The state of a version, unless it takes much memory, or nothing is made of it.
fn state(changes: &Changes, version: usize, loader: &Loader) -> Option<anyhow::Result<State>> {
    let steps = changes.steps.get(changes.steps_of(version))?;
    if steps.is_empty() || changes.statements_len_bytes(version) > STATEMENTS_BYTES_MAX {
        return None;
    }
    let mut state = changes.state(version, loader);
    if let Ok(State { bytes: Some(bytes), .. }) = &mut state
        && steps.iter().any(|step| step.sends_bytes())
    {
        bytes.source.hold(BINARY_BYTES_MAX);
    }
    Some(state)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::super::fedora::{self, recorded};
    use super::super::super::report::Report;
    use super::*;

    /// A loader by which nothing is sent.
    fn loader() -> Arc<Loader> {
        Arc::new(Loader::of(axum::Router::new()))
    }

    #[tokio::test]
    async fn versions_are_read_ahead_in_their_order_with_what_is_sent() {
        let folder = recorded::unpacked();
        let report = Arc::new(Report::create(None).unwrap());
        let archive = fedora::checked(folder.path(), report).await.unwrap().archive;
        let (mut versions, reader) = read_ahead(&archive, &loader(), &GivenUp::default());
        let (mut moments, mut held) = (Vec::new(), 0);
        while let Some(Ready { number, moment, loading, state }) = versions.recv().await {
            assert_eq!(number, moments.len() as u64);
            assert!(loading.is_some_and(|loading| loading.is_ok()));
            if let Some(state) = state {
                let state = state.unwrap();
                assert!(matches!(state.statements, Statements::Moved(_)), "they are parsed when they are sent");
                held += usize::from(state.bytes.is_some_and(|bytes| matches!(bytes.source, Source::Held(_))));
            }
            moments.push(moment);
        }
        reader.await.unwrap();
        assert_eq!(moments, archive.order);
        assert!(held > 0, "short bytes are read when they are sent");
    }

    #[tokio::test]
    async fn versions_are_given_away_together() {
        let folder = recorded::unpacked();
        let report = Arc::new(Report::create(None).unwrap());
        let archive = fedora::checked(folder.path(), report).await.unwrap().archive;
        let (mut versions, reader) = read_ahead(&archive, &loader(), &GivenUp::default());
        let mut groups = Vec::new();
        while let Some(group) = versions.groups.recv().await {
            groups.push(group.len());
        }
        reader.await.unwrap();
        let all = archive.order.len();
        assert!(all > 3 && groups.iter().sum::<usize>() == all, "{groups:?}");
        assert_eq!(groups.iter().filter(|len| **len == TOGETHER).count(), all / TOGETHER, "{groups:?}");
    }

    #[tokio::test]
    async fn what_was_given_up_is_not_read_and_what_cannot_be_read_is_given_up() {
        let folder = recorded::unpacked();
        let report = Arc::new(Report::create(None).unwrap());
        let archive = fedora::checked(folder.path(), report).await.unwrap().archive;
        // What has a mutable head was not kept.
        folder.close().unwrap();
        let given_up = GivenUp::default();
        let root = archive.places[""];
        given_up.lock().insert(root);
        let (mut versions, reader) = read_ahead(&archive, &loader(), &given_up);
        let mut failed = Vec::new();
        while let Some(Ready { moment, loading, .. }) = versions.recv().await {
            assert_ne!(moment.object, root);
            if loading.is_some_and(|loading| loading.is_err()) {
                failed.push(moment.object);
            }
        }
        reader.await.unwrap();
        let once = failed.iter().collect::<HashSet<_>>().len();
        assert!(once > 1 && once == failed.len(), "each is tried once: {failed:?}");
    }
}
