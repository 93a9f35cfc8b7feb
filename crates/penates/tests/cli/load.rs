//! Loads of what was exported: the same tree, statements and bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use preservation::about::{ABOUT, About, DESCRIPTION};
use preservation::bagit::BagWriter;

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
fn payload(bag: &Path) -> BTreeMap<String, Vec<u8>> {
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

#[test]
fn a_bag_is_loaded_into_another_store_as_the_same_tree() {
    let store = tree();
    let path = |store: &TestStore, name: &str| store.beside(name).to_str().unwrap().to_owned();
    let bag = path(&store, "bag");
    store.run(&["export", "", &bag, "--as", "bagit"]).ends_with(0);
    let copy = TestStore::vacant();
    let told = copy.run(&["load", &bag]).ends_with(0);
    assert_eq!(told.text().trim(), "loaded 8 resources (300.0 kB of bytes), 1 unchanged, 0 failed");
    let again = path(&copy, "again");
    copy.run(&["export", "", &again, "--as", "bagit"]).ends_with(0);
    assert_eq!(payload(Path::new(&again)), payload(Path::new(&bag)));
    let list = |store: &TestStore| store.run(&["tree"]).ends_with(0).text().to_owned();
    assert_eq!(list(&copy), list(&store));
    copy.run(&["verify"]).ends_with(0);

    let told = copy.run(&["load", &bag]).ends_with(0);
    assert_eq!(told.text().trim(), "loaded 0 resources (0 B of bytes), 9 unchanged, 0 failed");
    assert_eq!(copy.run(&["history", "letters"]).ends_with(0).text().lines().count(), 1, "it was written again");
}

#[test]
fn statements_about_the_exported_repository_become_those_about_the_one_they_are_loaded_into() {
    let store = tree();
    let bag = store.beside("bag");
    store.run(&["export", "letters", bag.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    let copy = TestStore::vacant();
    let server = copy.serve(&[]);
    let token = copy.run(&["token", "create", "loader"]).ends_with(0).text().trim().to_owned();
    let refused = Ran::of(penates(&["load", bag.to_str().unwrap(), "--server", &server.url]));
    assert!(refused.code != 0 && refused.stderr.contains("token"), "{}", refused.stderr);
    let there = ["--server", &server.url, "--token", &token];
    Ran::of(penates(&[&["load", bag.to_str().unwrap()][..], &there].concat())).ends_with(0);
    let graph = Ran::of(penates(&["cat", "letters", "--server", &server.url, "--accept", "application/n-triples"]));
    let graph = graph.ends_with(0).text().to_owned();
    let url = &server.url;
    assert!(graph.contains(&format!("<http://purl.org/dc/terms/hasPart> <{url}/rest/letters/1.txt>")), "{graph}");
    assert!(graph.contains(&format!("<http://purl.org/dc/terms/hasPart> <{url}/rest/letters#part>")), "{graph}");
    assert!(graph.contains("\"<http://localhost/rest/x>\""), "a text is no address: {graph}");
}

#[test]
fn a_load_continues_where_it_was_interrupted_and_changes_nothing_else_that_is_there() {
    let store = tree();
    let bag = store.beside("bag").to_str().unwrap().to_owned();
    store.run(&["export", "letters", &bag, "--as", "bagit"]).ends_with(0);
    let copy = TestStore::vacant();
    let put = |path: &str, content: &str, media_type: &str| {
        let file = copy.beside("file");
        fs::write(&file, content).unwrap();
        copy.run(&["put", path, file.to_str().unwrap(), "--type", media_type]).ends_with(0);
    };
    // As an interrupted load leaves it: the bytes, and no description yet.
    put("letters/1.txt", "a letter", "text/plain");
    // Something else in the place of others.
    put("letters/deep", "<> <http://purl.org/dc/terms/title> \"Other\" .", "text/turtle");
    put("letters/deep/empty", "not empty", "image/png");
    put("letters/deep/graph", "bytes", "image/png");
    let told = copy.run(&["load", &bag]).ends_with(1);
    assert_eq!(told.text().trim(), "loaded 5 resources (300.0 kB of bytes), 0 unchanged, 3 failed");
    for reason in ["deep: there is a resource with other statements", "empty: there is a resource with other bytes"] {
        assert!(told.stderr.contains(reason), "{}", told.stderr);
    }
    assert!(told.stderr.contains("deep/graph: "), "{}", told.stderr);
    let cat = |path: &str| copy.run(&["cat", path]).ends_with(0).stdout;
    assert_eq!(cat("letters/deep/empty"), b"not empty");
    assert_eq!(cat("letters/deep/graph"), b"bytes");
    assert!(String::from_utf8(cat("letters/1.txt/fcr:metadata")).unwrap().contains("One"));
}

#[test]
fn nothing_of_a_bag_is_loaded_if_a_byte_of_it_is_wrong() {
    let store = tree();
    let bag = store.beside("bag");
    store.run(&["export", "letters", bag.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    fs::write(bag.join("data/letters/deep/graph.nt"), b"NO graph").unwrap();
    let copy = TestStore::vacant();
    let refused = copy.run(&["load", bag.to_str().unwrap()]).ends_with(1);
    assert!(refused.stderr.contains("nothing was loaded") && refused.stderr.contains("graph.nt"), "{}", refused.stderr);
    assert!(!copy.path().exists(), "a store was made");
    let refused = copy.run(&["load", copy.beside("nowhere").to_str().unwrap()]).ends_with(1);
    assert!(refused.stderr.contains("neither a bag"), "{}", refused.stderr);
}

#[test]
fn containers_with_members_and_links_to_bytes_elsewhere_are_loaded_as_such() {
    let about = |path: &str, class: &str, stored_at: Option<&str>| About {
        repository: "https://old.example.org/repository/".to_owned(),
        path: path.to_owned(),
        types: vec![format!("http://www.w3.org/ns/ldp#{class}")],
        content_type: stored_at.map(|_| "image/tiff".to_owned()),
        content_disposition: stored_at.map(|_| "attachment; filename=\"1.tif\"".to_owned()),
        last_modified: None,
        stored_at: stored_at.map(str::to_owned),
    };
    let store = TestStore::vacant();
    let place = store.beside("bag");
    let mut bag = BagWriter::create(&place).unwrap();
    let mut add = |about: About, statements: &str| {
        for (ending, content) in [(ABOUT, serde_json::to_string(&about).unwrap()), (DESCRIPTION, statements.to_owned())]
        {
            let mut file = bag.file(about.names(), ending).unwrap();
            file.write(content.as_bytes()).unwrap();
            bag.finish_file(file).unwrap();
        }
    };
    let root = "https://old.example.org/repository/";
    add(about("thesis", "BasicContainer", None), "");
    let member = format!(
        "<{root}thesis/parts> <http://www.w3.org/ns/ldp#membershipResource> <{root}thesis> .\n\
         <{root}thesis/parts> <http://www.w3.org/ns/ldp#hasMemberRelation> <http://purl.org/dc/terms/hasPart> .\n"
    );
    add(about("thesis/parts", "DirectContainer", None), &member);
    add(about("thesis/parts/one", "RDFSource", None), "");
    add(about("thesis/parts/two", "NonRDFSource", Some("https://example.org/scans/1.tif")), "");
    bag.finish(&[]).unwrap();
    let mut load = store.command(&["load", place.to_str().unwrap()]);
    load.env("PENATES_LDP__EXTERNAL", "[\"https://example.org/scans/\"]");
    let told = Ran::of(load).ends_with(0);
    assert_eq!(told.text().trim(), "loaded 4 resources (0 B of bytes), 0 unchanged, 0 failed");
    let graph = store.run(&["cat", "thesis", "--accept", "application/n-triples"]).ends_with(0).text().to_owned();
    for part in ["one", "two"] {
        let member = format!("<http://purl.org/dc/terms/hasPart> <http://localhost/rest/thesis/parts/{part}>");
        assert!(graph.contains(&member), "{graph}");
    }
    let again = store.beside("again");
    store.run(&["export", "thesis", again.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    let about = fs::read(again.join("data/thesis/parts/two=about.json")).unwrap();
    let about: About = serde_json::from_slice(&about).unwrap();
    assert_eq!(about.stored_at.as_deref(), Some("https://example.org/scans/1.tif"));
    assert_eq!(about.content_disposition.as_deref(), Some("attachment; filename=\"1.tif\""));
    let said = fs::read_to_string(again.join("data/thesis/parts=description.nt")).unwrap();
    assert_eq!(said.replace("http://localhost/rest/", root).lines().count(), 2);
    assert!(said.contains("hasMemberRelation> <http://purl.org/dc/terms/hasPart>"), "{said}");
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

#[test]
fn all_versions_are_loaded_into_a_new_store_with_their_times() {
    let store = tree();
    change(&store);
    let export = |store: &TestStore| {
        let root = store.beside("archive");
        store.run(&["export", "", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
        root
    };
    let root = export(&store);
    let copy = TestStore::vacant();
    let told = copy.run(&["load", root.to_str().unwrap()]).ends_with(0);
    assert!(
        told.text().trim().ends_with("0 failed") && told.text().starts_with("loaded 8 resources"),
        "{}",
        told.text()
    );
    for path in ["letters", "letters/1.txt", "letters/deep/graph"] {
        let history = |store: &TestStore| store.run(&["history", path]).ends_with(0).text().to_owned();
        assert_eq!(history(&copy), history(&store));
    }
    assert_eq!(files(&export(&copy)), files(&root), "an export of the copy is another one");
    assert!(files(&root).len() > 60);
    copy.run(&["verify"]).ends_with(0);
    let again = copy.run(&["load", root.to_str().unwrap()]).ends_with(0);
    assert_eq!(again.text().trim(), "loaded 0 resources (0 B of bytes), 9 unchanged, 0 failed");
    assert_eq!(files(&export(&copy)), files(&root), "a version was made again");
}

#[test]
fn versions_are_added_to_a_store_that_has_the_first_ones_and_others_are_refused() {
    let store = tree();
    let root = store.beside("archive").to_str().unwrap().to_owned();
    let export = || store.run(&["export", "letters", &root, "--as", "ocfl"]).ends_with(0);
    export();
    let copy = TestStore::with(&[]);
    fs::write(copy.beside("note"), "note").unwrap();
    copy.run(&["put", "note", copy.beside("note").to_str().unwrap()]).ends_with(0);
    let load = |code: i32| copy.run(&["load", &root]).ends_with(code).text().trim().to_owned();
    assert_eq!(load(0), "loaded 8 resources (300.0 kB of bytes), 0 unchanged, 0 failed");
    change(&store);
    export();
    assert_eq!(load(0), "loaded 3 resources (35 B of bytes), 5 unchanged, 0 failed");
    assert_eq!(load(0), "loaded 0 resources (0 B of bytes), 8 unchanged, 0 failed");
    for address in ["letters/1.txt", "letters/1.txt/fcr:metadata", "letters/deep/graph"] {
        assert_eq!(states(&copy, address), states(&store, address));
    }
    assert_eq!(states(&copy, "letters/1.txt").len(), 6);
    // A change of the copy's own is not written over.
    copy.run(&["put", "letters/deep/empty", copy.beside("note").to_str().unwrap(), "--type", "image/png"]).ends_with(0);
    assert_eq!(load(1), "loaded 0 resources (0 B of bytes), 7 unchanged, 1 failed");
}

#[test]
fn a_version_of_the_future_gets_the_time_of_the_load() {
    let store = TestStore::vacant();
    fs::write(store.beside("note"), "note").unwrap();
    store.run(&["put", "note", store.beside("note").to_str().unwrap()]).ends_with(0);
    let root = store.beside("archive");
    store.run(&["export", "note", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let object = root.join(preservation::ocfl::layout::place("penates:/note"));
    let mut inventory = preservation::ocfl::parsed(&fs::read(object.join("inventory.json")).unwrap()).unwrap();
    inventory.versions.get_mut("v1").unwrap().created = "2999-01-01T00:00:00Z".to_owned();
    let (text, sidecar) = inventory.written();
    fs::write(object.join("inventory.json"), text).unwrap();
    fs::write(object.join("inventory.json.sha512"), sidecar).unwrap();
    let copy = TestStore::vacant();
    copy.run(&["load", root.to_str().unwrap()]).ends_with(0);
    let put = |store: &TestStore| {
        store.run(&["put", "note", store.beside("note").to_str().unwrap()]).ends_with(0);
        let history = store.run(&["history", "note"]).ends_with(0).text().to_owned();
        history.lines().map(|line| line[..4].parse::<u32>().unwrap()).collect::<Vec<_>>()
    };
    fs::write(copy.beside("note"), "another").unwrap();
    let (ours, theirs) = (put(&copy), put(&store));
    assert!(ours.len() == 2 && ours.iter().all(|year| (theirs[0]..=theirs[1] + 1).contains(year)), "{ours:?}");
}

#[test]
fn a_bag_with_paths_of_the_servers_own_changes_nothing_there() {
    let store = TestStore::with(&[SMALL]);
    let place = store.beside("bag");
    let mut bag = BagWriter::create(&place).unwrap();
    let page = format!("volumes/{}/pages/1", SMALL.replace([':', '/'], "="));
    for path in [page.as_str(), "a/fcr:tombstone", "fcr:metadata"] {
        let about = About {
            repository: "http://localhost/rest/".to_owned(),
            path: path.to_owned(),
            types: vec!["http://www.w3.org/ns/ldp#RDFSource".to_owned()],
            content_type: None,
            content_disposition: None,
            last_modified: None,
            stored_at: None,
        };
        for (ending, content) in [(ABOUT, about.written()), (DESCRIPTION, Vec::new())] {
            let mut file = bag.file(about.names(), ending).unwrap();
            file.write(&content).unwrap();
            bag.finish_file(file).unwrap();
        }
    }
    bag.finish(&[]).unwrap();
    let told = store.run(&["load", place.to_str().unwrap()]).ends_with(1);
    assert_eq!(told.text().trim(), "loaded 0 resources (0 B of bytes), 0 unchanged, 3 failed");
    assert_eq!(told.stderr.matches("is the server's own").count(), 3, "{}", told.stderr);
    store.run(&["verify"]).ends_with(0);
}
