//! Objects that were read, so that one that has several versions, or resources, is not read again for
//! each.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use preservation::about::About;
use preservation::archived::ArchivedVersion;

use super::changes::Changes;

/// The most bytes of objects that are kept beside the one with the most, by estimate.
pub const KEPT_BYTES_MAX: usize = 64 << 20;

/// Locks of readers. An object has one of them, by its folder.
const LOCKS: usize = 16;

/// The resources of an object, by their paths.
#[derive(Default)]
pub(super) struct Resources {
    changes: HashMap<String, Arc<Changes>>,
    len_bytes: usize,
}

/// Objects that were read.
#[derive(Default)]
pub(super) struct Opened {
    kept: Mutex<Kept>,
    /// Held by readers, so that several that want one object read it once.
    reading: [Mutex<()>; LOCKS],
    hasher: RandomState,
}

/// Objects in memory. The one with the most bytes stays, because it takes the longest to read. Of the
/// others, those that were used last stay.
#[derive(Default)]
struct Kept {
    objects: HashMap<Arc<Path>, Object>,
    /// The folders of objects by the numbers of their last uses.
    order: BTreeMap<u64, Arc<Path>>,
    /// How often an object was used.
    uses: u64,
    len_bytes: usize,
    /// The folder and the bytes of the object with the most.
    greatest: Option<(Arc<Path>, usize)>,
}

struct Object {
    resources: Arc<Resources>,
    /// The number of its last use.
    used: u64,
}

impl Resources {
    /// Adds a resource.
    pub fn insert(&mut self, path: String, changes: Changes) {
        self.len_bytes += path.len() + len_bytes_of(&changes.versions);
        self.changes.insert(path, Arc::new(changes));
    }

    /// The changes of a resource.
    pub fn get(&self, path: &str) -> Option<Arc<Changes>> {
        self.changes.get(path).cloned()
    }
}

impl Opened {
    /// The resources of the object in a folder, if they are kept.
    pub fn known(&self, folder: &Arc<Path>) -> Option<Arc<Resources>> {
        self.kept.lock().get(folder)
    }

    /// The resources of the object in a folder. `read` reads them if they are not kept.
    pub fn resources(
        &self,
        folder: &Arc<Path>,
        read: impl FnOnce() -> anyhow::Result<Resources>,
    ) -> anyhow::Result<Arc<Resources>> {
        if let Some(known) = self.known(folder) {
            return Ok(known);
        }
        let number = self.hasher.hash_one(folder) % LOCKS as u64;
        let _reading = self.reading[number as usize].lock();
        match self.known(folder) {
            Some(known) => Ok(known),
            None => Ok(self.keep(folder, read()?)),
        }
    }

    /// Keeps the resources of an object that is not kept.
    pub fn keep(&self, folder: &Arc<Path>, resources: Resources) -> Arc<Resources> {
        let resources = Arc::new(resources);
        self.kept.lock().insert(folder, resources.clone());
        resources
    }
}

impl Kept {
    fn get(&mut self, folder: &Arc<Path>) -> Option<Arc<Resources>> {
        let object = self.objects.get_mut(folder)?;
        self.uses += 1;
        self.order.remove(&object.used);
        self.order.insert(self.uses, folder.clone());
        object.used = self.uses;
        Some(object.resources.clone())
    }

    fn insert(&mut self, folder: &Arc<Path>, resources: Arc<Resources>) {
        let len_bytes = resources.len_bytes;
        if self.greatest.as_ref().is_none_or(|(_, most)| len_bytes > *most) {
            let before = self.greatest.replace((folder.clone(), len_bytes));
            // It is one of the others from now on.
            if let Some((before, _)) = before.filter(|(_, len_bytes)| *len_bytes > KEPT_BYTES_MAX) {
                self.remove(&before);
            }
        } else if len_bytes > KEPT_BYTES_MAX {
            return;
        }
        self.uses += 1;
        self.len_bytes += len_bytes;
        self.order.insert(self.uses, folder.clone());
        self.objects.insert(folder.clone(), Object { resources, used: self.uses });
        self.make_room();
    }

