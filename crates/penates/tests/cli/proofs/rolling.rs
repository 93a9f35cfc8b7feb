//! The proof of `docs/operations/upgrade.md`: a program of an earlier commit and this one work on
//! one store, in turns on a data folder and at the same time on Cassandra, until its level is raised.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use store_cassandra::testing;

use super::older::older;
use crate::harness::*;
use crate::nginx::Nginx;

const KEYSPACE: &str = "rolling";

/// How long a server may take to learn of a level: it renews its lease every 100 seconds.
const LEARNS_WITHIN: Duration = Duration::from_secs(300);

/// Requests of each kind that must succeed between one step and the next.
const REQUESTS_BETWEEN: usize = 10;

/// A command of this program or of the older one.
type Program = fn(&[&str]) -> Command;

fn newer(args: &[&str]) -> Command {
    penates(args)
}

/// A store, as both programs see it.
struct Shared {
    place: String,
}

impl Shared {
    fn run(&self, program: Program, args: &[&str]) -> Ran {
        Ran::of(program(&[args, &["--store", &self.place]].concat()))
    }

    fn done(&self, program: Program, args: &[&str]) -> Ran {
        self.run(program, args).ends_with(0)
    }

    /// The level of the store, and the newest one that the program knows.
    fn level(&self, program: Program) -> [u64; 2] {
        let printed = self.done(program, &["upgrade", "--check", "--json"]).json();
        ["level", "newest"].map(|field| printed[field].as_u64().unwrap())
    }

    /// Raises the level to the newest one that this program knows.
    fn raise(&self) {
        let [level, newest] = self.level(newer);
        for above in level..newest {
            let printed = self.done(newer, &["upgrade", "--json"]).json();
            assert_eq!([&printed["before"], &printed["level"]], [above, above + 1]);
        }
    }

    /// Everything is sound, as a program sees it.
    fn is_sound(&self, program: Program, volumes: usize) {
        let verified = self.done(program, &["verify"]);
        let printed = format!("volumes: {volumes} sound, 0 damaged, 0 failed");
        assert!(verified.text().contains(&printed), "{}", verified.text());
        // Each record of the audit can be read.
        self.done(program, &["audit", "--json"]);
    }

    /// The paths of changes that the audit has.
    fn audited_changes(&self) -> Vec<String> {
        let changes = self.done(newer, &["audit", "--kind", "change", "--json"]).json_lines();
        changes.iter().map(|change| change["target"].as_str().unwrap().to_owned()).collect()
    }

    /// The level is as it was, and the audit has no record of a kind that needs level 7.
    fn was_not_raised(&self, level: u64) {
        assert_eq!(self.level(newer)[0], level, "something has raised the level");
        let audited = self.audited_changes();
        assert!(audited.is_empty(), "a store of level {level} has {audited:?}");
    }

    /// The older program refuses the store and says why.
    fn refuses_the_older_one(&self) {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"];
        for refused in [self.run(older, &serve), self.run(older, &["ls"])] {
            let refused = refused.ends_with(3);
            assert!(refused.stderr.contains("has format"), "{}", refused.stderr);
        }
    }

    fn serve(&self, program: Program) -> Served {
        let listen = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"];
        let settings = ["--set=auth.write=open", "--set=limits.drain=10m", "--store", &self.place];
        let server = Served::start(program(&[&listen[..], &settings].concat()));
        wait_until(|| is_ready(&server.url));
        server
    }
}

fn curl(args: &[&str]) -> Result<Vec<u8>, String> {
    let ran = Command::new("curl").args(["-sS", "--fail-with-body", "--max-time", "60"]).args(args).output().unwrap();
    match ran.status.success() {
        true => Ok(ran.stdout),
        false => {
            Err(format!("{args:?}: {}{}", String::from_utf8_lossy(&ran.stderr), String::from_utf8_lossy(&ran.stdout)))
        }
    }
}

fn is_ready(url: &str) -> bool {
    curl(&[&format!("{url}/readyz")]).is_ok()
}

/// Stops a server that nobody sends requests to: a second signal ends the time in which it says that
/// it leaves.
fn stop(server: Served) {
    server.signal("TERM");
    wait_until(|| !is_ready(&server.url));
    assert_eq!(server.stop("TERM").0, 0);
}

