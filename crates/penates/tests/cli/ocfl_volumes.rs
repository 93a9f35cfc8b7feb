//! Volumes as objects of OCFL: exports with all kept versions, and loads of them.

use std::fs;
use std::path::{Path, PathBuf};

use preservation::ocfl::inventory::Inventory;
use preservation::ocfl::{layout, parsed};
use preservation::{archived_volume, ocfl};

use crate::export::is_valid_ocfl;
use crate::harness::*;
use crate::load::files;

/// Runs a command on a store that keeps all versions of volumes.
pub fn run(store: &TestStore, args: &[&str]) -> Ran {
    let mut command = store.command(args);
    command.env("PENATES_HISTORY__VOLUMES", "all");
    Ran::of(command)
}

/// Makes requests to a server of a store that keeps all versions.
fn with_server(store: &TestStore, requests: impl FnOnce(&dyn Fn(&str, &str, &str, &Path))) {
    let server = store.serve(&["--set=auth.write=open", "--set=history.volumes=all"]);
    requests(&|id, member, media_type, body| {
        let url = format!("{}/volumes/{}/{member}", server.url, id.replace('/', "%2F"));
        let (kind, body) = (format!("Content-Type: {media_type}"), format!("@{}", body.display()));
        let put = ["-sf", "-X", "PUT", "-H", &kind, "--data-binary", &body, &url];
        assert!(std::process::Command::new("curl").args(put).status().unwrap().success(), "{url}");
    });
    server.stop("TERM");
}

pub fn put_page(store: &TestStore, id: &str, seq: u32, text: &str) {
    let file = store.beside("page.txt");
    fs::write(&file, text).unwrap();
    with_server(store, |put| put(id, &format!("pages/{seq}"), "text/plain", &file));
}

/// A volume in whose METS the names of files are not the sequences of pages.
pub const APART: &str = "yale.39002015008130";

