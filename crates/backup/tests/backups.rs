//! Folders of backups, made of folders that look like those of a store.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use backup::{Access, BackupError, BackupResult, Backups, Options, Place, Source, Summary};
use store::Cut;
use tar::{EntryType, Header};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_128;

/// A data folder, and a folder of backups beside it.
struct Subject {
    folder: TempDir,
    made: u32,
    /// Identifies the store.
    store: String,
}

impl Subject {
    fn new() -> Self {
        let subject = Self { folder: tempfile::tempdir().unwrap(), made: 0, store: "ab".to_owned() };
        subject.write("format", "penates-embedded 11\n");
        subject.write("db/text/keyspaces/1/tables/0", "rows 0");
        subject.write("db/text/keyspaces/1/tables/1", "rows 1");
        subject.write("db/text.record", "record");
        subject.write("contents/ab/content", "a content");
        fs::create_dir_all(subject.data().join("db/text/keyspaces/2/tables")).unwrap();
        subject
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("backups")
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.data().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A cut as the engine makes it. `db/text/0.jnl` belongs to it up to the fifth byte.
    fn cut(&self) -> Source {
        let folder = format!("{}/1", Cut::FOLDER);
        let root = self.data().join(&folder);
        let (lengths, checksums) = (BTreeMap::new(), BTreeMap::new());
        let mut cut = Cut { folder, store: self.store.clone(), level: 6, lengths, checksums };
        for (path, content) in files(&self.data()) {
            let to = root.join(&path);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::hard_link(self.data().join(&path), to).unwrap();
            if path.contains("/tables/") {
                cut.checksums.insert(path.clone(), format!("{:032x}", xxh3_128(&content)));
            }
            if path.ends_with(".jnl") {
                cut.lengths.insert(path, 5);
            }
        }
        fs::create_dir_all(root.join("db/text/keyspaces/2/tables")).unwrap();
        fs::write(root.join(Cut::LOCK), "").unwrap();
        Source::open(&self.data(), cut).unwrap()
    }

    fn create(&mut self) -> BackupResult<Summary> {
        self.create_with(false, &mut |_| ())
    }

    fn create_with(&mut self, links: bool, took: &mut dyn FnMut(u64)) -> BackupResult<Summary> {
        self.made += 1;
        let options = Options {
            time: "2026-11-23T00:00:00Z".to_owned(),
            id: format!("20261123T00000{}Z", self.made),
            program: "a test".to_owned(),
            folder: "data".to_owned(),
            links,
        };
        Backups::open(&self.place(), Access::Add)?.create(&self.cut(), &options, took)
    }

    fn open(&self, access: Access) -> Backups {
        Backups::open(&self.place(), access).unwrap()
    }

    fn restored(&self, id: &str) -> BTreeMap<String, Vec<u8>> {
        let to = tempfile::tempdir().unwrap();
        let place = Place::begin(to.path()).unwrap();
        self.open(Access::Read).restore(id, place.path(), &mut |_| ()).unwrap();
        place.finish().unwrap();
        assert!(to.path().join("db/text/keyspaces/2/tables").is_dir(), "a folder without files is missing");
        files(to.path())
    }

    /// The file with these bytes among the backups.
    fn stored(&self, content: &str) -> PathBuf {
        let files = files(&self.place());
        let (path, _) =
            files.iter().find(|(path, found)| path.starts_with("files/") && *found == content.as_bytes()).unwrap();
        self.place().join(path)
    }

    fn problems(&self, sets_aside: bool) -> usize {
        let backups = self.open(if sets_aside { Access::Delete } else { Access::Read });
        let ids = backups.ids().unwrap();
        backups.check(&ids, sets_aside, &mut |_| ()).unwrap().problems.len()
    }
}

/// Every file of a folder with its bytes, without those of cuts and locks.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fn add(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            match path.is_dir() {
                true if name == Cut::FOLDER => {}
                true => add(root, &path, found),
                false if name == "lock" => {}
                false => drop(found.insert(name, fs::read(&path).unwrap())),
            }
        }
    }
    let mut found = BTreeMap::new();
    add(folder, folder, &mut found);
    found
}

