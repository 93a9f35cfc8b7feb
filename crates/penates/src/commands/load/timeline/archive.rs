//! What is loaded: the versions of objects, in the order of their times.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use heads::VOLUMES;
use jiff::Timestamp;
use preservation::archived::ArchivedVersion;
use preservation::archived_volume;
use preservation::bagit::text::Algorithm;
use preservation::fedora::FedoraObject;
use preservation::ocfl::Object;
use preservation::read::{ReadError, ReadResult};
use store::{Clock, SystemClock, UnixMillis};

use super::super::loader::check_headers;
use super::super::ocfl_volume::Volume;
use super::super::report::{Report, What as Note};
use super::changes::Changes;
use super::note_time;
use super::opened::{Opened, Resources};

/// A checked storage root.
pub struct Archive {
    /// Where its objects are, containers before what is in them.
    objects: Vec<Place>,
    /// How many versions each had when it was checked.
    counts: Vec<usize>,
    /// The numbers of the objects of resources, by their paths.
    pub(super) places: HashMap<String, usize>,
    /// The versions of all objects, in the order of their times.
    pub(super) order: Vec<Moment>,
    /// Objects of resources that were read.
    opened: Opened,
}

/// Where an object is.
pub enum Place {
    /// In this folder, as `penates export` wrote it.
    Own(Arc<Path>),
    /// A resource in an object of Fedora.
    Fedora {
        /// The folder of the object.
        folder: Arc<Path>,
        /// The path of the resource.
        path: String,
        /// Whether its first version is made twice: when the first thing in it is, and when it was.
        is_early: bool,
    },
}

/// The key of the only resource in an object that `penates export` wrote.
const THE_ONE: &str = "";

/// The versions of a resource of Fedora, with the algorithm of the digests of their files.
type Versions = (Algorithm, Vec<ArchivedVersion>);

/// An object that was found.
pub struct Found {
    /// The resource, by its path; a volume by the identifier of its object.
    pub name: String,
    /// The path of the container above a resource.
    pub above: Option<String>,
    /// How deep it is.
    pub depth: usize,
    /// Where it is.
    pub place: Place,
    /// The times of its versions, in milliseconds since 1970.
    pub times: Vec<u64>,
    /// Its versions, if it is a resource of Fedora and there is room for them until they are loaded. Else
    /// they are read again.
    pub versions: Option<Versions>,
}

/// A version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    /// In milliseconds since 1970.
    pub created: u64,
    pub object: usize,
    pub version: usize,
}

impl Archive {
    /// An archive of these objects.
    pub fn of(mut found: Vec<Found>) -> anyhow::Result<Self> {
        found.sort_by(|one, other| one.depth.cmp(&other.depth).then_with(|| one.name.cmp(&other.name)));
        let mut places = HashMap::new();
        for (n, Found { name, .. }) in found.iter().enumerate() {
            ensure!(places.insert(name.clone(), n).is_none(), "there are two objects for /{name}");
        }
        // A container of which the first versions were not kept must still be there before its contents.
        for n in (0..found.len()).rev() {
            let Found { above, times, .. } = &found[n];
            let above = above.as_deref().and_then(|above| nearest(&places, above));
            if let (Some(above), Some(first)) = (above, times.first().copied()) {
                found[above].begin_before(first);
            }
        }
        let counts = found.iter().map(|found| found.times.len()).collect();
        let mut order = Vec::new();
        for (object, Found { times, .. }) in found.iter().enumerate() {
            let moment = |(version, created): (usize, &u64)| Moment { created: *created, object, version };
            order.extend(times.iter().enumerate().map(moment));
        }
        order.sort_unstable();
        let mut objects = Vec::with_capacity(found.len());
        let mut kept: HashMap<Arc<Path>, Vec<(String, Versions)>> = HashMap::new();
        for Found { place, versions, .. } in found {
            if let (Place::Fedora { folder, path, .. }, Some(versions)) = (&place, versions) {
                kept.entry(folder.clone()).or_default().push((path.clone(), versions));
            }
            objects.push(place);
        }
        let archive = Self { objects, counts, places, order, opened: Opened::default() };
        for (folder, resources) in kept {
            archive.opened.keep(&folder, archive.loaded_of(resources.into_iter()));
        }
        Ok(archive)
    }

