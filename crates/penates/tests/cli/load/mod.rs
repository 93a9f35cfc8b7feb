//! Loads of what was exported: the same tree, statements and bytes. Loads of what a Fedora wrote
//! are in `fedora`, and those of a DSpace in `dspace.rs`.
//!
//! - `bag.rs`: bags of resources.
//! - `volumes.rs`: bags of volumes.
//! - `ocfl.rs`: storage roots of OCFL, with all versions.
//! - `foreign.rs`: bags and storage roots of other programs.
//! - `interrupted.rs`: loads that go on.
//! - `refusals.rs`: what is refused before or while it is loaded.

mod bag;
mod foreign;
mod interrupted;
mod ocfl;
mod refusals;
mod volumes;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use preservation::about::{ABOUT, About};
use preservation::bagit::text::Algorithm;
use preservation::ocfl::inventory::{Inventory, Paths};

use crate::harness::*;

/// The files below a folder.
pub fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(within) = waiting.pop() {
        for entry in fs::read_dir(within).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(entry.path()),
                false => _ = files.insert(name, fs::read(entry.path()).unwrap()),
            }
        }
    }
    files
}

/// The payload of a bag, without the times at which resources were stored.
pub fn payload(bag: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = files(&bag.join("data"));
    for (_, text) in files.iter_mut().filter(|(name, _)| name.ends_with("=about.json")) {
        let mut about: serde_json::Value = serde_json::from_slice(text).unwrap();
        assert!(about["last_modified"].take().is_string());
        *text = about.to_string().into_bytes();
    }
    files
}

/// Resources of all kinds: graphs with blank nodes and with addresses of other resources, bytes
/// with names and descriptions, and a Direct Container.
pub fn tree() -> TestStore {
    let store = TestStore::vacant();
    let put = |path: &str, name: &str, content: &[u8], more: &[&str]| {
        let file = store.beside(name);
        fs::write(&file, content).unwrap();
        store.run(&[&["put", path, file.to_str().unwrap()], more].concat()).ends_with(0);
    };
    let graph = "@prefix dc: <http://purl.org/dc/terms/> . <> dc:title \"Letters\"@en, \"<http://localhost/rest/x>\" ; \
                 dc:creator [ dc:title \"A\\nB\" ] ; dc:hasPart <letters/1.txt>, <letters#part>, <other> .";
    put("letters", "graph.ttl", graph.as_bytes(), &[]);
    put("letters/1.txt", "1.txt", b"a letter", &[]);
    let about_bytes = b"<letters/1.txt> <http://purl.org/dc/terms/title> \"One\" .";
    put("letters/1.txt/fcr:metadata", "one.ttl", about_bytes, &[]);
    put("letters/100% \u{fc}=2E..", "large.bin", &vec![7; 300_000], &[]);
    put(&format!("letters/{}", "long".repeat(60)), "long.txt", b"long", &[]);
    put("letters/deep", "deep.ttl", b"<> <http://purl.org/dc/terms/title> \"Deep\" .", &[]);
    put("letters/deep/graph", "inner.nt", b"", &["--type", "application/n-triples"]);
    put("letters/deep/graph.nt", "bytes.nt", b"no graph", &["--type", "text/plain"]);
    put("letters/deep/empty", "empty", b"", &["--type", "image/png"]);
    store
}