#[test]
fn a_second_backup_copies_only_what_is_new_and_each_is_restored_as_it_was() {
    let mut subject = Subject::new();
    subject.write("db/text/0.jnl", "group");
    let first = subject.create().unwrap();
    let of_first = files(&subject.data());
    assert_eq!((first.end.files, first.end.copied_files), (6, 6));
    // The engine merged two files, wrote its record in place, and went on with its journal. What is
    // behind the cut is not part of it.
    fs::remove_file(subject.data().join("db/text/keyspaces/1/tables/0")).unwrap();
    subject.write("db/text/keyspaces/1/tables/2", "rows 0 and 2");
    subject.write("db/text.record", "RECORD");
    subject.write("db/text/0.jnl", "GROUP and more");
    let second = subject.create().unwrap();
    assert_eq!(second.end.files, 6);
    assert_eq!((second.end.copied_files, second.end.copied_bytes), (3, "rows 0 and 2RECORDGROUP".len() as u64));
    let mut of_second = files(&subject.data());
    of_second.insert("db/text/0.jnl".to_owned(), b"GROUP".to_vec());
    assert_eq!(subject.restored(&first.header.id), of_first);
    assert_eq!(subject.restored(&second.header.id), of_second);
    assert_eq!(subject.problems(false), 0);
    assert!(!subject.data().join(Cut::FOLDER).join("1").exists(), "the cut is left behind");
}

#[test]
fn a_file_with_the_place_and_the_size_of_another_is_copied() {
    let mut subject = Subject::new();
    subject.create().unwrap();
    // The engine may give a number again after a restart.
    subject.write("db/text/keyspaces/1/tables/1", "ROWS 1");
    subject.write("contents/ab/content", "A CONTENT");
    let second = subject.create().unwrap();
    assert_eq!(subject.restored(&second.header.id), files(&subject.data()));
}

#[test]
fn deleting_a_backup_leaves_the_others_whole_and_frees_what_only_it_had() {
    let mut subject = Subject::new();
    let first = subject.create().unwrap();
    subject.write("db/text.record", "RECORD");
    let second = subject.create().unwrap();
    let reader = subject.open(Access::Read);
    assert!(matches!(Backups::open(&subject.place(), Access::Delete), Err(BackupError::Busy(_))));
    drop(reader);
    let absent = subject.open(Access::Delete).delete(&["20200101T000000Z".to_owned()]);
    assert!(matches!(absent, Err(BackupError::Absent(_))));
    let deleted = subject.open(Access::Delete).delete(&[first.header.id]).unwrap();
    assert_eq!((deleted.files, deleted.bytes), (1, "record".len() as u64));
    assert_eq!(subject.restored(&second.header.id), files(&subject.data()));
    assert_eq!(subject.open(Access::Read).ids().unwrap(), [second.header.id]);
}

#[test]
fn a_backup_that_died_is_none_and_the_next_one_uses_what_it_made_durable() {
    let mut subject = Subject::new();
    subject.create().unwrap();
    subject.write("db/text/keyspaces/1/tables/2", "rows 2");
    let mut left = 4;
    let died = catch_unwind(AssertUnwindSafe(|| {
        subject.create_with(false, &mut |_| {
            left -= 1;
            assert!(left > 0, "it dies here");
        })
    }));
    assert!(died.is_err());
    assert_eq!(subject.open(Access::Read).ids().unwrap().len(), 1);
    assert_eq!(subject.problems(false), 0);
    let next = subject.create().unwrap();
    assert_eq!(subject.restored(&next.header.id), files(&subject.data()));
    let left = fs::read_dir(subject.place().join("unfinished")).unwrap().count();
    assert_eq!(left, 1, "only the lock is there");
}

