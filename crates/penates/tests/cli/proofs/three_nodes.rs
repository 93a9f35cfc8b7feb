//! The proof of a store in Cassandra: three nodes, three copies, quorums, a server in front. All
//! the time volumes are imported and deleted, resources made, changed and deleted, containers
//! deleted with all that is in them, large contents replaced and read, selections made, archives
//! downloaded, and everything that nobody needs is collected soon. Meanwhile a node is killed and
//! comes back, another stands still, and the server itself is killed and replaced. No request may
//! fail but those of the killed server (clients here try nothing again but these), nothing
//! acknowledged may be lost, nothing may be seen by half, what was deleted stays deleted, and in
//! the end all work is done and all copies are the same. Without a quorum the server is not ready.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Cluster, ClusterSpec, NodeId, Shape};
use hathi::VolumeFiles;
use heads::{Queue, keys};
use serde_json::json;
use store::{Call, Class, Clock, Deadline, Scan, Store, SystemClock, Table};
use store_cassandra::{CassandraOptions, CassandraStore, testing};

use super::mix::{Ending, Front, Kind, Mix};
use super::requests::*;
use crate::harness::*;

/// Volumes that there are to import: more than are imported. They come round again if they are not
/// enough.
const VOLUMES: usize = 1_000;

/// How many of them are deleted again and again; the others stay.
const DELETED_VOLUMES: usize = 300;

/// Pages of each.
const PAGES: usize = 12;

const KEYSPACE: &str = "books";

/// The one resource that is changed all the time.
const COUNTER: &str = "rest/counter";

/// What is superseded is collected soon, but no download takes as long as a plan lives.
const SETTINGS: [&str; 7] = [
    "--set=auth.write=open",
    "--set=data.selections_max=0",
    "--set=history.resources=none",
    "--set=store.clock_skew_max=5s",
    "--set=store.grace=60s",
    "--set=store.plan_life=50s",
    "--set=store.sweep_interval=2s",
];

/// How long everything that was deleted may take to be collected: as long as requests may be tried,
/// and a few times the grace.
const COLLECTED_WITHIN: Duration = Duration::from_secs(600);

/// What the server has acknowledged.
struct Acknowledged {
    imported: BTreeSet<String>,
    made: usize,
    changed: usize,
    deleted: Vec<String>,
    containers: Vec<String>,
    /// Containers that clients tried to make and delete: all that were acknowledged, and some more.
    containers_tried: usize,
    large: usize,
    /// Paths of selections, and whether they were ended.
    selections: Vec<(String, bool)>,
}

/// Volumes made of the samples' pages.
fn synthetic(folder: &Path) -> Vec<VolumeFiles> {
    let (volumes, pages) = (VOLUMES.to_string(), PAGES.to_string());
    let synth = ["synth", "--volumes", &volumes, "--pages", &pages, "--out", folder.to_str().unwrap()];
    Ran::of(penates(&synth)).ends_with(0);
    hathi::discover(folder).map(|files| files.unwrap()).collect()
}

fn made(number: usize) -> (String, String) {
    (format!("rest/made/{number}"), format!("the text of {number}"))
}

/// The name of the container of a try. Every other one is used again once it is deleted.
fn container(number: usize) -> (String, bool) {
    (format!("rest/containers/{number}"), number.is_multiple_of(2))
}

/// Downloads one of those volumes that are listed.
fn download_listed(number: usize, url: &str, sources: &[VolumeFiles]) -> Result<(), String> {
    let listed: BTreeSet<String> = listed(url)?.into_iter().collect();
    let listed: Vec<&VolumeFiles> = sources.iter().filter(|files| listed.contains(id_of(files).as_str())).collect();
    // Any of them, in an order that is the same in each run.
    listed.get(number * 7919 % listed.len().max(1)).map_or(Ok(()), |files| download_whole(url, files))
}

