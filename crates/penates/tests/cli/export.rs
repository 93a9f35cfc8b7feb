//! Exports of trees of resources and of volumes into bags, checked by the validators of others: of the
//! Library of Congress for bags, and ocfl-py for objects of OCFL.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::*;
use crate::load;
use crate::ocfl_volumes::{APART, put_page};
use crate::validators::{is_valid, programs};

/// The validators, as their registry names them.
const OCFL: &str = "ocfl-py==2.1.0";

fn tree() -> TestStore {
    let store = TestStore::vacant();
    let file = |name: &str, content: &[u8]| {
        let file = store.beside(name);
        fs::write(&file, content).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let graph = file("graph.ttl", b"<> <http://purl.org/dc/terms/title> \"Letters\" .");
    let (small, large) = (file("small.txt", b"a letter"), file("large.bin", &vec![7; 300_000]));
    store.run(&["put", "letters", &graph]).ends_with(0);
    store.run(&["put", "letters/1.txt", &small]).ends_with(0);
    store.run(&["put", "letters/100% \u{fc}=2E..", &large]).ends_with(0);
    store.run(&["put", "letters/deep", &graph]).ends_with(0);
    store.run(&["put", "letters/deep/empty", &file("empty.bin", b""), "--type", "image/png"]).ends_with(0);
    store
}

#[test]
fn a_tree_is_exported_as_a_bag_that_its_validator_finds_valid_until_a_byte_changes() {
    let store = tree();
    let bag = store.beside("bag");
    let printed = store.run(&["export", "letters", bag.to_str().unwrap(), "--as", "bagit"]).ends_with(0);
    assert!(printed.text().starts_with("exported 5 resources"), "{}", printed.text());
    let read = |name: &str| fs::read(bag.join("data").join(name)).unwrap();
    assert_eq!(read("letters/1.txt"), b"a letter");
    assert_eq!(read("letters/100=25=20=C3=BC=3D2E.=2E"), vec![7; 300_000]);
    assert_eq!(read("letters/deep/empty"), b"");
    let about: serde_json::Value = serde_json::from_slice(&read("letters/deep/empty=about.json")).unwrap();
    assert_eq!((&about["path"], &about["content_type"]), (&"letters/deep/empty".into(), &"image/png".into()));
    let description = String::from_utf8(read("letters=description.nt")).unwrap();
    assert!(description.contains("\"Letters\""), "{description}");
    assert!(!description.contains("ldp#contains") && !description.contains("lastModified"), "{description}");
    match is_valid(&bag) {
        Ok(is_valid) => assert!(is_valid),
        Err(reason) => return store_cassandra::testing::not_run(&format!("a validator of bags: {reason}")),
    }
    fs::write(bag.join("data/letters/1.txt"), b"A letter").unwrap();
    assert_eq!(is_valid(&bag), Ok(false), "the validator finds nothing");
}

#[test]
fn an_export_of_damaged_bytes_fails_and_leaves_nothing_that_looks_whole() {
    let store = tree();
    let shards = fs::read_dir(store.path().join("contents")).unwrap().map(|shard| shard.unwrap().path());
    let content = shards.flat_map(|shard| fs::read_dir(shard).unwrap()).next().unwrap().unwrap().path();
    let mut bytes = fs::read(&content).unwrap();
    bytes[200_000] ^= 1;
    fs::write(&content, bytes).unwrap();
    let bag = store.beside("bag");
    let export = || store.run(&["export", "letters", bag.to_str().unwrap(), "--as", "bagit"]);
    let failed = export();
    assert!(failed.code != 0 && failed.stderr.contains("letters/100%"), "{}", failed.stderr);
    assert!(!bag.exists());
    let unfinished = store.beside("bag.unfinished");
    assert!(unfinished.exists() && !unfinished.join("bagit.txt").exists(), "it looks whole");
    let failed = export();
    assert!(failed.code != 0 && failed.stderr.contains("the same command continues it"), "{}", failed.stderr);
    assert!(!bag.exists());
}

/// The folders of all objects in a storage root.
fn objects(root: &Path) -> Vec<PathBuf> {
    let declarations = load::files(root).into_keys().filter(|name| name.ends_with("0=ocfl_object_1.1"));
    declarations.map(|name| root.join(name).parent().unwrap().to_owned()).collect()
}

/// Whether the validator finds a storage root and each of its objects valid, without a warning.
pub fn is_valid_ocfl(root: &Path) -> Result<bool, String> {
    let programs = programs(OCFL)?;
    let python = || Command::new(programs.join("python3"));
    let of_root = python().arg(programs.join("ocfl-root.py")).args(["validate", "--root"]).arg(root).output();
    let of_root = of_root.map_err(|error| error.to_string())?;
    let of_objects = python().arg(programs.join("ocfl-validate.py")).arg("-v").args(objects(root)).output();
    let of_objects = of_objects.map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&of_objects.stdout);
    println!("{}{}{printed}", String::from_utf8_lossy(&of_root.stdout), String::from_utf8_lossy(&of_root.stderr));
    let is_root_valid = String::from_utf8_lossy(&of_root.stdout).contains("is VALID");
    let found = printed.lines().filter(|line| line.ends_with(" is VALID")).count();
    Ok(is_root_valid && of_objects.status.success() && found == objects(root).len() && !printed.contains("[W"))
}