/// Writes a text of 40,000 bytes, too many for a row, to a file.
fn letter(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, format!("{name:>40000}")).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
#[ignore = "it builds an older program: `cargo xtask proofs` runs it"]
fn a_data_folder_goes_to_and_fro_between_two_builds_until_its_level_is_raised() {
    let files = tempfile::tempdir().unwrap();
    let store = Shared { place: files.path().join("data").to_str().unwrap().to_owned() };
    let text_of = |name: &str| fs::read(letter(files.path(), name)).unwrap();
    let has = |program: Program, names: &[&str]| {
        names.iter().for_each(|name| assert_eq!(store.done(program, &["cat", name]).stdout, text_of(name), "{name}"));
    };
    store.done(older, &["import", sample_folder(SMALL).to_str().unwrap()]);
    store.done(older, &["put", "first", &letter(files.path(), "first")]);
    store.done(older, &["records", "set", "user:1", "city=Ulm"]);
    let [level, known] = store.level(older);
    assert_eq!(level, known, "the older program makes stores of its newest level");
    let [_, newest] = store.level(newer);
    assert!(newest > known, "the older program knows the newest level: name an older commit");

    // The new program reads and changes it, by itself and as a server.
    store.is_sound(newer, 1);
    has(newer, &["first"]);
    let server = store.serve(newer);
    store.done(newer, &["import", sample_folder(OTHER).to_str().unwrap()]);
    store.done(newer, &["put", "second", &letter(files.path(), "second")]);
    store.done(newer, &["records", "set", "user:2", "city=Genf"]);
    stop(server);
    store.was_not_raised(level);

    // Back to the older one, which is killed.
    store.is_sound(older, 2);
    has(older, &["first", "second"]);
    assert!(store.done(older, &["records", "get", "user:2"]).text().contains("Genf"));
    let server = store.serve(older);
    store.done(older, &["put", "third", &letter(files.path(), "third")]);
    let backups = files.path().join("backups").to_str().unwrap().to_owned();
    store.done(older, &["backup", "create", &backups]);
    server.kill();

    // Each restores the other's backup.
    store.done(newer, &["backup", "create", &backups]);
    for (program, name) in [(newer as Program, "by-newer"), (older, "by-older")] {
        let restored = Shared { place: files.path().join(name).to_str().unwrap().to_owned() };
        let ids = Ran::of(program(&["backup", "list", &backups, "--json"])).ends_with(0).json_lines();
        assert_eq!(ids.len(), 2, "{ids:?}");
        let id = if name == "by-newer" { &ids[0] } else { &ids[1] };
        Ran::of(program(&["backup", "restore", &backups, id["id"].as_str().unwrap(), "--to", &restored.place]))
            .ends_with(0);
        restored.is_sound(program, 2);
        restored.was_not_raised(level);
    }

    has(newer, &["first", "second", "third"]);
    store.raise();
    store.refuses_the_older_one();
    store.is_sound(newer, 2);
    has(newer, &["first", "second", "third"]);
    store.done(newer, &["put", "fourth", &letter(files.path(), "fourth")]);
    let audited = store.audited_changes();
    assert!(audited.contains(&"/rest/fourth".to_owned()), "{audited:?}");
}

/// Clients of both doors that go on all the time.
#[derive(Default)]
struct Load {
    ends: AtomicBool,
    downloads: AtomicUsize,
    /// Resources that were made, and read again.
    made: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl Load {
    /// Makes requests until the end, each with its number.
    fn repeat(&self, counter: &AtomicUsize, request: impl Fn(usize) -> Result<(), String>) {
        while !self.ends.load(Ordering::SeqCst) {
            match request(counter.load(Ordering::SeqCst)) {
                Ok(()) => counter.fetch_add(1, Ordering::SeqCst),
                Err(failure) => return self.failures.lock().unwrap().push(failure),
            };
        }
    }

    /// Waits until requests of each kind have succeeded.
    #[track_caller]
    fn goes_on(&self, after: &str) {
        let now = || [&self.downloads, &self.made].map(|counter| counter.load(Ordering::SeqCst));
        let before = now();
        wait_until(|| {
            let failures = self.failures.lock().unwrap();
            assert!(failures.is_empty(), "after {after}: {failures:?}");
            now().iter().zip(before).all(|(now, before)| *now >= before + REQUESTS_BETWEEN)
        });
        eprintln!("{after}: {:?} requests so far", now());
    }
}

/// Ends the load also when a step fails, so that the test does.
struct Ending<'a>(&'a Load);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::SeqCst);
    }
}

