//! A portal: static pages over the runs of an archive, in one folder that needs no network.
//!
//! | file | |
//! |---|---|
//! | `index.html` | all runs, to filter, to sort, and to compare |
//! | `runs.json` | their main figures and facts, for programs |
//! | `runs/ID/report.html` | the report of a run, made from its data, which are there to download |
//! | `runs/ID/data.js` | what a comparison needs of it |
//!
//! - `source.rs` takes runs from the archive; `row.rs` sums one up; `data.rs`, `resamples.rs` and
//!   `settings.rs` prepare comparisons; `folder.rs` keeps the folder; `index.rs` and `table.rs` are
//!   the page.

mod data;
mod folder;
mod index;
mod resamples;
mod row;
mod settings;
mod source;
mod table;

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use thiserror::Error;

use crate::archive::{ArchiveError, ArchivedRun};
use crate::report::Ceiling;
use crate::report::ceiling::Ceilings;
use folder::Folder;
use row::Row;
use source::Failure;

/// What was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// How many runs the portal has.
    pub runs: usize,
    /// What the archive holds besides.
    pub refused: Vec<Refused>,
}

/// A folder of the archive that is no run, or a damaged one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// Why it is not published.
    pub reason: String,
}

/// Why there is no portal.
#[derive(Debug, Error)]
pub enum PortalError {
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The folder holds something else.
    #[error("{} holds {name}, which no portal has written; name a new or an empty folder", folder.display())]
    Foreign {
        /// The folder.
        folder: PathBuf,
        /// What it holds.
        name: String,
    },
    /// Another publication writes the folder.
    #[error("{}: another publication writes this folder; try again when it is done", .0.display())]
    Busy(PathBuf),
    /// A file of the portal cannot be written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}

/// Publishes the runs of an archive in the folder `out`.
///
/// All files of a run are compared with their digests when it is published first. A portal that is
/// there already gets new runs and loses those that the archive has lost, and a report whose ceiling has
/// become known is written again. A damaged run, or a folder that is none, is listed on the page.
///
/// # Errors
/// The archive cannot be read, `out` holds something else than a portal, another publication writes it,
/// or it cannot be written.
pub fn publish(archive: &Path, out: &Path) -> Result<Published, PortalError> {
    let folder = Folder::open(out)?;
    let (runs, mut refused) = source::runs(archive)?;
    let (mut rows, mut published) = (Vec::new(), Vec::new());
    // Only what is new has to know them.
    let ceilings = LazyCell::new(|| Ceilings::of(&runs));
    for run in &runs {
        match source::publish(run, &folder, |record| ceilings.of_run(record)) {
            Ok(row) => {
                published.push((run, row.ceiling.clone()));
                rows.push(row);
            }
            Err(Failure::Refused(reason)) => refused.push(Refused { name: source::name(run.folder()), reason }),
            Err(Failure::Portal(error)) => return Err(error),
        }
    }
    row::add_ceilings(&mut rows);
    let mut rows = publish_changed(&folder, rows, &published, &mut refused)?;
    rows.sort_by(|a, b| b.started_at.cmp(&a.started_at).then_with(|| b.id.cmp(&a.id)));
    let failed = |error: serde_json::Error| folder::failed(out)(error.into());
    let mut json = serde_json::to_vec_pretty(&rows).map_err(failed)?;
    json.push(b'\n');
    folder.write("runs.json", &json)?;
    folder.write("index.html", index::page(&rows, &refused, Timestamp::now()).as_bytes())?;
    // Only now does no page lead to them.
    folder.retain_runs(&rows.iter().map(|row| row.id.as_str()).collect::<BTreeSet<_>>())?;
    folder.finish()?;
    Ok(Published { runs: rows.len(), refused })
}

/// Writes the reports again whose ceiling has become known, or is another one now. `published` are the runs
/// of the rows, with the ceilings of their reports.
fn publish_changed(
    folder: &Folder,
    rows: Vec<Row>,
    published: &[(&ArchivedRun, Option<Ceiling>)],
    refused: &mut Vec<Refused>,
) -> Result<Vec<Row>, PortalError> {
    let run_of = |ceiling: &Option<Ceiling>| ceiling.as_ref().map(|ceiling| ceiling.run.clone());
    let mut known = Vec::with_capacity(rows.len());
    for (row, (run, of_report)) in rows.into_iter().zip(published) {
        if run_of(&row.ceiling) == run_of(of_report) {
            known.push(row);
            continue;
        }
        match source::publish_again(run, folder, row.ceiling) {
            Ok(row) => known.push(row),
            Err(Failure::Refused(reason)) => refused.push(Refused { name: source::name(run.folder()), reason }),
            Err(Failure::Portal(error)) => return Err(error),
        }
    }
    Ok(known)
}