    /// What is loaded of an object of Fedora, by the versions of its resources.
    fn loaded_of(&self, resources: impl Iterator<Item = (String, Versions)>) -> Resources {
        let mut loaded = Resources::default();
        for (path, (algorithm, mut versions)) in resources {
            let Some(object) = self.places.get(&path).copied() else { continue };
            let first = versions.first().cloned();
            if let (Place::Fedora { is_early: true, .. }, Some(first)) = (&self.objects[object], first) {
                versions.insert(0, first);
            }
            // One that has lost versions is not loaded.
            if let Ok(versions) = self.checked(object, versions) {
                loaded.insert(path, Changes::of(algorithm, versions, true));
            }
        }
        loaded
    }

    /// Reads what is loaded of the object of Fedora in a folder.
    fn read(&self, folder: &Path) -> anyhow::Result<Resources> {
        let read = Object::in_turn(folder, |object| {
            let resources = FedoraObject::read(object)?.resources;
            ReadResult::Ok((object.algorithm(), resources))
        });
        let (algorithm, resources) = read??;
        Ok(self.loaded_of(resources.into_iter().map(|resource| (resource.path, (algorithm, resource.versions)))))
    }

    /// The resource in an object that `penates export` wrote.
    fn read_own(&self, object: usize, opened: &Object) -> anyhow::Result<Resources> {
        let versions = self.checked(object, ArchivedVersion::all(opened)?)?;
        let mut resources = Resources::default();
        resources.insert(THE_ONE.to_owned(), Changes::of(opened.algorithm(), versions, false));
        Ok(resources)
    }

    /// The time of the first version, or now if that is in the future.
    pub fn begin(&self) -> UnixMillis {
        UnixMillis(self.order.first().map_or(0, |first| first.created)).min(SystemClock.now())
    }

    /// The time of the last version, or now if that is in the future.
    pub fn end(&self) -> UnixMillis {
        UnixMillis(self.order.last().map_or(0, |last| last.created)).min(SystemClock.now())
    }

    /// Whether Fedora stored an object.
    pub(super) fn is_of_fedora(&self, object: usize) -> bool {
        matches!(self.objects[object], Place::Fedora { .. })
    }

    /// How many objects it has: of Fedora, resources.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// The paths of its resources.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        // A volume has the identifier of its object.
        self.places.keys().map(String::as_str).filter(|name| archived_volume::volume(name).is_none())
    }

    /// The first names in the paths of its resources.
    pub fn first_names(&self) -> HashSet<&str> {
        self.places.keys().filter_map(|path| path.split('/').next()).collect()
    }

    /// The path of an object in messages.
    pub(super) fn path(&self, object: usize, opened: Option<&Loading>) -> String {
        match (&self.objects[object], opened) {
            (Place::Fedora { path, .. }, _) => path.clone(),
            (_, Some(opened)) => opened.path(),
            (Place::Own(folder), None) => folder.display().to_string(),
        }
    }

    /// Those versions of an object that were checked. A program that goes on may have added others.
    fn checked(&self, object: usize, mut versions: Vec<ArchivedVersion>) -> anyhow::Result<Vec<ArchivedVersion>> {
        ensure!(versions.len() >= self.counts[object], "it has changed since it was checked");
        versions.truncate(self.counts[object]);
        Ok(versions)
    }

    /// How many versions it has.
    pub fn versions(&self) -> u64 {
        self.order.len() as u64
    }
}

