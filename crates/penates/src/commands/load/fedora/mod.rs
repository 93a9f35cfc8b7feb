//! Reads the storage root of a Fedora 6, with all its versions.
//!
//! - `statements.rs`: stored statements, as a client would send them.
//! - `acls.rs`: ACLs, which are kept as files.
//! - `recorded.rs`: a storage root for tests.
//!
//! What is damaged or has no place here is reported and left out. The rest is loaded.

mod acls;
#[cfg(test)]
pub mod recorded;
mod statements;

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;
use parking_lot::Mutex;
use preservation::archived::ArchivedVersion;
use preservation::bagit::text::Algorithm;
use preservation::fedora::{FedoraObject, FedoraResource, has_headers};
use preservation::ocfl::{Object, each_object_or_wrong};
use preservation::read::{ReadError, ReadResult};
use rayon::iter::{ParallelBridge, ParallelIterator};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::checked_path;
use super::report::{Report, What};
use super::timeline::{Archive, Found, KEPT_BYTES_MAX, Place, check_bytes, len_bytes_of, note_containers, times};
use crate::progress;

pub use acls::keep as keep_acls;
pub use statements::{cleaned, read as read_statements};

/// Objects that are looked at to find out whether a storage root is Fedora's.
const LOOKED_AT_MAX: usize = 100;

/// Objects that were found and wait to be looked at.
const FOUND_AHEAD: usize = 256;

/// A checked storage root of Fedora.
pub struct FedoraRoot {
    folder: PathBuf,
    /// What is loaded of it.
    pub archive: Arc<Archive>,
    /// Where the ACLs are.
    acls: acls::Places,
    /// The digests of inventories of the objects that were read. What is left out has none.
    inventories: HashMap<Arc<Path>, Option<String>>,
}

/// Whether Fedora wrote a storage root, as far as its first objects show.
pub async fn is_fedora(folder: &Path) -> anyhow::Result<bool> {
    let folder = folder.to_owned();
    let looked = spawn_blocking(move || {
        let (mut is_fedora, mut looked_at) = (false, 0);
        let each = each_object_or_wrong(&folder, &mut |object| {
            let object = object.and_then(Object::open_with_mutable_head);
            looked_at += 1;
            let is_own = object.as_ref().is_ok_and(|object| object.id().starts_with("penates:"));
            is_fedora = object.is_ok_and(|object| has_headers(&object));
            if is_fedora || is_own || looked_at == LOOKED_AT_MAX { Err(ReadError::Stopped) } else { Ok(()) }
        });
        match each {
            Err(ReadError::Stopped) | Ok(()) => Ok(is_fedora),
            Err(error) => Err(error),
        }
    });
    Ok(looked.await??)
}

/// Checks all of a storage root.
pub async fn checked(folder: &Path, report: Arc<Report>) -> anyhow::Result<FedoraRoot> {
    let folder = folder.to_owned();
    spawn_blocking(move || Checking { report, room_bytes: Mutex::new(KEPT_BYTES_MAX) }.check(folder)).await?
}

/// A check of a storage root.
struct Checking {
    report: Arc<Report>,
    /// The room that is left for versions, which are kept for the load.
    room_bytes: Mutex<usize>,
}

/// A checked object.
struct CheckedObject {
    /// The digest of its inventory.
    inventory: String,
    /// What is loaded of it.
    found: Vec<Found>,
    /// The paths of the resources that its ACLs are of.
    acls: Vec<String>,
}

impl Checking {
    fn check(self, folder: PathBuf) -> anyhow::Result<FedoraRoot> {
        // Its length grows as objects are found.
        let bar = progress::objects(Some(0));
        let wrong = |error: ReadError| self.wrong(What::Damaged, &folder, &error.into());
        let check = |place: Arc<Path>| {
            let object = self.object(&place).map_err(|error| self.wrong(What::Damaged, &place, &error));
            (place, object.ok().flatten())
        };
        let checked = each_at_once(&folder, &bar, wrong, check).with_context(|| folder.display().to_string())?;
        bar.finish_and_clear();
        let (mut all, mut acls) = (Vec::new(), Vec::new());
        let mut inventories = HashMap::with_capacity(checked.len());
        for (place, object) in checked {
            let inventory = object.map(|object| {
                all.extend(object.found);
                acls.extend(object.acls.into_iter().map(|of| (of, place.clone())));
                object.inventory
            });
            inventories.insert(place, inventory);
        }
        let found = self.without_doubles(all);
        note_containers(&found, &self.report);
        Ok(FedoraRoot { folder, archive: Arc::new(Archive::of(found)?), acls: acls::ordered(acls), inventories })
    }

