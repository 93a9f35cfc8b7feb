//! The proof of a store in Cassandra: three nodes, three copies, quorums, and a server in front.
//! While volumes are imported, resources created and changed, and archives downloaded, one node is
//! killed and comes back, another hangs, and the server itself is killed and replaced. Only
//! requests of the killed server may fail (and only those are retried by clients). Nothing
//! acknowledged may be lost, nothing may be half visible, and in the end all copies are equal.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cluster::{Cluster, ClusterSpec, NodeId, Shape};
use hathi::VolumeFiles;
use penates::client::segment;
use serde_json::json;
use store_cassandra::testing;

use crate::harness::*;

/// Volumes for imports: more than are imported. If they are not enough, they are imported again.
const VOLUMES: usize = 1_000;

/// Pages of each.
const PAGES: usize = 12;

/// The number of requests of each kind that must succeed between two disturbances.
const REQUESTS_BETWEEN: usize = 10;

/// The time limit for that on a busy machine.
const GOES_ON_WITHIN: Duration = Duration::from_secs(180);

/// How long a client waits for the end of a response.
const CLIENT_PATIENCE_S: &str = "60";

const KEYSPACE: &str = "books";

/// The one resource that changes all the time.
const COUNTER: &str = "rest/counter";

/// The kinds of requests, each made one after the other.
#[derive(Clone, Copy)]
enum Kind {
    Import,
    Make,
    Change,
    Download,
    DownloadListed,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Import, Kind::Make, Kind::Change, Kind::Download, Kind::DownloadListed];

    fn name(self) -> &'static str {
        match self {
            Kind::Import => "imports",
            Kind::Make => "resources made",
            Kind::Change => "changes of one resource",
            Kind::Download => "archives of two volumes",
            Kind::DownloadListed => "listings, and a volume of what is listed",
        }
    }
}

/// The server in front of the cluster, and the one that replaces it.
struct Front {
    store: String,
    server: Mutex<Option<Served>>,
    url: Mutex<String>,
    /// Odd while there is no server; it grows with each change.
    epoch: AtomicUsize,
}

impl Front {
    fn new(store: String) -> Self {
        let front = Self { store, server: Mutex::default(), url: Mutex::default(), epoch: AtomicUsize::new(1) };
        front.start();
        front
    }

    fn start(&self) {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off", "--set", "auth.write=open", "--store"];
        let server = Served::start(penates(&[&serve[..], &[&self.store]].concat()));
        *self.url.lock().unwrap() = server.url.clone();
        *self.server.lock().unwrap() = Some(server);
        self.epoch.fetch_add(1, Ordering::SeqCst);
    }

    fn kill(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        self.server.lock().unwrap().take().unwrap().kill();
    }

    fn url(&self) -> String {
        self.url.lock().unwrap().clone()
    }

    fn stop(&self) {
        assert_eq!(self.server.lock().unwrap().take().unwrap().stop("TERM").0, 0);
    }
}

/// The results of one kind of request.
#[derive(Default)]
struct Tally {
    answered: AtomicUsize,
    /// Since the last disturbance.
    slowest_ms: AtomicUsize,
}

/// Clients that run all the time, and their results.
struct Mix {
    front: Front,
    stop: AtomicBool,
    tallies: [Tally; Kind::ALL.len()],
}

/// Ends the mix even if a part of the test fails, so that all of it ends.
struct Ending<'a>(&'a Mix);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

impl Mix {
    fn new(front: Front) -> Self {
        Self { front, stop: AtomicBool::new(false), tallies: Default::default() }
    }