impl Found {
    /// Lets a container begin before a time.
    fn begin_before(&mut self, time: u64) {
        let Some(begin) = self.times.first_mut().filter(|begin| **begin > time) else { return };
        let is_same_second = *begin / 1_000 == time / 1_000;
        match &mut self.place {
            // Fedora names versions by seconds, so this one keeps its name.
            Place::Fedora { is_early: is_early @ false, .. } if !is_same_second => {
                *is_early = true;
                self.times.insert(0, time);
            }
            _ => *begin = time,
        }
    }
}

/// The object of a container, or of the nearest one above it that has one: the containers between them
/// are made with what is in them.
fn nearest(places: &HashMap<String, usize>, mut path: &str) -> Option<usize> {
    loop {
        match (places.get(path), path.rsplit_once('/')) {
            (Some(object), _) => return Some(*object),
            (None, Some((above, _))) => path = above,
            (None, None) if path.is_empty() => return None,
            (None, None) => path = "",
        }
    }
}

/// The times of versions of a resource in milliseconds since 1970, none before the one before it.
/// Those that a load cannot keep are reported.
pub fn times<'a>(path: &str, created: impl Iterator<Item = &'a str>, report: &Report) -> ReadResult<Vec<u64>> {
    let now = SystemClock.now();
    let mut times: Vec<u64> = Vec::new();
    for created in created {
        let wrong = |why: String| ReadError::Invalid { name: format!("/{path}"), why };
        let time: Timestamp = created.parse().map_err(|error| wrong(format!("a time: {error}")))?;
        let millis = u64::try_from(time.as_millisecond()).map_err(|_| wrong("a time before 1970".to_owned()))?;
        let before = times.last().copied().unwrap_or_default();
        if millis > now.0 {
            let why = "the time of a version is in the future: it gets the time of the load";
            note_time(report, path, why, millis, now);
        } else if millis < before {
            let why = "a version is older than the one before it: it gets the time of that one";
            note_time(report, path, why, millis, UnixMillis(before).min(now));
        }
        times.push(millis.max(before));
    }
    Ok(times)
}

