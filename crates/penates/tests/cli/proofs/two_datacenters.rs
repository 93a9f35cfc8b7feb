//! The proof of a store in two data centers with a home: two nodes and a server in each. The home
//! is moved as `docs/cassandra.md` describes, once as planned and once after its loss. Meanwhile
//! clients write through both servers. Two data centers never switch heads at the same time,
//! nothing acknowledged is lost, and each data center reads whatever happens to the other. Records
//! in mode fast are written in both all the time. Volumes whose pages a quorum of each data center
//! must have are imported only while both are there, and are whole in both.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cluster::{Cluster, ClusterSpec, CommitlogSync, NodeId, Settings, Shape};
use serde_json::{Value, json};
use store_cassandra::testing;

use super::requests::*;
use crate::harness::*;

/// The data centers; the first is the home at first.
const DATACENTERS: [&str; 2] = ["dc1", "dc2"];

/// Their nodes.
const NODES: [[NodeId; 2]; 2] = [[NodeId(1), NodeId(2)], [NodeId(3), NodeId(4)]];

const KEYSPACE: &str = "books";

/// What is acknowledged, or refused, before the next step.
const ENOUGH: usize = 10;

/// An import with it needs both data centers for page text, and the home alone for everything else.
const CONTENT_EVERYWHERE: &str = "--set=cassandra.content_write=EACH_QUORUM";

/// A counter that clients of both servers increment, on the condition that nobody else did.
const COUNTER: &str = "rest/counter";

/// The cluster, and a server in each data center.
struct Two {
    cluster: Cluster,
    servers: [Mutex<Option<Served>>; 2],
}

impl Two {
    /// The flags of a command near a data center.
    fn flags(&self, place: usize, serial: &str) -> [String; 4] {
        let hosts: Vec<String> = self.cluster.contact_points().iter().map(ToString::to_string).collect();
        [
            "--store".to_owned(),
            format!("cassandra://{}/{KEYSPACE}", hosts.join(",")),
            format!("--set=cassandra.datacenter={}", DATACENTERS[place]),
            format!("--set=cassandra.serial={serial}"),
        ]
    }

    /// Runs a command near a data center.
    fn run(&self, place: usize, arguments: &[&str]) -> Ran {
        let flags = self.flags(place, "LOCAL_SERIAL");
        Ran::of(penates(&arguments.iter().copied().chain(flags.iter().map(String::as_str)).collect::<Vec<_>>()))
    }

    /// Starts the server of a data center.
    fn serve(&self, place: usize) {
        let flags = self.flags(place, "LOCAL_SERIAL");
        let serve = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--tls-listen",
            "off",
            "--set=auth.write=open",
            "--set=records.mode=fast",
            "--set=records.deadline=30s",
        ];
        let served =
            Served::start(penates(&serve.into_iter().chain(flags.iter().map(String::as_str)).collect::<Vec<_>>()));
        *self.servers[place].lock().unwrap() = Some(served);
    }

    fn url(&self, place: usize) -> Option<String> {
        self.servers[place].lock().unwrap().as_ref().map(|server| server.url.clone())
    }

    /// The address of a server that runs.
    fn at(&self, place: usize) -> String {
        self.url(place).unwrap()
    }

    /// Kills a data center: its server and its nodes.
    fn kill(&self, place: usize) {
        eprintln!("killing {}", DATACENTERS[place]);
        let server = self.servers[place].lock().unwrap().take().unwrap();
        std::thread::scope(|scope| {
            NODES[place].iter().for_each(|node| drop(scope.spawn(|| self.cluster.kill(*node).unwrap())));
        });
        server.kill();
    }

    /// Repairs all nodes of a data center.
    fn repair(&self, place: usize) {
        let began = Instant::now();
        for node in NODES[place] {
            self.cluster.nodetool(node, &["repair", "--full", KEYSPACE]).unwrap();
        }
        eprintln!("repaired within {:.1?}", began.elapsed());
    }
}

/// What the clients of one server were told.
#[derive(Default)]
struct Told {
    /// Numbers of the texts that were acknowledged.
    written: Mutex<Vec<usize>>,
    counted: AtomicUsize,
    /// Increments whose outcome is unknown.
    unsure: AtomicUsize,
    /// Changes whose outcome the server did not know.
    unknown: AtomicUsize,
    refused: AtomicUsize,
    /// Numbers of the records that were acknowledged.
    records: Mutex<Vec<usize>>,
}