    fn wrong(&self, what: What, place: &Path, error: &anyhow::Error) {
        self.report.left_out(what, place, error);
    }

    /// Checks an object, with all of its files; `None` if nothing of it is loaded.
    fn object(&self, folder: &Arc<Path>) -> anyhow::Result<Option<CheckedObject>> {
        Object::in_turn(folder, |object| self.opened(folder, object))?
    }

    fn opened(&self, folder: &Arc<Path>, object: &Object) -> anyhow::Result<Option<CheckedObject>> {
        if !has_headers(object) {
            let why = anyhow!("{}: it has no headers of Fedora; --into RESOURCE loads it as files", object.id());
            self.wrong(What::Foreign, folder, &why);
            return Ok(None);
        }
        object.check_files()?;
        let FedoraObject { resources, acls, group } = FedoraObject::read(object)?;
        let mut found = Vec::new();
        let mut notes = Vec::new();
        for resource in &resources {
            match self.resource(folder, resource, object.algorithm()) {
                Ok(Some(one)) => found.push(one),
                Ok(None) => {}
                Err(LeftOut::Name(why)) => notes.push((What::Name, resource.path.clone(), why)),
                Err(LeftOut::Damaged(error)) => {
                    notes.push((What::Damaged, resource.path.clone(), crate::exit::full_message(error.as_ref())));
                }
            }
        }
        for (what, path, why) in notes {
            note!("/{path}: {why}");
            self.report.resource(what, &path, &why);
        }
        if object.has_mutable_head() {
            let path = resources.first().map_or("", |first| &first.path);
            let why = "its newest state was no version, because versions were made on request only";
            self.report.resource(What::Unversioned, path, why);
        }
        if let Some(group) = group {
            let why = "it is one here too, and what is in it has versions of its own";
            self.report.resource(What::Group, &group, why);
        }
        for acl in &acls {
            let more = json!({"modified": acl.modified, "statements": acl.statements});
            self.report.more(What::Acl, &acl.of, "it is not applied: access is granted by tokens here", more);
        }
        let acls = acls.into_iter().map(|acl| acl.of).collect();
        // The files of a mutable head move when Fedora makes a version of it, so it is read again.
        if !object.has_mutable_head() && self.has_room(&resources) {
            let versions = resources.into_iter().map(|resource| (resource.path, resource.versions));
            let mut versions: HashMap<_, _> = versions.collect();
            for found in &mut found {
                found.versions = versions.remove(&found.name).map(|versions| (object.algorithm(), versions));
            }
        }
        Ok(Some(CheckedObject { inventory: object.digest().to_owned(), found, acls }))
    }

    /// Whether there is room to keep the versions of an object. Then it is taken.
    fn has_room(&self, resources: &[FedoraResource]) -> bool {
        let len_bytes: usize = resources.iter().map(|resource| len_bytes_of(&resource.versions)).sum();
        let mut room_bytes = self.room_bytes.lock();
        let rest = room_bytes.checked_sub(len_bytes);
        *room_bytes = rest.unwrap_or(*room_bytes);
        rest.is_some()
    }

    /// Checks a resource.
    fn resource(
        &self,
        folder: &Arc<Path>,
        resource: &FedoraResource,
        algorithm: Algorithm,
    ) -> Result<Option<Found>, LeftOut> {
        let FedoraResource { path, above, versions, is_deleted, people } = resource;
        if versions.is_empty() {
            if *is_deleted {
                self.report.resource(What::Tombstone, path, "it is deleted, and no version of it is kept");
            }
            return Ok(None);
        }
        let names = checked_path(path).map_err(LeftOut::Name)?;
        let times = times(path, versions.iter().map(|version| version.created.as_str()), &self.report);
        let times = times.map_err(anyhow::Error::from)?;
        check_bytes(path, versions, &self.report)?;
        let left_out = check_statements(versions, algorithm)?;
        if left_out > 0 {
            let why = "statements that the server makes itself are left out";
            self.report.more(What::Statements, path, why, json!({"statements": left_out}));
        }
        if let Some((created, modified)) = people {
            let more = json!({"created_by": created, "last_modified_by": modified});
            self.report.more(What::People, path, "Penates keeps no names of users with resources", more);
        }
        let place = Place::Fedora { folder: folder.clone(), path: path.clone(), is_early: false };
        let depth = names.names().count();
        Ok(Some(Found { name: path.clone(), above: above.clone(), depth, place, times, versions: None }))
    }

