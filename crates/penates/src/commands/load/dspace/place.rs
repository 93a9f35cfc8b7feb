//! Where objects and their files are put.

use std::collections::HashSet;

use preservation::dspace::Manifest;
use preservation::names;

use super::is_within;
use crate::commands::load::checked_path;

/// The container of what each `mets.xml` says.
const AIP: &str = "aip";
/// The container of withdrawn items.
const WITHDRAWN: &str = "withdrawn";

/// The path of an object: its handle. A withdrawn item has another one, so that nobody finds it at
/// its address.
///
/// # Errors
/// Why there can be no resource at it.
pub(super) fn path(manifest: &Manifest) -> Result<String, String> {
    let path = checked_path(&manifest.handle)?.to_string();
    if path.is_empty() || is_within(&path, AIP) || is_within(&path, WITHDRAWN) {
        return Err(format!("/{path} has another meaning here"));
    }
    match manifest.is_withdrawn() {
        true => checked_path(&format!("{WITHDRAWN}/{path}")).map(|path| path.to_string()),
        false => Ok(path),
    }
}

/// The path of the METS of an object.
pub(super) fn mets(manifest: &Manifest) -> String {
    format!("{AIP}/{}.xml", manifest.handle)
}

/// The names of the files of an object, bitstreams first. A bitstream has the number that is part
/// of its address in DSpace, if only one has it, and else its identifier.
pub(super) fn names<'a>(manifest: &Manifest, others: impl Iterator<Item = &'a str>) -> Vec<String> {
    let sequences = || manifest.bitstreams.iter().filter_map(|bitstream| bitstream.sequence);
    let mut known = HashSet::new();
    let mut twice: HashSet<u64> = sequences().filter(|sequence| !known.insert(*sequence)).collect();
    twice.insert(0);
    let wanted = manifest.bitstreams.iter().map(|bitstream| match bitstream.sequence {
        Some(sequence) if !twice.contains(&sequence) => sequence.to_string(),
        _ => bitstream.id.clone(),
    });
    let mut taken = HashSet::new();
    wanted.chain(others.map(str::to_owned)).map(|name| free(name, &mut taken)).collect()
}

/// A name that is free, and can be that of a resource.
fn free(name: String, taken: &mut HashSet<String>) -> String {
    let is_name = !name.contains('/') && !name.is_empty() && checked_path(&name).is_ok();
    let name = if is_name { name } else { names::encoded(&name) };
    let further = (2_u64..).map(|n| format!("{name}-{n}"));
    let found = std::iter::once(name.clone()).chain(further).find(|name| !taken.contains(name));
    let found = found.unwrap_or(name);
    taken.insert(found.clone());
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_that_are_taken_or_no_names_are_changed() {
        let mut taken = HashSet::new();
        let names = ["1", "a/b", "1", "..", "1"].map(|name| free(name.to_owned(), &mut taken));
        assert_eq!(names, ["1", "a=2Fb", "1-2", "=2E=2E", "1-3"]);
    }
}