#[test]
fn damage_among_the_backups_is_found_never_restored_and_healed_by_the_next_backup() {
    let mut subject = Subject::new();
    let first = subject.create().unwrap();
    fs::write(subject.stored("rows 1"), "ROWS 1").unwrap();
    assert_eq!(subject.problems(false), 1);
    let to = tempfile::tempdir().unwrap();
    let restored = subject.open(Access::Read).restore(&first.header.id, &to.path().join("new"), &mut |_| ());
    assert!(matches!(restored, Err(BackupError::Damaged { .. })), "{restored:?}");
    assert_eq!(subject.problems(true), 1);
    let second = subject.create().unwrap();
    assert_eq!(second.end.copied_files, 1);
    assert_eq!(subject.problems(false), 0);
    assert_eq!(subject.restored(&first.header.id), files(&subject.data()));
    fs::remove_file(subject.stored("a content")).unwrap();
    assert_eq!(subject.problems(false), 2, "both backups lack it");
}

#[test]
fn only_a_file_with_other_bytes_is_set_aside_and_it_stays_while_a_backup_names_it() {
    let mut subject = Subject::new();
    let first = subject.create().unwrap();
    let (rows, record) = (subject.stored("rows 1"), subject.stored("record"));
    fs::write(&rows, "ROWS 1").unwrap();
    // What cannot be read is left as it is.
    fs::remove_file(&record).unwrap();
    fs::create_dir(&record).unwrap();
    assert_eq!(subject.problems(true), 2);
    let set_aside = rows.with_extension("damaged");
    assert!(record.is_dir() && set_aside.is_file() && !rows.exists());
    subject.open(Access::Delete).delete(&[]).unwrap();
    assert_eq!(fs::read_to_string(&set_aside).unwrap(), "ROWS 1");
    fs::remove_dir(&record).unwrap();
    let second = subject.create().unwrap();
    assert_eq!(subject.restored(&second.header.id), files(&subject.data()));
    subject.open(Access::Delete).delete(&[first.header.id, second.header.id]).unwrap();
    assert!(!set_aside.exists());
}

#[test]
fn a_digest_that_is_a_path_and_a_stored_file_that_is_a_link_or_a_pipe_are_damage() {
    let mut subject = Subject::new();
    let made = subject.create().unwrap();
    let id = made.header.id;
    let secret = subject.folder.path().join("secret");
    fs::write(&secret, "rows 1").unwrap();
    let stored = subject.stored("rows 1");
    let digest = stored.file_name().unwrap().to_str().unwrap().to_owned();
    let refused = |subject: &Subject| {
        assert_eq!(subject.problems(false), 1);
        let to = tempfile::tempdir().unwrap();
        let restored = subject.open(Access::Read).restore(&id, &to.path().join("new"), &mut |_| ());
        assert!(matches!(restored, Err(BackupError::Damaged { .. })), "{restored:?}");
    };
    fs::remove_file(&stored).unwrap();
    std::os::unix::fs::symlink(&secret, &stored).unwrap();
    refused(&subject);
    fs::remove_file(&stored).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&stored).status().unwrap().success());
    refused(&subject);
    // The next backup heals it.
    subject.create().unwrap();
    assert_eq!(subject.problems(false), 0);
    let path = subject.place().join("backups").join(format!("{id}.jsonl"));
    let whole = fs::read_to_string(&path).unwrap();
    for wrong in ["../../../../secret", "", &digest.to_uppercase(), &digest[1..]] {
        fs::write(&path, whole.replace(&digest, wrong)).unwrap();
        refused(&subject);
    }
}

#[test]
fn what_a_backup_left_that_is_a_link_to_a_file_of_the_store_is_never_written_to() {
    let mut subject = Subject::new();
    fs::create_dir_all(subject.place()).unwrap();
    subject.open(Access::Add);
    let before = files(&subject.data());
    for left in ["unfinished/copied", "unfinished/20261123T000001Z.jsonl"] {
        fs::hard_link(subject.data().join("contents/ab/content"), subject.place().join(left)).unwrap();
    }
    let made = subject.create().unwrap();
    assert_eq!(files(&subject.data()), before);
    assert_eq!(subject.restored(&made.header.id), before);
}