fn text(number: usize) -> String {
    format!("{number:>20000}")
}

#[test]
#[ignore = "it builds an older program: `cargo xtask proofs` runs it"]
fn servers_on_cassandra_are_replaced_by_a_newer_build_one_by_one_and_no_request_fails() {
    let Some(node) = testing::node() else { return };
    let store = Shared { place: format!("cassandra://{}/{KEYSPACE}", node.contact_points()[0]) };
    store.done(older, &["init"]);
    store.done(older, &["import", sample_folder(SMALL).to_str().unwrap()]);
    let [level, newest] = store.level(newer);
    assert!(newest > level, "the older program knows the newest level: name an older commit");

    let mut servers = [store.serve(older), store.serve(older)];
    let nginx = Nginx::before(&[&servers[0].url, &servers[1].url]);
    let socket = nginx.socket();
    let asked = |args: &[&str]| curl(&[&["--unix-socket", socket.to_str().unwrap()], args].concat());
    let archive = format!("http://localhost/volumes?volumeIDs={SMALL}");
    let resource = |number| format!("http://localhost/rest/n{number}");
    let reference = asked(&[&archive]).unwrap();
    let download = |_| match asked(&[&archive])? == reference {
        true => Ok(()),
        false => Err("another archive came".to_owned()),
    };
    let read = |number| match asked(&[&resource(number)])? == text(number).as_bytes() {
        true => Ok(()),
        false => Err(format!("n{number} has another text")),
    };
    // Requests take turns among the servers: what one has written the other one reads.
    let make = |number| {
        let body = text(number);
        let kind = ["-X", "PUT", "-H", "Content-Type: text/plain", "--data-binary"];
        asked(&[&kind[..], &[&body, &resource(number)]].concat())?;
        (0..3).try_for_each(|_| read(number))
    };

    let load = Load::default();
    std::thread::scope(|scope| {
        scope.spawn(|| load.repeat(&load.downloads, download));
        scope.spawn(|| load.repeat(&load.made, make));
        let _ending = Ending(&load);
        load.goes_on("two older servers");
        for replaced in 0..2 {
            let staying = servers[1 - replaced].url.clone();
            let leaving = servers[replaced].url.clone();
            servers[replaced].signal("TERM");
            wait_until(|| !is_ready(&leaving));
            load.goes_on("a server says that it leaves");
            nginx.send_to(&[&staying]);
            // Nobody sends requests to it any more: a second signal ends the phase.
            let successor = store.serve(newer);
            assert_eq!(std::mem::replace(&mut servers[replaced], successor).stop("TERM").0, 0);
            nginx.send_to(&[&staying, &servers[replaced].url]);
            load.goes_on("it was replaced by a newer build");
            store.is_sound(older, 1);
            if replaced == 0 {
                // The older server hinders, and nothing changes.
                for args in [&["upgrade", "--check"][..], &["upgrade"]] {
                    let hindered = store.run(newer, args).ends_with(1);
                    let named = format!("(knows level {level})");
                    assert!(hindered.stderr.contains(&named), "{}", hindered.stderr);
                }
                assert_eq!(store.level(older), [level, level]);
                load.goes_on("an upgrade that one server hindered");
            }
        }
        store.was_not_raised(level);

        store.raise();
        load.goes_on("the level was raised");
        store.refuses_the_older_one();
        // Servers write what is new once they have learned of it.
        let began = Instant::now();
        while !store.audited_changes().iter().any(|path| path.starts_with("/rest/n")) {
            assert!(began.elapsed() < LEARNS_WITHIN, "no server has learned of the level");
            load.goes_on("they have not learned of it");
        }
        load.goes_on("a server has learned of the level");
    });
    let made = load.made.load(Ordering::SeqCst);
    (0..made).try_for_each(read).unwrap();
    store.is_sound(newer, 1);
    servers.into_iter().for_each(stop);
    eprintln!(
        "{} downloads and {made} resources made and read, and none failed",
        load.downloads.load(Ordering::SeqCst)
    );
}