/// Whether a resource of a store is an archival group, by its export.
pub fn is_group(store: &TestStore, path: &str) -> bool {
    let bag = store.beside(&format!("bag-of-{}", path.replace('/', "-")));
    store.run(&["export", path, bag.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    let files = files(&bag.join("data"));
    let mut abouts = files.iter().filter(|(name, _)| name.ends_with(ABOUT));
    let about = abouts.find_map(|(_, text)| {
        let about: About = serde_json::from_slice(text).unwrap();
        (about.path == path).then_some(about)
    });
    about.unwrap().is_group()
}

/// Changes resources of the tree in all ways that leave versions.
fn change(store: &TestStore) {
    let put = |path: &str, content: &str, media_type: &str| {
        let file = store.beside("changed");
        fs::write(&file, content).unwrap();
        store.run(&["put", path, file.to_str().unwrap(), "--type", media_type]).ends_with(0);
    };
    put("letters", "<> <http://purl.org/dc/terms/title> \"New\" .", "text/turtle");
    put("letters/1.txt", "a longer letter", "text/plain");
    put("letters/1.txt/fcr:metadata", "<> <http://purl.org/dc/terms/title> \"Two\" .", "text/turtle");
    put("letters/1.txt", "a longer letter", "text/markdown");
    let first = store.run(&["history", "letters/1.txt"]).ends_with(0).text().split('\t').next().unwrap().to_owned();
    store.run(&["restore", "letters/1.txt", "--at", &first]).ends_with(0);
    // Of another kind, under the same name.
    store.run(&["rm", "letters/deep/graph", "--forget"]).ends_with(0);
    put("letters/deep/graph", "bytes", "image/png");
}

/// The states of the versions at an address, without what the server says of them.
fn states(store: &TestStore, address: &str) -> Vec<String> {
    let history = store.run(&["history", address]).ends_with(0).text().to_owned();
    let state = |line: &str| {
        let version = format!("{address}/fcr:versions/{}", line.split('\t').next().unwrap());
        let cat = ["cat", &version, "--accept", "application/n-triples, */*;q=0.1"];
        let text = store.run(&cat).ends_with(0).text().to_owned();
        text.lines().filter(|line| !line.contains("fedora.info/definitions")).map(|line| format!("{line}\n")).collect()
    };
    history.lines().map(state).collect()
}

/// Puts a text, or statements in Turtle.
fn put(store: &TestStore, path: &str, content: &str) {
    let file = store.beside("put");
    fs::write(&file, content).unwrap();
    let media_type = if content.starts_with("<>") { "text/turtle" } else { "text/plain" };
    store.run(&["put", path, file.to_str().unwrap(), "--type", media_type]).ends_with(0);
}

/// A store with a text, `note`. Then the storage root of OCFL that an export of it made, and the
/// object of the text there. They last as long as the store.
fn exported_note() -> (TestStore, PathBuf, PathBuf) {
    let store = TestStore::vacant();
    put(&store, "note", "note");
    let root = store.beside("archive");
    store.run(&["export", "note", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let object = root.join(preservation::ocfl::layout::place("penates:/note"));
    (store, root, object)
}

fn cat(store: &TestStore, path: &str) -> String {
    store.run(&["cat", path]).ends_with(0).text().to_owned()
}

/// Changes the inventory of an object, with the right digest.
pub fn change_inventory(object: &Path, change: impl FnOnce(&mut Inventory)) {
    let path = object.join("inventory.json");
    let mut inventory = preservation::ocfl::parsed(&fs::read(&path).unwrap()).unwrap();
    change(&mut inventory);
    let (text, sidecar) = inventory.written();
    fs::write(path, text).unwrap();
    fs::write(object.join("inventory.json.sha512"), sidecar).unwrap();
}

/// Changes the text of a file of an object, and its digest in the inventory.
pub fn change_file(object: &Path, name: &str, change: impl FnOnce(&str) -> String) {
    let file = object.join(name);
    let old = fs::read_to_string(&file).unwrap();
    let new = change(&old);
    fs::write(&file, &new).unwrap();
    let [old, new] = [old, new].map(|text| digest(Algorithm::Sha512, text.as_bytes()));
    change_inventory(object, |inventory| {
        let replaced = |paths: Paths| -> Paths {
            paths.into_iter().map(|(digest, paths)| (if digest == old { new.clone() } else { digest }, paths)).collect()
        };
        inventory.manifest = replaced(std::mem::take(&mut inventory.manifest));
        for version in inventory.versions.values_mut() {
            version.state = replaced(std::mem::take(&mut version.state));
        }
    });
}

/// The digest of bytes in hexadecimal digits.
pub fn digest(algorithm: Algorithm, bytes: &[u8]) -> String {
    let mut digest = algorithm.begin();
    digest.update(bytes);
    hex::encode(digest.finalize())
}