/// Reports containers that have to be made for what is in them.
pub fn note_containers(found: &[Found], report: &Report) {
    let there: HashSet<&str> = found.iter().map(|found| found.name.as_str()).collect();
    let mut missing = BTreeSet::new();
    for mut above in found.iter().filter_map(|found| found.above.as_deref()) {
        while !there.contains(above) && missing.insert(above) {
            above = above.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    // Every repository has a root.
    for path in missing.into_iter().filter(|path| !path.is_empty()) {
        report.resource(Note::Container, path, "there is no such resource, or it is left out");
    }
}

/// Checks what versions of a resource say of its bytes, and reports links to content stored
/// elsewhere, which a server may refuse.
pub fn check_bytes(path: &str, versions: &[ArchivedVersion], report: &Report) -> anyhow::Result<()> {
    let states = || versions.iter().filter_map(|version| version.state.as_ref());
    states().try_for_each(|state| check_headers(&state.about))?;
    if states().any(|state| state.about.stored_at.is_some()) {
        let why = "its bytes are stored elsewhere: a server takes the link if its ldp.external allows the address";
        report.resource(Note::Elsewhere, path, why);
    }
    Ok(())
}

/// An object that is being loaded.
pub(super) struct Loading {
    pub object: usize,
    pub what: What,
}

/// What an object is of.
pub(super) enum What {
    Resource(Arc<Changes>),
    Volume(Volume),
}

impl Loading {
    /// An object of resources that was read already, and is kept.
    pub fn known(archive: &Archive, object: usize) -> Option<Self> {
        let (folder, path) = match &archive.objects[object] {
            Place::Own(folder) => (folder, THE_ONE),
            Place::Fedora { folder, path, .. } => (folder, path.as_str()),
        };
        let changes = archive.opened.known(folder)?.get(path)?;
        Some(Self { object, what: What::Resource(changes) })
    }

    /// Opens an object. It may read files.
    pub fn open(archive: &Archive, object: usize) -> anyhow::Result<Self> {
        if let Some(known) = Self::known(archive, object) {
            return Ok(known);
        }
        let (resources, path) = match &archive.objects[object] {
            Place::Own(folder) => {
                let opened = Arc::new(Object::open(folder)?);
                if let Some(volume) = Volume::of(&opened)? {
                    return Ok(Self { object, what: What::Volume(volume) });
                }
                (archive.opened.resources(folder, || archive.read_own(object, &opened))?, THE_ONE)
            }
            Place::Fedora { folder, path, .. } => {
                (archive.opened.resources(folder, || archive.read(folder))?, path.as_str())
            }
        };
        let changes = resources.get(path).context("it has changed since it was checked")?;
        Ok(Self { object, what: What::Resource(changes) })
    }

    /// Its path in messages.
    pub fn path(&self) -> String {
        match &self.what {
            What::Volume(volume) => format!("{VOLUMES}/{}", volume.id()),
            What::Resource(changes) => changes.path().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::PathBuf;

    use preservation::archived;
    use preservation::ocfl::inventory::User;
    use preservation::ocfl::{RootWriter, each_object};

    use super::super::super::fedora::{self, recorded};
    use super::super::super::foreign::container;
    use super::*;

    /// An object that was found at some times.
    fn found(name: &str, times: &[u64]) -> Found {
        let above = (!name.is_empty()).then(|| name.rsplit_once('/').map_or("", |(above, _)| above).to_owned());
        let place = Place::Fedora { folder: Path::new("object").into(), path: name.to_owned(), is_early: false };
        let depth = name.split('/').filter(|name| !name.is_empty()).count();
        Found { name: name.to_owned(), above, depth, place, times: times.to_vec(), versions: None }
    }

    fn order(archive: &Archive) -> Vec<(u64, String)> {
        archive.order.iter().map(|moment| (moment.created, archive.path(moment.object, None))).collect()
    }

    #[test]
    fn a_container_begins_before_what_is_in_it_also_below_containers_that_have_no_object() {
        let archive = Archive::of(vec![
            found("", &[1_000]),
            found("gh", &[9_000]),
            found("gh/ost/deep", &[5_000]),
            found("else/where", &[500]),
        ]);
        let expected =
            [(500, ""), (500, "else/where"), (1_000, ""), (5_000, "gh"), (5_000, "gh/ost/deep"), (9_000, "gh")];
        assert_eq!(order(&archive.unwrap()), expected.map(|(time, path)| (time, path.to_owned())));
    }

    #[test]
    fn an_object_with_other_versions_than_when_it_was_checked_is_not_mixed_up() {
        let folder = recorded::unpacked();
        let mut gone = None;
        let each = each_object(folder.path(), &mut |place| {
            let is_gone = Object::open_with_mutable_head(place)?.id() == "info:fedora/gone";
            gone = gone.take().or(is_gone.then(|| Arc::<Path>::from(place)));
            Ok(())
        });
        each.unwrap();
        let gone = gone.unwrap();
        let checked = |times: &[u64]| {
            let place = Place::Fedora { folder: gone.clone(), path: "gone".to_owned(), is_early: false };
            Archive::of(vec![Found { place, ..found("gone", times) }]).unwrap()
        };
        let versions = |archive: &Archive| match Loading::open(archive, 0).map(|loading| loading.what) {
            Ok(What::Resource(changes)) => Ok(changes.versions.len()),
            Ok(What::Volume(_)) => panic!("it is no volume"),
            Err(error) => Err(error.to_string()),
        };
        assert_eq!(versions(&checked(&[1, 2])), Ok(2));
        // Fedora has added one, or has removed one.
        assert_eq!(versions(&checked(&[1])), Ok(1));
        assert_eq!(versions(&checked(&[1, 2, 3])), Err("it has changed since it was checked".to_owned()));
    }

    #[tokio::test]
    async fn an_object_that_was_checked_is_not_read_again_unless_it_has_a_mutable_head() {
        let folder = recorded::unpacked();
        let report = Arc::new(Report::create(None).unwrap());
        let archive = fedora::checked(folder.path(), report).await.unwrap().archive;
        let mut objects = Vec::new();
        each_object(folder.path(), &mut |object| {
            objects.push(object.to_owned());
            Ok(())
        })
        .unwrap();
        for object in objects {
            std::fs::remove_file(object.join("inventory.json")).unwrap();
        }
        let known = (0..archive.len()).filter(|object| Loading::open(&archive, *object).is_ok());
        let known: Vec<_> = known.map(|object| archive.path(object, None)).collect();
        assert_eq!(known, ["", "gone"]);
    }

    /// A storage root as `penates export` writes it, with resources of two versions.
    fn exported(folder: &Path, names: &[&str]) -> PathBuf {
        let place = folder.join("archive");
        let root = RootWriter::begin(&place, User { name: "test".to_owned(), address: None }).unwrap();
        for name in names {
            let about = container(name, Vec::new()).about;
            let mut object = root.object(&archived::id(about.names())).unwrap();
            for time in ["2025-06-15T15:06:40.007Z", "2025-06-15T15:06:41.007Z"] {
                for (logical, bytes) in [(archived::ABOUT, about.written()), (archived::DESCRIPTION, Vec::new())] {
                    let mut file = object.file(logical).unwrap();
                    file.write(&bytes).unwrap();
                    object.finish_file(file).unwrap();
                }
                object.finish_version(time.to_owned(), "a version".to_owned()).unwrap();
            }
            object.finish().unwrap();
        }
        root.finish().unwrap();
        place
    }

    #[tokio::test]
    async fn an_object_of_an_export_is_read_once_for_all_of_its_turns() {
        let folder = tempfile::tempdir().unwrap();
        let root = exported(folder.path(), &["a", "b", "c"]);
        let report = Arc::new(Report::create(None).unwrap());
        let archive = super::super::super::ocfl::checked(&root, report).await.unwrap();
        assert_eq!(archive.order.len(), 6);
        let mut turns: HashMap<usize, Vec<Arc<Changes>>> = HashMap::new();
        // They take turns, because they have the same times.
        for moment in &archive.order {
            let What::Resource(changes) = Loading::open(&archive, moment.object).unwrap().what else {
                panic!("it is no volume")
            };
            turns.entry(moment.object).or_default().push(changes);
        }
        for read in turns.values() {
            assert!(read.len() == 2 && Arc::ptr_eq(&read[0], &read[1]), "it was read again");
        }
        let objects: Vec<_> = archive.order.iter().map(|moment| moment.object).collect();
        assert_eq!(objects, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn the_versions_of_an_object_are_compared_once_for_all_of_its_turns() {
        let folder = recorded::unpacked();
        let mut objects: Vec<Arc<Path>> = Vec::new();
        each_object(folder.path(), &mut |object| {
            objects.push(object.into());
            Ok(())
        })
        .unwrap();
        let found = |(n, folder): (usize, &Arc<Path>)| {
            let object = Object::open_with_mutable_head(folder).unwrap();
            let resource = FedoraObject::read(&object).unwrap().resources.into_iter().next().unwrap();
            let place = Place::Fedora { folder: folder.clone(), path: resource.path.clone(), is_early: false };
            let times = vec![n as u64; resource.versions.len().min(1)];
            Found { name: resource.path, above: None, depth: 1, place, times, versions: None }
        };
        let archive = Archive::of(objects.iter().enumerate().map(found).collect()).unwrap();
        let turn = || {
            let all = (0..archive.len()).map(|object| match Loading::open(&archive, object).unwrap().what {
                What::Resource(changes) => changes,
                What::Volume(_) => panic!("it is no volume"),
            });
            all.collect::<Vec<_>>()
        };
        let (first, second) = (turn(), turn());
        assert!(first.len() > 3 && first.iter().zip(&second).all(|(one, other)| Arc::ptr_eq(one, other)));
    }
}