/// Clients that write through both servers.
struct Clients<'a> {
    two: &'a Two,
    output: [Told; 2],
    stop: AtomicBool,
    /// Whether they also increment the counter.
    count: AtomicBool,
}

/// Ends the clients even if a part of the test fails, so that all of it ends.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn text(place: usize, number: usize) -> (String, String) {
    (format!("rest/{}/{number}", DATACENTERS[place]), format!("number {number} of {}", DATACENTERS[place]))
}

fn record(place: usize, number: usize) -> (String, Value) {
    (format!("records/{}:{number}", DATACENTERS[place]), json!({"number": number.to_string()}))
}

impl Clients<'_> {
    /// Writes records through a server, home or not.
    fn write_records(&self, place: usize) {
        let _ending = Ending(&self.stop);
        for number in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
            let Some(url) = self.two.url(place) else { continue };
            let (path, record) = record(place, number);
            let put = ["-X", "PUT", "--data-binary", &record.to_string(), &format!("{url}/{path}")];
            match answer(&put) {
                Ok((204, _)) => self.output[place].records.lock().unwrap().push(number),
                Ok(other) => panic!("{}: {other:?}", DATACENTERS[place]),
                // It is not known whether it was written.
                Err(why) if why.ends_with("504") => {}
                Err(why) => {
                    let runs = self.two.url(place).is_some_and(|now| now == url);
                    assert!(!runs, "{}: {why}", DATACENTERS[place]);
                }
            }
        }
    }

    /// Waits until a server has written more records.
    fn records_go_on(&self, place: usize, after: &str) {
        let written = || self.output[place].records.lock().unwrap().len();
        let (began, before) = (Instant::now(), written());
        while written() < before + ENOUGH {
            assert!(!self.stop.load(Ordering::SeqCst), "a client failed");
            assert!(began.elapsed() < PATIENCE, "{after}: {} writes no records", DATACENTERS[place]);
            std::thread::sleep(Duration::from_millis(20));
        }
        eprintln!("{after}: {} writes records after {:.1?}", DATACENTERS[place], began.elapsed());
    }

    /// Writes texts through a server, and increments the counter.
    fn write(&self, place: usize) {
        let _ending = Ending(&self.stop);
        let output = &self.output[place];
        for number in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let Some(url) = self.two.url(place) else {
                std::thread::sleep(Duration::from_millis(50));
                continue;
            };
            let (path, text) = text(place, number);
            let put = answer(&[
                "-X",
                "PUT",
                "-H",
                "Content-Type: text/plain",
                "--data-binary",
                &text,
                &format!("{url}/{path}"),
            ]);
            match self.is_acknowledged(place, &url, put) {
                Some(_) => output.written.lock().unwrap().push(number),
                // A refused client leaves the processor to the others for a while.
                None => std::thread::sleep(Duration::from_millis(50)),
            }
            if self.count.load(Ordering::SeqCst) {
                self.count_up(place, &url);
            }
        }
    }

    /// The status of an acknowledged change (below 400). A server that runs all the time refuses
    /// nothing, except with 503 `read-only` away from the home.
    fn is_acknowledged(&self, place: usize, url: &str, answer: Result<(u16, String), String>) -> Option<u16> {
        match answer {
            Ok((status, _)) if status < 400 => return Some(status),
            // Somebody else was faster.
            Ok((412, _)) => {}
            Ok(other) => panic!("{}: {other:?}", DATACENTERS[place]),
            Err(why) if why.contains("read-only") => _ = self.output[place].refused.fetch_add(1, Ordering::SeqCst),
            // The home was left in the middle of it.
            Err(why) if why.ends_with("504") => _ = self.output[place].unknown.fetch_add(1, Ordering::SeqCst),
            Err(why) => {
                let runs = self.two.url(place).is_some_and(|now| now == url);
                assert!(!runs, "{}: {why}", DATACENTERS[place]);
            }
        }
        None
    }

    /// Increments the counter, on the condition that nobody else did.
    fn count_up(&self, place: usize, url: &str) {
        let address = format!("{url}/{COUNTER}");
        let read =
            curl(&["-D", "-", &address]).and_then(|read| String::from_utf8(read).map_err(|error| error.to_string()));
        let Ok(read) = read else { return };
        let (head, count) = read.rsplit_once("\r\n\r\n").unwrap();
        let tag =
            head.lines().find_map(|line| line.to_ascii_lowercase().starts_with("etag:").then(|| line[5..].trim()));
        let condition = format!("If-Match: {}", tag.unwrap());
        let next = (count.parse::<usize>().unwrap() + 1).to_string();
        let put = answer(&[
            "-X",
            "PUT",
            "-H",
            "Content-Type: text/plain",
            "-H",
            &condition,
            "--data-binary",
            &next,
            &address,
        ]);
        let may_have_happened = put.as_ref().is_err_and(|why| !why.contains("read-only"));
        match self.is_acknowledged(place, url, put) {
            Some(_) => self.output[place].counted.fetch_add(1, Ordering::SeqCst),
            None => self.output[place].unsure.fetch_add(usize::from(may_have_happened), Ordering::SeqCst),
        };
    }

    fn written(&self, place: usize) -> usize {
        self.output[place].written.lock().unwrap().len()
    }

    fn refused(&self, place: usize) -> usize {
        self.output[place].refused.load(Ordering::SeqCst)
    }

    /// Waits until one server writes more and the other one, if it runs, refuses more. The other
    /// one must write nothing.
    fn writes_only(&self, place: usize, after: &str) {
        let (began, other) = (Instant::now(), 1 - place);
        let (written, written_there, refused_there) = (self.written(place), self.written(other), self.refused(other));
        let is_enough = || {
            let is_refused = self.two.url(other).is_none() || self.refused(other) >= refused_there + ENOUGH;
            is_refused && self.written(place) >= written + ENOUGH
        };
        while !is_enough() {
            assert!(!self.stop.load(Ordering::SeqCst), "a client failed");
            assert!(began.elapsed() < PATIENCE, "{after}: {} does not write alone", DATACENTERS[place]);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(self.written(other), written_there, "{after}: {} writes too", DATACENTERS[other]);
        eprintln!("{after}: {} writes alone after {:.1?}", DATACENTERS[place], began.elapsed());
    }

    /// Everything acknowledged is there, or arrives from the other data center.
    fn all_is_at(&self, url: &str) {
        for (place, output) in self.output.iter().enumerate() {
            for (path, text) in output.written.lock().unwrap().iter().map(|number| text(place, *number)) {
                wait_until(|| is_text(url, &path, &text).is_ok());
            }
            for (path, record) in output.records.lock().unwrap().iter().map(|number| record(place, *number)) {
                let read = || curl(&[&format!("{url}/{path}")]).ok();
                wait_until(|| read().is_some_and(|read| serde_json::from_slice::<Value>(&read).unwrap() == record));
            }
        }
    }
}