/// All clients go on while `disturb` does its worst; what they were told in the end.
fn run_clients(mix: &Mix, sources: &[VolumeFiles], folder: &Path, disturb: impl FnOnce() + Send) -> Acknowledged {
    let both = format!("{SMALL}|{OTHER}");
    let reference = download(&mix.front.url(), &both).unwrap();
    for version in 0..LARGE_SLOTS {
        put_large(&mix.front.url(), &folder.join("first"), version).unwrap();
    }
    let (deleted, imported) = sources.split_at(DELETED_VOLUMES);
    // A name that was deleted stays taken, so that each try needs another one.
    let [resources, containers] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    let next = |tries: &AtomicUsize| tries.fetch_add(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let importing =
            scope.spawn(|| mix.run(Kind::Import, |number, url| import(url, &imported[number % imported.len()])));
        let making = scope.spawn(|| {
            mix.run(Kind::Make, |number, url| {
                let (path, text) = made(number);
                put_text(url, &path, &text)
            })
        });
        let changing = scope.spawn(|| mix.run(Kind::Change, |number, url| put_text(url, COUNTER, &number.to_string())));
        let deleting = scope.spawn(|| {
            mix.run(Kind::Delete, |_, url| {
                let path = format!("rest/deleted/{}", next(&resources));
                make_and_delete(url, &path).map(|()| path)
            })
        });
        let deleting_volumes = scope.spawn(|| {
            mix.run(Kind::DeleteVolume, |number, url| import_and_delete(url, &deleted[number % deleted.len()]))
        });
        let deleting_containers = scope.spawn(|| {
            mix.run(Kind::DeleteContainer, |_, url| {
                let (path, is_used_again) = container(next(&containers));
                make_and_delete_container(url, &path)?;
                if is_used_again {
                    use_name_again(url, &path)?
                }
                Ok(path)
            })
        });
        let replacing = scope.spawn(|| {
            mix.run(Kind::PutLarge, |number, url| put_large(url, &folder.join("large"), LARGE_SLOTS + number as u64))
        });
        scope.spawn(|| {
            let mut newest = [0; LARGE_SLOTS as usize];
            mix.run(Kind::ReadLarge, |number, url| {
                let slot = number % newest.len();
                let version = read_large(url, slot as u64)?;
                assert!(version >= newest[slot], "version {version} of {slot} comes after {}", newest[slot]);
                newest[slot] = version;
                Ok(())
            })
        });
        let selecting = scope.spawn(|| {
            mix.run(Kind::Select, |number, url| {
                let (path, is_ended) = (select(url, &both, &reference)?, number.is_multiple_of(2));
                if is_ended {
                    end_selection(url, &path)?
                }
                Ok((path, is_ended))
            })
        });
        scope.spawn(|| {
            mix.run(Kind::Download, |_, url| {
                assert!(download(url, &both)? == reference, "another archive came");
                Ok(())
            })
        });
        scope.spawn(|| mix.run(Kind::DownloadListed, |number, url| download_listed(number, url, imported)));
        scope.spawn(|| {
            let _ending = Ending(mix);
            disturb();
        });
        let mut deleted = deleting.join().unwrap();
        deleted.extend(deleting_volumes.join().unwrap());
        let acknowledged = Acknowledged {
            imported: importing.join().unwrap().into_iter().collect(),
            made: making.join().unwrap().len(),
            changed: changing.join().unwrap().len(),
            deleted,
            containers: deleting_containers.join().unwrap(),
            containers_tried: containers.load(Ordering::SeqCst),
            large: replacing.join().unwrap().len(),
            selections: selecting.join().unwrap(),
        };
        // A selection is of volumes that nobody changes.
        for (path, is_ended) in &acknowledged.selections {
            let url = mix.front.url();
            let is_as_told = if *is_ended { is_gone(&url, path) } else { is_selection(&url, path, &reference) };
            is_as_told.unwrap();
        }
        acknowledged
    })
}

