//! Checks all packages, before anything of them is loaded.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use preservation::dspace::{Checked, Child, Kind, Package};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::super::report::{Report, What};
use super::states::{Described, Object};
use super::{Export, place, policies, shown};
use crate::progress;

/// Files that are looked at to find out whether a folder has packages.
const LOOKED_AT_MAX: usize = 100;
/// The deepest folder that is read.
const DEPTH_MAX: usize = 32;

/// A package that is loaded.
pub(super) struct Found {
    place: Arc<Path>,
    kind: Kind,
    handle: String,
    parent: Option<String>,
    path: String,
    mets: String,
    mets_bytes: u64,
    checked: Checked,
}

impl Found {
    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    pub(super) fn mets_bytes(&self) -> u64 {
        self.mets_bytes
    }

    pub(super) fn files(&self) -> usize {
        1 + self.checked.bitstreams.len() + self.checked.others.len()
    }

    /// Opens the package again.
    pub(super) fn open(&self) -> anyhow::Result<Object<'_>> {
        let package = Package::open(&self.place)?.context("it is no package any more")?;
        let manifest = package.manifest()?;
        let count = if package.is_manifest_only() { 0 } else { manifest.bitstreams.len() };
        let said = Described::by(manifest).map_err(|why| anyhow!(why))?;
        let is_same = count == self.checked.bitstreams.len() && said.path == self.path;
        ensure!(is_same, "it has changed since it was checked");
        Ok(Object { said, package, checked: &self.checked })
    }

    pub(super) fn handle(&self) -> &str {
        &self.handle
    }

    /// Where its METS is kept, and its SHA-256.
    pub(super) fn mets(&self) -> (&str, &[u8; 32]) {
        (&self.mets, &self.checked.mets)
    }
}

/// Whether a place is a package of a DSpace, or a folder with some, as far as the first files show.
pub async fn is_export(source: &Path) -> anyhow::Result<bool> {
    let source = source.to_owned();
    let looked = spawn_blocking(move || {
        let Candidates { files, .. } = candidates(&source).unwrap_or_default();
        let is_package = |place: &PathBuf| matches!(Package::open(place), Ok(Some(package)) if package.is_of_dspace());
        files.iter().take(LOOKED_AT_MAX).any(is_package)
    });
    Ok(looked.await?)
}

/// What may be packages, in the order of their names.
#[derive(Default)]
struct Candidates {
    files: Vec<PathBuf>,
    /// Links with the name of a package. They are not followed.
    links: Vec<PathBuf>,
}

fn candidates(source: &Path) -> anyhow::Result<Candidates> {
    let mut found = Candidates::default();
    if source.is_file() {
        found.files.push(source.to_owned());
        return Ok(found);
    }
    let mut waiting = vec![(source.to_owned(), 0)];
    while let Some((folder, depth)) = waiting.pop() {
        for entry in fs::read_dir(&folder).with_context(|| shown(&folder))? {
            let entry = entry.with_context(|| shown(&folder))?;
            let kind = entry.file_type().with_context(|| shown(&folder))?;
            if kind.is_dir() {
                ensure!(depth < DEPTH_MAX, "{}: its folders are nested more than {DEPTH_MAX} deep", shown(source));
                waiting.push((entry.path(), depth + 1));
            } else if kind.is_file() {
                found.files.push(entry.path());
            } else if kind.is_symlink() && is_named_as_package(&entry.path()) {
                found.links.push(entry.path());
            }
        }
    }
    found.files.sort_unstable();
    found.links.sort_unstable();
    Ok(found)
}

fn is_named_as_package(place: &Path) -> bool {
    place.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zip"))
}

