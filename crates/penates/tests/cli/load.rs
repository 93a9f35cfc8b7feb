//! Loads of what was exported: the same tree, statements and bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use preservation::about::{ABOUT, About, DESCRIPTION};
use preservation::bagit::BagWriter;
use preservation::bagit::text::Algorithm;
use preservation::ocfl::inventory::{Inventory, Paths, User, Version};

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
    let printed = copy.run(&["load", &bag]).ends_with(0);
    assert_eq!(printed.text().trim(), "loaded 8 resources (300.0 kB of bytes), 1 unchanged, 0 failed");
    let again = path(&copy, "again");
    copy.run(&["export", "", &again, "--as", "bagit"]).ends_with(0);
    assert_eq!(payload(Path::new(&again)), payload(Path::new(&bag)));
    let list = |store: &TestStore| store.run(&["tree"]).ends_with(0).text().to_owned();
    assert_eq!(list(&copy), list(&store));
    copy.run(&["verify"]).ends_with(0);

    let printed = copy.run(&["load", &bag]).ends_with(0);
    assert_eq!(printed.text().trim(), "loaded 0 resources (0 B of bytes), 9 unchanged, 0 failed");
    assert_eq!(copy.run(&["history", "letters"]).ends_with(0).text().lines().count(), 1, "it was written again");
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

#[test]
fn an_archival_group_is_one_again_after_it_was_exported_and_loaded() {
    let store = TestStore::vacant();
    store.run(&["put", "group", "--model", "archival-group"]).ends_with(0);
    put(&store, "group/part", "a part");
    store.run(&["put", "group/sub", "--model", "basic"]).ends_with(0);
    let refused = store.run(&["put", "group/inner", "--model", "archival-group"]).ends_with(1);
    assert!(refused.stderr.contains("/group, which is an archival group"), "{}", refused.stderr);
    assert!(is_group(&store, "group") && !is_group(&store, "group/sub"));
    for format in ["bagit", "ocfl"] {
        let exported = store.beside(format);
        store.run(&["export", "", exported.to_str().unwrap(), "--as", format]).ends_with(0);
        let copy = TestStore::vacant();
        copy.run(&["load", exported.to_str().unwrap()]).ends_with(0);
        assert!(is_group(&copy, "group") && !is_group(&copy, "group/sub"), "{format}");
        assert_eq!(cat(&copy, "group/part"), "a part", "{format}");
        // It compares what is there: the same command again changes nothing.
        copy.run(&["load", exported.to_str().unwrap()]).ends_with(0);
    }
    let copy = TestStore::vacant();
    copy.run(&["put", "group", "--model", "basic"]).ends_with(0);
    let refused = copy.run(&["load", store.beside("bagit").to_str().unwrap()]).ends_with(1);
    assert!(refused.stderr.contains("/group: there is a resource of another kind"), "{}", refused.stderr);
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
    let printed = copy.run(&["load", &bag]).ends_with(1);
    assert_eq!(printed.text().trim(), "loaded 5 resources (300.0 kB of bytes), 0 unchanged, 3 failed");
    for reason in ["deep: there is a resource with other statements", "empty: there is a resource with other bytes"] {
        assert!(printed.stderr.contains(reason), "{}", printed.stderr);
    }
    assert!(printed.stderr.contains("deep/graph: "), "{}", printed.stderr);
    let cat = |path: &str| copy.run(&["cat", path]).ends_with(0).stdout;
    assert_eq!(cat("letters/deep/empty"), b"not empty");
    assert_eq!(cat("letters/deep/graph"), b"bytes");
    assert!(String::from_utf8(cat("letters/1.txt/fcr:metadata")).unwrap().contains("One"));
}