impl Acknowledged {
    /// All of it is there, and what was deleted is not.
    fn check(&self, url: &str, sources: &[VolumeFiles]) {
        for files in sources.iter().filter(|files| self.imported.contains(id_of(files).as_str())) {
            download_whole(url, files).unwrap();
        }
        for (path, text) in (0..self.made).map(made) {
            is_text(url, &path, &text).unwrap();
        }
        is_text(url, COUNTER, &(self.changed - 1).to_string()).unwrap();
        self.deleted.iter().for_each(|path| is_gone(url, path).unwrap());
        let listed = listed(url).unwrap();
        let wanted = self.imported.iter().map(String::as_str).chain([SMALL, OTHER]).collect::<BTreeSet<_>>();
        assert_eq!(listed.iter().map(String::as_str).collect::<BTreeSet<_>>(), wanted, "what is listed");
        // The last version of each.
        let versions = LARGE_SLOTS + self.large as u64;
        for version in versions - LARGE_SLOTS..versions {
            assert_eq!(read_large(url, version % LARGE_SLOTS).unwrap(), version, "a large content is another version");
        }
    }

    /// Containers that were deleted are gone, and all names can be used, also of those containers
    /// whose deletion had no answer.
    fn check_containers(&self, url: &str) {
        let acknowledged: BTreeSet<&str> = self.containers.iter().map(String::as_str).collect();
        for (path, is_in_use) in (0..self.containers_tried).map(container) {
            match (acknowledged.contains(path.as_str()), is_in_use) {
                (true, true) => is_used_again(url, &path).unwrap(),
                (true, false) => {
                    is_gone(url, &path).unwrap();
                    use_name_again(url, &path).unwrap();
                }
                (false, _) => {
                    // It may be there, or being deleted by a server that is gone, or never have
                    // been there.
                    status("DELETE", url, &path).unwrap();
                    let tombstone = format!("{path}/fcr:tombstone");
                    wait_until(|| matches!(status("DELETE", url, &tombstone).unwrap(), 204 | 404));
                    put_text(url, &format!("{path}/a"), "used again").unwrap();
                    is_used_again(url, &path).unwrap();
                }
            }
        }
    }
}

impl fmt::Display for Acknowledged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} imports, {} resources, {} changes of one, {} deletions of resources and volumes, {} of containers, {} large contents \
             and {} selections were acknowledged",
            self.imported.len(),
            self.made,
            self.changed,
            self.deleted.len(),
            self.containers.len(),
            self.large,
            self.selections.len()
        )
    }
}