    fn make_room(&mut self) {
        let Some((greatest, most)) = self.greatest.clone() else { return };
        while self.len_bytes.saturating_sub(most) > KEPT_BYTES_MAX {
            let Some(oldest) = self.order.values().find(|folder| **folder != greatest).cloned() else { return };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, folder: &Arc<Path>) {
        if let Some(object) = self.objects.remove(folder) {
            self.order.remove(&object.used);
            self.len_bytes -= object.resources.len_bytes;
        }
    }
}

/// About how many bytes versions take in memory.
pub fn len_bytes_of(versions: &[ArchivedVersion]) -> usize {
    let of_state = |version: &ArchivedVersion| {
        let state = version.state.as_ref()?;
        let About { repository, path, types, content_type, content_disposition, last_modified, stored_at, handling } =
            &state.about;
        let said = [content_type, content_disposition, last_modified, stored_at, handling];
        let said = said.into_iter().flatten().chain(types).chain([repository, path]).map(String::len).sum::<usize>();
        let files = [Some(&state.statements), state.bytes.as_ref()];
        let files = files.into_iter().flatten().map(|file| file.place.as_os_str().len() + file.digest.len());
        Some(said + files.sum::<usize>())
    };
    let each = |version: &ArchivedVersion| {
        size_of::<ArchivedVersion>() + version.created.len() + of_state(version).unwrap_or_default()
    };
    versions.iter().map(each).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Objects of which reads are counted.
    #[derive(Default)]
    struct Counted {
        opened: Opened,
        reads: AtomicUsize,
    }

    impl Counted {
        /// Opens an object that takes so many bytes. Returns how often one was read until then.
        fn open(&self, folder: &str, len_bytes: usize) -> usize {
            let read = || {
                self.reads.fetch_add(1, Ordering::Relaxed);
                Ok(Resources { changes: HashMap::new(), len_bytes })
            };
            let folder: Arc<Path> = Path::new(folder).into();
            self.opened.resources(&folder, read).unwrap();
            self.reads.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn an_object_that_is_greater_than_all_others_together_is_read_once() {
        let objects = Counted::default();
        for n in 0..100 {
            assert_eq!(objects.open("great", 3 * KEPT_BYTES_MAX), n + 1);
            assert_eq!(objects.open(&format!("small-{n}"), KEPT_BYTES_MAX / 2), n + 2);
        }
    }

    #[test]
    fn objects_that_were_used_last_stay_until_there_is_no_room() {
        let objects = Counted::default();
        let third = KEPT_BYTES_MAX / 3;
        // The first one is the greatest, and is not counted.
        for (n, folder) in ["great", "a", "b", "c"].into_iter().enumerate() {
            assert_eq!(objects.open(folder, third + usize::from(n == 0)), n + 1);
        }
        assert_eq!(objects.open("a", third), 4);
        assert_eq!(objects.open("d", third), 5);
        assert_eq!(objects.open("a", third), 5, "it was used before the last one");
        assert_eq!(objects.open("b", third), 6, "nothing was given up");
    }

    #[test]
    fn two_objects_that_do_not_fit_beside_each_other_leave_the_small_ones() {
        let objects = Counted::default();
        let great = 2 * KEPT_BYTES_MAX;
        objects.open("small", 1);
        objects.open("one", great);
        assert_eq!(objects.open("other", great), 3);
        assert_eq!(objects.open("small", 1), 3);
        assert_eq!(objects.open("one", great), 3);
        // The greatest one takes the place of the one before.
        assert_eq!(objects.open("greatest", great + 1), 4);
        assert_eq!(objects.open("small", 1), 4);
        assert_eq!(objects.open("one", great), 5);
        assert_eq!(objects.opened.kept.lock().len_bytes, 1 + great + 1);
    }

    #[test]
    fn several_that_want_one_object_read_it_once() {
        let (objects, begin) = (Counted::default(), Barrier::new(8));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    begin.wait();
                    objects.open("group", 1)
                });
            }
        });
        assert_eq!(objects.open("group", 1), 1);
    }
}
