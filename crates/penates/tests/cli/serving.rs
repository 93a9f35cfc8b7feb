//! `serve`, `demo`, `config`.

use crate::harness::*;

#[test]
fn the_demo_imports_the_samples_says_what_to_try_and_finds_its_data_again() {
    let store = TestStore::vacant();
    let demo = || Served::start(store.command(&["demo", "--listen", "127.0.0.1:0", "--tls-listen", "off"]));
    let first = demo();
    assert!(first.said.contains("16 sample volumes with 3744 pages"), "{}", first.said);
    let listed = Ran::of(penates(&["ls", "--server", &first.url])).ends_with(0);
    assert_eq!(listed.text().lines().count(), 16);
    let (code, said) = first.stop("INT");
    assert_eq!(code, 0, "{said}");
    for hint in ["curl", "/volumes?volumeIDs=", "/pages/", "Ctrl-C"] {
        assert!(said.contains(hint), "{said}");
    }
    let second = demo();
    assert_eq!(second.stop("INT").0, 0);
    assert_eq!(store.ids().len(), 16);
}

#[test]
fn every_command_line_that_the_demo_prints_works() {
    let store = TestStore::vacant();
    let demo = Served::start(store.command(&["demo", "--listen", "127.0.0.1:0", "--tls-listen", "off"]));
    let address = demo.url.strip_prefix("http://").unwrap().to_owned();
    let (_, said) = demo.stop("INT");
    let lines: Vec<&str> = said.lines().filter_map(|line| Some(&line[line.find("curl ")?..])).collect();
    assert_eq!(lines.len(), 3, "{said}");

    let _served = Served::start(store.command(&["serve", "--listen", &address, "--tls-listen", "off"]));
    let place = tempfile::tempdir().unwrap();
    for line in lines {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line.replace("curl ", "curl -sS --fail ")]).current_dir(place.path());
        let ran = Ran::of(shell).ends_with(0);
        assert_eq!(ran.stderr, "", "{line}");
        assert_eq!(line.contains("/pages/"), ran.text().contains("General"), "{line}: {}", ran.text());
    }
    assert_eq!(unzip(&std::fs::read(place.path().join("volumes.zip")).unwrap()).len(), 3744);
    let volume = std::fs::read(place.path().join("volume.zip")).unwrap();
    assert_eq!(unzip(&volume), expected_entries(&sample_folder("yale.39002015008130")));
}

#[test]
fn a_polite_end_of_a_server_is_a_success() {
    let store = TestStore::with(&[SMALL]);
    assert_eq!(store.serve(&[]).stop("TERM").0, 0);
}

#[test]
fn a_server_on_another_address_than_loopback_needs_plain_words() {
    let store = TestStore::vacant();
    let ran = store.run(&["serve", "--listen", "0.0.0.0:0", "--tls-listen", "off"]).ends_with(2);
    assert!(ran.stderr.contains("loopback"), "{}", ran.stderr);
}

#[test]
fn the_configuration_tells_where_each_value_comes_from() {
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