    /// Makes requests until the end. Returns what was acknowledged. A request that fails although
    /// the server was there all the time fails the test.
    fn run<T>(&self, kind: Kind, mut request: impl FnMut(usize, &str) -> Result<T, String>) -> Vec<T> {
        let _ending = Ending(self);
        let tally = &self.tallies[kind as usize];
        let mut acknowledged = Vec::new();
        while !self.stop.load(Ordering::SeqCst) {
            let (epoch, began) = (self.front.epoch.load(Ordering::SeqCst), Instant::now());
            match request(acknowledged.len(), &self.front.url()) {
                Ok(answer) => {
                    acknowledged.push(answer);
                    tally.answered.fetch_add(1, Ordering::SeqCst);
                    tally.slowest_ms.fetch_max(began.elapsed().as_millis() as usize, Ordering::SeqCst);
                }
                Err(why) => {
                    let had_a_server = epoch.is_multiple_of(2) && self.front.epoch.load(Ordering::SeqCst) == epoch;
                    let (number, took) = (acknowledged.len(), began.elapsed());
                    assert!(!had_a_server, "{} number {number} failed after {took:?}: {why}", kind.name());
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
        acknowledged
    }

    fn answered(&self) -> [usize; Kind::ALL.len()] {
        Kind::ALL.map(|kind| self.tallies[kind as usize].answered.load(Ordering::SeqCst))
    }

    /// Waits until each kind of request succeeds repeatedly, and prints how long that took.
    fn goes_on(&self, after: &str) {
        let (began, before) = (Instant::now(), self.answered());
        let is_enough = || self.answered().iter().zip(before).all(|(now, before)| *now >= before + REQUESTS_BETWEEN);
        while !is_enough() {
            assert!(!self.stop.load(Ordering::SeqCst), "a request failed");
            assert!(
                began.elapsed() < GOES_ON_WITHIN,
                "after {after} it does not go on: {before:?}, {:?}",
                self.answered()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{after}: {REQUESTS_BETWEEN} and more of each kind within {:.1?}", began.elapsed());
        for (kind, before) in Kind::ALL.into_iter().zip(before) {
            let tally = &self.tallies[kind as usize];
            let answered = tally.answered.load(Ordering::SeqCst) - before;
            eprintln!("  {answered} {}, the slowest {} ms", kind.name(), tally.slowest_ms.swap(0, Ordering::SeqCst));
        }
    }
}

/// Sends one request. Returns the body of the response.
fn curl(args: &[&str]) -> Result<Vec<u8>, String> {
    let always = ["-sS", "--fail-with-body", "--max-time", CLIENT_PATIENCE_S];
    let got = Command::new("curl").args(always).args(args).output().unwrap();
    if got.status.success() {
        return Ok(got.stdout);
    }
    Err(format!("{}: {} {}", got.status, String::from_utf8_lossy(&got.stderr), String::from_utf8_lossy(&got.stdout)))
}

/// Volumes made from pages of the samples.
fn synthetic(folder: &Path) -> Vec<VolumeFiles> {
    let (volumes, pages) = (VOLUMES.to_string(), PAGES.to_string());
    let synth = ["synth", "--volumes", &volumes, "--pages", &pages, "--out", folder.to_str().unwrap()];
    Ran::of(penates(&synth)).ends_with(0);
    hathi::discover(folder).map(|files| files.unwrap()).collect()
}

fn id_of(files: &VolumeFiles) -> &hathi::VolumeId {
    files.id.as_ref().unwrap()
}

/// Puts a volume after an earlier put whose response was lost: it may exist already.
fn import(files: &VolumeFiles, url: &str) -> Result<String, String> {
    let part = |name: &str, path: &Path| format!("{name}=@{}", path.display());
    let (zip, mets) = (part("zip", &files.zip), part("mets", &files.mets));
    let address = format!("{url}/volumes/{}", segment(id_of(files)));
    curl(&["-X", "PUT", "-F", &zip, "-F", &mets, &address])?;
    Ok(id_of(files).to_string())
}

/// Puts a text and reads it back at once.
fn put_text(url: &str, path: &str, text: &str) -> Result<(), String> {
    let address = format!("{url}/{path}");
    curl(&["-X", "PUT", "-H", "Content-Type: text/plain", "--data-binary", text, &address])?;
    let read = curl(&[&address])?;
    assert!(read == text.as_bytes(), "{path} was acknowledged as {text}, and is {}", String::from_utf8_lossy(&read));
    Ok(())
}

fn made(number: usize) -> (String, String) {
    (format!("rest/made/{number}"), format!("the text of {number}"))
}

fn download(url: &str, ids: &str) -> Result<Vec<u8>, String> {
    curl(&["-G", "--data-urlencode", &format!("volumeIDs={ids}"), &format!("{url}/volumes")])
}

/// Downloads a volume, which must be the whole imported one.
fn download_whole(url: &str, files: &VolumeFiles) -> Result<(), String> {
    let (id, archive) = (id_of(files), download(url, id_of(files).as_str())?);
    assert!(unzip(&archive) == expected_entries(files.zip.parent().unwrap()), "{id} is half visible");
    Ok(())
}

/// Downloads one of the listed volumes.
fn download_listed(number: usize, url: &str, sources: &[VolumeFiles]) -> Result<(), String> {
    let listed = String::from_utf8(curl(&[&format!("{url}/volumes/?format=text")])?).unwrap();
    let listed: BTreeSet<&str> = listed.lines().collect();
    let listed: Vec<&VolumeFiles> = sources.iter().filter(|files| listed.contains(id_of(files).as_str())).collect();
    // Any of them, in the same order in each run.
    listed.get(number * 7919 % listed.len().max(1)).map_or(Ok(()), |files| download_whole(url, files))
}

#[test]
#[ignore = "three nodes for some minutes: `cargo xtask proofs` runs it"]
fn nothing_fails_and_nothing_is_lost_while_nodes_and_the_server_die() {
    if !testing::can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sources = synthetic(&folder.path().join("pairtree"));
    let mut settings = testing::settings();
    settings.heap_mib = Some(384);
    // A node that is asked at level ONE answers for itself: so the copies can be compared.
    settings.yaml.insert("dynamic_snitch".to_owned(), json!(false));
    let spec = ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(3)) };
    let cluster = Cluster::open(folder.path().join("cluster"), &spec).unwrap();
    cluster.start_all().unwrap();
    let [first, second, third] = [1, 2, 3].map(NodeId);
    let hosts: Vec<String> = cluster.contact_points().iter().map(ToString::to_string).collect();
    let store = format!("cassandra://{}/{KEYSPACE}", hosts.join(","));
    let at = |args: &[&str]| Ran::of(penates(&[args, &["--store", &store]].concat()));
    // A node learns of each of its peers a moment after that peer is up.
    wait_until(|| at(&["init", "--replication", "dc1=3"]).code == 0);
    at(&["import", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
    at(&["import", sample_folder(OTHER).to_str().unwrap()]).ends_with(0);

    let both = format!("{SMALL}|{OTHER}");
    let mix = Mix::new(Front::new(store.clone()));
    let reference = download(&mix.front.url(), &both).unwrap();
    let began = Instant::now();
    let (imported, last_made, last_change) = std::thread::scope(|scope| {
        let importing =
            scope.spawn(|| mix.run(Kind::Import, |number, url| import(&sources[number % sources.len()], url)));
        let making = scope.spawn(|| {
            mix.run(Kind::Make, |number, url| {
                let (path, text) = made(number);
                put_text(url, &path, &text)
            })
        });
        let changing = scope.spawn(|| mix.run(Kind::Change, |number, url| put_text(url, COUNTER, &number.to_string())));
        scope.spawn(|| {
            mix.run(Kind::Download, |_, url| {
                assert!(download(url, &both)? == reference, "another archive came");
                Ok(())
            })
        });
        scope.spawn(|| mix.run(Kind::DownloadListed, |number, url| download_listed(number, url, &sources)));
        scope.spawn(|| {
            let _ending = Ending(&mix);
            mix.goes_on("at the beginning");
            cluster.kill(second).unwrap();
            mix.goes_on("a node was killed");
            cluster.start(second).unwrap();
            mix.goes_on("it came back");
            cluster.pause(third).unwrap();
            mix.goes_on("another hangs");
            cluster.resume(third).unwrap();
            mix.goes_on("it goes on");
            mix.front.kill();
            mix.front.start();
            mix.goes_on("the server was killed and replaced");
        });
        (importing.join().unwrap(), making.join().unwrap().len(), changing.join().unwrap().len())
    });
    let took = began.elapsed();

    let url = mix.front.url();
    let imported: BTreeSet<String> = imported.into_iter().collect();
    for files in sources.iter().filter(|files| imported.contains(id_of(files).as_str())) {
        download_whole(&url, files).unwrap();
    }
    for (path, text) in (0..last_made).map(made) {
        assert!(curl(&[&format!("{url}/{path}")]).unwrap() == text.as_bytes(), "{path} was acknowledged and is lost");
    }
    let counter = curl(&[&format!("{url}/{COUNTER}")]).unwrap();
    assert_eq!(String::from_utf8(counter).unwrap(), (last_change - 1).to_string());
    mix.front.stop();

    let began = Instant::now();
    cluster.nodetool(first, &["repair", "--full", KEYSPACE]).unwrap();
    eprintln!("repaired within {:.1?}", began.elapsed());
    let all = ["description_read", "content_read"].map(|class| format!("cassandra.{class}=ALL"));
    let verified = at(&["verify", "--json", "--set", &all[0], "--set", &all[1]]).ends_with(0).json_lines();
    let sound = verified.iter().filter(|report| report["sound"] == json!(true));
    let sound: BTreeSet<&str> = sound.filter_map(|report| report["id"].as_str()).collect();
    assert!(imported.iter().all(|id| sound.contains(id.as_str())), "not sound at ALL: {verified:?}");

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let copies = cluster.contact_points().into_iter().map(|node| runtime.block_on(testing::digests_at(node, KEYSPACE)));
    let copies: Vec<_> = copies.collect();
    let rows: usize = copies[0].values().map(|(rows, _)| rows).sum();
    assert!(rows > imported.len() + last_made, "nothing was compared: {:?}", copies[0]);
    assert!(copies.iter().all(|copy| *copy == copies[0]), "copies differ: {copies:?}");
    eprintln!(
        "within {took:.1?} {} imports, {last_made} resources and {last_change} changes of one were acknowledged; all are there, in \
         {rows} rows that are the same on all nodes",
        imported.len()
    );
}