/// Checks all packages of a folder, or one.
pub async fn checked(source: &Path, report: Arc<Report>) -> anyhow::Result<Export> {
    let source = source.to_owned();
    spawn_blocking(move || {
        let mut checking = Checking { report, found: Vec::new(), children: Vec::new() };
        let bar = progress::objects(None);
        let Candidates { files, links } = candidates(&source)?;
        for place in links {
            checking.report.left_out(What::Damaged, &place, &anyhow!("links are not followed"));
        }
        for place in files {
            bar.inc(1);
            checking.package(&place);
        }
        bar.finish_and_clear();
        // One package alone is what was wanted.
        Ok(checking.finish(source.is_dir()))
    })
    .await?
}

/// A check of packages.
struct Checking {
    report: Arc<Report>,
    found: Vec<Found>,
    /// What objects name as in them.
    children: Vec<Child>,
}

impl Checking {
    fn package(&mut self, place: &Path) {
        let package = match Package::open(place) {
            Ok(Some(package)) if package.is_of_dspace() => package,
            // Lists of digests and the like may be beside packages.
            Ok(None) if !is_named_as_package(place) => return,
            Ok(_) => {
                let why = anyhow!("it is no package of a DSpace (AIP)");
                return self.report.left_out(What::Foreign, place, &why);
            }
            Err(error) => return self.report.left_out(What::Damaged, place, &error.into()),
        };
        if let Err(error) = self.read(&package) {
            self.report.left_out(What::Damaged, place, &error);
        }
    }

    /// Checks a package with all of its files.
    fn read(&mut self, package: &Package) -> anyhow::Result<()> {
        let manifest = package.manifest()?;
        let handle = manifest.handle.clone();
        let said = match Described::by(manifest) {
            Ok(said) => said,
            Err(why) => {
                self.report.left_out(What::Name, package.place(), &anyhow!("{handle:?}: {why}"));
                return Ok(());
            }
        };
        let checked = package.check(&said.manifest)?;
        self.note(package, &said, &checked);
        let Described { path, manifest, .. } = said;
        self.found.push(Found {
            place: package.place().clone(),
            kind: manifest.kind,
            mets: place::mets(&manifest),
            mets_bytes: package.mets().len_bytes(),
            handle: manifest.handle,
            parent: manifest.parent,
            path,
            checked,
        });
        self.children.extend(manifest.children);
        Ok(())
    }

    /// Reports what is not taken over of an object, or becomes something else.
    fn note(&self, package: &Package, said: &Described, checked: &Checked) {
        let (report, Described { path, manifest, names }) = (&self.report, said);
        for name in &checked.unnamed {
            report.more(What::Unnamed, path, "its mets.xml does not name it", json!({"file": name}));
        }
        if package.is_manifest_only() {
            for (bitstream, name) in manifest.bitstreams.iter().zip(names) {
                let why = "the export has manifests only";
                report.more(What::Bytes, &format!("{path}/{name}"), why, json!({"at": bitstream.file}));
            }
        }
        if manifest.is_withdrawn() {
            let more = json!({"handle": manifest.handle});
            report.more(What::Withdrawn, path, "it is withdrawn, and not at its address", more);
        }
        if manifest.has_template {
            report.resource(What::Template, path, "there are no templates here; its mets.xml has it");
        }
        let hidden = manifest.fields.iter().filter(|field| field.is_hidden()).count();
        if hidden > 0 {
            let why = "DSpace shows them to administrators only; its mets.xml has them";
            report.more(What::Hidden, path, why, json!({"fields": hidden}));
        }
        if manifest.groups + manifest.people > 0 {
            let more = json!({"groups": manifest.groups, "people": manifest.people});
            report.more(What::Roles, path, "access is granted by tokens here; its mets.xml has them", more);
        }
        policies::note(report, path, manifest, names);
    }

    fn finish(mut self, is_folder: bool) -> Export {
        self.leave_out_doubles();
        self.leave_out_circles();
        if is_folder {
            self.note_missing();
        }
        let mut found = self.found;
        found.sort_by(|one, other| {
            let depth = |found: &Found| found.path.matches('/').count();
            depth(one).cmp(&depth(other)).then_with(|| one.path.cmp(&other.path))
        });
        let above = above(&found);
        Export { found, above }
    }

