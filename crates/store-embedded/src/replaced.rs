//! Deletes the files that merging has replaced, and frees the memtables that were written to files,
//! on a thread where nobody waits for it.
//!
//! Each list of files (a version of lsm-tree) shares its files with others, and the last one that
//! lets go of a file deletes it. In fjall that is a thread that merges or flushes, while it holds a
//! lock that every read and every write takes. The system needs tens of milliseconds to delete a
//! file of 64 MiB that it has cached, and a merge replaces many. Reads and writes waited for
//! hundreds of milliseconds. So a thread here keeps each list until fjall has let go of it.
//!
//! A memtable is freed likewise, row by row. So the thread keeps each one until nobody else has it.
//!
//! This is how lsm-tree 3.1.10 works: `SuperVersions::maintenance` lets go of both. Read it again
//! before you take another version: the tests do not notice if it lets go after the lock.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fjall::AbstractTree;
use lsm_tree::{AnyTree, Memtable};
use store::Lane;

use crate::priority;

/// How often it looks for new ones while there are some now and then.
const LOOK: Duration = Duration::from_millis(50);

/// How often it looks otherwise.
const QUIET_LOOK: Duration = Duration::from_secs(1);

/// After so many looks without a new one there are none.
const QUIET_LOOKS: u32 = 200;

/// The thread for what a lane has replaced. Dropping it ends the thread.
pub(crate) struct Replaced {
    is_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Replaced {
    /// Starts the thread for the trees of a lane.
    ///
    /// Errors: the operating system gives no thread.
    pub(crate) fn start(lane: Lane, trees: impl Iterator<Item = AnyTree>) -> io::Result<Self> {
        let is_ended = Arc::new(AtomicBool::new(false));
        let mut kept: Vec<Kept> = trees.map(Kept::of).collect();
        let ended = is_ended.clone();
        let delete = move || {
            priority::lower();
            let mut quiet_looks = 0;
            while !ended.load(Ordering::Acquire) {
                let mut is_quiet = true;
                for of_tree in &mut kept {
                    is_quiet &= !of_tree.look();
                }
                quiet_looks = if is_quiet { (quiet_looks + 1).min(QUIET_LOOKS) } else { 0 };
                thread::park_timeout(if quiet_looks < QUIET_LOOKS { LOOK } else { QUIET_LOOK });
            }
        };
        let thread = thread::Builder::new().name(format!("delete-{lane}")).spawn(delete)?;
        Ok(Self { is_ended, thread: Some(thread) })
    }

    /// Has the thread look at once.
    pub(crate) fn look(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        self.is_ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the thread that deletes what was replaced panicked");
            }
        }
    }
}

/// What a tree may still have.
struct Kept {
    tree: AnyTree,
    /// The number of each list, and the list, whose type has no public name. The oldest ones are first.
    lists: VecDeque<(u64, Box<dyn Any + Send>)>,
    memtables: Vec<Arc<Memtable>>,
}

impl Kept {
    fn of(tree: AnyTree) -> Self {
        Self { tree, lists: VecDeque::new(), memtables: Vec::new() }
    }

    /// Keeps the list and the memtable in force, and lets go of those that fjall has let go of.
    /// Returns whether one of them is new.
    fn look(&mut self) -> bool {
        let is_memtable_new = self.look_for_memtables();
        self.look_for_lists() || is_memtable_new
    }

    fn look_for_lists(&mut self) -> bool {
        let current = self.tree.current_version();
        let number = current.id();
        let is_new = self.lists.back().is_none_or(|(newest, _)| *newest != number);
        if is_new {
            self.lists.push_back((number, Box::new(current)));
        }
        // fjall has the newest ones: the one in force, and at most so many before it.
        let had = 1 + self.tree.version_free_list_len();
        self.lists.drain(..self.lists.len().saturating_sub(had));
        is_new
    }

    fn look_for_memtables(&mut self) -> bool {
        let active = self.tree.active_memtable();
        let is_new = self.memtables.last().is_none_or(|newest| !Arc::ptr_eq(newest, &active));
        if is_new {
            self.memtables.push(active);
        }
        // Nobody can take one again that only this thread has.
        self.memtables.retain(|memtable| Arc::strong_count(memtable) > 1);
        is_new
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use lsm_tree::{Config, SequenceNumberCounter};

    use super::*;

    /// Later than all that a test writes, so that nobody needs an older list.
    const LATER: u64 = 1 << 40;

    /// An empty tree, with the counter of what is written to it.
    fn tree(folder: &Path) -> (AnyTree, SequenceNumberCounter) {
        let written = SequenceNumberCounter::default();
        let visible = SequenceNumberCounter::default();
        (Config::new(folder, written.clone(), visible).open().unwrap(), written)
    }

    /// Writes a file with one row.
    fn write((tree, written): &(AnyTree, SequenceNumberCounter)) {
        tree.insert("key", "value", written.next());
        tree.flush_active_memtable(LATER).unwrap();
    }

    fn files(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder.join("tables")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn files_that_a_merge_has_replaced_are_deleted_by_the_one_that_looks_for_lists() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path());
        let mut kept = Kept::of(tree.0.clone());
        for _ in 0..2 {
            write(&tree);
            assert!(kept.look());
        }
        let replaced = files(folder.path());
        assert_eq!(replaced.len(), 2);
        // The tree lets go of the lists before the merge.
        tree.0.major_compact(u64::MAX, LATER).unwrap();
        write(&tree);
        write(&tree);
        assert!(files(folder.path()).is_superset(&replaced), "merging or writing has deleted files");
        assert!(kept.look());
        assert!(files(folder.path()).is_disjoint(&replaced), "replaced files are still there");
        assert!(!kept.look());
    }

    #[test]
    fn a_memtable_that_was_written_to_a_file_is_freed_by_the_one_that_looks() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path());
        let mut kept = Kept::of(tree.0.clone());
        assert!(kept.look());
        let written = Arc::downgrade(&tree.0.active_memtable());
        // The tree lets go of a memtable with the list before the one that has its file.
        for _ in 0..3 {
            write(&tree);
        }
        assert_eq!(written.strong_count(), 1, "the tree still has it");
        assert!(kept.look());
        assert_eq!(written.strong_count(), 0, "nobody frees it");
        assert_eq!(kept.memtables.len(), 1);
    }

    #[test]
    fn without_it_merging_and_writing_delete_them() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path());
        write(&tree);
        write(&tree);
        let replaced = files(folder.path());
        tree.0.major_compact(u64::MAX, LATER).unwrap();
        write(&tree);
        write(&tree);
        assert!(files(folder.path()).is_disjoint(&replaced), "merging and writing leave them to others");
    }

    #[test]
    fn the_thread_deletes_them_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let tree = tree(folder.path());
        let deleting = Replaced::start(Lane::Records, [tree.0.clone()].into_iter()).unwrap();
        priority::tests::until_lower("delete-records");
        write(&tree);
        let replaced = files(folder.path());
        tree.0.major_compact(u64::MAX, LATER).unwrap();
        write(&tree);
        write(&tree);
        let begun = std::time::Instant::now();
        while !files(folder.path()).is_disjoint(&replaced) {
            assert!(begun.elapsed() < Duration::from_secs(60), "they are still there");
            thread::yield_now();
        }
        drop(deleting);
    }
}
