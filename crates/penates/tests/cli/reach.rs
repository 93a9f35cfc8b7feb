//! How a command reaches the data.

use std::fs;
use std::process::Command;

use crate::harness::*;

#[test]
fn a_command_on_a_store_that_a_server_holds_uses_its_socket_and_says_so_if_asked() {
    let store = TestStore::with(&[SMALL]);
    let _served = store.serve(&[]);
    let listed = store.run(&["ls"]).ends_with(0);
    assert_eq!((listed.text().trim(), listed.stderr.as_str()), (SMALL, ""));
    let listed = store.run(&["ls", "-v"]).ends_with(0);
    assert!(listed.stderr.contains("using its socket"), "{}", listed.stderr);
    let imported = store.run(&["import", "--json", sample_folder(OTHER).to_str().unwrap()]).ends_with(0);
    assert_eq!(imported.json()["new"], 1);
    assert_eq!(unzip(&store.run(&["get", OTHER]).ends_with(0).stdout), expected_entries(&sample_folder(OTHER)));
    store.run(&["verify"]).ends_with(0);
    store.run(&["token", "create", "somebody"]).ends_with(0);
    store.run(&["delete", SMALL]).ends_with(0);
    assert_eq!(store.ids(), [OTHER]);
}

#[test]
fn a_store_whose_server_was_killed_is_reached_without_it() {
    let store = TestStore::with(&[SMALL]);
    store.serve(&[]).kill();
    let listed = store.run(&["ls"]).ends_with(0);
    assert_eq!(listed.text().trim(), SMALL);
    assert_eq!(listed.stderr, "");
}

#[test]
fn a_second_server_on_one_data_folder_is_refused_and_the_first_goes_on() {
    let store = TestStore::with(&[SMALL]);
    let served = store.serve(&[]);
    let second = store.run(&["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"]).ends_with(3);
    assert!(second.stderr.contains("held by another process (a server, perhaps): stop that"), "{}", second.stderr);
    let listed = Ran::of(penates(&["ls", "--server", &served.url])).ends_with(0);
    assert_eq!(listed.text().trim(), SMALL);
}

#[test]
fn a_reading_command_without_a_store_says_so_and_makes_none() {
    let store = TestStore::vacant();
    let backups = store.beside("backups");
    let back_up = ["backup", "create", backups.to_str().unwrap()];
    for command in [&["ls"][..], &["stat"], &["verify"], &["get", SMALL], &["delete", SMALL], &["audit"], &back_up] {
        let ran = store.run(command).ends_with(3);
        assert!(ran.stderr.contains("there is no store in"), "{command:?}: {}", ran.stderr);
    }
    assert!(!store.path().exists() && !backups.exists());
}

#[test]
fn a_writing_command_makes_no_store_in_a_folder_that_is_named_unless_it_is_told_to() {
    let store = TestStore::vacant();
    let (data, file, sample) = (store.path(), store.beside("note.txt"), sample_folder(SMALL));
    fs::write(&file, "a note").unwrap();
    let data = data.to_str().unwrap();
    let put = ["put", "note", file.to_str().unwrap()];
    let by_flag = |args: &[&str]| Ran::of(penates(&[args, &["--store", data]].concat()));
    for args in
        [&put[..], &["import", sample.to_str().unwrap()], &["synth", "--volumes", "1"], &["records", "set", "a", "x=1"]]
    {
        let refused = by_flag(args).ends_with(3);
        let why = format!("there is no store in {data}: is its disk mounted? --init makes a new one");
        assert!(refused.stderr.contains(&why), "{args:?}: {}", refused.stderr);
    }
    let mut by_environment = penates(&put);
    by_environment.env("PENATES_STORE__PATH", data);
    let configuration = store.beside("penates.toml");
    fs::write(&configuration, format!("[store]\npath = {data:?}\n")).unwrap();
    let by_file = penates(&[&put[..], &["--config", configuration.to_str().unwrap()]].concat());
    for command in [by_environment, by_file] {
        Ran::of(command).ends_with(3);
    }
    assert!(!store.path().exists());

    by_flag(&[&put[..], &["--init"]].concat()).ends_with(0);
    by_flag(&put).ends_with(0);
    let elsewhere = tempfile::tempdir().unwrap();
    let mut by_default = penates(&put);
    by_default.current_dir(elsewhere.path());
    Ran::of(by_default).ends_with(0);
    assert!(elsewhere.path().join("data/format").exists());
}

