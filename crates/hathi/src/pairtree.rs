//! Finds volumes in folders: pairtrees in HathiTrust's layout, parts of them, and flat folders of
//! pairs.
//!
//! A volume is a folder `<library>/pairtree_root/<two characters>/.../<cleaned local id>/` that
//! holds `<cleaned local id>.zip`, `.mets.xml` and perhaps `.json` (Pairtree 0.1, section 4, two
//! characters a folder).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use crate::{InvalidVolumeId, VolumeId};

const PAIRTREE_ROOT: &str = "pairtree_root";
const ZIP_SUFFIX: &str = ".zip";
const METS_SUFFIX: &str = ".mets.xml";
const RECORD_SUFFIX: &str = ".json";

/// The files of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFiles {
    /// The id, if the path names it: under `<library>/pairtree_root`.
    pub id: Option<VolumeId>,
    /// The ZIP with the pages' texts.
    pub zip: PathBuf,
    /// The METS.
    pub mets: PathBuf,
    /// The metadata record, if there is one.
    pub record: Option<PathBuf>,
}

/// Why a path is not a volume.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// A ZIP without its METS.
    #[error("{} has no METS beside it: {} is missing", zip.display(), mets.display())]
    MissingMets {
        /// The ZIP.
        zip: PathBuf,
        /// The missing METS.
        mets: PathBuf,
    },
    /// A METS without its ZIP.
    #[error("{} has no ZIP beside it: {} is missing", mets.display(), zip.display())]
    MissingZip {
        /// The METS.
        mets: PathBuf,
        /// The missing ZIP.
        zip: PathBuf,
    },
    /// Something else than a file where a ZIP is expected: a named pipe, a socket or a device.
    #[error("{} is no regular file", .0.display())]
    NotAFile(PathBuf),
    /// The pairtree holds no such volume.
    #[error("there is no volume {id}: {} is missing", zip.display())]
    NoSuchVolume {
        /// The requested id.
        id: VolumeId,
        /// The place where its ZIP would be.
        zip: PathBuf,
    },
    /// A file in a pairtree whose name is no cleaned id.
    #[error("{} lies in a pairtree, but its name is not an id: {reason}", path.display())]
    Name {
        /// The file.
        path: PathBuf,
        /// What is wrong with the name.
        reason: InvalidVolumeId,
    },
    /// A file that is neither a ZIP nor a METS.
    #[error("{} is neither a folder, a .zip nor a .mets.xml", .0.display())]
    NotAVolume(PathBuf),
    /// A file or folder cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// Finds the volumes at `path`: a pairtree root (a folder of `<library>/pairtree_root`), a
/// library's folder, any folder in one, a flat folder of `.zip` and `.mets.xml` pairs, or one
/// `.zip` or `.mets.xml`.
///
/// The iterator reads folders lazily, in the order of names. It follows links, but no cycles. An
/// error of one volume is an `Err` that names its file, and the iterator continues after it.
pub fn discover(path: &Path) -> impl Iterator<Item = Result<VolumeFiles, DiscoverError>> + use<> {
    let top = path.to_owned();
    WalkDir::new(path).follow_links(true).sort_by_file_name().into_iter().filter_map(move |entry| match entry {
        Ok(entry) if entry.file_type().is_dir() => None,
        Ok(entry) => volume_at(entry.path(), entry.depth() == 0),
        Err(error) if error.loop_ancestor().is_some() => None,
        Err(error) => {
            let path = error.path().unwrap_or(&top).to_owned();
            Some(Err(DiscoverError::Io { path, source: error.into() }))
        }
    })
}

/// The volume of the file `path`. In a folder the ZIP represents the volume, and a METS matters
/// only if its ZIP is missing. A file that was `asked_for` by its own path represents its volume,
/// whichever of the two it is.
fn volume_at(path: &Path, asked_for: bool) -> Option<Result<VolumeFiles, DiscoverError>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(stem) = name.strip_suffix(ZIP_SUFFIX) {
        return Some(VolumeFiles::in_folder(path, stem));
    }
    if let Some(stem) = name.strip_suffix(METS_SUFFIX) {
        let zip = path.with_file_name(format!("{stem}{ZIP_SUFFIX}"));
        // What the search passes over, a folder, represents no volume.
        let is_found = std::fs::metadata(&zip).is_ok_and(|zip| !zip.is_dir());
        return match (is_found, asked_for) {
            (true, true) => Some(VolumeFiles::in_folder(&zip, stem)),
            (true, false) => None,
            (false, _) => Some(Err(DiscoverError::MissingZip { mets: path.to_owned(), zip })),
        };
    }
    asked_for.then(|| Err(DiscoverError::NotAVolume(path.to_owned())))
}