/// Waits until the server has done all recorded work; how long that took.
fn all_work_is_done(runtime: &tokio::runtime::Runtime, store: &str, front: &Front) -> Duration {
    let began = Instant::now();
    let options = CassandraOptions::new(store.parse().unwrap());
    let store = runtime.block_on(CassandraStore::open(options, Arc::new(SystemClock))).unwrap();
    loop {
        let call = Call::new(Class::Description, Deadline::within(PATIENCE)).strong();
        let partitions = runtime.block_on(store.walk(call, Table::Work, None, 10_000)).unwrap().partitions;
        let is_of_queue = |at: &&Bytes| Queue::ALL.iter().any(|queue| keys::queue_bucket(at, queue.name()).is_some());
        let left: Vec<&Bytes> = partitions.iter().filter(is_of_queue).collect();
        if left.is_empty() {
            return began.elapsed();
        }
        if began.elapsed() >= COLLECTED_WITHIN {
            let rows_of = |at: &Bytes| {
                let all = Scan::prefix(Bytes::new(), 1 << 20);
                runtime.block_on(store.scan(call, Table::Work, at, all)).unwrap().rows
            };
            let left: Vec<_> = left.into_iter().map(|at| (at, rows_of(at))).collect();
            let said = front.said();
            let warned: Vec<_> = said.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
            panic!("at {:?} work is left: {left:#?}; the server said:\n{}", SystemClock.now(), warned.join("\n"));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn three_nodes(folder: &Path) -> Cluster {
    let mut settings = testing::settings();
    settings.heap_mib = Some(384);
    // Who is asked at level ONE answers for itself: that is how the copies are compared.
    settings.yaml.insert("dynamic_snitch".to_owned(), json!(false));
    let spec = ClusterSpec { settings, ..ClusterSpec::new(Shape::nodes(3)) };
    let cluster = Cluster::open(folder, &spec).unwrap();
    cluster.start_all().unwrap();
    cluster
}

#[test]
#[ignore = "three nodes for some minutes: `cargo xtask proofs` runs it"]
fn nothing_fails_and_nothing_is_lost_while_nodes_and_the_server_die() {
    if !testing::can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sources = synthetic(&folder.path().join("pairtree"));
    let cluster = three_nodes(&folder.path().join("cluster"));
    let [first, second, third] = [1, 2, 3].map(NodeId);
    let hosts: Vec<String> = cluster.contact_points().iter().map(ToString::to_string).collect();
    let store = format!("cassandra://{}/{KEYSPACE}", hosts.join(","));
    let at = |args: &[&str]| Ran::of(penates(&[args, &["--store", &store]].concat()));
    // At once: a cluster that has started knows all of its nodes.
    at(&["init", "--replication", "dc1=3"]).ends_with(0);
    at(&["import", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
    at(&["import", sample_folder(OTHER).to_str().unwrap()]).ends_with(0);

    let mix = Mix::new(Front::new(&[&SETTINGS[..], &["--store", &store]].concat()));
    let began = Instant::now();
    let acknowledged = run_clients(&mix, &sources, folder.path(), || {
        mix.goes_on("at the beginning");
        cluster.kill(second).unwrap();
        mix.goes_on("a node was killed");
        cluster.start(second).unwrap();
        mix.goes_on("it came back");
        cluster.pause(third).unwrap();
        mix.goes_on("another stands still");
        cluster.resume(third).unwrap();
        mix.goes_on("it goes on");
        mix.front.kill();
        mix.front.start();
        mix.goes_on("the server was killed and replaced");
    });
    let took = began.elapsed();
    acknowledged.check(&mix.front.url(), &sources);
    acknowledged.check_containers(&mix.front.url());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    eprintln!("all work was done after {:.1?}", all_work_is_done(&runtime, &store, &mix.front));
    // Collecting took nothing that is needed.
    acknowledged.check(&mix.front.url(), &sources);
    mix.front.stop();

    let began = Instant::now();
    cluster.nodetool(first, &["repair", "--full", KEYSPACE]).unwrap();
    eprintln!("repaired within {:.1?}", began.elapsed());
    let all = ["description_read", "content_read"].map(|class| format!("cassandra.{class}=ALL"));
    let verified = at(&["verify", "--json", "--set", &all[0], "--set", &all[1]]).ends_with(0).json_lines();
    let sound = verified.iter().filter(|report| report["sound"] == json!(true));
    let sound: BTreeSet<&str> = sound.filter_map(|report| report["id"].as_str()).collect();
    assert!(acknowledged.imported.iter().all(|id| sound.contains(id.as_str())), "not sound at ALL: {verified:?}");

    let copies = cluster.contact_points().into_iter().map(|node| runtime.block_on(testing::digests_at(node, KEYSPACE)));
    let copies: Vec<_> = copies.collect();
    let rows: usize = copies[0].values().map(|(rows, _)| rows).sum();
    assert!(rows > acknowledged.imported.len() + acknowledged.made, "nothing was compared: {:?}", copies[0]);
    assert!(copies.iter().all(|copy| *copy == copies[0]), "copies differ: {copies:?}");
    let compared = at(&["fixity", "copies", "--rate", "1GiB"]).ends_with(0);
    assert!(compared.stderr.contains("wrong copies: 0"), "{}", compared.stderr);

    // Without a quorum nothing can be read, and the server is not ready until there is one again.
    mix.front.start();
    let ready = || curl(&[&format!("{}/readyz", mix.front.url())]);
    wait_until(|| ready().is_ok());
    [second, third].into_iter().for_each(|node| cluster.pause(node).unwrap());
    wait_until(|| ready().is_err_and(|why| why.contains("503")));
    [second, third].into_iter().for_each(|node| cluster.resume(node).unwrap());
    wait_until(|| ready().is_ok());
    mix.front.stop();
    eprintln!("within {took:.1?} {acknowledged}; all is as it was told, in {rows} rows that are the same on all nodes");
}
