//! `serve`, `demo`, `config`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, Command};

use crate::harness::*;

/// HTTP and the Redis protocol on free ports.
const HTTP: [&str; 4] = ["--listen", "127.0.0.1:0", "--records-listen", "127.0.0.1:0"];

/// The running demo. Its output goes to files, since it continues while they are read.
struct Demo<'a> {
    child: Child,
    store: &'a TestStore,
}

impl<'a> Demo<'a> {
    /// Starts it and waits until it has printed what to try.
    fn start(store: &'a TestStore, listen: &[&str]) -> Self {
        Self::start_by(store.command(&[&["demo"], listen].concat()), store)
    }

    fn start_by(mut command: Command, store: &'a TestStore) -> Self {
        let file = |name| File::create(store.beside(name)).unwrap();
        let mut child = command.stdout(file("stdout")).stderr(file("stderr")).spawn().unwrap();
        wait_until(|| {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none(), "{}", read(store, "stderr"));
            read(store, "stdout").contains("Ctrl-C ends it.")
        });
        Self { child, store }
    }

    fn stdout(&self) -> String {
        read(self.store, "stdout")
    }

    fn stderr(&self) -> String {
        read(self.store, "stderr")
    }

    /// Ends it like Ctrl-C. Returns its exit code.
    fn interrupt(mut self) -> Option<i32> {
        signal(&self.child, "INT");
        self.child.wait().unwrap().code()
    }
}

impl Drop for Demo<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(store: &TestStore, name: &str) -> String {
    fs::read_to_string(store.beside(name)).unwrap()
}

#[test]
fn the_demo_imports_the_samples_and_finds_its_data_again() {
    let store = TestStore::vacant();
    for _ in 0..2 {
        let demo = Demo::start(&store, &HTTP);
        assert!(demo.stderr().contains("16 sample volumes with 3744 pages"), "{}", demo.stderr());
        assert!(!demo.stderr().contains("fjall"), "the engine's internals are not shown: {}", demo.stderr());
        assert_eq!(store.ids().len(), 16);
        assert_eq!(demo.interrupt(), Some(0));
    }
    assert_eq!(store.ids().len(), 16);
}

#[test]
fn every_command_line_that_the_demo_prints_works() {
    let store = TestStore::vacant();
    let demo = Demo::start(&store, &HTTP);
    try_all_lines(&demo.stdout());
    let printed = demo.stdout();
    let words = printed.lines().find_map(|line| Some(&line[line.find("redis-cli ")?..])).expect("a line about records");
    let mut command = Command::new("redis-cli");
    match command.args(words.split(' ').skip(1)).output() {
        Ok(answered) => assert_eq!(String::from_utf8_lossy(&answered.stdout), "0\n", "{answered:?}"),
        Err(error) => assert!(std::env::var_os("CI").is_none(), "redis-cli: {error}"),
    }
}

#[test]
fn the_demo_goes_on_where_a_redis_server_listens_already() {
    // If this fails, another program listens there, which is the same.
    let _taken = std::net::TcpListener::bind("127.0.0.1:6379");
    let store = TestStore::vacant();
    let demo = Demo::start(&store, &["--listen", "127.0.0.1:0"]);
    assert!(!demo.stdout().contains("redis-cli"), "{}", demo.stdout());
}

#[test]
fn the_demo_over_https_alone_prints_lines_that_work_too() {
    let store = TestStore::vacant();
    let demo = Demo::start(&store, &["--listen", "off", "--tls-listen", "127.0.0.1:0", "--records-listen", "off"]);
    assert!(demo.stdout().contains("https://"), "{}", demo.stdout());
    try_all_lines(&demo.stdout());
}

