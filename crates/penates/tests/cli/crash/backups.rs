//! `penates backup create`, `restore` and `delete`, while a server takes changes. What is killed
//! leaves nothing that is taken for whole, and later commands succeed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::StdRng;

use super::choices;
use crate::harness::*;

/// The default number of rounds. Each kills one command, unless that ends before.
const ROUNDS: u64 = 10;

/// The greatest number of additional rounds, until a command was killed.
const MORE_ROUNDS: u64 = 50;

/// Resources that are made in a round.
const RESOURCES: u32 = 6;

/// Backups that are kept.
const KEPT: u32 = 2;

/// What has happened.
struct Drill<'a> {
    store: &'a TestStore,
    place: String,
    /// How many resources the server has acknowledged.
    acknowledged: &'a AtomicU32,
    /// How many of them each backup has at least, by its id.
    has: BTreeMap<String, u32>,
    /// How many commands were killed, and how many ended before.
    killed: Cell<[u32; 2]>,
}

/// The text of a resource: too much for a row.
fn text(number: u32) -> String {
    format!("{number:>40000}")
}

fn put(url: &str, number: u32) {
    let mut curl = Command::new("curl");
    curl.args(["-sf", "-X", "PUT", "-H", "Content-Type: text/plain", "--data-binary", &text(number)]);
    let put = curl.arg(format!("{url}/rest/n{number}")).stdout(Stdio::null()).status().unwrap();
    assert!(put.success(), "n{number} was refused");
}

impl Drill<'_> {
    fn backup(&self, args: &[&str]) -> Ran {
        Ran::of(penates(&[&["backup"], args].concat()))
    }

    /// Kills a command at a random moment, up to a little after its end.
    fn kill(&self, mut command: Command, usual: Duration, rng: &mut StdRng) {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // This is no wait for an event: the moment of the kill is random.
        std::thread::sleep(usual.mul_f64(rng.random_range(0.0..1.2)));
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        let status = ended.unwrap_or(child.wait().unwrap());
        assert!(status.success() || status.code().is_none(), "it failed by itself: {status}");
        let mut killed = self.killed.get();
        killed[usize::from(status.success())] += 1;
        self.killed.set(killed);
    }

    /// The ids of the backups, oldest first. Each has its whole description.
    fn ids(&self) -> Vec<String> {
        let listed = self.backup(&["list", &self.place, "--json"]).ends_with(0).json_lines();
        listed.iter().map(|backup| backup["id"].as_str().unwrap().to_owned()).collect()
    }

    /// A backup that is not killed; how long it took.
    fn create(&mut self) -> Duration {
        let (began, acknowledged) = (Instant::now(), self.acknowledged.load(Ordering::SeqCst));
        let made = self.store.run(&["backup", "create", &self.place, "--json"]).ends_with(0).json();
        self.has.insert(made["id"].as_str().unwrap().to_owned(), acknowledged);
        began.elapsed()
    }

    fn kill_create(&mut self, usual: Duration, rng: &mut StdRng) {
        let (before, acknowledged) = (self.ids(), self.acknowledged.load(Ordering::SeqCst));
        self.kill(self.store.command(&["backup", "create", &self.place]), usual, rng);
        let new: Vec<_> = self.ids().into_iter().filter(|id| !before.contains(id)).collect();
        assert!(new.len() <= 1, "{new:?}");
        self.has.extend(new.into_iter().map(|id| (id, acknowledged)));
    }

    /// Kills the first backup in a new folder.
    fn kill_first(&self, usual: Duration, rng: &mut StdRng) {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("backups");
        let create = ["backup", "create", place.to_str().unwrap()];
        self.kill(self.store.command(&create), usual, rng);
        self.store.run(&create).ends_with(0);
        self.backup(&["check", place.to_str().unwrap()]).ends_with(0);
    }

    fn kill_restore(&self, usual: Duration, rng: &mut StdRng) {
        let ids = self.ids();
        let id = &ids[rng.random_range(0..ids.len())];
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("data");
        let restore = ["backup", "restore", &self.place, id, "--to", to.to_str().unwrap()];
        self.kill(penates(&restore), usual, rng);
        // There is a whole store, or none.
        if !to.join("format").exists() {
            Ran::of(penates(&restore)).ends_with(0);
        }
        self.is_whole(&to, self.has[id]);
    }

    /// A restored store has everything that was acknowledged before its backup began.
    fn is_whole(&self, data: &Path, acknowledged: u32) {
        let run = |args: &[&str]| Ran::of(penates(&[args, &["--store", data.to_str().unwrap()]].concat())).ends_with(0);
        let verified = run(&["verify"]);
        let sound = verified.text().lines().find_map(|line| line.strip_prefix("resources: ")?.split_once(" sound"));
        let is_more = sound.unwrap().0.parse::<u32>().unwrap() >= acknowledged;
        assert!(is_more && verified.text().contains("volumes: 1 sound, 0"), "{acknowledged}: {}", verified.text());
        for number in [0, acknowledged - 1] {
            assert!(run(&["cat", &format!("n{number}")]).stdout == text(number).as_bytes(), "n{number}");
        }
    }

    fn kill_delete(&self, usual: Duration, rng: &mut StdRng) {
        let delete = ["backup", "delete", &self.place, "--keep", &KEPT.to_string()];
        self.kill(penates(&delete), usual, rng);
        self.backup(&["check", &self.place]).ends_with(0);
        Ran::of(penates(&delete)).ends_with(0);
        assert!(self.ids().len() <= KEPT as usize);
    }
}