/// The place of `id` under a pairtree root.
pub fn locate(root: &Path, id: &VolumeId) -> Result<VolumeFiles, DiscoverError> {
    let zip = zip_path(root, id);
    if !zip.is_file() {
        return Err(DiscoverError::NoSuchVolume { id: id.clone(), zip });
    }
    VolumeFiles::beside(&zip, &id.cleaned_local(), Some(id.clone()))
}

/// The path of the ZIP of `id` under a pairtree root, whether there is one or not.
pub fn zip_path(root: &Path, id: &VolumeId) -> PathBuf {
    root.join(pairtree_path(id)).join(format!("{}{ZIP_SUFFIX}", id.cleaned_local()))
}

impl VolumeFiles {
    /// The volume of a ZIP, with its id if the ZIP lies in a pairtree.
    fn in_folder(zip: &Path, stem: &str) -> Result<Self, DiscoverError> {
        let id = match library_of(zip)? {
            None => None,
            Some(library) => Some(
                VolumeId::from_cleaned(&format!("{library}.{stem}"))
                    .map_err(|reason| DiscoverError::Name { path: zip.to_owned(), reason })?,
            ),
        };
        Self::beside(zip, stem, id)
    }

    fn beside(zip: &Path, stem: &str, id: Option<VolumeId>) -> Result<Self, DiscoverError> {
        let mets = zip.with_file_name(format!("{stem}{METS_SUFFIX}"));
        if !mets.is_file() {
            return Err(DiscoverError::MissingMets { zip: zip.to_owned(), mets });
        }
        // Opening a named pipe blocks until another process opens it for writing.
        if !zip.is_file() {
            return Err(DiscoverError::NotAFile(zip.to_owned()));
        }
        let record = zip.with_file_name(format!("{stem}{RECORD_SUFFIX}"));
        Ok(Self { id, zip: zip.to_owned(), mets, record: record.is_file().then_some(record) })
    }
}

/// The id that the place of a ZIP or METS in a pairtree says, whatever is in it.
pub fn id_at(file: &Path) -> Option<VolumeId> {
    let name = file.file_name()?.to_str()?;
    let stem = name.strip_suffix(ZIP_SUFFIX).or(name.strip_suffix(METS_SUFFIX))?;
    VolumeId::from_cleaned(&format!("{}.{stem}", library_of(file).ok()??)).ok()
}

/// The library of a file in a pairtree: the folder that holds the innermost `pairtree_root` above
/// the file.
fn library_of(file: &Path) -> Result<Option<String>, DiscoverError> {
    let file = std::path::absolute(file).map_err(|source| DiscoverError::Io { path: file.to_owned(), source })?;
    let root = file.ancestors().find(|folder| folder.file_name() == Some(OsStr::new(PAIRTREE_ROOT)));
    let library = root.and_then(Path::parent).and_then(Path::file_name);
    Ok(library.map(|name| name.to_string_lossy().into_owned()))
}

/// A volume's folder below a pairtree root: `<library>/pairtree_root/ar/k+/=1/.../<cleaned local
/// id>`. If the length of the cleaned local id is odd, the last of the short folders has one
/// character.
pub fn pairtree_path(id: &VolumeId) -> PathBuf {
    let cleaned = id.cleaned_local();
    let mut path = Path::new(id.library()).join(PAIRTREE_ROOT);
    // A cleaned local id is ASCII, so a character begins at any byte.
    for start in (0..cleaned.len()).step_by(2) {
        path.push(&cleaned[start..cleaned.len().min(start + 2)]);
    }
    path.push(cleaned);
    path
}