/// Runs every command line that the demo printed, and checks the output.
fn try_all_lines(printed: &str) {
    let sample = sample_folder("gri.ark:/13960/t4dn51r67");
    let expected = expected_entries(&sample);
    let lines: Vec<&str> = printed.lines().filter_map(|line| Some(&line[line.find("curl ")?..])).collect();
    assert_eq!(lines.len(), 3, "{printed}");
    let place = tempfile::tempdir().unwrap();
    for line in lines {
        let mut shell = Command::new("sh");
        shell.args(["-c", &line.replace("curl ", "curl -sS --fail ")]).current_dir(place.path());
        let ran = Ran::of(shell).ends_with(0);
        assert_eq!(ran.stderr, "", "{line}");
        if line.contains("/pages/") {
            assert_eq!(ran.stdout, expected["gri.ark+=13960=t4dn51r67/00000009.txt"]);
        }
    }
    assert_eq!(unzip(&fs::read(place.path().join("volume.zip")).unwrap()), expected);
    assert_eq!(unzip(&fs::read(place.path().join("volumes.zip")).unwrap()).len(), 3744);
}

#[test]
fn an_address_in_use_is_reported_with_the_flag_that_chooses_another() {
    let store = TestStore::vacant();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let http = store.run(&["serve", "--init", "--listen", &taken, "--tls-listen", "off"]).ends_with(1);
    assert!(http.stderr.contains(&taken) && http.stderr.contains("with --listen,"), "{}", http.stderr);
    let tls = store.run(&["serve", "--init", "--listen", "127.0.0.1:0", "--tls-listen", &taken]).ends_with(1);
    assert!(tls.stderr.contains("with --tls-listen,"), "{}", tls.stderr);
    let demo = store.run(&["demo", "--listen", &taken]).ends_with(1);
    assert!(demo.stderr.contains("with --listen,"), "{}", demo.stderr);
}

#[test]
fn the_demo_listens_for_https_only_on_request() {
    let store = TestStore::vacant();
    let without = Demo::start(&store, &[&HTTP[..], &["--set=log.level=info"]].concat());
    // A line of the log, which may wait for others.
    wait_until(|| without.stderr().contains(" listening "));
    assert!(!without.stderr().contains("tls="), "{}", without.stderr());
    drop(without);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let asked_for = format!("listen.tls={}", taken.local_addr().unwrap());
    let with = store.run(&["demo", "--listen", "127.0.0.1:0", "--set", &asked_for]).ends_with(1);
    assert!(with.stderr.contains("with --tls-listen,"), "{}", with.stderr);
}