    /// Reports resources that several objects have, and leaves them out: nothing says which is right.
    fn without_doubles(&self, all: Vec<Found>) -> Vec<Found> {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for found in &all {
            *counts.entry(found.name.clone()).or_default() += 1;
        }
        let (doubles, found): (Vec<Found>, Vec<Found>) = all.into_iter().partition(|found| counts[&found.name] > 1);
        for Found { name, place, .. } in doubles {
            if let Place::Fedora { folder, .. } = place {
                self.wrong(What::Damaged, &folder, &anyhow!("another object has /{name} too"));
            }
        }
        found
    }
}

/// Why a resource is left out.
#[derive(Debug, thiserror::Error)]
enum LeftOut {
    /// Penates cannot have its name.
    #[error("{0}")]
    Name(String),
    /// A time or the statements of a version make no sense.
    #[error(transparent)]
    Damaged(#[from] anyhow::Error),
}

/// Checks the statements of all versions, whose files have digests of this algorithm. Returns how many
/// the server makes itself.
fn check_statements(versions: &[ArchivedVersion], algorithm: Algorithm) -> anyhow::Result<usize> {
    let mut left_out = 0;
    // Most bytes have none, and an empty file need not be read.
    let empty = algorithm.begin().finalize().to_vec();
    let mut known = HashSet::from([&empty]);
    for state in versions.iter().filter_map(|version| version.state.as_ref()) {
        if known.insert(&state.statements.digest) {
            left_out += statements::left_out(&state.statements.place, &state.about)?;
        }
    }
    Ok(left_out)
}

impl FedoraRoot {
    /// Reports objects that have changed since they were checked, and new ones: Fedora still runs.
    pub async fn note_changes(self: Arc<Self>, report: Arc<Report>) -> anyhow::Result<()> {
        let noted = spawn_blocking(move || {
            let note = |folder: Arc<Path>| {
                let why = match self.inventories.get(&folder) {
                    Some(None) => return,
                    Some(Some(read)) if Object::inventory_digest(&folder).is_ok_and(|now| now == *read) => return,
                    Some(Some(_)) => "it has changed since it was read",
                    None => "it is new",
                };
                report.object(What::Changed, &folder, why);
            };
            // What is wrong was reported by the check.
            each_at_once(&self.folder, &ProgressBar::hidden(), |_| (), note)
        });
        noted.await??;
        Ok(())
    }
}

/// Calls `each` with each object in a storage root, on all processors, while others are still found.
/// `wrong` learns what is wrong with folders.
fn each_at_once<T: Send>(
    folder: &Path,
    bar: &ProgressBar,
    wrong: impl Fn(ReadError) + Send,
    each: impl Fn(Arc<Path>) -> T + Send + Sync,
) -> ReadResult<Vec<T>> {
    let (sender, places) = sync_channel::<Arc<Path>>(FOUND_AHEAD);
    // The list of places ends with it.
    let find = move || {
        each_object_or_wrong(folder, &mut |object| {
            match object {
                Ok(place) => {
                    bar.inc_length(1);
                    // Nobody takes it if another thread has panicked.
                    sender.send(place.into()).map_err(|_| ReadError::Stopped)?;
                }
                Err(error) => wrong(error),
            }
            Ok(())
        })
    };
    let each = |place: Arc<Path>| {
        let done = each(place);
        bar.inc(1);
        done
    };
    thread::scope(|scope| {
        let finding = scope.spawn(find);
        let done: Vec<T> = places.into_iter().par_bridge().map(each).collect();
        match finding.join() {
            Ok(found) => found.map(|()| done),
            Err(panic) => resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn objects_that_change_after_they_were_read_and_new_ones_are_reported() {
        let folder = recorded::unpacked();
        let root = checked(folder.path(), Arc::new(Report::create(None).unwrap())).await.unwrap();
        let root = Arc::new(root);
        let output = async || {
            let report = Arc::new(Report::create(None).unwrap());
            root.clone().note_changes(report.clone()).await.unwrap();
            report.finish().unwrap()
        };
        assert!(output().await.is_empty());
        // As Fedora writes them: an inventory with another digest, and an object more.
        let known = root.inventories.keys().next().unwrap();
        let head = known.join("extensions/0005-mutable-head/head/inventory.json.sha512");
        let sidecar = if head.exists() { head } else { known.join("inventory.json.sha512") };
        std::fs::write(sidecar, "00 inventory.json").unwrap();
        let new = folder.path().join("new");
        std::fs::create_dir(&new).unwrap();
        std::fs::write(new.join("0=ocfl_object_1.0"), "ocfl_object_1.0\n").unwrap();
        assert_eq!(output().await, ["2 objects that have changed meanwhile: run the same command again"]);
    }
}