#[test]
fn a_missing_server_has_its_own_exit_code() {
    let (_socket, closed) = closed_address();
    let ran = Ran::of(penates(&["ls", "--server", &format!("http://{closed}")])).ends_with(3);
    assert!(ran.stderr.contains("cannot be reached"), "{}", ran.stderr);
}

#[test]
fn a_newer_format_is_refused_and_not_changed() {
    let store = TestStore::with(&[SMALL]);
    let format = store.path().join("format");
    fs::write(&format, "penates-folder 999\n").unwrap();
    for command in [&["ls"][..], &["import", samples().to_str().unwrap()], &["serve"]] {
        let ran = store.run(command).ends_with(3);
        assert!(ran.stderr.contains("penates-folder 999"), "{command:?}: {}", ran.stderr);
    }
    assert_eq!(fs::read_to_string(format).unwrap(), "penates-folder 999\n");
}

#[test]
fn a_data_folder_that_cannot_be_made_is_named() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    let inside = file.join("data");
    let inside = inside.to_str().unwrap();
    let ran = Ran::of(penates(&["import", samples().to_str().unwrap(), "--store", inside, "--init"])).ends_with(3);
    assert!(ran.stderr.contains(inside), "{}", ran.stderr);
}

#[test]
fn https_is_trusted_by_the_certificate_that_is_named_and_not_without() {
    let store = TestStore::with(&[SMALL]);
    let command = store.command(&["serve", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0"]);
    let served = Served::start(command);
    let tls_url = served.tls_url();
    let certificate = store.path().join("tls/cert.pem");
    let trusting = ["ls", "--server", &tls_url, "--ca-cert", certificate.to_str().unwrap()];
    assert_eq!(Ran::of(penates(&trusting)).ends_with(0).text().trim(), SMALL);
    let distrusting = Ran::of(penates(&["ls", "--server", &tls_url])).ends_with(3);
    assert!(distrusting.stderr.contains("certificate"), "{}", distrusting.stderr);
    assert!(distrusting.stderr.contains("--ca-cert"), "{}", distrusting.stderr);
    let no_certificate = store.beside("empty.pem");
    fs::write(&no_certificate, "").unwrap();
    for file in [no_certificate, store.beside("nowhere.pem")] {
        let ran = Ran::of(penates(&["ls", "--server", &tls_url, "--ca-cert", file.to_str().unwrap()])).ends_with(2);
        assert!(ran.stderr.contains(file.to_str().unwrap()), "{}", ran.stderr);
    }
}

#[test]
fn a_store_from_a_flag_takes_precedence_over_a_server_from_the_environment() {
    let (store, other) = (TestStore::with(&[SMALL]), TestStore::with(&[OTHER]));
    let served = store.serve(&[]);
    let ls = |mut command: Command| {
        command.env("PENATES_SERVER", &served.url);
        Ran::of(command).ends_with(0).text().trim().to_owned()
    };
    assert_eq!(ls(penates(&["ls"])), SMALL);
    assert_eq!(ls(other.command(&["ls"])), OTHER);
}

#[test]
fn a_prefix_in_the_servers_address_is_added_to_every_path() {
    let store = TestStore::with(&[SMALL]);
    let served = store.serve(&[]);
    let url = format!("{}/data-api", served.url);
    let got = Ran::of(penates(&["get", SMALL, "--server", &url])).ends_with(0);
    assert_eq!(unzip(&got.stdout), expected_entries(&sample_folder(SMALL)));
}

#[test]
fn a_store_held_by_another_program_than_a_server_is_reported_as_held() {
    let store = TestStore::with(&[SMALL]);
    let lock = fs::File::options().write(true).open(store.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let held = store.run(&["ls"]).ends_with(3);
    assert!(held.stderr.contains("another process holds"), "{}", held.stderr);
    lock.unlock().unwrap();
    assert_eq!(store.ids(), [SMALL]);
}
