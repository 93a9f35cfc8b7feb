//! Loads the packages of a DSpace (AIP).
//!
//! - `check.rs`: checks all packages, and reports what is not taken over.
//! - `policies.rs`: policies in the report.
//! - `place.rs`: where objects and their files are put.
//! - `states.rs`: an object as resources.
//! - `statements.rs`: metadata as statements.
//! - `update.rs`: packages that changed since an earlier load.
//!
//! An object is a container at the path of its handle, and its bitstreams are below it. Its
//! `mets.xml` has addresses of people and policies, so it is kept apart, below `/aip`.

mod check;
mod place;
mod policies;
mod statements;
mod states;
mod update;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::foreign::container;
use super::loader::{Counts, Loader, State};
use super::report::{Report, What};
use crate::client::ClientError;
use crate::exit::full_message;
use check::Found;
use states::Object;

pub use check::{checked, is_export};
pub use update::Updated;

/// Resources that are read ahead.
const READ_AHEAD: usize = 4;
/// The most packages of which the containers are made before what is in them.
const BATCH_MAX: usize = 64;
/// The most bytes of METS of these, unless one alone has more.
const BATCH_BYTES_MAX: u64 = 16 << 20;

/// Checked packages.
pub struct Export {
    /// Those that are loaded, containers before what is in them.
    found: Vec<Found>,
    /// Containers that no package has: for the prefixes of handles.
    above: Vec<String>,
}

impl Export {
    /// How many packages are loaded.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// How many files they have, with their METS.
    pub fn files(&self) -> usize {
        self.found.iter().map(Found::files).sum()
    }

    /// Gives away the resources of all packages, a container before the resources in it.
    fn each(&self, report: &Report, send: &mut dyn FnMut(State) -> bool) {
        let mut rest = self.found.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |found: &&Found| {
                bytes += found.mets_bytes();
                bytes <= BATCH_BYTES_MAX
            };
            let len = rest.iter().take(BATCH_MAX).take_while(fits).count().max(1);
            let (batch, others) = rest.split_at(len);
            rest = others;
            let objects: Vec<_> = batch.iter().filter_map(|found| opened(found, report)).collect();
            let containers = objects.iter().map(|object| object.said.container());
            let manifests = objects.iter().map(|object| object.mets());
            let contents = objects.iter().flat_map(|object| object.bitstreams().into_iter().chain(object.others()));
            if !containers.chain(manifests).chain(contents).all(&mut *send) {
                return;
            }
        }
    }
}

/// Opens a package again, unless it has changed.
fn opened<'a>(found: &'a Found, report: &Report) -> Option<Object<'a>> {
    let opened = found.open();
    opened.inspect_err(|error| report.left_out(What::Changed, found.place(), error)).ok()
}

/// What came of a load.
pub struct Loaded {
    /// What was loaded.
    pub counts: Counts,
    /// How many resources are the same in the end.
    pub verified: u64,
    /// What was changed because an earlier load had made it of packages that are others now.
    pub updated: Updated,
}

/// Loads checked packages, and compares all of it with them.
pub async fn load(export: &Arc<Export>, loader: &Loader, report: &Arc<Report>) -> anyhow::Result<Loaded> {
    let mut failed = HashSet::new();
    let mut fail = |path: &str, why: &str| {
        report.resource(What::Failed, path, why);
        failed.insert(path.to_owned());
    };
    for path in &export.above {
        match loader.create(&container(path, Vec::new())).await {
            Ok(_) => {}
            Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => return Err(error),
            Err(error) => fail(path, &full_message(error.as_ref())),
        }
    }
    let updated = update::all(&export.found, loader, report, &mut fail).await?;
    let (mut states, reader) = read(export, report, HashSet::new());
    let loaded = loader.load_all(&mut states, &mut fail).await;
    drop(states);
    reader.await?;
    let counts = loaded?;
    let (mut states, reader) = read(export, report, failed);
    let differing = &mut |path: &str, why: &str| report.resource(What::Differs, path, why);
    let verified = loader.verify_all(&mut states, differing).await;
    drop(states);
    reader.await?;
    Ok(Loaded { counts, verified: verified?, updated })
}

/// Reads the resources of all packages on a thread of its own, except some.
fn read(
    export: &Arc<Export>,
    report: &Arc<Report>,
    except: HashSet<String>,
) -> (mpsc::Receiver<State>, tokio::task::JoinHandle<()>) {
    let (sender, states) = mpsc::channel(READ_AHEAD);
    let (export, report) = (export.clone(), report.clone());
    let reader = spawn_blocking(move || {
        // The other side leaves before the end only with an error of its own.
        export.each(&report, &mut |state| except.contains(&state.about.path) || sender.blocking_send(state).is_ok());
    });
    (states, reader)
}

/// Whether a place is below a container, or the container itself.
fn is_within(path: &str, container: &str) -> bool {
    path.strip_prefix(container).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A file or folder in messages.
fn shown(place: &Path) -> String {
    place.display().to_string()
}
