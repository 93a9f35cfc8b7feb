//! The operations guide: an index, and the pages that it leads to.

use std::fs;
use std::path::Path;

/// The folder of the guide, from the root of the repository.
pub const FOLDER: &str = "docs/operations";

/// The paths of the pages from the root of the repository, in the order of the index.
pub fn pages() -> Vec<String> {
    let index = read(&format!("{FOLDER}/README.md"));
    let links = index.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    links.filter(|link| !link.contains('/')).map(|page| format!("{FOLDER}/{page}")).collect()
}

/// The text of all pages, in this order.
pub fn text() -> String {
    pages().iter().map(|page| read(page)).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}