/// The inventory of the object for a resource.
fn inventory(root: &Path, path: &str) -> serde_json::Value {
    let names = path.split('/').filter(|name| !name.is_empty());
    let place = preservation::ocfl::layout::place(&preservation::archived::id(names));
    serde_json::from_slice(&fs::read(root.join(place).join("inventory.json")).unwrap()).unwrap()
}

#[test]
fn a_tree_is_exported_with_all_versions_as_objects_that_their_validator_finds_valid_until_a_byte_changes() {
    let store = load::tree();
    let put = |path: &str, content: &str| {
        let file = store.beside("file.ttl");
        fs::write(&file, content).unwrap();
        let media_type = if path.ends_with(".txt") { "text/plain" } else { "text/turtle" };
        store.run(&["put", path, file.to_str().unwrap(), "--type", media_type]).ends_with(0);
    };
    put("letters/1.txt", "a longer letter");
    put("letters/1.txt/fcr:metadata", "<> <http://purl.org/dc/terms/title> \"Two\" .");
    put("letters/1.txt", "a letter");
    let root = store.beside("archive");
    let export = || store.run(&["export", "letters", root.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    assert!(export().text().starts_with("exported 8 resources"));
    assert!(!store.beside("archive.unfinished").exists());

    let about_one = inventory(&root, "letters/1.txt");
    assert_eq!((&about_one["id"], &about_one["head"]), (&"penates:/letters/1.txt".into(), &"v5".into()));
    // The bytes of the first and the last version are stored once.
    let contents: Vec<&str> =
        about_one["manifest"].as_object().unwrap().values().map(|paths| paths[0].as_str().unwrap()).collect();
    assert_eq!(contents.iter().filter(|path| path.ends_with("content/bytes/1.txt")).count(), 2, "{contents:?}");
    let history = store.run(&["history", "letters/1.txt"]).ends_with(0).text().to_owned();
    for (n, line) in history.lines().enumerate() {
        let version = &about_one["versions"][format!("v{}", n + 1)];
        let name = line.split('\t').next().unwrap();
        assert_eq!(version["message"], format!("version {name}"));
        let second = version["created"].as_str().unwrap().replace(['-', ':', 'T'], "");
        assert!(second.starts_with(&name[..14]) && second.len() > 15, "{second}");
    }

    // Whatever an interrupted export of a new version left is replaced; what was whole is not touched.
    let place = root.join(preservation::ocfl::layout::place("penates:/letters/1.txt"));
    let before = load::files(&place);
    put("letters/1.txt", "one more");
    fs::rename(&root, store.beside("archive.unfinished")).unwrap();
    let stray = store.beside("archive.unfinished").join(place.strip_prefix(&root).unwrap()).join("v6/content/bytes");
    fs::create_dir_all(&stray).unwrap();
    fs::write(stray.join("1.txt"), "one mo").unwrap();
    export();
    let after = load::files(&place);
    assert_eq!(inventory(&root, "letters/1.txt")["head"], "v6");
    assert_eq!(after["v6/content/bytes/1.txt"], b"one more");
    for (name, bytes) in before.iter().filter(|(name, _)| name.starts_with('v')) {
        assert_eq!(after.get(name), Some(bytes), "{name}");
    }
    // Without changes an export changes nothing.
    let whole = load::files(&root);
    assert!(export().text().contains("(0 B of bytes)"));
    assert_eq!(load::files(&root), whole);

    match is_valid_ocfl(&root) {
        Ok(is_valid) => assert!(is_valid),
        Err(reason) => return store_cassandra::testing::not_run(&format!("a validator of OCFL: {reason}")),
    }
    fs::write(place.join("v6/content/bytes/1.txt"), "One more").unwrap();
    assert_eq!(is_valid_ocfl(&root), Ok(false), "the validator finds nothing");
}

#[test]
fn an_export_of_what_is_not_there_makes_nothing() {
    let store = tree();
    for (resource, form) in [("nope", "bagit"), ("nope", "ocfl"), ("volumes/no.such", "bagit")] {
        let printed = store.run(&["export", resource, store.beside("nn").to_str().unwrap(), "--as", form]);
        assert!(printed.code != 0 && !printed.stderr.contains("unfinished"), "{}", printed.stderr);
        assert!(printed.stderr.contains(&format!("/{resource}: nothing was exported")), "{}", printed.stderr);
        assert!(!store.beside("nn").exists() && !store.beside("nn.unfinished").exists());
    }
}

#[test]
fn an_export_into_a_folder_of_something_else_or_beside_another_export_is_refused() {
    let store = tree();
    let export = |place: &str| store.run(&["export", "letters", store.beside(place).to_str().unwrap(), "--as", "ocfl"]);
    fs::create_dir(store.beside("mine")).unwrap();
    fs::write(store.beside("mine/file"), "kept").unwrap();
    assert!(export("mine").ends_with(1).stderr.contains("exists already"));
    assert_eq!(fs::read(store.beside("mine/file")).unwrap(), b"kept");
    fs::create_dir(store.beside("bag.unfinished")).unwrap();
    fs::write(store.beside("bag.unfinished/manifest-sha256.txt"), "").unwrap();
    assert!(export("bag").ends_with(1).stderr.contains("delete or rename it"));
    export("archive").ends_with(0);
    fs::rename(store.beside("archive"), store.beside("archive.unfinished")).unwrap();
    let other = fs::File::open(store.beside("archive.unfinished")).unwrap();
    other.try_lock().unwrap();
    assert!(export("archive").ends_with(1).stderr.contains("another export is at work"));
    drop(other);
    export("archive").ends_with(0);
}

/// Exports with a limit on the length of files. It refuses a write half way through a file, as a full
/// disk does. Nothing looks whole then, and the same command without the limit continues it.
fn is_continued(store: &TestStore, server: &Served, (form, resource): (&str, &str), blocks_max: &str, said: &str) {
    let export = |place: &Path, blocks_max: &str| {
        let export = penates(&["export", resource, place.to_str().unwrap(), "--as", form, "--server", &server.url]);
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks_max}; exec \"$0\" \"$@\"")]);
        limited.arg(export.get_program()).args(export.get_args());
        export.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| _ = limited.env_remove(name));
        Ran::of(limited)
    };
    let name = format!("{form}-{}", resource.replace(['/', ':'], "+"));
    let (place, unfinished) = (store.beside(&name), store.beside(&format!("{name}.unfinished")));
    let failed = export(&place, blocks_max).ends_with(1);
    assert!(failed.stderr.contains(said) && failed.stderr.contains("File too large"), "{}", failed.stderr);
    assert!(failed.stderr.contains("the same command continues it"), "{}", failed.stderr);
    assert!(!place.exists() && unfinished.exists(), "it looks whole");
    export(&place, "unlimited").ends_with(0);
    assert!(!unfinished.exists());
    let other = store.beside(&format!("other-{name}"));
    export(&other, "unlimited").ends_with(0);
    assert_eq!(load::files(&place), load::files(&other), "it is not what an export makes at once");
    if form == "bagit" {
        preservation::bagit::Bag::checked(&place).unwrap();
    }
}