#[test]
fn a_token_that_is_limited_to_a_tree_loads_nothing_and_one_for_the_whole_repository_does() {
    let store = TestStore::vacant();
    put(&store, "letters/1.txt", "a letter");
    let bag = store.beside("bag");
    let bag = bag.to_str().unwrap();
    store.run(&["export", "letters", bag, "--as", "bagit"]).ends_with(0);

    let copy = TestStore::vacant();
    put(&copy, "other.txt", "another");
    let [of_tree, of_all] = ["rest:/letters", "rest:/"].map(|limit| {
        let name = if limit == "rest:/" { "all" } else { "tree" };
        let made = copy.run(&["token", "create", name, "--scope", "write", "--scope", limit]).ends_with(0);
        made.text().trim().to_owned()
    });
    let server = copy.serve(&["--set=auth.read=token", "--set=auth.write=token"]);
    let load = |token: &str| Ran::of(penates(&["load", bag, "--server", &server.url, "--token", token]));
    let refused = load(&of_tree);
    assert!(refused.code != 0 && refused.stderr.contains("limited"), "{}", refused.stderr);
    let loaded = load(&of_all).ends_with(0);
    assert!(loaded.text().starts_with("loaded 2 resources"), "{}", loaded.text());
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
    let refused = |place: &Path| copy.run(&["load", place.to_str().unwrap()]).ends_with(1).stderr;
    let printed = refused(&copy.beside("nowhere"));
    assert!(
        printed.contains("there is no ") && printed.contains("nowhere") && !printed.contains("neither a bag"),
        "{printed}"
    );
    fs::write(copy.beside("file"), "").unwrap();
    let printed = refused(&copy.beside("file"));
    assert!(printed.contains("neither a bag") && printed.contains("0=ocfl_1.0"), "{printed}");
    store.run(&["export", "letters", store.beside("archive").to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let object = store.beside("archive").join(preservation::ocfl::layout::place("penates:/letters"));
    let printed = refused(&object);
    assert!(printed.contains("is an object of OCFL") && !printed.contains("neither a bag"), "{printed}");
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
        handling: None,
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
    let printed = Ran::of(load).ends_with(0);
    assert_eq!(printed.text().trim(), "loaded 4 resources (0 B of bytes), 0 unchanged, 0 failed");
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
    let printed = copy.run(&["load", root.to_str().unwrap()]).ends_with(0);
    assert!(
        printed.text().trim().ends_with("0 failed") && printed.text().starts_with("loaded 8 resources"),
        "{}",
        printed.text()
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
fn what_was_deleted_is_exported_with_its_versions_and_is_deleted_again_after_a_load() {
    let store = tree();
    change(&store);
    store.run(&["rm", "letters/deep"]).ends_with(0);
    store.run(&["rm", "letters/1.txt"]).ends_with(0);
    let root = store.beside("archive");
    let export = |store: &TestStore, place: &Path| {
        store.run(&["export", "", place.to_str().unwrap(), "--as", "ocfl"]).ends_with(0).text().to_owned()
    };
    assert!(export(&store, &root).starts_with("exported 9 resources"));
    match crate::export::is_valid_ocfl(&root) {
        Ok(is_valid) => assert!(is_valid),
        Err(reason) => store_cassandra::testing::not_run(&format!("a validator of OCFL: {reason}")),
    }
    let whole = files(&root);
    export(&store, &root);
    assert_eq!(files(&root), whole, "it was deleted again");

    let copy = TestStore::vacant();
    let load = || copy.run(&["load", root.to_str().unwrap()]).ends_with(0).text().trim().to_owned();
    assert!(load().ends_with("0 failed"));
    for path in ["letters/1.txt", "letters/deep", "letters/deep/empty", "letters/deep/graph"] {
        let history = |store: &TestStore| store.run(&["history", path]).ends_with(0).text().to_owned();
        assert_eq!(history(&copy), history(&store));
        let gone = copy.run(&["cat", path]).ends_with(1);
        assert!(gone.stderr.contains("deleted"), "{}", gone.stderr);
    }
    assert_eq!(load(), "loaded 0 resources (0 B of bytes), 9 unchanged, 0 failed");
    copy.run(&["verify"]).ends_with(0);
    // It can be restored there, too, and the next export has that.
    copy.run(&["restore", "letters/deep"]).ends_with(0);
    assert_eq!(copy.run(&["cat", "letters/deep/graph"]).ends_with(0).stdout, b"bytes");
    store.run(&["restore", "letters/1.txt"]).ends_with(0);
    store.run(&["rm", "letters/100% \u{fc}=2E.."]).ends_with(0);
    export(&store, &root);
    let other = TestStore::vacant();
    other.run(&["load", root.to_str().unwrap()]).ends_with(0);
    assert_eq!(other.run(&["cat", "letters/1.txt"]).ends_with(0).stdout, b"a letter");
    assert_eq!(other.run(&["history", "letters/1.txt"]).ends_with(0).text().lines().count(), 7);
    other.run(&["cat", "letters/100% \u{fc}=2E.."]).ends_with(1);
    // What was deleted meanwhile in a store with the same versions is deleted there, too; what the
    // store has changed since is left.
    let printed = copy.run(&["load", root.to_str().unwrap()]).ends_with(1);
    copy.run(&["cat", "letters/100% \u{fc}=2E.."]).ends_with(1);
    assert!(printed.stderr.contains("letters/deep"), "{}", printed.stderr);
    assert_eq!(copy.run(&["cat", "letters/deep/graph"]).ends_with(0).stdout, b"bytes");
}

/// Puts a text, or statements in Turtle.
fn put(store: &TestStore, path: &str, content: &str) {
    let file = store.beside("put");
    fs::write(&file, content).unwrap();
    let media_type = if content.starts_with("<>") { "text/turtle" } else { "text/plain" };
    store.run(&["put", path, file.to_str().unwrap(), "--type", media_type]).ends_with(0);
}

fn cat(store: &TestStore, path: &str) -> String {
    store.run(&["cat", path]).ends_with(0).text().to_owned()
}

#[test]
fn a_load_deletes_nothing_that_is_not_in_the_archive_with_all_its_versions() {
    const GRAPH: &str = "<> <http://purl.org/dc/terms/title> \"A container\" .";
    let store = TestStore::vacant();
    let same = |store: &TestStore| {
        for container in ["other", "other/deep", "failed", "versions", "same"] {
            put(store, container, GRAPH);
        }
        put(store, "same/note", "a note");
    };
    same(&store);
    put(&store, "failed/note", "a note");
    put(&store, "leaf", "first");
    put(&store, "leaf", "final");
    put(&store, "versions/note", "first");
    put(&store, "versions/note", "final");
    for path in ["other", "failed", "versions", "same", "leaf"] {
        store.run(&["rm", path]).ends_with(0);
    }
    let root = store.beside("archive");
    store.run(&["export", "", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);

    let copy = TestStore::vacant();
    same(&copy);
    put(&copy, "failed/note", "another note");
    put(&copy, "other/deep/own", "my own");
    put(&copy, "versions/note", "draft");
    put(&copy, "versions/note", "final");
    put(&copy, "leaf", "draft");
    put(&copy, "leaf", "final");
    let printed = copy.run(&["load", root.to_str().unwrap()]).ends_with(1);
    assert!(printed.text().trim().ends_with("7 failed"), "{}", printed.text());
    for why in ["other: it is not deleted: the archive does not have /other/deep/own", "leaf: version"] {
        assert!(printed.stderr.contains(why), "{}", printed.stderr);
    }
    for (path, content) in [("other/deep/own", "my own"), ("versions/note", "final"), ("leaf", "final")] {
        assert_eq!(cat(&copy, path), content);
    }
    assert_eq!(cat(&copy, "failed/note"), "another note");
    // What is the same is deleted.
    for path in ["same", "same/note"] {
        assert!(copy.run(&["cat", path]).ends_with(1).stderr.contains("deleted"));
    }
}

#[test]
fn a_load_goes_on_that_was_interrupted_after_it_deleted_what_it_creates_again() {
    let store = TestStore::vacant();
    let root = store.beside("archive");
    let export = || store.run(&["export", "", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    put(&store, "note", "first");
    store.run(&["rm", "note"]).ends_with(0);
    export();
    store.run(&["rm", "note", "--forget"]);
    put(&store, "note", "second");
    put(&store, "note", "third");
    export();
    for interrupted in [&["rm", "note"][..], &["rm", "note", "--forget"]] {
        let copy = TestStore::vacant();
        put(&copy, "note", "first");
        copy.run(interrupted).ends_with(0);
        let load = || copy.run(&["load", root.to_str().unwrap()]).ends_with(0).text().trim().to_owned();
        assert!(load().starts_with("loaded 1 resources"));
        assert_eq!(states(&copy, "note"), ["first\n", "second\n", "third\n"]);
        assert!(load().starts_with("loaded 0 resources"));
    }
    // One that the repository deleted itself stays deleted.
    let copy = TestStore::vacant();
    put(&copy, "note", "another");
    copy.run(&["rm", "note"]).ends_with(0);
    copy.run(&["load", root.to_str().unwrap()]).ends_with(1);
    copy.run(&["cat", "note"]).ends_with(1);
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
    let printed = copy.run(&["load", root.to_str().unwrap()]).ends_with(1);
    assert!(printed.text().contains("1 versions with another time than there"), "{}", printed.text());
    let put = |store: &TestStore| {
        store.run(&["put", "note", store.beside("note").to_str().unwrap()]).ends_with(0);
        let history = store.run(&["history", "note"]).ends_with(0).text().to_owned();
        history.lines().map(|line| line[..4].parse::<u32>().unwrap()).collect::<Vec<_>>()
    };
    fs::write(copy.beside("note"), "another").unwrap();
    let (ours, theirs) = (put(&copy), put(&store));
    assert!(ours.len() == 2 && ours.iter().all(|year| (theirs[0]..=theirs[1] + 1).contains(year)), "{ours:?}");
}

/// Changes the inventory of an object, with the right digest.
fn change_inventory(object: &Path, change: impl FnOnce(&mut Inventory)) {
    let path = object.join("inventory.json");
    let mut inventory = preservation::ocfl::parsed(&fs::read(&path).unwrap()).unwrap();
    change(&mut inventory);
    let (text, sidecar) = inventory.written();
    fs::write(path, text).unwrap();
    fs::write(object.join("inventory.json.sha512"), sidecar).unwrap();
}

#[test]
fn what_a_load_of_a_storage_root_changes_is_reported() {
    let store = tree();
    change(&store);
    let root = store.beside("archive");
    store.run(&["export", "", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let object = |id: &str| root.join(preservation::ocfl::layout::place(id));
    fs::remove_dir_all(object("penates:/letters/deep")).unwrap();
    change_inventory(&object("penates:/letters"), |inventory| {
        inventory.versions.get_mut("v2").unwrap().created = "2001-01-01T00:00:00Z".to_owned();
    });
    let copy = TestStore::vacant();
    for more in [&["--check"][..], &[]] {
        let report = copy.beside("report.ndjson");
        let args = ["load", root.to_str().unwrap(), "--report", report.to_str().unwrap()];
        let printed = copy.run(&[&args[..], more].concat()).ends_with(1).text().to_owned();
        assert!(printed.contains("1 containers that are empty because there is no resource for them"), "{printed}");
        assert!(printed.contains("1 versions with another time than there"), "{printed}");
        let lines = fs::read_to_string(report).unwrap();
        let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |what: &str| lines.iter().find(|line| line["what"] == what).unwrap();
        assert_eq!(of("container")["resource"], "/letters/deep");
        assert_eq!(
            (&of("time")["resource"], &of("time")["there"]),
            (&"/letters".into(), &"2001-01-01T00:00:00Z".into())
        );
    }
}

#[test]
fn a_media_type_that_no_header_may_have_is_named_before_anything_is_loaded() {
    let store = TestStore::vacant();
    fs::write(store.beside("note"), "note").unwrap();
    store.run(&["put", "note", store.beside("note").to_str().unwrap()]).ends_with(0);
    let root = store.beside("archive");
    store.run(&["export", "note", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let object = root.join(preservation::ocfl::layout::place("penates:/note"));
    let about = object.join("v1/content/about.json");
    let old = fs::read(&about).unwrap();
    let mut said: About = serde_json::from_slice(&old).unwrap();
    said.content_type = Some("text/plain\r\nx: y".to_owned());
    fs::write(&about, said.written()).unwrap();
    change_inventory(&object, |inventory| {
        let (old, new) = (sha512(&old), sha512(&said.written()));
        let replaced = |paths: Paths| {
            paths.into_iter().map(|(digest, paths)| (if digest == old { new.clone() } else { digest }, paths)).collect()
        };
        inventory.manifest = replaced(std::mem::take(&mut inventory.manifest));
        for version in inventory.versions.values_mut() {
            version.state = replaced(std::mem::take(&mut version.state));
        }
    });
    let copy = TestStore::vacant();
    let printed = copy.run(&["load", root.to_str().unwrap(), "--check"]).ends_with(1).stderr;
    assert!(
        printed.contains("/note: its media type has characters that are not allowed: \"text/plain\\r\\nx: y\""),
        "{printed}"
    );
    assert!(!copy.path().exists(), "a store was made");
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
            handling: None,
        };
        for (ending, content) in [(ABOUT, about.written()), (DESCRIPTION, Vec::new())] {
            let mut file = bag.file(about.names(), ending).unwrap();
            file.write(&content).unwrap();
            bag.finish_file(file).unwrap();
        }
    }
    bag.finish(&[]).unwrap();
    let printed = store.run(&["load", place.to_str().unwrap()]).ends_with(1);
    assert_eq!(printed.text().trim(), "loaded 0 resources (0 B of bytes), 0 unchanged, 3 failed");
    assert_eq!(printed.stderr.matches("is the server's own").count(), 3, "{}", printed.stderr);
    store.run(&["verify"]).ends_with(0);
}

#[test]
fn volumes_are_exported_as_a_bag_and_loaded_back_with_the_same_bytes() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let letter = store.beside("1.txt");
    fs::write(&letter, "a letter").unwrap();
    store.run(&["put", "letters/1.txt", letter.to_str().unwrap()]).ends_with(0);
    let path = |store: &TestStore, name: &str| store.beside(name).to_str().unwrap().to_owned();
    let bag = path(&store, "bag");
    let printed = store.run(&["export", "", &bag, "--as", "bagit"]).ends_with(0);
    assert!(printed.text().starts_with("exported 3 resources and 2 volumes"), "{}", printed.text());
    match crate::export::is_valid(Path::new(&bag)) {
        Ok(is_valid) => assert!(is_valid),
        Err(reason) => store_cassandra::testing::not_run(&format!("a validator of bags: {reason}")),
    }
    // METS and record are those that were imported, and other programs find them.
    for id in [SMALL, OTHER] {
        let pairtree = hathi::pairtree_path(&hathi::VolumeId::parse(id).unwrap());
        let exported = files(&Path::new(&bag).join("data/volumes").join(pairtree));
        let imported = files(&sample_folder(id));
        for (name, bytes) in imported.iter().filter(|(name, _)| !name.ends_with(".zip")) {
            assert_eq!(exported.get(name), Some(bytes), "{name}");
        }
        assert_eq!(exported.keys().collect::<Vec<_>>(), imported.keys().collect::<Vec<_>>());
    }

    let copy = TestStore::vacant();
    let printed = copy.run(&["load", &bag]).ends_with(0);
    assert!(printed.text().starts_with("loaded 4 resources"), "{}", printed.text());
    assert_eq!(copy.ids(), [SMALL, OTHER]);
    let again = path(&copy, "again");
    copy.run(&["export", "", &again, "--as", "bagit"]).ends_with(0);
    assert_eq!(payload(Path::new(&again)), payload(Path::new(&bag)));
    let printed = copy.run(&["load", &bag]).ends_with(0);
    assert_eq!(printed.text().trim(), "loaded 0 resources (0 B of bytes), 5 unchanged, 0 failed");

    let one = path(&store, "one");
    let printed = store.run(&["export", &format!("volumes/{SMALL}"), &one, "--as", "bagit"]).ends_with(0);
    assert!(printed.text().starts_with("exported 0 resources and 1 volumes"), "{}", printed.text());
    // A volume with another page than its METS says would not be read back.
    let server = copy.serve(&["--set=auth.write=open"]);
    let page = format!("{}/volumes/{}/pages/1", server.url, SMALL.replace('/', "%2F"));
    let put = ["-sf", "-X", "PUT", "-H", "Content-Type: text/plain", "-d", "another", &page];
    assert!(std::process::Command::new("curl").args(put).status().unwrap().success());
    let replaced = path(&copy, "replaced");
    let args = ["export", "volumes", &replaced, "--as", "bagit", "--server", &server.url];
    let failed = Ran::of(penates(&args)).ends_with(1);
    assert!(failed.stderr.contains(SMALL) && failed.stderr.contains("METS"), "{}", failed.stderr);
    assert!(!Path::new(&replaced).exists());
}

#[test]
fn the_zip_in_a_bag_has_the_names_of_the_mets_and_an_interrupted_export_does_not_fetch_it_again() {
    // In its METS the names of files are not the sequences of pages.
    const APART: &str = "yale.39002015008130";
    let store = TestStore::with(&[APART]);
    let bag = store.beside("bag");
    let export = || store.run(&["export", "volumes", bag.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    export();
    let whole = files(&bag);
    let copy = TestStore::vacant();
    copy.run(&["load", bag.to_str().unwrap()]).ends_with(0);
    let get = |store: &TestStore| store.run(&["get", APART, "--mets"]).ends_with(0).stdout;
    assert!(get(&copy) == get(&store));

    let len = |ending: &str| {
        let found = whole.iter().find(|(name, _)| name.starts_with("data/") && name.ends_with(ending)).unwrap();
        found.1.len() as u64
    };
    let printed = |bytes: u64| format!("({} of bytes)", penates::output::human_bytes(bytes));
    let without_zip = len(".mets.xml") + len(".json");
    fs::rename(&bag, store.beside("bag.unfinished")).unwrap();
    let told_again = export();
    assert!(told_again.text().contains(&printed(without_zip)), "{}", told_again.text());
    assert_eq!(files(&bag), whole);
    // One that is cut off is fetched again.
    let unfinished = store.beside("bag.unfinished");
    fs::rename(&bag, &unfinished).unwrap();
    let zip = unfinished.join(whole.keys().find(|name| name.ends_with(".zip")).unwrap());
    let bytes = fs::read(&zip).unwrap();
    fs::write(&zip, &bytes[..bytes.len() / 2]).unwrap();
    assert!(!export().text().contains(&printed(without_zip)));
    assert_eq!(files(&bag), whole);
}

#[test]
fn a_zip_with_a_page_that_the_volume_has_not_any_more_does_not_stay_in_a_bag_that_is_continued() {
    let store = TestStore::with(&[SMALL]);
    let bag = store.beside("bag");
    let export = || store.run(&["export", "volumes", bag.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    export();
    let whole = files(&bag);
    let unfinished = store.beside("bag.unfinished");
    fs::rename(&bag, &unfinished).unwrap();
    let zip = unfinished.join(whole.keys().find(|name| name.ends_with(".zip")).unwrap());
    let file = fs::OpenOptions::new().read(true).write(true).open(&zip).unwrap();
    let mut zip = zip::ZipWriter::new_append(file).unwrap();
    zip.start_file("00000999.txt", zip::write::SimpleFileOptions::default()).unwrap();
    std::io::Write::write_all(&mut zip, b"withdrawn").unwrap();
    zip.finish().unwrap();
    export();
    assert_eq!(files(&bag), whole);
}

#[test]
fn a_page_that_was_replaced_since_an_export_was_interrupted_is_not_exported_as_it_was() {
    let store = TestStore::with(&[SMALL]);
    let bag = store.beside("bag");
    let args = ["export", "volumes", bag.to_str().unwrap(), "--as", "bagit"];
    store.run(&args).ends_with(0);
    fs::rename(&bag, store.beside("bag.unfinished")).unwrap();
    let server = store.serve(&["--set=auth.write=open"]);
    let page = format!("{}/volumes/{}/pages/1", server.url, SMALL.replace('/', "%2F"));
    let put = ["-sf", "-X", "PUT", "-H", "Content-Type: text/plain", "-d", "another", &page];
    assert!(std::process::Command::new("curl").args(put).status().unwrap().success());
    server.stop("TERM");
    // The METS is still that of the earlier text, so the ZIP of a new export does not match it.
    let failed = store.run(&args).ends_with(1);
    assert!(failed.stderr.contains(SMALL) && failed.stderr.contains("METS"), "{}", failed.stderr);
    assert!(!bag.exists());
}

#[test]
fn the_files_of_a_bag_of_another_program_become_resources_below_a_container() {
    let store = TestStore::vacant();
    let bag = store.beside("bag");
    fs::create_dir_all(bag.join("data/scans/a b")).unwrap();
    let contents: [(&str, &[u8]); 5] = [
        ("graph.ttl", b"<> a <http://example.org/Graph> ."),
        ("note.txt", b"a note"),
        ("scans/1.tif", &[7; 300_000]),
        ("scans/a b/100%.bin", b"odd"),
        ("scans/x=about.json", b"{}"),
    ];
    let mut manifest = String::new();
    for (name, bytes) in contents {
        fs::write(bag.join("data").join(name), bytes).unwrap();
        let digest: String =
            <md5::Md5 as md5::Digest>::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        manifest.push_str(&format!("{digest}  data/{}\n", name.replace('%', "%25")));
    }
    fs::write(bag.join("manifest-md5.txt"), &manifest).unwrap();
    fs::write(bag.join("bagit.txt"), "BagIt-Version: 0.97\nTag-File-Character-Encoding: UTF-8\n").unwrap();
    let info = "Source-Organization: An archive\nExternal-Description: Letters\n of 1834\nContact-Name: \"A\" B\n";
    fs::write(bag.join("bag-info.txt"), info).unwrap();
    let bag_path = bag.to_str().unwrap().to_owned();

    let refused = store.run(&["load", &bag_path]).ends_with(1);
    assert!(refused.stderr.contains("--into"), "{}", refused.stderr);
    assert!(!store.path().exists(), "a store was made");
    let load = || store.run(&["load", "--into", "deposits/7", &bag_path]);
    let printed = load().ends_with(0);
    // The files, and the containers deposits, deposits/7, scans and a b.
    assert!(printed.text().starts_with("loaded 9 resources"), "{}", printed.text());
    for (name, bytes) in contents {
        assert_eq!(store.run(&["cat", &format!("deposits/7/{name}")]).ends_with(0).stdout, bytes, "{name}");
    }
    let said = store.run(&["cat", "deposits/7", "--accept", "application/n-triples"]).ends_with(0);
    for line in [
        "<http://purl.org/dc/terms/source> \"An archive\"",
        "<http://purl.org/dc/terms/description> \"Letters of 1834\"",
        "<http://www.w3.org/2000/01/rdf-schema#comment> \"Contact-Name: \\\"A\\\" B\"",
    ] {
        assert!(said.text().contains(line), "{line}: {}", said.text());
    }
    assert_eq!(load().ends_with(0).text().trim(), "loaded 0 resources (0 B of bytes), 9 unchanged, 0 failed");

    // What is hostile in a bag loads nothing.
    let other = |change: &dyn Fn()| {
        change();
        let refused = store.run(&["load", "--into", "deposits/8", &bag_path]).ends_with(1);
        assert!(refused.stderr.contains("nothing was loaded"), "{}", refused.stderr);
        assert_eq!(store.run(&["cat", "deposits/8"]).code, 1);
    };
    other(&|| {
        fs::write(bag.join("manifest-md5.txt"), format!("{manifest}{}  ../../etc/passwd\n", "0".repeat(32))).unwrap()
    });
    other(&|| {
        fs::write(bag.join("manifest-md5.txt"), format!("{manifest}{}  data/fetched\n", "0".repeat(32))).unwrap()
    });
    fs::write(bag.join("manifest-md5.txt"), &manifest).unwrap();
    other(&|| std::os::unix::fs::symlink("/etc/passwd", bag.join("data/link")).unwrap());
}

/// An object of another program: the files of each version.
fn object(root: &Path, id: &str, versions: &[&[(&str, &str)]]) {
    let folder = root.join(id.replace(['/', ':'], "_"));
    let mut inventory = Inventory::new(id);
    for (n, files) in versions.iter().enumerate() {
        let (name, mut state) = (format!("v{}", n + 1), Paths::new());
        for (path, content) in *files {
            let digest = sha512(content.as_bytes());
            state.entry(digest.clone()).or_default().push((*path).to_owned());
            inventory.manifest.entry(digest).or_insert_with(|| {
                let place = format!("{name}/content/{path}");
                fs::create_dir_all(folder.join(&place).parent().unwrap()).unwrap();
                fs::write(folder.join(&place), content).unwrap();
                vec![place]
            });
        }
        let user = Some(User { name: "An archivist".to_owned(), address: None });
        let created = format!("2020-01-0{}T00:00:00Z", n + 1);
        inventory.versions.insert(name.clone(), Version { created, message: Some(format!("change {n}")), user, state });
        inventory.head = name;
    }
    let (text, sidecar) = inventory.written();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("inventory.json"), text).unwrap();
    fs::write(folder.join("inventory.json.sha512"), sidecar).unwrap();
    fs::write(folder.join("0=ocfl_object_1.1"), "ocfl_object_1.1\n").unwrap();
}

fn sha512(bytes: &[u8]) -> String {
    let mut digest = Algorithm::Sha512.begin();
    digest.update(bytes);
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_objects_of_another_program_become_containers_with_their_versions() {
    let store = TestStore::vacant();
    let root = store.beside("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("0=ocfl_1.1"), "ocfl_1.1\n").unwrap();
    let versions: [&[(&str, &str)]; 4] = [
        &[("a.txt", "one"), ("b/c.txt", "c")],
        &[("a.txt", "two"), ("b/c.txt", "c"), ("same.txt", "two")],
        &[("a.txt", "two")],
        &[("a.txt", "one"), ("b/c.txt", "again")],
    ];
    object(&root, "info:x/1", &versions[..3]);
    object(&root, "plain", &[&[("a.txt", "plain")]]);
    let load = || store.run(&["load", "--into", "archive", root.to_str().unwrap()]);
    assert!(load().ends_with(0).text().starts_with("loaded 2 resources"));
    let cat = |path: &str| store.run(&["cat", &format!("archive/info=3Ax=2F1/{path}")]);
    assert_eq!(cat("a.txt").ends_with(0).stdout, b"two");
    assert_ne!(cat("b/c.txt").code, 0, "a file of an earlier version is there");
    assert_eq!(store.run(&["cat", "archive/plain/a.txt"]).ends_with(0).stdout, b"plain");
    let said = store.run(&["cat", "archive/info=3Ax=2F1", "--accept", "application/n-triples"]).ends_with(0);
    for text in ["\"info:x/1\"", "\"v3\"", "\"2020-01-03T00:00:00Z\"", "\"change 2\"", "\"An archivist\""] {
        assert!(said.text().contains(text), "{text}: {}", said.text());
    }
    let history = |path: &str| {
        let history = store.run(&["history", &format!("archive/info=3Ax=2F1/{path}")]).ends_with(0);
        history.text().lines().count()
    };
    assert_eq!(history("a.txt"), 2);
    assert_eq!(load().ends_with(0).text().trim(), "loaded 0 resources (0 B of bytes), 2 unchanged, 0 failed");

    // A further version is added, also by a load that was interrupted within it.
    fs::remove_dir_all(root.join("info_x_1")).unwrap();
    object(&root, "info:x/1", &versions);
    let again = store.beside("again");
    fs::write(&again, "again").unwrap();
    let interrupted = ["put", "archive/info=3Ax=2F1/b/c.txt", again.to_str().unwrap(), "--type", "text/plain"];
    store.run(&["rm", "--forget", "archive/info=3Ax=2F1/b/c.txt"]);
    store.run(&interrupted).ends_with(0);
    assert!(load().ends_with(0).text().starts_with("loaded 1 resources"));
    assert_eq!(cat("a.txt").ends_with(0).stdout, b"one");
    assert_eq!(cat("b/c.txt").ends_with(0).stdout, b"again");
    assert_eq!(history("a.txt"), 3);

    // Something else in its place stays.
    store.run(&["put", "other/plain", again.to_str().unwrap(), "--type", "text/plain"]).ends_with(0);
    let refused = store.run(&["load", "--into", "other", root.to_str().unwrap()]).ends_with(1);
    assert!(refused.stderr.contains("plain") && refused.text().contains("1 failed"), "{}", refused.stderr);
    assert_eq!(store.run(&["cat", "other/plain"]).ends_with(0).stdout, b"again");

    fs::write(root.join("plain/v1/content/a.txt"), "Plain").unwrap();
    let refused = store.run(&["load", "--into", "new", root.to_str().unwrap()]).ends_with(1);
    assert!(refused.stderr.contains("nothing was loaded"), "{}", refused.stderr);
}

/// A storage root of another program, and a store for it.
fn foreign() -> (TestStore, PathBuf) {
    let store = TestStore::vacant();
    let root = store.beside("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("0=ocfl_1.1"), "ocfl_1.1\n").unwrap();
    (store, root)
}

/// Loads a storage root of another program below `archive`. Returns what it printed.
fn load_foreign(store: &TestStore, root: &Path, code: i32) -> String {
    let ran = store.run(&["load", "--into", "archive", root.to_str().unwrap()]).ends_with(code);
    format!("{}{}", ran.text(), ran.stderr)
}

#[test]
fn what_was_changed_here_stays_when_a_later_version_of_an_object_changes_or_deletes_it() {
    let (store, root) = foreign();
    let versions: [&[(&str, &str)]; 2] =
        [&[("a.txt", "one"), ("b.txt", "b"), ("c/d.txt", "d")], &[("a.txt", "two"), ("new.txt", "new")]];
    object(&root, "plain", &versions[..1]);
    load_foreign(&store, &root, 0);
    fs::remove_dir_all(root.join("plain")).unwrap();
    object(&root, "plain", &versions);
    for (name, ours, loaded) in [("b.txt", "my b", "b"), ("a.txt", "my a", "one")] {
        let path = format!("archive/plain/{name}");
        put(&store, &path, ours);
        for _ in 0..2 {
            let printed = load_foreign(&store, &root, 1);
            assert!(printed.contains("1 failed") && printed.contains(&format!("/{path}")), "{printed}");
            assert_eq!(cat(&store, &path), ours);
        }
        put(&store, &path, loaded);
    }
    load_foreign(&store, &root, 0);
    assert_eq!(cat(&store, "archive/plain/a.txt"), "two");
    assert_eq!(cat(&store, "archive/plain/new.txt"), "new");
    for gone in ["b.txt", "c/d.txt", "c"] {
        store.run(&["cat", &format!("archive/plain/{gone}")]).ends_with(1);
    }
    assert!(load_foreign(&store, &root, 0).contains("loaded 0 resources"));
}

#[test]
fn a_folder_becomes_a_file_and_a_file_a_folder_in_a_later_version_of_an_object() {
    let (store, root) = foreign();
    let versions: [&[(&str, &str)]; 2] = [&[("a/b/c", "deep"), ("x", "file")], &[("a", "file"), ("x/y", "deep")]];
    object(&root, "plain", &versions);
    load_foreign(&store, &root, 0);
    assert_eq!(cat(&store, "archive/plain/a"), "file");
    assert_eq!(cat(&store, "archive/plain/x/y"), "deep");
    assert!(load_foreign(&store, &root, 0).contains("loaded 0 resources"));
    // A folder with something else in it stays.
    object(&root, "other", &versions[..1]);
    load_foreign(&store, &root, 0);
    put(&store, "archive/other/a/mine", "mine");
    fs::remove_dir_all(root.join("other")).unwrap();
    object(&root, "other", &versions);
    let printed = load_foreign(&store, &root, 1);
    assert!(printed.contains("/archive/other/a: there is a resource of another kind"), "{printed}");
    assert_eq!(cat(&store, "archive/other/a/mine"), "mine");
}

#[test]
fn two_objects_with_one_identifier_are_named_before_anything_is_loaded() {
    let (store, root) = foreign();
    object(&root, "plain", &[&[("a.txt", "one")]]);
    copy_folder(&root.join("plain"), &root.join("again"));
    let printed = load_foreign(&store, &root, 1);
    assert!(printed.contains("is the object plain too") && printed.contains("nothing was loaded"), "{printed}");
    assert!(!store.path().exists(), "a store was made");
}

#[test]
fn an_object_that_lost_its_declaration_is_named_before_anything_is_loaded() {
    let store = TestStore::vacant();
    put(&store, "note", "a note");
    put(&store, "other", "another");
    let root = store.beside("archive");
    store.run(&["export", "", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let object = root.join(preservation::ocfl::layout::place("penates:/note"));
    fs::remove_file(object.join("0=ocfl_object_1.1")).unwrap();
    let copy = TestStore::vacant();
    for more in [&["--check"][..], &[]] {
        let printed = copy.run(&[&["load", root.to_str().unwrap()][..], more].concat()).ends_with(1).stderr;
        assert!(printed.contains("does not declare itself an object"), "{printed}");
    }
    assert!(!copy.path().exists(), "a store was made");
}

#[test]
fn a_restored_version_has_the_right_bytes_also_where_only_some_versions_are_kept() {
    const SOME: &str = "--set=history.resources=3";
    let store = TestStore::vacant();
    for text in ["a", "b", "c"] {
        put(&store, "note", text);
        put(&store, "note/fcr:metadata", &format!("<> <http://purl.org/dc/terms/title> \"title {text}\" ."));
    }
    let history = store.run(&["history", "note"]).ends_with(0).text().to_owned();
    let restored = history.lines().nth(1).unwrap().split('\t').next().unwrap();
    store.run(&["restore", "note", "--at", restored]).ends_with(0);
    let root = store.beside("archive");
    let root = root.to_str().unwrap();
    store.run(&["export", "note", root, "--as", "ocfl"]).ends_with(0);

    // A store that the load opens itself is refused.
    let copy = TestStore::vacant();
    let refused = copy.run(&["load", root, SOME]).ends_with(2).stderr;
    assert!(refused.contains("repeat it with --set history.resources=all"), "{refused}");
    assert!(!copy.path().exists(), "a store was made");
    // What a server keeps is seen when something is compared.
    let server = copy.serve(&["--set=auth.write=open", SOME]);
    let on = |args: &[&str]| Ran::of(penates(&[args, &["--server", &server.url]].concat()));
    let is_restored = || {
        let said = on(&["cat", "note/fcr:metadata"]).ends_with(0).text().to_owned();
        on(&["cat", "note"]).ends_with(0).text() == "a" && said.contains("title a")
    };
    on(&["load", root]).ends_with(0);
    assert!(is_restored());
    let printed = on(&["load", root]).ends_with(1).stderr;
    assert!(printed.contains("of its 7 versions here") && printed.contains("history.resources"), "{printed}");
    assert!(is_restored());
}