#[test]
fn nothing_is_deleted_behind_a_link_in_the_place_of_a_folder() {
    let mut subject = Subject::new();
    subject.create().unwrap();
    let shards = fs::read_dir(subject.place().join("files")).unwrap().map(|shard| shard.unwrap().file_name());
    let shards: Vec<_> = shards.collect();
    let mut names = (0..=u8::MAX).map(|byte| format!("{byte:02x}"));
    let unused = names.find(|name| !shards.iter().any(|used| *used == **name)).unwrap();
    let unused = format!("files/{unused}");
    let others = subject.folder.path().join("others");
    fs::create_dir(&others).unwrap();
    // The names of what a backup leaves, and of a file that no backup has.
    for name in ["letter", "copied", "lock", "1.jsonl", &"ab".repeat(32)] {
        fs::write(others.join(name), name).unwrap();
    }
    let before = fs::read_dir(&others).unwrap().count();
    for name in ["backups", "files", "unfinished", &unused] {
        let (path, aside) = (subject.place().join(name), subject.folder.path().join("aside"));
        let was_there = fs::rename(&path, &aside).is_ok();
        std::os::unix::fs::symlink(&others, &path).unwrap();
        let deleted = Backups::open(&subject.place(), Access::Delete).and_then(|backups| backups.delete(&[]));
        assert!(matches!(deleted, Err(BackupError::NoBackups(_))), "{name}: {deleted:?}");
        if was_there {
            let created = subject.create();
            assert!(matches!(created, Err(BackupError::NoBackups(_))), "{name}: {created:?}");
        }
        assert_eq!(fs::read_dir(&others).unwrap().count(), before, "{name}");
        fs::remove_file(&path).unwrap();
        if was_there {
            fs::rename(&aside, &path).unwrap();
        }
    }
    assert_eq!((subject.open(Access::Read).ids().unwrap().len(), subject.problems(false)), (1, 0));
}

#[test]
fn files_that_no_backup_makes_are_not_deleted() {
    let mut subject = Subject::new();
    let made = subject.create().unwrap();
    let shard = subject.stored("rows 0").parent().unwrap().to_owned();
    let mine = [shard.join("letter"), subject.place().join("files/letter"), subject.place().join("unfinished/letter")];
    for path in &mine {
        fs::write(path, "").unwrap();
    }
    let unused = shard.join("ab".repeat(32));
    fs::write(&unused, "unused").unwrap();
    fs::create_dir(shard.join("cd".repeat(32))).unwrap();
    subject.create().unwrap();
    let deleted = subject.open(Access::Delete).delete(&[made.header.id]).unwrap();
    assert_eq!((deleted.files, deleted.bytes, unused.exists()), (1, 6, false));
    assert!(mine.iter().all(|path| path.exists()) && shard.join("cd".repeat(32)).is_dir());
}

#[test]
fn a_backup_of_a_time_before_that_of_the_newest_is_refused_and_several_of_one_second_are_in_order() {
    let mut subject = Subject::new();
    let at = |subject: &Subject, id: &str| {
        let (time, program, folder) = (String::new(), String::new(), String::new());
        let options = Options { time, id: id.to_owned(), program, folder, links: false };
        Backups::open(&subject.place(), Access::Add)?.create(&subject.cut(), &options, &mut |_| ())
    };
    let newest = subject.create().unwrap().header.id;
    let early = at(&subject, "20261122T235959Z");
    assert!(matches!(&early, Err(BackupError::Clock { newest: id, .. }) if *id == newest), "{early:?}");
    let ids: Vec<String> = (0..11).map(|_| at(&subject, &newest).unwrap().header.id).collect();
    assert_eq!(subject.open(Access::Read).ids().unwrap(), [vec![newest.clone()], ids].concat());
    // Its own id is free again, but it would not be the last one any more.
    subject.open(Access::Delete).delete(std::slice::from_ref(&newest)).unwrap();
    assert_eq!(at(&subject, &newest).unwrap().header.id, format!("{newest}-13"));
    let backups = subject.open(Access::Read);
    assert!(matches!(backups.require_order("20261123T000000Z"), Err(BackupError::Clock { .. })));
    backups.require_order(&newest).unwrap();
}