    fn leave_out(&mut self, mut why: impl FnMut(&Found) -> Option<String>) {
        let report = &self.report;
        let mut kept = Vec::with_capacity(self.found.len());
        for found in std::mem::take(&mut self.found) {
            match why(&found) {
                Some(why) => report.left_out(What::Damaged, &found.place, &anyhow!(why)),
                None => kept.push(found),
            }
        }
        self.found = kept;
    }

    /// Leaves out objects of which there are several packages, or at places that several need:
    /// nothing says which is right.
    fn leave_out_doubles(&mut self) {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for found in &self.found {
            *counts.entry(found.path.clone()).or_default() += 1;
            *counts.entry(found.mets.clone()).or_default() += 1;
        }
        self.leave_out(|found| {
            let is_double = counts[&found.path] > 1 || counts[&found.mets] > 1;
            is_double.then(|| format!("another package is of hdl:{} too", found.handle))
        });
    }

    /// Leaves out objects that are in themselves.
    fn leave_out_circles(&mut self) {
        let containers = self.found.iter().filter(|found| found.kind != Kind::Item);
        let parents: HashMap<&str, &str> =
            containers.filter_map(|found| Some((found.handle.as_str(), found.parent.as_deref()?))).collect();
        let (mut known, mut circle) = (HashSet::new(), HashSet::new());
        for start in parents.keys() {
            let mut walked = Vec::new();
            let mut next = Some(start);
            while let Some(one) = next.filter(|one| known.insert(**one)) {
                walked.push(*one);
                next = parents.get(one);
            }
            // It ends at one that was walked before, or now: then the walk is a circle from there
            // on.
            let begin = next.and_then(|end| walked.iter().position(|one| one == end)).unwrap_or(walked.len());
            circle.extend(walked[begin..].iter().map(|handle| handle.to_string()));
        }
        self.leave_out(|found| circle.contains(&found.handle).then(|| "it is in itself".to_owned()));
    }

    /// Reports objects that others name, and that no package has.
    fn note_missing(&self) {
        let there: HashSet<&str> = self.found.iter().map(|found| found.handle.as_str()).collect();
        let files: HashSet<&str> = self.found.iter().filter_map(|found| found.place.file_name()?.to_str()).collect();
        let mut missing = BTreeSet::new();
        for Child { handle, package } in &self.children {
            let is_there = match (handle, package) {
                (Some(handle), _) => there.contains(handle.as_str()),
                (None, Some(package)) => files.contains(package.as_str()),
                (None, None) => true,
            };
            if !is_there {
                missing.insert((handle.as_deref().or(package.as_deref()).unwrap_or_default(), package));
            }
        }
        for (handle, package) in missing {
            let why = "another package names it, and there is none of it that can be loaded";
            self.report.more(What::Missing, handle, why, json!({"package": package}));
        }
        for found in &self.found {
            if let Some(parent) = found.parent.as_deref().filter(|parent| !there.contains(parent)) {
                let why = "there is no package of what it is in";
                self.report.more(What::Parent, &found.path, why, json!({"parent": parent}));
            }
        }
    }
}

/// The containers above all objects and METS that no package has, those nearer to the root first.
fn above(found: &[Found]) -> Vec<String> {
    let there: HashSet<&str> = found.iter().map(|found| found.path.as_str()).collect();
    let mut above = BTreeSet::new();
    for mut path in found.iter().flat_map(|found| [found.path.as_str(), found.mets.as_str()]) {
        while let Some((container, _)) = path.rsplit_once('/') {
            if there.contains(container) || !above.insert(container.to_owned()) {
                break;
            }
            path = container;
        }
    }
    // A container comes before those that begin with its path.
    above.into_iter().collect()
}
