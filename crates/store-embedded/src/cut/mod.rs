//! Makes cuts: a folder with hard links to all files of the store as they are at one moment, which
//! a backup then copies for as long as it takes. The store goes on meanwhile.
//!
//! 1. Files of large contents are linked. There may be many of them.
//! 2. Removals of contents wait from here on, and no group is committed in any lane. That is the
//!    moment of the cut. `lane.rs` links journals and lists of files, which takes milliseconds.
//! 3. Groups are committed again. Files of rows are linked: the engine deletes none that somebody
//!    still reads. Contents that came since the first step are linked, and removals go on. Then the
//!    links to contents are removed that the headers of that moment do not call sealed: uploads may
//!    still write to their files.
//!
//! Files of rows and of sealed contents never change, and journals only grow: how many of their
//! bytes belong to the cut is in [`Cut::lengths`]. So what a backup copies is what a crash at that
//! moment would have left, and opening it is the same as opening that.

mod contents;
pub(crate) mod folder;
mod lane;

use std::collections::BTreeMap;
use std::path::Path;

use store::{Cut, Deadline, Lane, Store, StoreResult, Table};

use crate::blocking::blocking;
use crate::database::Database;
use crate::engine::EmbeddedStore;
use crate::files::io_error;
use folder::CutFolder;
use lane::LaneCut;

impl EmbeddedStore {
    /// Makes a cut, and keeps it until nobody reads it.
    pub(crate) async fn make_cut(&self, deadline: Deadline) -> StoreResult<Cut> {
        let (database, removals) = (self.database()?, self.removals.clone());
        let (level, now) = (self.level().number(), self.now());
        let made = blocking(deadline, move || {
            let folder = CutFolder::make(database.folder.path())?;
            let (from, to) = (database.folder.contents(), folder.path().join("contents"));
            let linked = contents::link_all(&from, &to)?;
            let no_removals = removals.blocking_write();
            let (lanes, view) = {
                let held = database.tables.iter().map(|(lane, tables)| (lane, tables, tables.hold()));
                let held: Vec<_> = held.collect();
                let lanes = held.into_iter().map(|(lane, tables, mut held)| {
                    tables.sync_held(&mut held)?;
                    Ok((LaneCut::take(&database.folder.database(lane), &path_in(&folder, lane), tables, &held)?, held))
                });
                // Every lane is held until the last one is taken.
                let lanes: Vec<_> = lanes.collect::<StoreResult<_>>()?;
                let view = database.tables.of(Table::Contents.lane()).view();
                (lanes.into_iter().map(|(lane, _)| lane).collect::<Vec<_>>(), view)
            };
            contents::link_new(&from, &to, &linked, &view, now)?;
            drop(no_removals);
            contents::unlink_others(&to, &linked, &view, now)?;
            drop(view);
            let cut = finish(&database, &folder, lanes, level)?;
            Ok((cut, folder))
        });
        let (cut, folder) = made.await?;
        folder.hand_over();
        Ok(cut)
    }
}

fn path_in(folder: &CutFolder, lane: Lane) -> std::path::PathBuf {
    folder.path().join("db").join(lane.name())
}

/// Links what is still there, and describes the cut.
fn finish(database: &Database, folder: &CutFolder, lanes: Vec<LaneCut>, level: u32) -> StoreResult<Cut> {
    let format = database.folder.path().join("format");
    link(&format, &folder.path().join("format")).map_err(|source| io_error("linking", &format, source))?;
    let store = lanes.first().map(LaneCut::database).unwrap_or_default();
    let (mut lengths, mut checksums) = (BTreeMap::new(), BTreeMap::new());
    for lane in lanes {
        lane.finish(folder.path(), &mut lengths, &mut checksums)?;
    }
    Ok(Cut { folder: format!("{}/{}", Cut::FOLDER, folder.name()), store, level, lengths, checksums })
}

/// Links a file under another name.
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::hard_link(from, to)
}
