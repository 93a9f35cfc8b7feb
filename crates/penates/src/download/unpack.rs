//! Unpacks a downloaded ZIP into a folder, and never over a file that has other contents.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufReader, Read, Seek};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use zip::ZipArchive;

use super::sink::{beside, put_in_place};

/// The entry that names what is missing.
const ERRORS: &str = "ERROR.err";

/// What was unpacked.
#[derive(Debug, Default)]
pub struct Unpacked {
    /// Files that were written.
    pub files: u64,
    /// Files that were there already, with the same contents.
    pub present: u64,
    /// The text of `ERROR.err`, if there is one.
    pub errors: Option<String>,
}

/// Unpacks all entries of a ZIP into a folder. Files that are there with the same contents are left
/// alone, so it can be repeated. A file with other contents is an error before anything is written.
pub fn unpack(zip: &Path, folder: &Path) -> anyhow::Result<Unpacked> {
    let file = File::open(zip).with_context(|| format!("opening {}", zip.display()))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).context("reading the ZIP")?;
    let mut missing = Vec::new();
    let mut unpacked = Unpacked::default();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).context("reading the ZIP")?;
        let name = entry.name().context("reading the ZIP")?.into_owned();
        if name == ERRORS {
            let mut text = String::new();
            entry.read_to_string(&mut text).context("reading ERROR.err")?;
            unpacked.errors = Some(text);
            continue;
        }
        let target = folder.join(safe_path(&name)?);
        refuse_links(folder, &target)?;
        if entry.is_dir() {
            continue;
        }
        match fs::symlink_metadata(&target) {
            Err(_) => missing.push((index, target)),
            Ok(found) if found.is_file() && has_contents(&target, entry.size(), entry.crc32())? => {
                unpacked.present += 1;
            }
            Ok(_) => bail!("{} exists and has other contents: it is not replaced", target.display()),
        }
    }
    let mut folders = BTreeSet::new();
    for (index, target) in missing {
        write(&mut archive, index, &target)?;
        unpacked.files += 1;
        folders.extend(target.ancestors().skip(1).take_while(|path| path.starts_with(folder)).map(Path::to_owned));
    }
    // The ZIP is deleted next, so the names have to last too.
    for folder in folders {
        let synced = File::open(&folder).and_then(|folder| folder.sync_all());
        synced.with_context(|| format!("writing {}", folder.display()))?;
    }
    Ok(unpacked)
}

fn write<R: Read + Seek>(archive: &mut ZipArchive<R>, index: usize, target: &Path) -> anyhow::Result<()> {
    let writing = || format!("writing {}", target.display());
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).with_context(writing)?;
    }
    let part = beside(target, ".penates-part");
    let mut entry = archive.by_index(index).context("reading the ZIP")?;
    // The rest of a run that was killed. Anything else of this name is not replaced, nor followed.
    if fs::symlink_metadata(&part).is_ok_and(|found| found.is_file()) {
        fs::remove_file(&part).with_context(writing)?;
    }
    let mut file = File::create_new(&part).with_context(writing)?;
    std::io::copy(&mut entry, &mut file).with_context(writing)?;
    file.sync_all().with_context(writing)?;
    put_in_place(&part, target, false)
}

/// A name of an entry as a path below the folder. Names that lead elsewhere are refused.
fn safe_path(name: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(name);
    let is_safe = !name.is_empty()
        && !name.contains(['\\', '\0'])
        && !name.chars().any(char::is_control)
        && path.components().all(|component| matches!(component, Component::Normal(_)));
    match is_safe {
        true => Ok(path.to_owned()),
        false => bail!("the ZIP has an entry with the name {name:?}, which is not unpacked"),
    }
}

/// A link within the folder would lead out of it.
fn refuse_links(folder: &Path, target: &Path) -> anyhow::Result<()> {
    let within = target.ancestors().skip(1).take_while(|path| *path != folder);
    for path in within {
        if fs::symlink_metadata(path).is_ok_and(|found| !found.is_dir()) {
            bail!("{} is no folder: nothing is written below it", path.display());
        }
    }
    Ok(())
}

fn has_contents(path: &Path, len_bytes: u64, crc32: u32) -> anyhow::Result<bool> {
    let reading = || format!("reading {}", path.display());
    let file = File::open(path).with_context(reading)?;
    if file.metadata().with_context(reading)?.len() != len_bytes {
        return Ok(false);
    }
    let (mut reader, mut hasher) = (BufReader::new(file), crc32fast::Hasher::new());
    let mut buffer = vec![0; 64 << 10];
    loop {
        match reader.read(&mut buffer).with_context(reading)? {
            0 => return Ok(hasher.finalize() == crc32),
            count => hasher.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn zip_of(folder: &Path, entries: &[(&str, &str)]) -> PathBuf {
        let path = folder.join("a.zip");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        for (name, text) in entries {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
        path
    }

    #[test]
    fn it_can_be_repeated_and_never_replaces_other_contents() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        let zip = zip_of(folder.path(), &[("v/1.txt", "one"), ("v/2.txt", "two"), ("ERROR.err", "lost")]);
        let first = unpack(&zip, &target).unwrap();
        assert_eq!((first.files, first.present, first.errors.as_deref()), (2, 0, Some("lost")));
        fs::remove_file(target.join("v/1.txt")).unwrap();
        // The rest of an earlier run that was killed.
        fs::write(target.join("v/1.txt.penates-part"), "o").unwrap();
        let again = unpack(&zip, &target).unwrap();
        assert_eq!((again.files, again.present), (1, 1));
        assert_eq!(fs::read_to_string(target.join("v/1.txt")).unwrap(), "one");
        assert_eq!(fs::read_dir(target.join("v")).unwrap().count(), 2);
        fs::remove_file(target.join("v/1.txt")).unwrap();
        fs::write(target.join("v/2.txt"), "owt").unwrap();
        assert!(unpack(&zip, &target).unwrap_err().to_string().contains("other contents"));
        assert!(!target.join("v/1.txt").exists(), "nothing is written before an error that is known");
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        for name in ["../x", "/x", "a/../../x", "a\\x", "", "a\u{1b}x", "./x"] {
            assert!(safe_path(name).is_err(), "{name}");
        }
        assert!(safe_path("uc2.ark+=13960=t8ff3zh99/00000007.txt").is_ok());
    }

    #[test]
    fn a_link_in_the_folder_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, elsewhere) = (folder.path().join("out"), folder.path().join("elsewhere"));
        fs::create_dir(&target).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, target.join("v")).unwrap();
        let zip = zip_of(folder.path(), &[("v/1.txt", "one")]);
        assert!(unpack(&zip, &target).is_err());
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        fs::remove_file(target.join("v")).unwrap();
        fs::create_dir(target.join("v")).unwrap();
        let mine = folder.path().join("mine");
        fs::write(&mine, "mine").unwrap();
        std::os::unix::fs::symlink(&mine, target.join("v/1.txt.penates-part")).unwrap();
        assert!(unpack(&zip, &target).is_err());
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    }
}