#[test]
fn a_description_that_cannot_be_read_is_a_problem_and_the_other_backups_are_checked() {
    let mut subject = Subject::new();
    let [first, _] = [subject.create().unwrap(), subject.create().unwrap()];
    let path = subject.place().join("backups").join(format!("{}.jsonl", first.header.id));
    fs::remove_file(&path).unwrap();
    // A socket cannot be opened.
    let _socket = UnixListener::bind(&path).unwrap();
    let backups = subject.open(Access::Read);
    let checked = backups.check(&backups.ids().unwrap(), false, &mut |_| ()).unwrap();
    assert_eq!(checked.backups, 2);
    assert!(checked.files > 0);
    let [problem] = &checked.problems[..] else { panic!("{:?}", checked.problems) };
    assert_eq!((&problem.id, &problem.path), (&first.header.id, &None));
    assert!(problem.what.starts_with("it cannot be read: opening "), "{}", problem.what);
}

#[test]
fn a_line_of_a_description_is_not_read_beyond_its_greatest_length() {
    let mut subject = Subject::new();
    let made = subject.create().unwrap();
    let path = subject.place().join("backups").join(format!("{}.jsonl", made.header.id));
    let whole = fs::read_to_string(&path).unwrap();
    let long = "x".repeat(1 << 20);
    let header = whole.lines().next().unwrap();
    for broken in [long.clone(), format!("{header}\n{long}"), format!("{header}\n{long}\n")] {
        fs::write(&path, broken).unwrap();
        let error = subject.open(Access::Read).summary(&made.header.id).unwrap_err();
        assert!(matches!(&error, BackupError::Damaged { what, .. } if what.contains("64 KiB")), "{error}");
    }
}