/// The same command, which may have 512 descriptors.
fn with_few_descriptors(command: &Command) -> Command {
    let mut few = Command::new("sh");
    few.args(["-c", "ulimit -n 512 && exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    command.get_envs().for_each(|(name, _)| _ = few.env_remove(name));
    few
}

#[test]
fn the_demo_fits_its_connections_to_the_machine_and_logs_nothing_after_what_to_try() {
    let store = TestStore::vacant();
    let started = |more: &[&str]| {
        let demo = store.command(&[&["demo"], &HTTP[..], more].concat());
        Demo::start_by(with_few_descriptors(&demo), &store)
    };
    let demo = started(&[]);
    let to_try = demo.stdout();
    let address = to_try.lines().find_map(|line| line.strip_prefix("Open in a browser:")).unwrap().trim();
    let mut curl = Command::new("curl");
    curl.args(["-s", "-o", "/dev/null", address]);
    Ran::of(curl).ends_with(0);
    assert_eq!(demo.interrupt(), Some(0));
    let said = read(&store, "stderr");
    assert!(said.contains("sample volumes") && !said.contains(" INFO ") && !said.contains(" WARN "), "{said}");

    let demo = started(&["--set=limits.connections=16384"]);
    assert_eq!(demo.interrupt(), Some(0));
    let said = read(&store, "stderr");
    assert!(said.contains("limits.connections is more than the limit of descriptors allows"), "{said}");
}

#[test]
fn stopping_a_server_by_signal_is_a_success() {
    let store = TestStore::with(&[SMALL]);
    assert_eq!(store.serve(&[]).stop("TERM").0, 0);
}

#[test]
fn a_server_beyond_loopback_needs_explicit_consent() {
    let store = TestStore::vacant();
    let ran = store.run(&["serve", "--listen", "0.0.0.0:0", "--tls-listen", "off"]).ends_with(2);
    assert!(ran.stderr.contains("loopback"), "{}", ran.stderr);
}

#[test]
fn the_configuration_shows_the_origin_of_each_value() {
    let store = TestStore::vacant();
    let file = store.beside("penates.toml");
    std::fs::write(&file, "[limits]\nstall = \"7s\"\n[data]\nmax_volumes = 5\n").unwrap();
    let args = ["config", "--json", "--config", file.to_str().unwrap(), "--set", "data.max_volumes=6"];
    let mut command = store.command(&args);
    command.env("PENATES_DATA__MAX_PAGES", "9");
    let settings = Ran::of(command).ends_with(0).json_lines();
    let find = |key: &str| settings.iter().find(|setting| setting["key"] == key).unwrap();
    assert_eq!(find("limits.stall")["value"], "7s");
    assert_eq!(find("limits.stall")["origin"]["from"], "file");
    assert_eq!(
        (&find("data.max_volumes")["value"], &find("data.max_volumes")["origin"]["from"]),
        (&6.into(), &"flag".into())
    );
    assert_eq!(find("data.max_pages")["origin"]["name"], "PENATES_DATA__MAX_PAGES");
    assert_eq!(find("store.grace")["origin"]["from"], "default");
    assert_eq!(find("store.path")["origin"]["from"], "flag");
}

#[test]
fn files_of_a_server_are_private_and_a_folder_that_was_open_to_others_is_closed() {
    let store = TestStore::with(&[SMALL]);
    fs::set_permissions(store.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let server =
        Served::start(store.command(&["serve", "--init", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0"]));
    server.tls_url();
    store.run(&["token", "create", "somebody"]).ends_with(0);
    store.run(&["import", "--force", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
    let mut kinds = BTreeSet::new();
    for path in all_in(store.path()) {
        let found = fs::symlink_metadata(&path).unwrap();
        let mode = found.permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{mode:o} {}", path.display());
        kinds.extend(path.extension().map(|kind| kind.to_string_lossy().into_owned()));
        kinds.extend(found.file_type().is_socket().then(|| "a socket".to_owned()));
    }
    for kind in ["jnl", "record", "pem", "a socket"] {
        assert!(kinds.contains(kind), "{kind} is not one of {kinds:?}");
    }
    assert_eq!(server.stop("TERM").0, 0);
}

/// A file, or a folder with its contents.
fn all_in(path: PathBuf) -> Vec<PathBuf> {
    let entries = fs::read_dir(&path).into_iter().flatten().map(|entry| entry.unwrap().path());
    let below: Vec<_> = entries.flat_map(all_in).collect();
    [path].into_iter().chain(below).collect()
}

#[test]
fn the_records_port_speaks_tls_with_the_certificate_of_https() {
    let store = TestStore::vacant();
    let served = store.serve(&["--records-listen=127.0.0.1:0", "--set", "records.tls=true"]);
    wait_until(|| served.said().contains("rediss://"));
    let said = served.said();
    let address = said.split("rediss://").nth(1).unwrap().split('/').next().unwrap();
    let (host, port) = address.split_once(':').unwrap();
    let ping = |more: &[&str]| {
        let mut command = std::process::Command::new("redis-cli");
        command.args(["-h", host, "-p", port]).args(more).arg("PING").output()
    };
    let certificate = store.path().join("tls/cert.pem");
    match ping(&["--tls", "--cacert", certificate.to_str().unwrap()]) {
        Ok(answered) => assert_eq!(String::from_utf8_lossy(&answered.stdout), "PONG\n", "{answered:?}"),
        Err(error) => assert!(std::env::var_os("CI").is_none(), "redis-cli: {error}"),
    }
    if let Ok(plain) = ping(&[]) {
        assert!(!String::from_utf8_lossy(&plain.stdout).contains("PONG"), "without TLS too");
    }
}
