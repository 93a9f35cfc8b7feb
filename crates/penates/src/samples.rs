//! The sample volumes, inside the binary.

use std::ffi::OsStr;
use std::io::Cursor;

use hathi::VolumeParts;
use include_dir::{Dir, DirEntry, File, include_dir};

static PAIRTREE: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../samples/pairtree");

/// A sample volume, read from memory.
pub type SampleParts = VolumeParts<Cursor<&'static [u8]>>;

/// All sample volumes, in the order of their paths.
pub fn volumes() -> Vec<SampleParts> {
    let mut zips = Vec::new();
    collect_zips(&PAIRTREE, &mut zips);
    zips.sort_by_key(|zip| zip.path());
    zips.into_iter().filter_map(parts).collect()
}

fn collect_zips(folder: &'static Dir<'static>, zips: &mut Vec<&'static File<'static>>) {
    for entry in folder.entries() {
        match entry {
            DirEntry::Dir(folder) => collect_zips(folder, zips),
            DirEntry::File(file) if file.path().extension() == Some(OsStr::new("zip")) => zips.push(file),
            DirEntry::File(_) => {}
        }
    }
}

/// A ZIP with the METS and the record beside it, which contain the volume's id.
fn parts(zip: &'static File<'static>) -> Option<SampleParts> {
    let mets = PAIRTREE.get_file(zip.path().with_extension("mets.xml"))?;
    let record = PAIRTREE.get_file(zip.path().with_extension("json"));
    Some(VolumeParts {
        id: None,
        zip: Cursor::new(zip.contents()),
        mets: mets.contents().to_vec(),
        record: record.map(|file| file.contents().to_vec()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use hathi::VolumeReader;

    use super::*;

    #[test]
    fn sixteen_volumes_with_3744_pages_are_in_the_binary() {
        let readers: Vec<_> = volumes().into_iter().map(|parts| VolumeReader::new(parts).unwrap()).collect();
        assert_eq!(readers.len(), 16);
        assert_eq!(readers.iter().map(VolumeReader::page_count).sum::<usize>(), 3744);
        assert!(readers.iter().all(|reader| reader.record().is_some()));
    }
}