#[test]
fn an_export_that_cannot_write_a_file_leaves_nothing_that_looks_whole_and_is_continued() {
    let store = tree();
    let server = store.serve(&[]);
    for form in ["bagit", "ocfl"] {
        is_continued(&store, &server, (form, "letters"), "100", "letters/100%");
    }
}

#[test]
fn an_export_of_volumes_that_cannot_write_a_file_is_continued() {
    let store = TestStore::with(&[SMALL, APART]);
    // It is longer than the METS.
    put_page(&store, SMALL, 3, &"long ".repeat(60_000));
    let server = store.serve(&[]);
    let (small, apart) = (format!("volumes/{SMALL}"), format!("volumes/{APART}"));
    is_continued(&store, &server, ("bagit", small.as_str()), "20", SMALL);
    // Its ZIP gets other names, by way of another file.
    is_continued(&store, &server, ("bagit", apart.as_str()), "20", "a temporary file for a ZIP");
    is_continued(&store, &server, ("ocfl", small.as_str()), "100", SMALL);
}

#[test]
fn a_volume_with_a_replaced_page_is_in_a_bag_and_comes_back_with_it() {
    let store = TestStore::with(&[SMALL, APART]);
    put_page(&store, SMALL, 3, "What stood here was misread.");
    put_page(&store, APART, 5, "So was this.");
    let bag = store.beside("bag");
    let place = bag.to_str().unwrap();
    let export = || store.run(&["export", "", place, "--as", "bagit"]).ends_with(0);
    let printed = export();
    assert!(printed.text().starts_with("exported 1 resources and 2 volumes"), "{}", printed.text());
    match is_valid(&bag) {
        Ok(is_valid) => assert!(is_valid),
        Err(reason) => store_cassandra::testing::not_run(&format!("a validator of bags: {reason}")),
    }
    let whole = load::files(&bag);
    for (id, named) in [(SMALL, "3\n"), (APART, "5\n")] {
        let id = hathi::VolumeId::parse(id).unwrap();
        let folder = Path::new("data/volumes").join(hathi::pairtree_path(&id));
        let mark = folder.join(format!("{}=replaced.txt", id.cleaned_local()));
        assert_eq!(whole[mark.to_str().unwrap()], named.as_bytes());
    }
    // An interrupted export goes on, and takes the ZIPs that it wrote.
    fs::rename(&bag, store.beside("bag.unfinished")).unwrap();
    let of_volumes = whole.iter().filter(|(name, _)| name.starts_with("data/volumes/"));
    let fetched = of_volumes.filter(|(name, _)| name.ends_with(".mets.xml") || name.ends_with(".json"));
    let bytes: u64 = fetched.map(|(_, bytes)| bytes.len() as u64).sum();
    let printed = export();
    let expected = format!("({} of bytes)", penates::output::human_bytes(bytes));
    assert!(printed.text().contains(&expected), "{expected}: {}", printed.text());
    assert_eq!(load::files(&bag), whole);

    let copy = TestStore::vacant();
    let printed = copy.run(&["load", place]).ends_with(0);
    assert!(printed.text().starts_with("loaded 2 resources"), "{}", printed.text());
    assert!(printed.stderr.contains("2 volumes have pages that differ from their METS"), "{}", printed.stderr);
    let get = |store: &TestStore, id: &str| store.run(&["get", id, "--mets"]).ends_with(0).stdout;
    for id in [SMALL, APART] {
        assert!(get(&copy, id) == get(&store, id), "{id}");
    }
    let printed = copy.run(&["load", place]).ends_with(0);
    assert_eq!(printed.text().trim(), "loaded 0 resources (0 B of bytes), 3 unchanged, 0 failed");
    // With another page, and the same METS, it is another volume.
    put_page(&copy, SMALL, 3, "Now it is read again.");
    let refused = copy.run(&["load", place]).ends_with(1);
    assert!(refused.stderr.contains("there is another volume"), "{}", refused.stderr);
}

