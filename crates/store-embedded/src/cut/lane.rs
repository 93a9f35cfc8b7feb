//! The part of a cut that is one lane's database.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use store::{StoreError, StoreResult};

use super::link;
use crate::files::io_error;
use crate::opening::record::Mark;
use crate::opening::versions::{self, List};
use crate::opening::{journal, known_path, record_path};
use crate::private;
use crate::recorder::Recorder;
use crate::space::Space;
use crate::tables::Tables;

/// How long the engine may take to put a list in force that it has written.
const LIST_WAIT: Duration = Duration::from_secs(10);

/// How often that is looked at.
const LIST_POLL: Duration = Duration::from_millis(1);

/// What was seen of a lane while no group was committed.
pub(super) struct LaneCut {
    path: PathBuf,
    cut: PathBuf,
    /// The last group that belongs to the cut.
    last: Mark,
    keyspaces: Vec<KeyspaceCut>,
}

/// What keeps files from being deleted while it exists.
type Kept = Box<dyn Any + Send>;

/// What was seen of a keyspace.
struct KeyspaceCut {
    number: u64,
    list: List,
    /// Keeps the files of the list; `None`: nobody deletes them.
    _kept: Option<Kept>,
}

impl LaneCut {
    /// Takes the lane as it is. Groups are synced, and none is committed until this returns.
    pub(super) fn take(path: &Path, cut: &Path, tables: &Tables, held: &Recorder) -> StoreResult<Self> {
        let taking = |source| io_error("linking the database in", path, source);
        // Journals come first. The engine deletes a journal only once lists name files with all its
        // rows, so lists that are read later do without it.
        private::create_folders(cut).map_err(taking)?;
        link_journals(path, cut).map_err(taking)?;
        let keyspaces = (0..Space::count(tables.lane())).map(|number| {
            let (from, to) = (versions::keyspace(path, number), versions::keyspace(cut, number));
            let (list, _kept) = take_keyspace(&from, &to, || tables.version_of(number))?;
            Ok(KeyspaceCut { number, list, _kept })
        });
        let keyspaces = keyspaces.collect::<StoreResult<_>>()?;
        // It is written in place.
        let record = fs::read(record_path(path)).map_err(taking)?;
        private::create_new(&record_path(cut)).and_then(|mut file| file.write_all(&record)).map_err(taking)?;
        if known_path(path).exists() {
            link(&known_path(path), &known_path(cut)).map_err(taking)?;
        }
        Ok(Self { path: path.to_path_buf(), cut: cut.to_path_buf(), last: held.last_mark(), keyspaces })
    }

    /// The database's id, in hexadecimal digits.
    pub(super) fn database(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.last.database.0))
    }

    /// Links the files of rows, and describes the files by their paths in the `folder` of the cut.
    pub(super) fn finish(
        self,
        folder: &Path,
        lengths: &mut BTreeMap<String, u64>,
        checksums: &mut BTreeMap<String, String>,
    ) -> StoreResult<()> {
        let linking = |source| io_error("linking the database in", &self.path, source);
        let name = |path: &Path| path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned();
        for KeyspaceCut { number, list, _kept } in &self.keyspaces {
            let from = versions::tables(&versions::keyspace(&self.path, *number));
            let to = versions::tables(&versions::keyspace(&self.cut, *number));
            for table in list.tables() {
                let to = to.join(table.id.to_string());
                link(&from.join(table.id.to_string()), &to).map_err(linking)?;
                checksums.insert(name(&to), format!("{:032x}", table.checksum));
            }
        }
        for (_, journal) in journal::list(&self.cut).map_err(linking)? {
            lengths.insert(name(&journal), journal::end_of(&journal, self.last).map_err(linking)?);
        }
        link(&self.path.join("version"), &self.cut.join("version")).map_err(linking)?;
        private::create_new(&self.cut.join("lock")).map_err(linking)?;
        Ok(())
    }
}

/// Links all journals, the newest first: the engine deletes the oldest one first, so there is no gap
/// between those that are linked.
fn link_journals(path: &Path, cut: &Path) -> io::Result<()> {
    for (id, journal) in journal::list(path)?.into_iter().rev() {
        match link(&journal, &journal::path(cut, id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            linked => linked?,
        }
    }
    Ok(())
}

/// Links the list in force of a keyspace. `version_of` returns the number of the list that the
/// engine reads, and what keeps its files; `None`: the engine never changes the list.
fn take_keyspace(
    from: &Path,
    to: &Path,
    version_of: impl Fn() -> Option<(u64, Kept)>,
) -> StoreResult<(List, Option<Kept>)> {
    let taking = |source| io_error("linking the list of", from, source);
    private::create_folders(&versions::tables(to)).map_err(taking)?;
    link(&versions::owner(from), &versions::owner(to)).map_err(taking)?;
    let began = Instant::now();
    loop {
        let kept = version_of();
        match link_list(from, to) {
            Ok(()) => {
                let list = List::current(to).map_err(|problem| StoreError::Unavailable(problem.to_string()))?;
                if kept.as_ref().is_none_or(|(version, _)| *version == list.version) {
                    return Ok((list, kept.map(|(_, kept)| kept)));
                }
                fs::remove_file(versions::list(to, list.version)).map_err(taking)?;
            }
            // The engine has just replaced it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(taking(error)),
        }
        fs::remove_file(versions::current(to)).map_err(taking)?;
        if began.elapsed() > LIST_WAIT {
            return Err(StoreError::Unavailable(format!("the list of {} does not settle", from.display())));
        }
        thread::sleep(LIST_POLL);
    }
}

/// Links the file that names the list in force, and then the list.
fn link_list(from: &Path, to: &Path) -> io::Result<()> {
    link(&versions::current(from), &versions::current(to))?;
    let version = versions::version_in_force(to)?;
    link(&versions::list(from, version), &versions::list(to, version))
}