/// Reads everything in a data center, home or not.
fn reads(url: &str, archive: &[u8]) {
    assert!(download(url, SMALL).unwrap() == archive, "another archive came");
    select(url, SMALL, archive).unwrap();
    (0..LARGE_SLOTS).for_each(|slot| assert_eq!(read_large(url, slot).unwrap(), slot));
    assert_eq!(listed(url).unwrap(), [SMALL]);
}

fn start() -> Option<(tempfile::TempDir, Two)> {
    if !testing::can_run() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    // Both nodes of a data center are killed at once.
    let group = CommitlogSync::Group { window: Duration::from_millis(10) };
    let settings = Settings { heap_mib: Some(256), commitlog_sync: group, ..testing::settings() };
    let spec = ClusterSpec { settings, ..ClusterSpec::new(Shape { datacenters: 2, nodes_per_datacenter: 2 }) };
    let cluster = Cluster::open(folder.path().join("cluster"), &spec).unwrap();
    cluster.start_all().unwrap();
    Some((folder, Two { cluster, servers: Default::default() }))
}

/// A store without a home is given one; servers whose settings do not fit are refused.
fn first_home(two: &Two) {
    // At once: a cluster that has started knows all of its nodes.
    two.run(0, &["init", "--replication", "dc1=2,dc2=2"]).ends_with(0);
    let refused = two.run(0, &["ls"]).ends_with(2);
    assert!(refused.stderr.contains("penates home"), "{}", refused.stderr);
    let said = two.run(0, &["home", DATACENTERS[0]]).ends_with(0);
    assert!(said.text().contains(DATACENTERS[0]), "{}", said.text());
    let flags = two.flags(0, "SERIAL");
    let refused = Ran::of(penates(&[&["ls".to_owned()][..], &flags[..]].concat())).ends_with(2);
    assert!(refused.stderr.contains("LOCAL_SERIAL"), "{}", refused.stderr);
}