#[test]
fn volumes_that_a_bag_cannot_have_are_named_and_left_out() {
    let store = TestStore::with(&[OTHER]);
    let folder = sample_folder(SMALL);
    let mets = fs::read_to_string(file_with_suffix(&folder, ".mets.xml")).unwrap();
    // Of one, two pages are one file, and then one of them is replaced.
    let shared = mets.replace("00000008.txt", "00000007.txt");
    let (long, long_library) = (format!("psia.{}", "x".repeat(250)), format!("{}.b", "x".repeat(256)));
    let percent = "psia.a%b";
    let named = |id: &str| mets.replace(SMALL, id);
    let server = store.serve(&["--set=auth.write=open"]);
    for (id, mets) in [
        (SMALL, shared),
        (long.as_str(), named(&long)),
        (long_library.as_str(), named(&long_library)),
        (percent, named(percent)),
    ] {
        let file = store.beside("mets.xml");
        fs::write(&file, mets).unwrap();
        let mut put = Command::new("curl");
        put.args(["-sf", "-X", "PUT", "-F", &format!("zip=@{}", file_with_suffix(&folder, ".zip").display())]);
        put.args(["-F", &format!("mets=@{}", file.display())]);
        let id = id.replace('%', "%25").replace('/', "%2F");
        put.arg(format!("{}/volumes/{id}?replaced=true", server.url));
        Ran::of(put).ends_with(0);
    }
    server.stop("TERM");
    put_page(&store, SMALL, 8, "another");

    let bag = store.beside("bag");
    let export =
        |resource: &str, place: &Path| store.run(&["export", resource, place.to_str().unwrap(), "--as", "bagit"]);
    let printed = export("", &bag).ends_with(1);
    assert!(printed.text().starts_with("exported 1 resources and 1 volumes"), "{}", printed.text());
    assert!(printed.text().contains("4 volumes left out"), "{}", printed.text());
    for (id, why) in [
        (SMALL, "its METS has one file"),
        (long.as_str(), "its id is too long"),
        (long_library.as_str(), "its id is too long"),
        (percent, "its id has a %"),
    ] {
        assert!(printed.stderr.contains(&format!("{id}: {why}")), "{}", printed.stderr);
    }
    preservation::bagit::Bag::checked(&bag).unwrap();
    let alone = store.beside("alone");
    let failed = export(&format!("volumes/{SMALL}"), &alone).ends_with(1);
    assert!(failed.stderr.contains("one file, 00000007.txt, for pages that differ"), "{}", failed.stderr);
    assert!(!alone.exists());
}