/// A store with three volumes. One of them has five versions: a page is replaced, then the METS, then
/// the same is imported again, and then the page comes back.
pub fn library() -> TestStore {
    let store = TestStore::vacant();
    for id in [SMALL, OTHER, APART] {
        run(&store, &["import", sample_folder(id).to_str().unwrap()]).ends_with(0);
    }
    let stem = hathi::VolumeId::parse(SMALL).unwrap().cleaned_local();
    let mets = fs::read_to_string(sample_folder(SMALL).join(format!("{stem}.mets.xml"))).unwrap();
    let (page, changed) = (store.beside("page.txt"), store.beside("mets.xml"));
    fs::write(&page, "What stood here was misread.").unwrap();
    fs::write(&changed, mets.replacen("</METS:mets>", "<!-- read again --></METS:mets>", 1)).unwrap();
    with_server(&store, |put| {
        put(SMALL, "pages/9", "text/plain", &page);
        put(SMALL, "mets", "application/xml", &changed);
    });
    run(&store, &["import", "--force", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
    run(&store, &["import", "--force", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
    store
}

fn path(store: &TestStore, name: &str) -> String {
    store.beside(name).to_str().unwrap().to_owned()
}

pub fn object(root: &Path, id: &str) -> PathBuf {
    root.join(layout::place(&archived_volume::id(id)))
}

fn inventory(root: &Path, id: &str) -> Inventory {
    parsed(&fs::read(object(root, id).join("inventory.json")).unwrap()).unwrap()
}

/// The versions of a volume: their times, and everything that the data door sends of each.
fn versions(store: &TestStore, id: &str) -> Vec<(String, Vec<u8>)> {
    let history = run(store, &["history", "--volume", id, "--json"]).ends_with(0).json_lines();
    let version = |line: serde_json::Value| {
        let time = line["time"].as_str().unwrap().to_owned();
        let archive = run(store, &["get", id, "--mets", "--as-of", &time]).ends_with(0).stdout;
        (time, archive)
    };
    history.into_iter().map(version).collect()
}

#[test]
fn volumes_with_all_their_versions_are_valid_objects_and_come_back_with_the_same_bytes_and_times() {
    let store = library();
    let (root, place) = (store.beside("archive"), path(&store, "archive"));
    let printed = run(&store, &["export", "", &place, "--as", "ocfl"]).ends_with(0);
    assert!(printed.text().starts_with("exported 1 resources and 3 volumes"), "{}", printed.text());

    let exported = inventory(&root, SMALL);
    assert_eq!(
        (exported.id.as_str(), exported.head.as_str()),
        ("penates:/volumes/psia.ark%3A%2F13960%2Ft0ks80527", "v5")
    );
    // A page that stays the same is stored once, and so is one that comes back.
    let later: Vec<&str> =
        exported.manifest.values().flatten().map(String::as_str).filter(|path| !path.starts_with("v1/")).collect();
    assert_eq!(later.len(), 2, "{later:?}");
    assert!(later.contains(&"v2/content/pages/00000009.txt"), "{later:?}");
    assert!(later.contains(&"v3/content/ark+=13960=t0ks80527.mets.xml"), "{later:?}");
    assert_eq!(exported.versions["v4"].state, exported.versions["v1"].state);
    assert_eq!(exported.versions["v5"].state, exported.versions["v4"].state);
    let times = versions(&store, SMALL);
    assert!(times.iter().zip(1..).all(|((time, _), n)| exported.versions[&format!("v{n}")].created == *time));
    // METS and record are the files that were imported, under the same names.
    for entry in fs::read_dir(sample_folder(SMALL)).unwrap().map(|entry| entry.unwrap()) {
        let name = entry.file_name().into_string().unwrap();
        if !name.ends_with(".zip") {
            let kept = object(&root, SMALL).join("v1/content").join(&name);
            assert_eq!(fs::read(kept).unwrap(), fs::read(entry.path()).unwrap(), "{name}");
        }
    }
    match is_valid_ocfl(&root) {
        Ok(is_valid) => assert!(is_valid),
        Err(reason) => store_cassandra::testing::not_run(&format!("a validator of OCFL: {reason}")),
    }

    let copy = TestStore::vacant();
    let printed = run(&copy, &["load", &place]).ends_with(0);
    assert!(printed.text().contains("3 resources") && printed.text().contains("0 failed"), "{}", printed.text());
    for id in [SMALL, OTHER, APART] {
        assert!(versions(&copy, id) == versions(&store, id), "{id} has other versions");
    }
    assert_eq!(versions(&copy, SMALL).len(), 5);
    run(&copy, &["verify"]).ends_with(0);
    let printed = run(&copy, &["load", &place]).ends_with(0);
    assert_eq!(printed.text().trim(), "loaded 0 resources (0 B of bytes), 4 unchanged, 0 failed");

    // The copy exports the same versions, and has nothing to add to the first export.
    let again = copy.beside("again");
    run(&copy, &["export", "", again.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let (ours, theirs) = (inventory(&again, SMALL), inventory(&root, SMALL));
    assert_eq!(ours.manifest, theirs.manifest);
    for (name, version) in &ours.versions {
        assert_eq!((&version.created, &version.state), (&theirs.versions[name].created, &theirs.versions[name].state));
    }
    let whole = files(&root);
    run(&copy, &["export", "volumes", &place, "--as", "ocfl"]).ends_with(0);
    assert_eq!(files(&root), whole);
}

#[test]
fn a_later_export_fetches_only_pages_that_changed_and_a_later_load_adds_only_new_versions() {
    let store = library();
    let place = path(&store, "archive");
    let export = || run(&store, &["export", &format!("volumes/{SMALL}"), &place, "--as", "ocfl"]).ends_with(0);
    assert!(export().text().starts_with("exported 0 resources and 1 volumes"));
    let copy = TestStore::vacant();
    run(&copy, &["load", &place]).ends_with(0);
    put_page(&store, SMALL, 3, "one more");
    let stem = hathi::VolumeId::parse(SMALL).unwrap().cleaned_local();
    let len = |ending: &str| fs::metadata(sample_folder(SMALL).join(format!("{stem}.{ending}"))).unwrap().len();
    let fetched = len("mets.xml") + len("json") + "one more".len() as u64;
    let printed = export();
    let size = bytesize(fetched);
    assert!(printed.text().contains(&format!("({size} of bytes)")), "{size}: {}", printed.text());
    let load = |code: i32| run(&copy, &["load", &place]).ends_with(code);
    assert!(load(0).text().starts_with("loaded 1 resources"));
    assert_eq!(load(0).text().trim(), "loaded 0 resources (0 B of bytes), 1 unchanged, 0 failed");
    let archives = |store: &TestStore| versions(store, SMALL).into_iter().map(|(_, zip)| zip).collect::<Vec<_>>();
    assert!(archives(&copy) == archives(&store));
    // A change of the copy's own is not written over.
    put_page(&copy, SMALL, 3, "another");
    let refused = load(1);
    assert!(refused.stderr.contains("there is another volume"), "{}", refused.stderr);
    assert!(versions(&copy, SMALL).len() == 7);
}

#[test]
fn a_load_does_not_bring_back_a_volume_that_was_deleted_and_says_what_does() {
    let store = library();
    let place = path(&store, "archive");
    run(&store, &["export", &format!("volumes/{SMALL}"), &place, "--as", "ocfl"]).ends_with(0);
    let copy = TestStore::vacant();
    let printed = run(&copy, &["load", &place]).ends_with(0);
    assert!(printed.stderr.contains("1 volumes have pages that differ from their METS"), "{}", printed.stderr);
    run(&copy, &["delete", SMALL]).ends_with(0);
    let refused = run(&copy, &["load", &place]).ends_with(1);
    let remedy = format!("penates restore --volume {SMALL}");
    assert!(refused.stderr.contains(&remedy), "{}", refused.stderr);
    assert_eq!(copy.ids(), Vec::<String>::new());
    run(&copy, &["restore", "--volume", SMALL]).ends_with(0);
    assert_eq!(copy.ids(), [SMALL]);
}

#[test]
fn deleted_volumes_are_exported_and_loaded_with_their_versions_and_are_deleted_again() {
    let store = library();
    let (root, place) = (store.beside("archive"), path(&store, "archive"));
    let before = versions(&store, SMALL);
    let remove = |store: &TestStore, id: &str| run(store, &["delete", id]).ends_with(0);
    remove(&store, SMALL);
    let printed = run(&store, &["export", "volumes", &place, "--as", "ocfl"]).ends_with(0);
    assert!(printed.text().starts_with("exported 0 resources and 3 volumes"), "{}", printed.text());
    let exported = inventory(&root, SMALL);
    assert_eq!(exported.head, "v6");
    assert!(exported.versions["v6"].state.is_empty() && !exported.versions["v5"].state.is_empty());
    assert_eq!(exported.versions["v6"].message.as_deref(), Some("deleted"));
    match is_valid_ocfl(&root) {
        Ok(is_valid) => assert!(is_valid),
        Err(reason) => store_cassandra::testing::not_run(&format!("a validator of OCFL: {reason}")),
    }
    // The next export adds nothing, also that of this one volume.
    let whole = files(&root);
    run(&store, &["export", "volumes", &place, "--as", "ocfl"]).ends_with(0);
    run(&store, &["export", &format!("volumes/{SMALL}"), &place, "--as", "ocfl"]).ends_with(0);
    assert_eq!(files(&root), whole);
    // A bag has what is there.
    let bag = path(&store, "bag");
    assert!(run(&store, &["export", "", &bag, "--as", "bagit"]).ends_with(0).text().contains("and 2 volumes"));

    let copy = TestStore::vacant();
    let printed = run(&copy, &["load", &place]).ends_with(0);
    assert!(printed.text().starts_with("loaded 3 resources"), "{}", printed.text());
    assert_eq!(copy.ids().len(), 2);
    assert!(versions(&copy, SMALL) == before);
    let printed = run(&copy, &["load", &place]).ends_with(0);
    assert_eq!(printed.text().trim(), "loaded 0 resources (0 B of bytes), 3 unchanged, 0 failed");
    // It was deleted at the same time.
    let again = copy.beside("again");
    run(&copy, &["export", "volumes", again.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    for (name, version) in inventory(&again, SMALL).versions {
        let theirs = &exported.versions[&name];
        assert_eq!((&version.created, &version.state), (&theirs.created, &theirs.state), "{name}");
    }

    // It comes back, and later loads bring it back too; one more is deleted.
    run(&store, &["restore", "--volume", SMALL]).ends_with(0);
    remove(&store, OTHER);
    run(&store, &["export", "volumes", &place, "--as", "ocfl"]).ends_with(0);
    assert_eq!((inventory(&root, SMALL).head, inventory(&root, OTHER).head), ("v7".into(), "v2".into()));
    assert!(run(&copy, &["load", &place]).ends_with(0).text().starts_with("loaded 2 resources"));
    assert_eq!(copy.ids(), store.ids());
    assert!(run(&copy, &["load", &place]).ends_with(0).text().contains("3 unchanged"));
    let archives = |store: &TestStore| versions(store, SMALL).into_iter().map(|(_, zip)| zip).collect::<Vec<_>>();
    assert!(archives(&copy) == archives(&store));
}

#[test]
fn a_load_deletes_no_other_volume_and_names_deleted_ones_of_which_nothing_would_stay() {
    let store = TestStore::vacant();
    run(&store, &["import", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
    run(&store, &["import", sample_folder(OTHER).to_str().unwrap()]).ends_with(0);
    run(&store, &["delete", SMALL]).ends_with(0);
    let place = path(&store, "archive");
    run(&store, &["export", "volumes", &place, "--as", "ocfl"]).ends_with(0);

    // No versions are kept.
    let copy = TestStore::vacant();
    let report = copy.beside("report.ndjson");
    for expected in ["loaded 1 resources", "loaded 0 resources"] {
        let printed = copy.run(&["load", &place, "--report", report.to_str().unwrap()]).ends_with(0);
        assert!(printed.text().starts_with(expected), "{}", printed.text());
        assert!(printed.text().contains("1 deleted volumes left out"), "{}", printed.text());
        let line: serde_json::Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
        let resource = format!("/volumes/{SMALL}");
        assert_eq!((&line["what"], &line["resource"]), (&"deleted".into(), &resource.into()));
    }
    assert_eq!(copy.ids(), [OTHER]);
    // One that is there is deleted, too.
    copy.run(&["import", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
    assert!(copy.run(&["load", &place]).ends_with(0).text().starts_with("loaded 1 resources"));
    assert_eq!(copy.ids(), [OTHER]);

    // Another one stays.
    let other = TestStore::with(&[SMALL]);
    put_page(&other, SMALL, 3, "another");
    let refused = run(&other, &["load", &place]).ends_with(1);
    assert!(refused.stderr.contains("there is another volume"), "{}", refused.stderr);
    assert!(other.ids().contains(&SMALL.to_owned()));
}

/// How the commands write a number of bytes.
fn bytesize(bytes: u64) -> String {
    penates::output::human_bytes(bytes)
}

#[test]
fn without_kept_versions_the_current_volume_is_the_only_version_of_each_export() {
    let store = TestStore::with(&[SMALL]);
    let place = path(&store, "archive");
    let export = || store.run(&["export", "volumes", &place, "--as", "ocfl"]).ends_with(0);
    export();
    let whole = files(Path::new(&place));
    export();
    assert_eq!(files(Path::new(&place)), whole);
    match is_valid_ocfl(Path::new(&place)) {
        Ok(is_valid) => assert!(is_valid),
        Err(reason) => store_cassandra::testing::not_run(&format!("a validator of OCFL: {reason}")),
    }
    store.run(&["import", "--force", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
    export();
    assert_eq!(files(Path::new(&place)), whole, "the same content is another version");
    put_page(&store, SMALL, 3, "one more");
    export();
    assert_eq!(inventory(Path::new(&place), SMALL).head, "v2");
    let copy = TestStore::vacant();
    copy.run(&["load", &place]).ends_with(0);
    let get = |store: &TestStore| store.run(&["get", SMALL, "--mets"]).ends_with(0).stdout;
    assert!(get(&copy) == get(&store));
    assert!(copy.run(&["load", &place]).ends_with(0).text().contains("1 unchanged"));
}

#[test]
fn an_interrupted_export_of_volumes_goes_on_after_the_last_whole_version() {
    let store = library();
    let (place, unfinished) = (path(&store, "archive"), store.beside("archive.unfinished"));
    let export = |place: &str| run(&store, &["export", "volumes", place, "--as", "ocfl"]).ends_with(0);
    export(&place);
    let whole = files(Path::new(&place));
    // As a stop within the fourth version leaves it: the object has no inventory yet.
    fs::rename(&place, &unfinished).unwrap();
    let object = object(&unfinished, SMALL);
    for name in ["0=ocfl_object_1.1", "inventory.json", "inventory.json.sha512", "v4/inventory.json.sha512"] {
        fs::remove_file(object.join(name)).unwrap();
    }
    fs::remove_dir_all(object.join("v5")).unwrap();
    fs::create_dir_all(object.join("v4/content/pages")).unwrap();
    fs::write(object.join("v4/content/pages/00000001.txt"), "hal").unwrap();
    let stem = hathi::VolumeId::parse(SMALL).unwrap().cleaned_local();
    let len = |ending: &str| fs::metadata(sample_folder(SMALL).join(format!("{stem}.{ending}"))).unwrap().len();
    let printed = export(&place);
    // Of the two versions that were missing, METS and record are requested again, and the page that
    // the third version has not.
    let page = fs::metadata(
        Path::new(&place).join(object.strip_prefix(&unfinished).unwrap()).join("v1/content/pages/00000009.txt"),
    );
    let fetched = 2 * (len("mets.xml") + len("json")) + page.unwrap().len();
    assert!(printed.text().contains(&format!("({} of bytes)", bytesize(fetched))), "{}", printed.text());
    assert_eq!(files(Path::new(&place)), whole);
    // A file that rotted meanwhile is not built upon.
    put_page(&store, SMALL, 3, "one more");
    fs::write(self::object(Path::new(&place), SMALL).join("v1/content/pages/00000001.txt"), "rotten").unwrap();
    let failed = run(&store, &["export", "volumes", &place, "--as", "ocfl"]).ends_with(1);
    assert!(failed.stderr.contains("00000001.txt is damaged"), "{}", failed.stderr);
}

/// Changes the inventory of an object, with the right digest beside it.
fn rewrite(object: &Path, change: impl FnOnce(&mut Inventory)) {
    let mut inventory = parsed(&fs::read(object.join("inventory.json")).unwrap()).unwrap();
    change(&mut inventory);
    let (text, sidecar) = inventory.written();
    fs::write(object.join("inventory.json"), text).unwrap();
    fs::write(object.join("inventory.json.sha512"), sidecar).unwrap();
}

#[test]
fn objects_of_volumes_that_lie_are_refused_before_anything_is_loaded() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let kept = store.beside("kept");
    store.run(&["export", "volumes", kept.to_str().unwrap(), "--as", "ocfl"]).ends_with(0);
    let mets_of_other = {
        let stem = hathi::VolumeId::parse(OTHER).unwrap().cleaned_local();
        fs::read(sample_folder(OTHER).join(format!("{stem}.mets.xml"))).unwrap()
    };
    let page = |seq: u32| archived_volume::page(seq);
    let remove = |inventory: &mut Inventory, logical: &str| {
        let state = &mut inventory.versions.get_mut("v1").unwrap().state;
        state.values_mut().for_each(|paths| paths.retain(|path| path != logical));
        state.retain(|_, paths| !paths.is_empty());
    };
    let rename = |inventory: &mut Inventory, from: &str, to: &str| {
        let state = &mut inventory.versions.get_mut("v1").unwrap().state;
        state.values_mut().flatten().filter(|path| *path == from).for_each(|path| *path = to.to_owned());
    };
    let stem = hathi::VolumeId::parse(SMALL).unwrap().cleaned_local();
    let (mets, record) = (archived_volume::mets(&stem), archived_volume::record(&stem));
    // Other bytes in the place of a file, with the digest that they have.
    let replace = |object: &Path, logical: &str, bytes: &[u8]| {
        let place = object.join("v1/content").join(logical);
        fs::write(place, bytes).unwrap();
        let digest = sha512(bytes);
        rewrite(object, |inventory| {
            let content = format!("v1/content/{logical}");
            let had = inventory.manifest.iter().find(|(_, paths)| paths.contains(&content)).unwrap().0.clone();
            let paths = inventory.manifest.remove(&had).unwrap();
            inventory.manifest.insert(digest.clone(), paths);
            let state = &mut inventory.versions.get_mut("v1").unwrap().state;
            let paths = state.remove(&had).unwrap();
            state.insert(digest, paths);
        });
    };
    type Lie<'a> = (&'a str, &'a dyn Fn(&Path));
    let shared = {
        let mets = fs::read_to_string(sample_folder(SMALL).join(&mets)).unwrap();
        mets.replace("00000008.txt", "00000007.txt")
    };
    let lies: [Lie<'_>; 13] = [
        ("its first version has no files", &|object| {
            rewrite(object, |inventory| {
                inventory.versions.get_mut("v1").unwrap().state.clear();
                inventory.manifest.clear();
            });
            fs::remove_dir_all(object.join("v1/content")).unwrap();
        }),
        ("has one file, 00000007.txt, for pages that differ", &|object| replace(object, &mets, shared.as_bytes())),
        ("not those that the METS names", &|object| rewrite(object, |inventory| remove(inventory, &page(7)))),
        ("not those that the METS names", &|object| {
            rewrite(object, |inventory| rename(inventory, &page(7), &page(70)))
        }),
        ("is no file of a volume", &|object| rewrite(object, |inventory| rename(inventory, &page(7), "pages/7.txt"))),
        ("is no file of a volume", &|object| {
            rewrite(object, |inventory| rename(inventory, &page(7), "pages/00000000.txt"))
        }),
        ("in a version twice", &|object| rewrite(object, |inventory| rename(inventory, &page(7), &page(8)))),
        ("not a logical path", &|object| rewrite(object, |inventory| rename(inventory, &page(7), "../00000007.txt"))),
        ("there is no", &|object| rewrite(object, |inventory| remove(inventory, &mets))),
        ("another digest", &|object| fs::write(object.join("v1/content").join(page(7)), "other").unwrap()),
        ("its METS is of", &|object| replace(object, &mets, &mets_of_other)),
        ("its record is of", &|object| replace(object, &record, br#"{"volumeIdentifier":"a.b"}"#)),
        ("a page has at most", &|object| replace(object, &page(7), &vec![b'x'; (16 << 20) + 1])),
    ];
    for (why, lie) in lies {
        let root = store.beside("root");
        assert!(std::process::Command::new("cp").arg("-r").args([&kept, &root]).status().unwrap().success());
        lie(&object(&root, SMALL));
        let copy = TestStore::vacant();
        let refused = copy.run(&["load", root.to_str().unwrap()]).ends_with(1);
        assert!(
            refused.stderr.contains(why) && refused.stderr.contains("nothing was loaded"),
            "{why}: {}",
            refused.stderr
        );
        assert!(!copy.path().exists(), "a store was made");
        fs::remove_dir_all(root).unwrap();
    }
    for id in ["a/b.c", "nodot", "a.b|c", " a.b"] {
        let root = store.beside("root");
        assert!(std::process::Command::new("cp").arg("-r").args([&kept, &root]).status().unwrap().success());
        rewrite(&object(&root, SMALL), |inventory| inventory.id = archived_volume::id(id));
        let refused = store.run(&["load", root.to_str().unwrap()]).ends_with(1);
        assert!(refused.stderr.contains("nothing was loaded"), "{}", refused.stderr);
        fs::remove_dir_all(root).unwrap();
    }
    assert!(ocfl::is_root(&kept));
}

pub fn sha512(bytes: &[u8]) -> String {
    let mut digest = preservation::bagit::text::Algorithm::Sha512.begin();
    digest.update(bytes);
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
