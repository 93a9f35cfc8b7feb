//! The folder of a cut: how it is made and deleted.
//!
//! A cut is deleted when nobody holds a lock on its file `lock`. The operating system releases the
//! locks of a process that dies, so a cut that nobody needs is found however its readers ended.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use store::{Cut, StoreResult};

use crate::files::io_error;
use crate::private;

/// Held while a cut is made, so that no other call takes it for one that was left behind.
static MAKING: Mutex<()> = Mutex::new(());

/// The folder of a cut that this process makes. It is deleted with the value, unless it is handed
/// over.
#[derive(Debug)]
pub(super) struct CutFolder {
    path: PathBuf,
    name: String,
    /// `None`: it was handed over.
    lock: Option<File>,
}

impl CutFolder {
    /// Makes an empty one in a data folder, and deletes those that nobody reads any more.
    pub(super) fn make(data: &Path) -> StoreResult<Self> {
        let _one_at_a_time = MAKING.lock();
        clear(data);
        let name = format!("{:016x}", rand::random::<u64>());
        let cuts = data.join(Cut::FOLDER);
        let path = cuts.join(&name);
        let making = |source| io_error("making a cut in", &cuts, source);
        private::create_folders(&path).map_err(making)?;
        let lock = private::create_new(&path.join(Cut::LOCK)).map_err(making)?;
        lock.lock_shared().map_err(making)?;
        let made = Self { path, name, lock: Some(lock) };
        for folder in ["contents", "db"] {
            private::create_folders(&made.path.join(folder)).map_err(making)?;
        }
        Ok(made)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Leaves the cut to its readers. It is deleted once there are none.
    pub(super) fn hand_over(mut self) {
        let (path, lock) = (self.path.clone(), self.lock.take());
        tokio::spawn(async move {
            tokio::time::sleep(Cut::HANDED_OVER_WITHIN).await;
            drop(lock);
            let mut is_there = true;
            while is_there {
                let looked = path.clone();
                let cleared = tokio::task::spawn_blocking(move || {
                    delete_unread(&looked);
                    looked.exists()
                });
                is_there = cleared.await.unwrap_or(false);
                tokio::time::sleep(Cut::HANDED_OVER_WITHIN).await;
            }
        });
    }
}

impl Drop for CutFolder {
    fn drop(&mut self) {
        if self.lock.take().is_some() {
            delete_unread(&self.path);
        }
    }
}

/// Deletes the cuts in a data folder that nobody reads: those of processes that died.
pub(crate) fn clear(data: &Path) {
    let Ok(cuts) = fs::read_dir(data.join(Cut::FOLDER)) else { return };
    cuts.filter_map(|cut| Some(cut.ok()?.path())).for_each(|cut| delete_unread(&cut));
}

/// Deletes a cut unless somebody reads it.
fn delete_unread(cut: &Path) {
    // One without the file is half made or half deleted, by a process that died.
    let lock = File::open(cut.join(Cut::LOCK));
    if lock.as_ref().is_ok_and(|lock| lock.try_lock().is_err()) {
        return;
    }
    match fs::remove_dir_all(cut) {
        Err(error) if cut.exists() => {
            tracing::warn!(%error, cut = %cut.display(), "a cut that nobody reads cannot be deleted");
        }
        _ => {}
    }
}