#[test]
fn a_version_that_was_added_before_the_newest_exported_one_is_named_and_left_out_of_a_continued_export() {
    let store = TestStore::vacant();
    let file = store.beside("file.txt");
    let put = |content: &str| {
        fs::write(&file, content).unwrap();
        store.run(&["put", "a.txt", file.to_str().unwrap(), "--type", "text/plain"]).ends_with(0);
    };
    let export = |place: &Path| store.run(&["export", "a.txt", place.to_str().unwrap(), "--as", "ocfl"]);
    let root = store.beside("archive");
    put("one");
    export(&root).ends_with(0);
    let server = store.serve(&["--set=auth.write=open", "--set=ldp.receive_versions=true"]);
    let list = format!("{}/rest/a.txt/fcr:versions", server.url);
    let mut received = Command::new("curl");
    received.args(["-sf", "-X", "POST", "-H", "Memento-Datetime: Sun, 06 Nov 1994 08:49:37 GMT"]);
    received.args(["-H", "Content-Type: text/plain", "-d", "early", &list]);
    Ran::of(received).ends_with(0);
    server.stop("TERM");
    put("two");
    // What is newer is added nevertheless, and the next export says it again.
    for _ in 0..2 {
        let printed = export(&root).ends_with(1);
        assert!(printed.stderr.contains("/a.txt: 1 versions were added"), "{}", printed.stderr);
        assert!(printed.text().contains("1 versions left out"), "{}", printed.text());
        assert_eq!(inventory(&root, "a.txt")["head"], "v2");
    }
    let other = store.beside("other");
    export(&other).ends_with(0);
    assert_eq!(inventory(&other, "a.txt")["head"], "v3");
    let first = inventory(&other, "a.txt")["versions"]["v1"]["created"].as_str().unwrap().to_owned();
    assert!(first.starts_with("1994-11-06T08:49:37"), "{first}");
}

#[test]
fn an_export_of_explicit_versions_has_the_current_state_too_whether_anybody_asked_for_it_or_not() {
    let store = TestStore::vacant();
    let explicit = |args: &[&str]| {
        let mut command = store.command(args);
        command.env("PENATES_HISTORY__RESOURCES", "explicit");
        Ran::of(command).ends_with(0)
    };
    let put = |content: &str| {
        let file = store.beside("file.txt");
        fs::write(&file, content).unwrap();
        explicit(&["put", "a.txt", file.to_str().unwrap(), "--type", "text/plain"]);
    };
    let root = store.beside("archive");
    let exported = || {
        explicit(&["export", "a.txt", root.to_str().unwrap(), "--as", "ocfl"]);
        let versions = inventory(&root, "a.txt")["versions"].as_object().unwrap().clone();
        let messages: Vec<_> =
            versions.values().map(|version| version["message"].as_str().unwrap().to_owned()).collect();
        messages
    };
    put("one");
    assert_eq!(exported(), ["the current state"]);
    let asked = {
        let server = store.serve(&["--set=auth.write=open", "--set=history.resources=explicit"]);
        let list = format!("{}/rest/a.txt/fcr:versions", server.url);
        let mut curl = Command::new("curl");
        curl.args(["-s", "-X", "POST", "-D", "-", "-o", "/dev/null", &list]);
        let made = Ran::of(curl).ends_with(0);
        let mut headers = made.text().lines().filter_map(|line| line.split_once(": "));
        let location = headers.find(|(name, _)| name.eq_ignore_ascii_case("location")).unwrap().1.to_owned();
        server.stop("TERM");
        location.rsplit('/').next().unwrap().to_owned()
    };
    put("two");
    assert_eq!(explicit(&["history", "a.txt"]).text().split('\t').next(), Some(asked.as_str()));
    assert_eq!(
        exported(),
        ["the current state".to_owned(), format!("version {asked}"), "the current state".to_owned()]
    );
    assert_eq!(exported().len(), 3, "nothing changed");
}