#[test]
fn a_backup_command_that_is_killed_leaves_nothing_half_made_and_later_ones_succeed() {
    let (mut rng, rounds) = choices(ROUNDS);
    let store = TestStore::with(&[SMALL]);
    let server = store.serve(&["--set", "auth.write=open"]);
    let (acknowledged, allowed, ends) = (AtomicU32::new(0), AtomicU32::new(RESOURCES), AtomicBool::new(false));
    let place = store.beside("backups").to_str().unwrap().to_owned();
    let mut drill =
        Drill { store: &store, place, acknowledged: &acknowledged, has: BTreeMap::new(), killed: Cell::default() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                wait_until(|| number < allowed.load(Ordering::SeqCst) || ends.load(Ordering::SeqCst));
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                put(&server.url, number);
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
        });
        let _ending = Ending(&ends);
        wait_until(|| acknowledged.load(Ordering::SeqCst) > 0);
        let usual = drill.create();
        let mut round = 0;
        // On a fast machine each command of a few rounds may end before it is killed.
        while round < rounds || drill.killed.get()[0] == 0 {
            assert!(round < rounds + MORE_ROUNDS, "no command was killed");
            allowed.fetch_add(RESOURCES, Ordering::SeqCst);
            match round % 8 {
                0 => drill.kill_first(usual, &mut rng),
                1 | 3 | 6 => drill.kill_create(usual, &mut rng),
                2 | 5 => drill.kill_restore(usual, &mut rng),
                _ => drill.kill_delete(usual / 2, &mut rng),
            }
            round += 1;
        }
    });
    println!("{:?} commands were killed, and ended before", drill.killed.get());
    drill.create();
    drill.backup(&["check", &drill.place]).ends_with(0);
    assert_eq!(server.stop("TERM").0, 0);
    // Whoever opens the store deletes the cuts of commands that were killed.
    store.run(&["stat"]).ends_with(0);
    assert_eq!(fs::read_dir(store.path().join("cuts")).unwrap().count(), 0);
    let restored = store.beside("restored");
    drill.backup(&["restore", &drill.place, "--to", restored.to_str().unwrap()]).ends_with(0);
    drill.is_whole(&restored, drill.has[drill.ids().last().unwrap()]);
}

/// Ends the writer also when a step fails, so that the test does.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
