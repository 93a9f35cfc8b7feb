//! Reads an OCFL storage root that `penates export` wrote, with all its versions.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use heads::VOLUMES;
use preservation::archived::ArchivedVersion;
use preservation::ocfl::{Object, each_object};
use preservation::read::ReadError;
use tokio::task::spawn_blocking;

use super::ocfl_volume::Volume;
use super::report::Report;
use super::timeline::{Archive, Found, Place, check_bytes, note_containers, times};

/// Checks all of a storage root, before anything of it is loaded.
pub async fn checked(folder: &Path, report: Arc<Report>) -> anyhow::Result<Archive> {
    let folder = folder.to_owned();
    let shown = folder.display().to_string();
    spawn_blocking(move || read(&folder, &report)).await?.with_context(|| format!("{shown}: nothing was loaded"))
}

/// Checks an object, with all of its files.
fn found(folder: &Path, report: &Report) -> anyhow::Result<Option<Found>> {
    let object = Arc::new(Object::open(folder)?);
    object.check_files()?;
    let times = |path: &str| times(path, object.versions().into_iter().map(|version| version.created.as_str()), report);
    let place = Place::Own(folder.into());
    if let Some(volume) = Volume::of(&object)? {
        volume.check()?;
        let times = times(&format!("{VOLUMES}/{}", volume.id()))?;
        let name = object.id().to_owned();
        return Ok(Some(Found { name, above: None, depth: 2, place, times, versions: None }));
    }
    let versions = ArchivedVersion::all(&object)?;
    let path = versions.iter().find_map(|version| Some(version.state.as_ref()?.about.path.as_str()));
    let path = path.unwrap_or_default();
    check_bytes(path, &versions, report).with_context(|| format!("/{path}"))?;
    let times = times(path)?;
    let Some(first) = versions.into_iter().next() else { return Ok(None) };
    let Some(first) = first.state else { return Ok(None) };
    let name = first.about.path;
    let above = (!name.is_empty()).then(|| name.rsplit_once('/').map_or("", |(above, _)| above).to_owned());
    let depth = name.split('/').filter(|name| !name.is_empty()).count();
    Ok(Some(Found { name, above, depth, place, times, versions: None }))
}

fn read(folder: &Path, report: &Report) -> anyhow::Result<Archive> {
    let mut all = Vec::new();
    let mut wrong = None;
    let each = each_object(folder, &mut |folder| match found(folder, report) {
        Ok(object) => {
            all.extend(object);
            Ok(())
        }
        Err(error) => {
            wrong = Some(error);
            Err(ReadError::Stopped)
        }
    });
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    each?;
    note_containers(&all, report);
    Archive::of(all)
}