#[test]
fn a_backup_uses_what_all_interrupted_ones_copied() {
    let mut subject = Subject::new();
    let id = subject.create().unwrap().header.id;
    let whole = subject.place().join("backups").join(format!("{id}.jsonl"));
    let lines = fs::read_to_string(&whole).unwrap();
    fs::remove_file(whole).unwrap();
    for (number, copied) in ["contents/", "tables/0", "tables/1"].into_iter().enumerate() {
        let kept = lines.lines().filter(|line| line.contains("\"format\"") || line.contains(copied));
        let unfinished = subject.place().join(format!("unfinished/20261123T00000{number}Z.jsonl"));
        fs::write(unfinished, kept.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    }
    let stored = ["a content", "rows 0", "rows 1"].map(|content| subject.stored(content));
    let inodes = || stored.each_ref().map(|path| fs::metadata(path).unwrap().ino());
    let before = inodes();
    let made = subject.create().unwrap();
    assert_eq!(inodes(), before, "a file was copied again");
    assert_eq!(subject.restored(&made.header.id), files(&subject.data()));
    let left = fs::read_dir(subject.place().join("unfinished")).unwrap().count();
    assert_eq!(left, 1, "only the lock is there");
}

#[test]
fn a_folder_has_backups_of_one_store() {
    let mut subject = Subject::new();
    subject.create().unwrap();
    subject.store = "cd".to_owned();
    let refused = subject.create().unwrap_err();
    assert!(matches!(refused, BackupError::OtherStore { .. }), "{refused}");
    assert!(refused.to_string().contains("20261123T000001Z of data: name another folder"), "{refused}");
    assert_eq!(subject.open(Access::Read).ids().unwrap().len(), 1);
    let first = subject.open(Access::Read).ids().unwrap();
    subject.open(Access::Delete).delete(&first).unwrap();
    subject.create().unwrap();
}

#[test]
fn a_description_that_was_cut_or_changed_is_damage() {
    let mut subject = Subject::new();
    let made = subject.create().unwrap();
    let path = subject.place().join("backups").join(format!("{}.jsonl", made.header.id));
    let whole = fs::read_to_string(&path).unwrap();
    let cut = whole.len() - 20;
    let broken = [whole[..cut].to_owned(), whole.replace("db/text.record", "db/text.Record"), String::new()];
    let later = whole.replace("\"format\":1", "\"format\":2");
    let unreleased = whole.replace("\"format\":1", "\"form\":1");
    for broken in broken {
        fs::write(&path, broken).unwrap();
        assert_eq!(subject.problems(false), 1);
        let error = subject.open(Access::Read).summary(&made.header.id).unwrap_err();
        assert!(matches!(error, BackupError::Damaged { .. }), "{error}");
        // Nobody knows which files it has.
        assert!(subject.open(Access::Delete).delete(&[]).is_err());
    }
    fs::write(&path, later).unwrap();
    let error = subject.open(Access::Read).summary(&made.header.id).unwrap_err();
    assert!(matches!(error, BackupError::NoBackups(_)), "{error}");
    fs::write(&path, unreleased).unwrap();
    let error = subject.open(Access::Read).summary(&made.header.id).unwrap_err();
    assert!(matches!(error, BackupError::Unreleased(_)), "{error}");
}

#[test]
fn a_folder_of_backups_of_a_build_before_the_first_release_is_refused_and_not_changed() {
    let mut subject = Subject::new();
    subject.create().unwrap();
    fs::write(subject.place().join("penates-backups"), "penates-backups 1\n").unwrap();
    let before = files(&subject.place());
    for access in [Access::Add, Access::Read, Access::Delete] {
        let refused = Backups::open(&subject.place(), access).unwrap_err();
        assert!(matches!(refused, BackupError::Unreleased(_)), "{refused}");
        assert!(refused.to_string().contains("made by a build before 0.1.0"), "{refused}");
    }
    assert!(files(&subject.place()) == before, "something was changed");
}

#[test]
fn damage_in_the_store_ends_the_backup_and_leaves_the_earlier_ones() {
    let mut subject = Subject::new();
    subject.create().unwrap();
    subject.write("db/text/keyspaces/1/tables/2", "rows 2");
    subject.made += 1;
    let source = subject.cut();
    subject.write("db/text/keyspaces/1/tables/2", "ROWS 2");
    let options = Options {
        time: String::new(),
        id: "20261123T000002Z".to_owned(),
        program: String::new(),
        folder: String::new(),
        links: false,
    };
    let error = subject.open(Access::Add).create(&source, &options, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("tables/2 is damaged in the store"), "{error}");
    assert_eq!((subject.open(Access::Read).ids().unwrap().len(), subject.problems(false)), (1, 0));
}

#[test]
fn links_take_no_space_and_outlive_the_files_of_the_store() {
    let mut subject = Subject::new();
    let rows = subject.data().join("db/text/keyspaces/1/tables/0");
    let made = subject.create_with(true, &mut |_| ()).unwrap();
    assert_eq!(fs::metadata(subject.stored("rows 0")).unwrap().ino(), fs::metadata(&rows).unwrap().ino());
    let before = files(&subject.data());
    // What is written in place was copied.
    subject.write("db/text.record", "RECORD");
    fs::remove_file(rows).unwrap();
    assert_eq!(subject.restored(&made.header.id), before);
    // Equal files have one place.
    subject.create_with(true, &mut |_| ()).unwrap();
    assert_eq!(subject.problems(false), 0);
}

#[test]
fn nobody_else_can_read_backups_and_what_is_restored() {
    let mut subject = Subject::new();
    let made = subject.create().unwrap();
    let to = subject.folder.path().join("restored");
    let place = Place::begin(&to).unwrap();
    subject.open(Access::Read).restore(&made.header.id, place.path(), &mut |_| ()).unwrap();
    place.finish().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in [subject.place(), subject.place().join("files"), to.clone(), to.join("db/text")] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    for file in [subject.stored("rows 0"), to.join("format"), to.join("db/text.record")] {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[test]
fn folders_with_other_files_are_left_alone() {
    let mut subject = Subject::new();
    let other = subject.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter"), "").unwrap();
    assert!(matches!(Backups::open(&other, Access::Add), Err(BackupError::NoBackups(_))));
    assert!(matches!(Backups::open(&other, Access::Read), Err(BackupError::NoBackups(_))));
    assert!(matches!(Place::begin(&other), Err(BackupError::Occupied(_))));
    assert!(matches!(Place::begin(&subject.data()), Err(BackupError::Occupied(_))));
    assert_eq!(files(&other).len(), 1);
    fs::write(subject.place(), "").unwrap();
    assert!(subject.create().is_err());
}

#[test]
fn a_restore_that_died_is_begun_again() {
    let mut subject = Subject::new();
    let made = subject.create().unwrap();
    let to = subject.folder.path().join("restored");
    let expected = files(&subject.data());
    let restore = |place: &Place| {
        subject.open(Access::Read).restore(&made.header.id, place.path(), &mut |_| ()).unwrap();
    };
    // It died while it wrote files, and after it moved each part.
    for moved in [&[][..], &["contents"], &["contents", "db"]] {
        let place = Place::begin(&to).unwrap();
        restore(&place);
        for part in moved {
            fs::rename(place.path().join(part), to.join(part)).unwrap();
        }
    }
    let place = Place::begin(&to).unwrap();
    assert!(matches!(Place::begin(&to), Err(BackupError::Busy(_))), "two restores at once");
    restore(&place);
    place.finish().unwrap();
    assert_eq!(files(&to), expected);
}

#[test]
fn a_restore_deletes_no_database_that_it_did_not_move_there() {
    let mut subject = Subject::new();
    let made = subject.create().unwrap();
    let to = subject.folder.path().join("restored");
    let occupied = || matches!(Place::begin(&to), Err(BackupError::Occupied(_))) && to.join("db/text").is_dir();
    let place = Place::begin(&to).unwrap();
    fs::create_dir_all(to.join("db/text")).unwrap();
    drop(place);
    assert!(occupied(), "nothing was restored yet");
    fs::remove_dir_all(to.join("db")).unwrap();
    let place = Place::begin(&to).unwrap();
    subject.open(Access::Read).restore(&made.header.id, place.path(), &mut |_| ()).unwrap();
    fs::create_dir_all(to.join("db/text")).unwrap();
    drop(place);
    assert!(occupied(), "the restored one was not moved yet");
}

fn streamed(subject: &Subject) -> Vec<u8> {
    let options = Options {
        time: String::new(),
        id: "streamed".to_owned(),
        program: String::new(),
        folder: String::new(),
        links: false,
    };
    let mut stream = Vec::new();
    backup::write_stream(&subject.cut(), &options, &mut stream, &std::env::temp_dir(), &mut |_| ()).unwrap();
    stream
}

fn restored_from(stream: &[u8]) -> BackupResult<BTreeMap<String, Vec<u8>>> {
    let to = tempfile::tempdir().unwrap();
    let place = Place::begin(to.path()).unwrap();
    backup::restore_stream(&mut &stream[..], place.path(), &mut |_| ())?;
    place.finish().unwrap();
    assert!(to.path().join("db/text/keyspaces/2/tables").is_dir(), "a folder without files is missing");
    Ok(files(to.path()))
}

#[test]
fn a_stream_has_a_whole_backup_and_is_refused_wherever_it_ends_or_differs() {
    let subject = Subject::new();
    subject.write("db/text/0.jnl", "group and more");
    let mut expected = files(&subject.data());
    expected.insert("db/text/0.jnl".to_owned(), b"group".to_vec());
    let stream = streamed(&subject);
    assert_eq!(restored_from(&stream).unwrap(), expected);
    // The last two blocks say that the archive ends; without them nothing is missing.
    for cut in (0..stream.len() - 1024).step_by(256) {
        let error = restored_from(&stream[..cut]).unwrap_err();
        assert!(matches!(error, BackupError::Damaged { .. }), "{cut}: {error}");
    }
    let at = stream.windows(6).position(|window| window == b"rows 1").unwrap();
    let mut flipped = stream.clone();
    flipped[at] ^= 1;
    let error = restored_from(&flipped).unwrap_err();
    assert!(error.to_string().contains("tables/1"), "{error}");
}

#[test]
fn a_stream_has_names_that_are_longer_than_the_header_of_an_entry() {
    let subject = Subject::new();
    subject.write(&format!("contents/ab/{}", "n".repeat(200)), "another content");
    assert_eq!(restored_from(&streamed(&subject)).unwrap(), files(&subject.data()));
}

/// A stream that never ends, of which only the beginning may be read.
struct Endless {
    begin: Vec<u8>,
    read: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        assert!(self.read <= 1 << 20, "it is read on and on");
        let mut left = self.begin.get(self.read..).unwrap_or_default();
        let read = match left.is_empty() {
            true => std::io::repeat(b'n').read(buffer)?,
            false => left.read(buffer)?,
        };
        self.read += read;
        Ok(read)
    }
}

#[test]
fn a_stream_that_announces_a_name_of_gigabytes_is_refused_before_that_is_read() {
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader, EntryType::XGlobalHeader] {
        let mut header = Header::new_gnu();
        header.set_path("name").unwrap();
        header.set_entry_type(kind);
        header.set_size(10_000_000_000);
        header.set_cksum();
        let mut stream = Endless { begin: header.as_bytes().to_vec(), read: 0 };
        let to = tempfile::tempdir().unwrap();
        let refused = backup::restore_stream(&mut stream, to.path(), &mut |_| ()).unwrap_err();
        assert!(matches!(refused, BackupError::Damaged { .. }), "{kind:?}: {refused}");
    }
}

#[test]
fn a_stream_writes_nothing_outside_its_folder() {
    let subject = Subject::new();
    let mut stream = streamed(&subject);
    let at = stream.windows(14).position(|window| window == b"db/text.record").unwrap();
    stream[at..at + 14].copy_from_slice(b"../text.record");
    // The checksum of its header.
    let header = at;
    stream[header + 148..header + 156].fill(b' ');
    let sum: u32 = stream[header..header + 512].iter().map(|byte| u32::from(*byte)).sum();
    stream[header + 148..header + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let error = restored_from(&stream).unwrap_err();
    assert!(error.to_string().contains("no path of a file of a store"), "{error}");
}

/// A disk that is full.
struct FullDisk;

impl std::io::Write for FullDisk {
    fn write(&mut self, _bytes: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_error_names_the_side_that_failed() {
    let subject = Subject::new();
    let options = Options {
        time: String::new(),
        id: "1".to_owned(),
        program: String::new(),
        folder: String::new(),
        links: false,
    };
    let source = subject.cut();
    let stream = |to: &mut dyn std::io::Write| {
        backup::write_stream(&source, &options, to, subject.folder.path(), &mut |_| ()).unwrap_err()
    };
    let full = stream(&mut FullDisk);
    assert!(matches!(&full, BackupError::Full(what) if what == "writing the stream"), "{full}");
    // A file of the store that opens, and cannot be read.
    let broken = subject.data().join("cuts/1/contents/ab/content");
    fs::remove_file(&broken).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", &broken).unwrap();
    let unread = stream(&mut Vec::new());
    assert!(unread.to_string().starts_with(&format!("reading {}", broken.display())), "{unread}");
    let unread = subject.open(Access::Add).create(&source, &options, &mut |_| ()).unwrap_err();
    assert!(unread.to_string().starts_with(&format!("reading {}", broken.display())), "{unread}");
}
