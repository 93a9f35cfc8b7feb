//! What an operator does: checks a configuration, reloads it, reads logs (or does not), closes
//! terminals, replaces servers behind a proxy, and lets the service manager open sockets.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use rustix::fs::OFlags;
use store_cassandra::testing::not_run;

use crate::harness::*;
use crate::nginx::Nginx;
use crate::salvage::files_below;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Writes a certificate for loopback and its key. Returns the certificate.
fn write_certificate(cert: &Path, key: &Path) -> String {
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    fs::write(key, made.signing_key.serialize_pem()).unwrap();
    fs::write(cert, made.cert.pem()).unwrap();
    made.cert.pem()
}

#[test]
fn a_server_whose_log_nobody_reads_goes_on_and_counts_the_lines_that_it_drops() {
    let store = TestStore::with(&[SMALL]);
    let serve = store.command(&["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"]);
    // Both outputs are one pipe, as service managers and `2>&1` have it.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(serve.get_program()).args(serve.get_args());
    let mut child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut unread = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("http://") {
        line.clear();
        assert!(unread.read_line(&mut line).unwrap() > 0);
    }
    let address = line.split("http://").nth(1).unwrap().trim().trim_end_matches('/').to_owned();
    // More lines than fit into the pipe and into the server's own queue.
    let requests = 12_000;
    let mut to_server = TcpStream::connect(&address).unwrap();
    to_server.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut from_server = BufReader::new(to_server.try_clone().unwrap());
    let reading = thread::spawn(move || {
        let mut line = String::new();
        let mut answered = 0;
        while answered < requests {
            line.clear();
            assert!(from_server.read_line(&mut line).unwrap() > 0, "the server hangs after {answered} requests");
            answered += usize::from(line.starts_with("HTTP/1.1 200"));
        }
    });
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n");
    to_server.write_all(request.repeat(requests).as_bytes()).unwrap();
    reading.join().unwrap();
    let metrics = curl(&[&format!("http://{address}/metrics")]).unwrap();
    let dropped = metrics.lines().find_map(|line| line.strip_prefix("penates_log_lines_dropped_total ")).unwrap();
    assert!(dropped.parse::<u64>().unwrap() > 0, "{dropped}");
    signal(&child, "TERM");
    wait_until(|| child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The body of an answer; nothing if there was none.
fn curl(args: &[&str]) -> Option<String> {
    let output = Command::new("curl").args(["-sf", "--max-time", "60"]).args(args).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

#[test]
fn an_update_that_would_hold_too_much_memory_is_refused_and_the_server_takes_no_more() {
    let store = TestStore::vacant();
    let graph = store.beside("graph.ttl");
    let values: Vec<_> = (0..900).map(|n| n.to_string()).collect();
    fs::write(&graph, format!("<> <http://a/p> {} ; <http://a/r> <> .", values.join(", "))).unwrap();
    store.run(&["put", "many", text(&graph), "--type", "text/turtle"]).ends_with(0);
    let served = store.serve(&["--set=auth.write=open", "--set=ldp.update_memory=16MiB"]);
    let patched = |update: &str| {
        let mut patch = Command::new("curl");
        patch.args(["-s", "-X", "PATCH", "-H", "Content-Type: application/sparql-update", "-w", "\n%{http_code}"]);
        patch.args(["--data-binary", update, &format!("{}/rest/many", served.url)]);
        Ran::of(patch).ends_with(0).text().to_owned()
    };
    // A small update, so that the server has what any of them takes.
    let small = "INSERT { <> <http://a/q> ?b } WHERE { ?a <http://a/r> ?b }";
    assert_eq!(patched(small), "\n204");
    let before = served.peak_memory_bytes();
    // All pairs of the values are found before the rest, and are held for it. With its variables they
    // would take 170 MB. By estimate they are few enough.
    let rest: String = ('a'..'l').zip('b'..='l').map(|(one, next)| format!("?{one} <http://a/r> ?{next} . ")).collect();
    let pairs = "<> <http://a/p> ?x . <> <http://a/p> ?y";
    let refused = patched(&format!("INSERT {{ <> <http://a/q> 1 }} WHERE {{ {pairs} . {rest} }}"));
    assert!(refused.contains("more than 16777216 bytes held while it is evaluated"), "{refused}");
    assert!(refused.ends_with("\n413"), "{refused}");
    let more = served.peak_memory_bytes().saturating_sub(before);
    assert!(more < 96 << 20, "{more} bytes more");
    assert_eq!(patched(small), "\n204");
    served.stop("TERM");
}

#[test]
fn the_log_has_values_and_not_how_the_program_writes_them() {
    let store = TestStore::with(&[SMALL]);
    let server = store.serve(&["--set", "log.format=json"]);
    let (url, first) = (server.url.clone(), server.said_first.clone());
    let (code, later) = server.stop("TERM");
    assert_eq!(code, 0);
    let log = first + &later;
    let listening = log.lines().find(|line| line.contains("\"listening\"")).unwrap();
    let listening: serde_json::Value = serde_json::from_str(listening).unwrap();
    assert_eq!(format!("http://{}", listening["http"].as_str().unwrap()), url);
    assert!(listening.get("tls").is_none(), "{listening}");
}

#[test]
fn a_configuration_is_checked_with_the_files_and_addresses_that_it_names() {
    let store = TestStore::with(&[SMALL]);
    let (cert, key) = (store.beside("cert.pem"), store.beside("key.pem"));
    write_certificate(&cert, &key);
    let tls = ["--tls-cert", text(&cert), "--tls-key", text(&key)];
    let check = |more: &[&str]| {
        let ports = ["config", "--check", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0"];
        store.run(&[&ports[..], more].concat())
    };
    assert!(check(&tls).ends_with(0).text().contains("is sound"));

    // A mode that is a number, and a folder that a service has only while it runs.
    let socket = ["--listen", "unix:/run/no-such-service/http.sock", "--tls-listen", "off"];
    let mut of_socket = store.command(&[&["config", "--check"][..], &socket].concat());
    of_socket.env("PENATES_LISTEN__HTTP_MODE", "660");
    let at_rest = Ran::of(of_socket).ends_with(0);
    assert!(at_rest.stderr.contains("no folder /run/no-such-service; a service has it"), "{}", at_rest.stderr);

    let fast = check(&["--set", "records.mode=fast"]).ends_with(2);
    assert!(fast.stderr.contains("a data folder has the mode `atomic`"), "{}", fast.stderr);

    let user = ["--set", "cassandra.user=penates", "--set", "cassandra.password_file=/nowhere/password"];
    for refused in [check(&user), store.run(&[&["config"][..], &user].concat())] {
        let refused = refused.ends_with(2);
        assert!(
            refused.stderr.contains("cassandra.password_file: cannot read /nowhere/password"),
            "{}",
            refused.stderr
        );
    }
    for (setting, what) in [
        ("log.level=blabla", "`blabla` is no level"),
        ("log.level=server=blabla", "log.level"),
        ("ldp.origin=banana", "ldp.origin `banana` is no scheme and host"),
        ("ldp.base=/audit/", "ldp.base `/audit` is the path of another route"),
        ("store.sweep_interval=0s", "store.sweep_interval (0s) must be at least 1ms"),
        ("limits.header_time=0s", "limits.header_time (0s) must be at least 1ms"),
        ("listen.http_mode=999", "write three octal digits, such as 660"),
        ("listen.http=192.0.2.1:1", "192.0.2.1:1"),
    ] {
        let refused = check(&["--set", setting, "--set", "auth.read_open_anywhere=true"]);
        // A flag comes after this one.
        let refused = if setting.starts_with("listen") {
            store.run(&["config", "--check", "--set", setting, "--set", "auth.read_open_anywhere=true"])
        } else {
            refused
        };
        let refused = refused.ends_with(2);
        assert!(refused.stderr.contains(what), "{setting}: {}", refused.stderr);
        if setting.starts_with("log") || setting.starts_with("ldp") {
            store.run(&["serve", "--listen", "127.0.0.1:0", "--set", setting]).ends_with(2);
        }
    }
    let (other, other_key) = (store.beside("other.pem"), store.beside("other.key"));
    write_certificate(&other, &other_key);
    let mismatch = check(&["--tls-cert", text(&cert), "--tls-key", text(&other_key)]).ends_with(2);
    assert!(mismatch.stderr.contains("the key does not belong to it"), "{}", mismatch.stderr);
    // No address speaks TLS: systemd may open the port.
    let by_systemd = |more: &[&str]| {
        let ports = ["config", "--check", "--listen", "127.0.0.1:0", "--tls-listen", "off"];
        store.run(&[&ports[..], more].concat())
    };
    assert!(by_systemd(&tls).ends_with(0).text().contains("is sound"));
    let mismatch = by_systemd(&["--tls-cert", text(&cert), "--tls-key", text(&other_key)]).ends_with(0);
    let what = "the key does not belong to it (for a port that the service manager opens)";
    assert!(mismatch.stderr.contains("warning: ") && mismatch.stderr.contains(what), "{}", mismatch.stderr);
    let alone = by_systemd(&["--set", "listen.tls_cert=cert.pem"]).ends_with(2);
    assert!(alone.stderr.contains("listen.tls_cert and listen.tls_key belong together"), "{}", alone.stderr);
    let nothing =
        Ran::of(penates(&["config", "--check", "--store", "/nowhere/data", "--tls-listen", "off"])).ends_with(2);
    assert!(nothing.stderr.contains("is its disk mounted?"), "{}", nothing.stderr);
}

#[test]
fn a_sample_configuration_is_accepted_as_it_is() {
    let store = TestStore::vacant();
    let sample = store.run(&["config"]).ends_with(0);
    let file = store.beside("penates.toml");
    fs::write(&file, Ran::of(penates(&["config", "--sample"])).ends_with(0).stdout).unwrap();
    assert_eq!(store.run(&["config", "--config", text(&file)]).ends_with(0).text(), sample.text());
}

#[test]
fn a_sample_names_what_has_secrets_and_is_left_out() {
    let store = TestStore::vacant();
    let (earlier, secret) = (store.beside("earlier.toml"), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let webhook = format!("name = \"index\"\nurl = \"https://index.example.org/\"\nsecret = \"{secret}\"\n");
    fs::write(
        &earlier,
        format!("[data]\nmax_pages = 7\n[ldp]\norigin = \"https://example.org\"\n[[feed.webhooks]]\n{webhook}"),
    )
    .unwrap();
    let sample = Ran::of(penates(&["config", "--sample", "--config", text(&earlier)])).ends_with(0);
    assert!(sample.text().contains("\nmax_pages = 7\n") && !sample.text().contains(secret), "{}", sample.text());
    assert_eq!(sample.stderr, "not printed, take them over by hand: feed.webhooks\n");
}

#[test]
fn a_secret_that_looks_like_another_kind_of_value_is_refused_and_not_printed() {
    let store = TestStore::vacant();
    let with = |password: &str| {
        let mut config = store.command(&["config", "--name", "cassandra.password"]);
        config.env("PENATES_CASSANDRA__USER", "u").env("PENATES_CASSANDRA__PASSWORD", password);
        Ran::of(config)
    };
    for password in ["12345678", "007", "true", "1.25", "[56, 78]"] {
        let refused = with(password).ends_with(2);
        let says = ["`cassandra.password` (environment PENATES_CASSANDRA__PASSWORD): ", "write it in quotes"];
        assert!(says.iter().all(|said| refused.stderr.contains(said)), "{}", refused.stderr);
        assert!(!refused.stderr.contains(password), "{}", refused.stderr);
    }
    assert_eq!(with("\"12345678\"").ends_with(0).text(), "(hidden)\n");
}

#[test]
fn a_store_in_the_default_folder_is_made_beside_no_other_files_and_deletes_none() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let write = |more: &[&str]| {
        let mut command = penates(&[&["records", "set", "user:1", "city=Ulm"][..], more].concat());
        command.current_dir(place.path());
        Ran::of(command)
    };
    let mine = data.join("making/mine");
    fs::create_dir_all(mine.parent().unwrap()).unwrap();
    fs::write(&mine, "mine").unwrap();
    fs::write(data.join("x.csv"), "").unwrap();
    let refused = write(&[]).ends_with(3);
    assert!(refused.stderr.contains("It has other files, and --init makes a store"), "{}", refused.stderr);
    let refused = write(&["--init"]).ends_with(2);
    assert!(refused.stderr.contains("it has `making`, which a store there would delete"), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 2, "something was made there");
    // A new disk, and one on which a process died while it made the store.
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir_all(data.join("lost+found")).unwrap();
    write(&[]).ends_with(0);
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir_all(data.join("making/db/text")).unwrap();
    fs::write(data.join("lock"), "").unwrap();
    write(&[]).ends_with(0);
    assert!(data.join("format").exists() && !data.join("making").exists());
}

#[test]
fn a_store_of_another_user_is_no_missing_one_and_root_leaves_no_files_in_it() {
    /// A user without rights, as a rule `nobody`.
    const OTHER_USER: u32 = 65_534;
    let to_other = |path: &Path| std::os::unix::fs::chown(path, Some(OTHER_USER), Some(OTHER_USER));
    // In a namespace of users there may be no other one.
    let is_given = to_other(tempfile::NamedTempFile::new().unwrap().path()).is_ok();
    if !rustix::process::geteuid().is_root() || !is_given {
        return not_run("a store of another user: only root can give a folder to one");
    }
    let store = TestStore::vacant();
    store.run(&["init"]).ends_with(0);
    let (backups, rescued) = (store.beside("backups"), store.beside("rescued"));
    store.run(&["backup", "create", text(&backups)]).ends_with(0);

    // The folder is root's. The other user gets a program that it can reach.
    let program = store.beside("penates");
    let built = env!("CARGO_BIN_EXE_penates");
    fs::hard_link(built, &program).or_else(|_| fs::copy(built, &program).map(drop)).unwrap();
    fs::set_permissions(store.beside(""), fs::Permissions::from_mode(0o755)).unwrap();
    let by_other = |args: &[&str]| {
        let mut other = Command::new(&program);
        other.args(store.command(args).get_args()).env_clear().stdin(Stdio::null()).uid(OTHER_USER).gid(OTHER_USER);
        Ran::of(other)
    };
    let check = ["config", "--check", "--listen", "127.0.0.1:0", "--tls-listen", "off"];
    for args in [&["ls"][..], &["token", "list"], &["init"], &["config", "--running"], &check] {
        let refused = by_other(args).ends_with(if args.contains(&"--check") { 2 } else { 3 });
        let says = "belongs to another user (root): run the command as that user (sudo -u root -- penates ...)";
        assert!(refused.stderr.contains(says), "{args:?}: {}", refused.stderr);
    }

    // The folder is the other user's, as that of a container may be, and the store in it is root's.
    to_other(&store.path()).unwrap();
    store.run(&["ls"]).ends_with(0);

    // All of it is the other user's. A server that runs does the work for root.
    let give = || {
        let mut chown = Command::new("chown");
        chown.arg("-R").arg(OTHER_USER.to_string()).arg(store.path());
        assert!(chown.status().unwrap().success());
    };
    let server = store.serve(&[]);
    give();
    store.run(&["ls"]).ends_with(0);
    assert_eq!(server.stop("TERM").0, 0);
    give();
    // Another process of that user has the store open, and may answer soon.
    let lock = fs::File::open(store.path().join("lock")).unwrap();
    lock.lock().unwrap();
    store.run(&["upgrade"]).ends_with(3);
    lock.unlock().unwrap();
    let inside = store.path().join("inside");
    for args in [
        &["ls"][..],
        &["token", "create", "reader"],
        &["records", "set", "user:1", "city=Ulm"],
        &["init"],
        &["upgrade"],
        &["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"],
        &["salvage", "--to", text(&inside)],
    ] {
        let refused = store.run(args).ends_with(2);
        assert!(refused.stderr.contains("belongs to another user ("), "{args:?}: {}", refused.stderr);
    }
    let restore = Ran::of(penates(&["backup", "restore", text(&backups), "--to", text(&inside)])).ends_with(2);
    assert!(restore.stderr.contains("belongs to another user ("), "{}", restore.stderr);
    let empty = store.beside("empty");
    fs::create_dir(&empty).unwrap();
    to_other(&empty).unwrap();
    let first = Ran::of(penates(&["init", "--store", text(&empty)])).ends_with(2);
    assert!(first.stderr.contains("belongs to another user ("), "{}", first.stderr);
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    // What writes nothing there is not refused.
    store.run(&["upgrade", "--check"]).ends_with(0);
    store.run(&["salvage", "--to", text(&rescued)]).ends_with(0);
    let owners = files_below(&store.path()).into_iter().map(|file| (fs::metadata(&file).unwrap().uid(), file));
    let of_root: Vec<_> = owners.filter(|(owner, _)| *owner != OTHER_USER).collect();
    assert!(of_root.is_empty() && !inside.exists(), "{of_root:?}");
}

#[test]
fn serve_makes_no_store_in_a_folder_that_is_missing_or_has_other_files() {
    let store = TestStore::vacant();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"];
    let missing = store.run(&serve).ends_with(3);
    assert!(missing.stderr.contains("is its disk mounted? `penates init --store"), "{}", missing.stderr);
    assert!(!store.path().exists());
    fs::create_dir(store.path()).unwrap();
    fs::write(store.path().join("notes.txt"), "not a store").unwrap();
    for command in [&serve[..], &["ls"]] {
        store.run(command).ends_with(3);
    }
    assert_eq!(fs::read_dir(store.path()).unwrap().count(), 1);
    store.run(&["init"]).ends_with(0);
    let server = Served::start(store.command(&serve));
    assert_eq!(server.stop("TERM").0, 0);
}

#[test]
fn a_configuration_is_read_again_by_command_and_by_signal_while_connections_go_on() {
    let store = TestStore::with(&[SMALL]);
    let (cert, key, file) = (store.beside("cert.pem"), store.beside("key.pem"), store.beside("penates.toml"));
    write_certificate(&cert, &key);
    fs::write(&file, "[log]\nlevel = \"info\"\n[data]\nmax_volumes = 5\n").unwrap();
    let manager = UnixDatagram::bind(store.beside("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let state = || {
        let mut message = [0; 256];
        let len = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    };
    let mut command = store.command(&["serve", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0"]);
    command.args(["--config", text(&file), "--tls-cert", text(&cert), "--tls-key", text(&key)]);
    // Its connection may be idle for longer than the commands in between take.
    command.args(["--set", "limits.header_time=10min"]);
    command.env("NOTIFY_SOCKET", store.beside("notify"));
    let server = Served::start(command);
    let tls = server.tls_url();
    let trusts = |certificate: &Path| curl(&["--cacert", text(certificate), &format!("{tls}/healthz")]).is_some();
    assert!(trusts(&cert));
    assert_eq!(state(), "READY=1");
    let address = server.url.strip_prefix("http://").unwrap().to_owned();
    let mut connection = TcpStream::connect(&address).unwrap();
    let mut answers = |path: &str| {
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = [0; 4_096];
        let len = connection.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..len]).starts_with("HTTP/1.1 200")
    };
    assert!(answers("/healthz"));

    let second = write_certificate(&cert, &key);
    fs::write(store.beside("second.pem"), second).unwrap();
    fs::write(&file, "[log]\nlevel = \"debug\"\n[data]\nmax_volumes = 6\n").unwrap();
    let reloaded = store.run(&["reload", "--json"]).ends_with(0).json();
    assert_eq!(reloaded["changed"], serde_json::json!(["log.level"]));
    assert_eq!(reloaded["restart"], serde_json::json!(["data.max_volumes"]));
    let in_force = store.run(&["config", "--running", "--json"]).ends_with(0).json_lines();
    let value = |key: &str| in_force.iter().find(|setting| setting["key"] == key).map(|setting| &setting["value"]);
    assert_eq!(value("log.level"), Some(&serde_json::json!("debug")), "what was read again is in force");
    assert_eq!(value("data.max_volumes"), Some(&serde_json::json!(5)), "what needs a restart is not");
    let named = |more: &[&str]| store.run(&[&["config", "--name", "data.max_volumes"], more].concat());
    assert_eq!(named(&["--running"]).ends_with(0).text(), "5\n");
    assert_eq!(named(&["--config", text(&file)]).ends_with(0).text(), "6\n");
    for more in [&["--running"][..], &[]] {
        let unknown = store.run(&[&["config", "--name", "data.volumes"], more].concat()).ends_with(2);
        assert!(unknown.stderr.contains("there is no setting `data.volumes`"), "{}", unknown.stderr);
    }
    assert!(trusts(&store.beside("second.pem")), "the new certificate is not used");
    assert!(answers("/healthz"), "the connection did not go on");
    assert!(state().starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(state(), "READY=1");

    // One that is wrong changes nothing.
    fs::write(&file, "[log]\nlevel = \"blabla\"\n").unwrap();
    let refused = store.run(&["reload"]).ends_with(1);
    assert!(refused.stderr.contains("`blabla` is no level"), "{}", refused.stderr);
    fs::write(&file, "[log]\nlevel = \"warn\"\n").unwrap();
    let third = write_certificate(&cert, &key);
    fs::write(store.beside("third.pem"), third).unwrap();
    server.signal("HUP");
    wait_until(|| trusts(&store.beside("third.pem")));
    assert!(answers("/healthz"));
    assert_eq!(server.stop("TERM").0, 0);
}

#[test]
fn a_server_takes_the_sockets_that_the_service_manager_has_opened() {
    let store = TestStore::with(&[SMALL]);
    let given = |name: &str, tls: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // The service manager gives the descriptors from 3 on, and the process that it has started.
        let given = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
        let mut shell = Command::new("sh");
        let serve = store.command(&["serve", "--listen", "127.0.0.1:0", "--tls-listen", tls]);
        shell.args(["-c", given]).arg(serve.get_program()).args(serve.get_args());
        shell.env("LISTEN_FDNAMES", name).stdin(Stdio::from(OwnedFd::from(listener)));
        (shell, address)
    };
    let start = |name: &str| {
        let (shell, address) = given(name, "off");
        (Served::start(shell), address)
    };
    let (server, address) = start("http");
    assert_eq!(server.url, format!("http://{address}"));
    assert!(curl(&[&format!("{}/healthz", server.url)]).is_some());
    assert_eq!(server.stop("TERM").0, 0);

    // No address of the Redis protocol is configured.
    let (server, address) = start("records");
    assert_eq!(server.records_address(), address);
    let mut connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    connection.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    drop(connection);
    assert_eq!(server.stop("TERM").0, 0);

    // No redirect is configured, and one to nowhere is refused.
    let (shell, address) = given("redirect", "127.0.0.1:0");
    let server = Served::start(shell);
    let to = curl(&["-o", "/dev/null", "-w", "%{http_code} %{redirect_url}", &format!("http://{address}/rest/")]);
    assert_eq!(to, Some(format!("308 {}/rest/", server.tls_url())));
    let head = curl(&["-k", "-D", "-", "-o", "/dev/null", &format!("{}/healthz", server.tls_url())]).unwrap();
    assert!(head.to_ascii_lowercase().contains("strict-transport-security: "), "{head}");
    assert_eq!(server.stop("TERM").0, 0);
    let refused = Ran::of(given("redirect", "off").0);
    assert!(refused.code != 0 && refused.stderr.contains("there is no HTTPS to redirect to"), "{}", refused.stderr);
}

#[test]
fn a_server_takes_the_sockets_for_https_and_for_its_redirect_together() {
    let store = TestStore::vacant();
    let (cert, key) = (store.beside("cert.pem"), store.beside("key.pem"));
    write_certificate(&cert, &key);
    let [tls, redirect] = [(), ()].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [https, http] = [&tls, &redirect].map(|listener| listener.local_addr().unwrap());
    // Processes that are started get these copies, which a shell has no use for.
    let given = [&tls, &redirect].map(|listener| {
        let copy = rustix::io::fcntl_dupfd_cloexec(listener, 10).unwrap();
        rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty()).unwrap();
        copy
    });
    let [third, fourth] = given.each_ref().map(AsRawFd::as_raw_fd);
    // No address speaks TLS by the configuration.
    let mut serve = store.command(&["serve", "--init", "--listen", "127.0.0.1:0", "--tls-listen", "off"]);
    serve.args(["--tls-cert", text(&cert), "--tls-key", text(&key)]);
    let line = format!("exec 3<&{third} 4<&{fourth}; LISTEN_PID=$$ LISTEN_FDS=2 exec \"$0\" \"$@\"");
    let mut shell = Command::new("bash");
    shell.args(["-c", &line]).arg(serve.get_program()).args(serve.get_args());
    shell.env("LISTEN_FDNAMES", "tls:redirect").stdin(Stdio::null());
    let server = Served::start(shell);
    drop((tls, redirect, given));
    assert_eq!(server.tls_url(), format!("https://{https}"));
    let to = curl(&["-o", "/dev/null", "-w", "%{http_code} %{redirect_url}", &format!("http://{http}/rest/")]);
    assert_eq!(to, Some(format!("308 https://{https}/rest/")));
    assert!(curl(&["--cacert", text(&cert), &format!("https://{https}/healthz")]).is_some());
    assert_eq!(server.stop("TERM").0, 0);
}

#[test]
fn a_watched_server_reports_that_it_is_alive() {
    let store = TestStore::vacant();
    let manager = UnixDatagram::bind(store.beside("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let (sender, states) = mpsc::channel();
    // The server would wait, also with its end, if some messages were not read.
    thread::spawn(move || {
        let mut message = [0; 256];
        while let Ok(len) = manager.recv(&mut message) {
            if sender.send(String::from_utf8(message[..len].to_vec()).unwrap()).is_err() {
                return;
            }
        }
    });
    let state = || states.recv_timeout(PATIENCE).unwrap();
    let mut command = store.command(&["serve", "--init", "--listen", "127.0.0.1:0", "--tls-listen", "off"]);
    command.env("NOTIFY_SOCKET", store.beside("notify")).env("WATCHDOG_USEC", "200000").env_remove("WATCHDOG_PID");
    let server = Served::start(command);
    assert_eq!(state(), "READY=1");
    // Again and again: once is what any start does.
    for _ in 0..3 {
        assert_eq!(state(), "WATCHDOG=1");
    }
    assert_eq!(server.stop("TERM").0, 0);
    while state() != "STOPPING=1" {}
}

#[test]
fn an_expired_certificate_is_a_fault_for_the_check_and_a_warning_for_the_server() {
    let store = TestStore::vacant();
    store.run(&["init"]).ends_with(0);
    let (cert, key) = (store.beside("cert.pem"), store.beside("key.pem"));
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let (mut expired, pair) = (rcgen::CertificateParams::new(names).unwrap(), rcgen::KeyPair::generate().unwrap());
    (expired.not_before, expired.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
    fs::write(&cert, expired.self_signed(&pair).unwrap().pem()).unwrap();
    fs::write(&key, pair.serialize_pem()).unwrap();
    let listens = ["--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0"];
    let with = |command: &[&str]| {
        let tls = ["--tls-cert", text(&cert), "--tls-key", text(&key)];
        store.command(&[command, &listens, &tls].concat())
    };
    let what = "certificate 1 expired at 2021-01-01";
    let refused = Ran::of(with(&["config", "--check"])).ends_with(2);
    assert!(refused.stderr.contains(what), "{}", refused.stderr);
    // It is better than none.
    let server = Served::start(with(&["serve"]));
    assert!(curl(&["-k", &format!("{}/healthz", server.tls_url())]).is_some());
    let first = server.said_first.clone();
    let (code, later) = server.stop("TERM");
    assert_eq!(code, 0);
    let said = first + &later;
    assert!(said.lines().any(|line| line.contains("WARN") && line.contains(what)), "{said}");
}

#[test]
fn a_hang_up_while_the_store_is_opened_does_not_kill_the_server() {
    // A node that never answers.
    let node = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("cassandra://{}/books", node.local_addr().unwrap());
    let mut serve = penates(&["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off", "--store", &store]);
    let mut child = serve.stderr(Stdio::null()).spawn().unwrap();
    let (connection, _) = node.accept().unwrap();
    signal(&child, "HUP");
    drop((connection, node));
    wait_until(|| child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(3), "it ends because of the store");
}

#[test]
fn a_request_to_end_while_the_store_is_opened_ends_the_server() {
    let store = TestStore::vacant();
    fs::create_dir(store.path()).unwrap();
    // Nobody ever writes to it, so a thread of the server waits to read the format.
    assert!(Command::new("mkfifo").arg(store.path().join("format")).status().unwrap().success());
    let mut serve = store.command(&["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"]);
    let mut child = serve.stderr(Stdio::null()).spawn().unwrap();
    // It can be opened for writing once the server waits.
    let mut format = fs::OpenOptions::new();
    format.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let mut held = None;
    wait_until(|| {
        held = format.open(store.path().join("format")).ok();
        held.is_some()
    });
    signal(&child, "TERM");
    wait_until(|| child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0), "the signal killed it");
}

/// A command in a terminal of its own. Dropping it closes the terminal, as somebody closes a window.
struct Terminal(Child);

impl Terminal {
    /// Opens a terminal and runs a line of a shell in it.
    fn running(line: &str) -> Self {
        // What started the tests may ignore SIGHUP.
        let mut script = Command::new("env");
        script.args(["--default-signal=HUP", "script", "--quiet", "--command", line, "/dev/null"]);
        script.env("SHELL", "/bin/sh");
        // Nobody types, and the input does not end either.
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self(script.spawn().unwrap())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command as a line of a shell.
fn line(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    shlex::try_join(words.map(|word| word.to_str().unwrap())).unwrap()
}

/// A process whose parent has ended. A test that fails leaves none behind.
struct Orphan {
    pid: String,
}

impl Orphan {
    fn signal(&self, name: &str) -> bool {
        Command::new("kill").args([&format!("-{name}"), &self.pid]).status().unwrap().success()
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        if thread::panicking() {
            self.signal("KILL");
        }
    }
}

#[test]
fn a_server_ends_when_its_terminal_is_closed_and_goes_on_if_nohup_started_it() {
    let store = TestStore::with(&[SMALL]);
    let serve = line(&store.command(&["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"]));
    let said = |name: &str| fs::read_to_string(store.beside(name)).unwrap_or_default();
    // The terminal, the address of the server in it, and its process.
    let start = |name: &str, before: &str| {
        let pid = store.beside(&format!("{name}.pid"));
        let to = format!(">/dev/null 2>'{}'", store.beside(name).display());
        let terminal = Terminal::running(&format!("echo $$ >'{}'; exec {before}{serve} {to}", pid.display()));
        let address = || -> Option<String> {
            let log = said(name);
            let (_, address) = log.split_once("Listening on http://")?;
            // The line may not be whole yet.
            address.split_once("/\n").map(|(address, _)| address.to_owned())
        };
        wait_until(|| address().is_some());
        (terminal, address().unwrap(), Orphan { pid: fs::read_to_string(pid).unwrap().trim().to_owned() })
    };
    let has_ended = |address: &str| TcpStream::connect(address).is_err();

    let (terminal, address, server) = start("plain", "");
    assert!(curl(&[&format!("http://{address}/healthz")]).is_some());
    drop(terminal);
    wait_until(|| has_ended(&address));
    drop(server);
    let verified = store.run(&["verify"]).ends_with(0);
    assert!(verified.text().contains("volumes: 1 sound, 0 damaged"), "{}", verified.text());

    let (terminal, address, server) = start("nohup", "nohup ");
    drop(terminal);
    // It has noticed that its terminal is closed: it read its configuration again.
    wait_until(|| said("nohup").contains("the configuration was read again"));
    assert!(curl(&[&format!("http://{address}/healthz")]).is_some());
    assert!(server.signal("TERM"));
    wait_until(|| has_ended(&address));
    assert_eq!(store.ids(), [SMALL]);
}

#[test]
fn an_import_whose_terminal_is_closed_leaves_nothing_half_imported_and_can_be_repeated() {
    let store = TestStore::vacant();
    store.run(&["init"]).ends_with(0);
    let folders = [SMALL, OTHER].map(sample_folder);
    let import = ["import", text(&folders[0]), text(&folders[1])];
    let mut terminal = Terminal::running(&format!("exec {}", line(&store.command(&import))));
    // Its progress.
    terminal.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    drop(terminal);
    // What it stored is whole, and the next import does the rest.
    store.run(&import).ends_with(0);
    let verified = store.run(&["verify"]).ends_with(0);
    assert!(verified.text().contains("volumes: 2 sound, 0 damaged"), "{}", verified.text());
}

#[test]
fn a_server_behind_a_proxy_is_replaced_without_a_failed_request() {
    let (first, second) = (TestStore::with(&[SMALL]), TestStore::with(&[SMALL]));
    let leaving = first.serve(&["--set", "limits.drain=10m"]);
    let staying = second.serve(&[]);
    let (leaving_url, staying_url) = (leaving.url.clone(), staying.url.clone());
    let nginx = Nginx::before(&[&leaving_url, &staying_url]);
    let socket = nginx.socket();
    let (done, served, failed) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let (socket, done, served, failed) = (socket.clone(), done.clone(), served.clone(), failed.clone());
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let url = format!("http://localhost/volumes?volumeIDs={SMALL}");
                    let got = Command::new("curl")
                        .args(["-sf", "-o", "/dev/null", "--unix-socket", text(&socket), &url])
                        .status();
                    let counter = if got.unwrap().success() { &served } else { &failed };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let more_are_served = || {
        let before = served.load(Ordering::Relaxed);
        wait_until(|| served.load(Ordering::Relaxed) >= before + 10);
    };
    let ready = format!("{leaving_url}/readyz");
    assert!(curl(&[&ready]).is_some());
    more_are_served();
    leaving.signal("TERM");
    wait_until(|| curl(&[&ready]).is_none());
    more_are_served();
    assert!(curl(&[&format!("{leaving_url}/healthz")]).is_some(), "it still serves");
    nginx.send_to(&[&staying_url]);
    // Nobody sends requests to it any more: a second signal ends the phase.
    assert_eq!(leaving.stop("TERM").0, 0);
    more_are_served();
    done.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(failed.load(Ordering::Relaxed), 0, "of {}", served.load(Ordering::Relaxed));
    assert_eq!(staying.stop("TERM").0, 0);
}