#[test]
#[ignore = "four nodes for some minutes: `cargo xtask proofs` runs it"]
fn the_home_is_moved_and_lost_and_no_two_data_centers_write_at_once() {
    let Some((folder, two)) = start() else { return };
    first_home(&two);
    two.serve(0);
    two.serve(1);

    // What is written at home is read in the other data center.
    two.run(0, &["import", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
    (0..LARGE_SLOTS).for_each(|version| put_large(&two.at(0), &folder.path().join("large"), version).unwrap());
    put_text(&two.at(0), COUNTER, "0").unwrap();
    wait_until(|| listed(&two.at(1)).unwrap() == [SMALL] && curl(&[&format!("{}/{COUNTER}", two.at(1))]).is_ok());
    wait_until(|| (0..LARGE_SLOTS).all(|slot| read_large(&two.at(1), slot).is_ok()));
    let archive = download(&two.at(0), SMALL).unwrap();
    assert!(unzip(&archive) == expected_entries(&sample_folder(SMALL)));
    (0..2).for_each(|place| reads(&two.at(place), &archive));
    // The first record is written at home, with the mode of all of them.
    let first = ["-X", "PUT", "--data-binary", "\"first\"", &format!("{}/records/first", two.at(0))];
    assert_eq!(answer(&first).unwrap().0, 204);
    // Changes there are refused, and no part of them is done.
    let refused = put_text(&two.at(1), "rest/refused", "").unwrap_err();
    assert!(DATACENTERS.iter().all(|name| refused.contains(name)) && refused.contains("read-only"), "{refused}");
    let refused = two.run(1, &["import", sample_folder(OTHER).to_str().unwrap()]).ends_with(1);
    assert!(refused.stderr.contains("read-only"), "{}", refused.stderr);
    is_gone(&two.at(0), "rest/refused").unwrap();

    let clients =
        Clients { two: &two, output: Default::default(), stop: AtomicBool::new(false), count: AtomicBool::new(true) };
    std::thread::scope(|scope| {
        let writing = &clients;
        (0..2).for_each(|place| drop(scope.spawn(move || writing.write(place))));
        (0..2).for_each(|place| drop(scope.spawn(move || writing.write_records(place))));
        let _ending = Ending(&clients.stop);
        clients.writes_only(0, "at the beginning");
        move_as_planned(&two, &clients, &archive);
        move_from_a_lost_home(&two, &clients, &archive);
    });
    for place in 0..2 {
        clients.all_is_at(&two.at(place));
        reads(&two.at(place), &archive);
    }
    content_reaches_both(&two);
    let verified = two.run(0, &["verify", "--json", "--set=records.mode=fast"]).ends_with(0).json_lines();
    assert!(verified.iter().all(|report| report["sound"] == serde_json::json!(true)), "{verified:?}");
    for (place, output) in clients.output.iter().enumerate() {
        let (written, refused, unknown) = (clients.written(place), clients.refused(place), &output.unknown);
        let records = output.records.lock().unwrap().len();
        eprintln!(
            "{}: {written} writes acknowledged, {refused} refused, {unknown:?} unknown; {records} records",
            DATACENTERS[place]
        );
    }
}

/// While a data center is lost, no page of a volume is written that a quorum of each must have:
/// also none of the last ones, which are written together with what describes the volume.
fn content_needs_both(two: &Two) {
    let folder = sample_folder(OTHER);
    let import = ["import", "--force", folder.to_str().unwrap()];
    let revision = || {
        let stat = two.run(0, &["stat", OTHER, "--json"]).ends_with(0).json();
        stat["revision"].as_str().unwrap().to_owned()
    };
    // Nothing else is in its way.
    wait_until(|| two.run(0, &import).code == 0);
    let before = revision();
    let refused = two.run(0, &[&import[..], &[CONTENT_EVERYWHERE]].concat()).ends_with(1);
    assert!(!refused.stderr.contains("read-only"), "{}", refused.stderr);
    assert_eq!(revision(), before);
    assert!(unzip(&download(&two.at(0), OTHER).unwrap()) == expected_entries(&folder));
    two.run(0, &["delete", OTHER]).ends_with(0);
}

/// A volume whose pages a quorum of each data center has is whole wherever its head has arrived.
fn content_reaches_both(two: &Two) {
    two.run(0, &["import", sample_folder(OTHER).to_str().unwrap(), CONTENT_EVERYWHERE]).ends_with(0);
    let expected = expected_entries(&sample_folder(OTHER));
    (0..2).for_each(|place| {
        wait_until(|| {
            // Its head and its directory may still be on their way.
            let Ok(archive) = download(&two.at(place), OTHER) else { return false };
            let entries = unzip(&archive);
            match entries.get("ERROR.err").map(|errors| String::from_utf8_lossy(errors)) {
                Some(errors) => assert!(errors.contains("KeyNotFoundException"), "{errors}"),
                None => assert!(entries == expected, "{} sends half of it", DATACENTERS[place]),
            }
            entries == expected
        });
    });
}

/// `docs/cassandra.md`, "Moving the home", with both data centers there.
fn move_as_planned(two: &Two, clients: &Clients<'_>, archive: &[u8]) {
    let refused = two.run(1, &["home", DATACENTERS[1]]).ends_with(2);
    assert!(refused.stderr.contains("--leave"), "{}", refused.stderr);
    let refused = two.run(1, &["home", DATACENTERS[1], "--old-home-is-lost"]).ends_with(2);
    assert!(refused.stderr.contains("no data center is lost"), "{}", refused.stderr);
    clients.writes_only(0, "after what was refused");

    two.run(0, &["home", "--leave"]).ends_with(0);
    (0..2).for_each(|place| clients.records_go_on(place, "nowhere is the home"));
    let left = [0, 1].map(|place| clients.written(place));
    (0..2).for_each(|place| reads(&two.at(place), archive));
    two.repair(1);
    assert_eq!([0, 1].map(|place| clients.written(place)), left, "something was written although nowhere is the home");
    two.run(0, &["home", DATACENTERS[1]]).ends_with(0);
    clients.writes_only(1, "the home was moved");
    // The record of it arrives there too.
    wait_until(|| two.run(1, &["audit", "--kind", "change"]).text().contains("change  home /"));

    // Each increment was made on top of all others.
    clients.count.store(false, Ordering::SeqCst);
    clients.writes_only(1, "nobody counts any more");
    let count = String::from_utf8(curl(&[&format!("{}/{COUNTER}", two.at(1))]).unwrap()).unwrap();
    let sum = |of: fn(&Told) -> &AtomicUsize| {
        clients.output.iter().map(|output| of(output).load(Ordering::SeqCst)).sum::<usize>()
    };
    let (counted, unsure) = (sum(|output| &output.counted), sum(|output| &output.unsure));
    let count: usize = count.parse().unwrap();
    assert!(
        (counted..=counted + unsure).contains(&count),
        "{counted} counts were acknowledged, {unsure} are unsure: {count}"
    );
    eprintln!("{counted} counts were acknowledged, {unsure} unsure; the counter is {count}");
}

/// The same after the loss of the home, until it is back.
fn move_from_a_lost_home(two: &Two, clients: &Clients<'_>, archive: &[u8]) {
    two.kill(1);
    clients.records_go_on(0, "the home was lost");
    // The other data center continues to read, and refuses changes.
    reads(&two.at(0), archive);
    let refused = put_text(&two.at(0), "rest/refused", "").unwrap_err();
    assert!(refused.contains("read-only"), "{refused}");

    let began = Instant::now();
    wait_until(|| two.run(0, &["home", DATACENTERS[0], "--old-home-is-lost"]).code == 0);
    clients.writes_only(0, "the home was lost and taken");
    eprintln!("taking the home took {:.1?}", began.elapsed());
    content_needs_both(two);
    let lost = clients.written(1);
    reads(&two.at(0), archive);

    // It returns. A server that is started there too early knows the new home before any repair.
    let began = Instant::now();
    two.cluster.start_all().unwrap();
    eprintln!("all nodes are up after {:.1?}", began.elapsed());
    two.serve(1);
    clients.writes_only(0, "the lost home is back");
    two.repair(1);
    clients.writes_only(0, "all is repaired");
    (0..2).for_each(|place| clients.records_go_on(place, "all is repaired"));
    assert_eq!(clients.written(1), lost, "the lost home wrote after it came back");
}
