//! The proof of `docs/operations/upgrade.md`: servers on Cassandra are replaced one by one, behind a
//! proxy, while clients of both doors go on.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use store_cassandra::testing;

use crate::harness::*;
use crate::nginx::Nginx;

const KEYSPACE: &str = "rolling";

/// Requests of each kind that must succeed between one step and the next.
const REQUESTS_BETWEEN: usize = 10;

/// A store that servers share.
struct Shared {
    place: String,
}

impl Shared {
    fn done(&self, args: &[&str]) -> Ran {
        Ran::of(penates(&[args, &["--store", &self.place]].concat())).ends_with(0)
    }

    /// Everything is sound.
    fn is_sound(&self) {
        let verified = self.done(&["verify"]);
        assert!(verified.text().contains("volumes: 1 sound, 0 damaged, 0 failed"), "{}", verified.text());
        // Each record of the audit can be read.
        self.done(&["audit", "--json"]);
    }

    fn serve(&self) -> Served {
        let listen = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"];
        let settings = ["--set=auth.write=open", "--set=limits.drain=10m", "--store", &self.place];
        let server = Served::start(penates(&[&listen[..], &settings].concat()));
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
#[ignore = "it restarts servers on Cassandra under load: `cargo xtask proofs` runs it"]
fn servers_on_cassandra_are_replaced_one_by_one_and_no_request_fails() {
    let Some(node) = testing::node() else { return };
    let store = Shared { place: format!("cassandra://{}/{KEYSPACE}", node.contact_points()[0]) };
    store.done(&["init"]);
    store.done(&["import", sample_folder(SMALL).to_str().unwrap()]);

    let mut servers = [store.serve(), store.serve()];
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
        load.goes_on("two servers");
        for replaced in 0..2 {
            let staying = servers[1 - replaced].url.clone();
            let leaving = servers[replaced].url.clone();
            servers[replaced].signal("TERM");
            wait_until(|| !is_ready(&leaving));
            load.goes_on("a server says that it leaves");
            nginx.send_to(&[&staying]);
            // Nobody sends requests to it any more: a second signal ends the phase.
            let successor = store.serve();
            assert_eq!(std::mem::replace(&mut servers[replaced], successor).stop("TERM").0, 0);
            nginx.send_to(&[&staying, &servers[replaced].url]);
            load.goes_on("it was replaced");
            store.is_sound();
        }
        store.done(&["upgrade"]);
        load.goes_on("an upgrade of a store of the newest level");
    });
    let made = load.made.load(Ordering::SeqCst);
    (0..made).try_for_each(read).unwrap();
    store.is_sound();
    servers.into_iter().for_each(stop);
    eprintln!(
        "{} downloads and {made} resources made and read, and none failed",
        load.downloads.load(Ordering::SeqCst)
    );
}
