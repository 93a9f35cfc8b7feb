//! `penates get`

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::*;
use crate::proxy::Proxy;

#[test]
fn two_volumes_come_through_a_pipe_with_every_page_unchanged() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let got = unzip(&store.run(&["get", OTHER, SMALL, "-o", "-"]).ends_with(0).stdout);
    let mut expected: BTreeMap<String, Vec<u8>> = expected_entries(&sample_folder(SMALL));
    expected.extend(expected_entries(&sample_folder(OTHER)));
    assert_eq!(got, expected);
}

#[test]
fn a_file_has_the_same_bytes_as_the_pipe_and_nothing_is_left_beside_it() {
    let store = TestStore::with(&[SMALL]);
    let target = store.beside("out.zip");
    let printed = store.run(&["get", SMALL, "--json", "-o", target.to_str().unwrap()]).ends_with(0).json();
    let bytes = fs::read(&target).unwrap();
    assert_eq!(printed["bytes"], bytes.len());
    assert_eq!(bytes, store.run(&["get", SMALL]).ends_with(0).stdout);
    assert!(!store.beside("out.zip.part").exists() && !store.beside("out.zip.part.json").exists());
}

#[test]
fn layouts_levels_and_mets_are_passed_on() {
    let store = TestStore::with(&[SMALL]);
    let folder = sample_folder(SMALL);
    let whole: Vec<u8> = expected_entries(&folder).into_values().flatten().collect();
    let mets = fs::read(file_with_suffix(&folder, ".mets.xml")).unwrap();
    let cleaned = "psia.ark+=13960=t0ks80527";
    for level in ["auto", "0", "6"] {
        let got = store.run(&["get", SMALL, "--layout", "volumes", "--mets", "--level", level]).ends_with(0);
        let got = unzip(&got.stdout);
        assert_eq!(got.keys().collect::<Vec<_>>(), [&format!("{cleaned}.mets.xml"), &format!("{cleaned}.txt")]);
        assert_eq!(got[&format!("{cleaned}.txt")], whole, "level {level}");
        assert_eq!(got[&format!("{cleaned}.mets.xml")], mets, "level {level}");
    }
    let wordseq = unzip(&store.run(&["get", SMALL, "--layout", "wordseq"]).ends_with(0).stdout);
    assert_eq!(wordseq, BTreeMap::from([("wordseq.txt".to_owned(), whole)]));
}

#[test]
fn single_pages_are_requested_by_volume_and_sequence() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let list = format!("{SMALL}[5,3]|{OTHER}[7]");
    let got = unzip(&store.run(&["get", "--pages", &list]).ends_with(0).stdout);
    let names = ["psia.ark+=13960=t0ks80527/00000003.txt", "psia.ark+=13960=t0ks80527/00000005.txt"];
    assert_eq!(got.keys().collect::<Vec<_>>(), [names[0], names[1], "uc2.ark+=13960=t8ff3zh99/00000007.txt"]);
    assert_eq!(got[names[0]], expected_entries(&sample_folder(SMALL))[names[0]]);
}

#[test]
fn missing_volumes_are_named_in_error_err_and_the_exit_code_is_1() {
    let store = TestStore::with(&[SMALL]);
    let ran = store.run(&["get", SMALL, "nowhere.1"]).ends_with(1);
    assert!(ran.stderr.contains("ERROR.err"), "{}", ran.stderr);
    let got = unzip(&ran.stdout);
    let errors = String::from_utf8(got["ERROR.err"].clone()).unwrap();
    assert!(errors.contains("KeyNotFoundException: Offending key: nowhere.1"), "{errors}");
    assert_eq!(got.len(), 25);
}

#[test]
fn ids_are_read_from_standard_input() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let list = store.beside("ids.txt");
    fs::write(&list, format!("{SMALL}\n\n{OTHER}\n")).unwrap();
    let mut command = store.command(&["get", "--ids", "-", "--layout", "volumes"]);
    command.stdin(fs::File::open(list).unwrap());
    assert_eq!(unzip(&Ran::of(command).ends_with(0).stdout).len(), 2);
}

#[test]
fn a_broken_download_resumes_by_itself_and_ends_byte_identical() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let whole = store.run(&["get", SMALL, OTHER]).ends_with(0).stdout;
    let served = store.serve(&[]);
    let proxy = Proxy::start(&served.url, &[20_000, 3_000, 40_000]);
    let target = store.beside("out.zip");
    let args = ["get", "--server", &proxy.url, SMALL, OTHER, "-o", target.to_str().unwrap()];
    let ran = Ran::of(penates(&args)).ends_with(0);
    assert!(ran.stderr.contains("Trying again"), "{}", ran.stderr);
    assert_eq!(fs::read(&target).unwrap(), whole);
    let ranges: Vec<String> = proxy.requests("GET ").iter().filter_map(|head| range_of(head)).collect();
    assert_eq!(ranges.len(), 3, "{ranges:?}");
    let piped = Ran::of(penates(&["get", "--server", &Proxy::start(&served.url, &[9_000]).url, SMALL, OTHER]));
    assert_eq!(piped.ends_with(0).stdout, whole);
}

#[test]
fn an_overloaded_server_is_asked_again() {
    let store = TestStore::with(&[SMALL]);
    let whole = store.run(&["get", SMALL]).ends_with(0).stdout;
    let served = store.serve(&[]);
    let proxy = Proxy::refusing(&served.url, 2);
    let ran = Ran::of(penates(&["get", "--server", &proxy.url, SMALL])).ends_with(0);
    assert_eq!(ran.stdout, whole);
    assert_eq!(proxy.requests("POST ").len(), 3);
    let proxy = Proxy::refusing(&served.url, 2);
    let given_up = Ran::of(penates(&["get", "--server", &proxy.url, "--tries", "2", SMALL])).ends_with(1);
    assert!(given_up.stderr.contains("503"), "{}", given_up.stderr);
    assert_eq!(proxy.requests("POST ").len(), 2);
    for args in [&["get", "--text", SMALL][..], &["get", "--where", "year>1"], &["tokens", "--where", "year>1"]] {
        let proxy = Proxy::refusing(&served.url, 2);
        let ran = Ran::of(penates(&[args, &["--server", &proxy.url]].concat())).ends_with(0);
        assert_eq!(ran.stderr.matches("Trying again").count(), 2, "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn the_same_command_resumes_a_broken_download_even_if_the_volume_has_changed() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let whole = store.run(&["get", SMALL, OTHER]).ends_with(0).stdout;
    let served = store.serve(&[]);
    let proxy = Proxy::start(&served.url, &[30_000]);
    let target = store.beside("out.zip");
    let args = ["get", "--server", &proxy.url, SMALL, OTHER, "--tries", "1", "-o", target.to_str().unwrap()];
    let broken = Ran::of(penates(&args)).ends_with(1);
    assert!(broken.stderr.contains("give the same command again to continue"), "{}", broken.stderr);
    assert!(!target.exists());
    let part_len = fs::metadata(store.beside("out.zip.part")).unwrap().len();
    assert!((1..whole.len() as u64).contains(&part_len), "{part_len}");

    store.run(&["delete", SMALL]).ends_with(0);
    store.run(&["import", "--force", sample_folder(OTHER).to_str().unwrap()]).ends_with(0);

    Ran::of(penates(&args)).ends_with(0);
    assert_eq!(fs::read(&target).unwrap(), whole);
    let ranges: Vec<String> = proxy.requests("GET ").iter().filter_map(|head| range_of(head)).collect();
    assert_eq!(ranges, [format!("bytes={part_len}-")]);
}

#[test]
fn a_part_of_another_request_is_not_resumed() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let served = store.serve(&[]);
    let proxy = Proxy::start(&served.url, &[30_000]);
    let target = store.beside("out.zip");
    let get = |ids: &[&str]| {
        let args = ["get", "--server", &proxy.url, "--tries", "1", "-o", target.to_str().unwrap()];
        Ran::of(penates(&[&args[..], ids].concat()))
    };
    get(&[SMALL, OTHER]).ends_with(1);
    get(&[OTHER]).ends_with(0);
    assert_eq!(unzip(&fs::read(&target).unwrap()), expected_entries(&sample_folder(OTHER)));
}

#[test]
fn an_unwritable_target_is_reported_before_anything_is_downloaded() {
    let store = TestStore::with(&[SMALL]);
    let served = store.serve(&[]);
    let proxy = Proxy::start(&served.url, &[]);
    let get = |target: &Path| Ran::of(penates(&["get", "--server", &proxy.url, SMALL, "-o", target.to_str().unwrap()]));
    let folder = store.beside("folder");
    fs::create_dir(&folder).unwrap();
    assert!(get(&folder).ends_with(2).stderr.contains("this is a folder"));
    let nowhere = store.beside("nowhere").join("out.zip");
    let ran = get(&nowhere).ends_with(1);
    assert!(ran.stderr.contains(nowhere.to_str().unwrap()), "{}", ran.stderr);
    assert_eq!(proxy.requests("GET "), [""; 0]);
    assert_eq!(proxy.requests("POST "), [""; 0], "nothing is planned");
}

#[test]
fn a_target_that_is_not_a_regular_file_is_written_to_and_never_replaced() {
    let store = TestStore::with(&[SMALL]);
    let fifo = store.beside("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for level in ["auto", "6"] {
        let args = ["get", SMALL, "--level", level, "-o", fifo.to_str().unwrap()];
        let get = store.command(&args).stdout(Stdio::null()).spawn().unwrap();
        let got = fs::read(&fifo).unwrap();
        assert!(get.wait_with_output().unwrap().status.success());
        assert_eq!(unzip(&got), expected_entries(&sample_folder(SMALL)), "level {level}");
        assert!(fs::metadata(&fifo).unwrap().file_type().is_fifo());
    }
}

#[test]
fn a_killed_download_resumes_after_a_restart_of_the_server() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let whole = store.run(&["get", SMALL, OTHER]).ends_with(0).stdout;
    let served = store.serve(&[]);
    // Once it is cut it makes no progress, however long it tries.
    let cuts: Vec<usize> = [30_000].into_iter().chain([0; 1000]).collect();
    let proxy = Proxy::start(&served.url, &cuts);
    let target = store.beside("out.zip");
    let (url, output) = (proxy.url.as_str(), target.to_str().unwrap());
    let args = ["get", "--tries", "1000", SMALL, OTHER, "-o", output, "--server"];
    let mut get = penates(&[&args[..], &[url]].concat()).stderr(Stdio::piped()).spawn().unwrap();
    let said = Gathered::of(get.stderr.take().unwrap());
    wait_until(|| said.text().contains("Trying again"));
    get.kill().unwrap();
    get.wait().unwrap();
    let part_len = fs::metadata(store.beside("out.zip.part")).unwrap().len();
    assert!((1..whole.len() as u64).contains(&part_len), "{part_len}");
    served.kill();

    let served = store.serve(&[]);
    let ran = Ran::of(penates(&[&args[..], &[&served.url]].concat())).ends_with(0);
    assert!(ran.stderr.contains("Resuming"), "{}", ran.stderr);
    assert_eq!(fs::read(&target).unwrap(), whole);
}

#[test]
fn a_reader_that_leaves_ends_the_download_quietly() {
    let store = TestStore::with(&[OTHER]);
    let (mut child, mut stdout) = piped(store.command(&["get", OTHER, "--level", "0"]));
    stdout.read_exact(&mut [0; 4]).unwrap();
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

#[test]
fn volumes_come_as_they_were_at_a_time_and_come_back_though_they_were_replaced_and_deleted_since() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let run = |args: &[&str]| {
        let mut command = store.command(args);
        command.env("PENATES_HISTORY__VOLUMES", "all");
        Ran::of(command)
    };
    let whole = run(&["get", SMALL, OTHER, "--mets"]).ends_with(0).stdout;
    let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
    run(&["delete", SMALL]).ends_with(0);
    run(&["import", "--force", sample_folder(OTHER).to_str().unwrap()]).ends_with(0);

    assert!(run(&["get", SMALL, OTHER, "--mets", "--as-of", &time]).ends_with(0).stdout == whole);
    let target = store.beside("then.zip");
    run(&["get", SMALL, OTHER, "--mets", "--as-of", &time, "-o", target.to_str().unwrap()]).ends_with(0);
    assert!(fs::read(&target).unwrap() == whole);
    run(&["get", SMALL]).ends_with(1);

    let versions = run(&["history", "--volume", OTHER, "--json"]).ends_with(0).json_lines();
    assert_eq!(versions.iter().map(|one| one["current"].as_bool().unwrap()).collect::<Vec<_>>(), [false, true]);
    assert!(run(&["history", "--volume", OTHER]).ends_with(0).text().ends_with("\tcurrent\n"));
    let refused = run(&["restore", "--volume", SMALL, "--at", "2001-01-01T00:00:00Z"]).ends_with(1);
    assert!(refused.stderr.contains("it did not exist then"), "{}", refused.stderr);
    let last = run(&["history", "--volume", SMALL, "--json"]).ends_with(0).json_lines().remove(0);
    run(&["restore", "--volume", SMALL, "--at", last["revision"].as_str().unwrap()]).ends_with(0);
    assert!(run(&["restore", "--volume", SMALL]).ends_with(2).stderr.contains("is not deleted"));
    assert_eq!(unzip(&run(&["get", SMALL]).ends_with(0).stdout), expected_entries(&sample_folder(SMALL)));
    run(&["delete", SMALL]).ends_with(0);
    run(&["restore", "--volume", SMALL]).ends_with(0);
    assert_eq!(run(&["history", "--volume", SMALL, "--json"]).ends_with(0).json_lines().len(), 3);
    run(&["history", "--volume", "no id"]).ends_with(2);

    let refused = run(&["get", SMALL, "--as-of", "2999-01-01T00:00:00Z"]).ends_with(2);
    assert!(refused.stderr.contains("a time in the past"), "{}", refused.stderr);
    assert!(run(&["get", SMALL, "--as-of", "yesterday"]).ends_with(2).stderr.contains("2025-06-15T15:06:40Z"));
}

#[test]
fn a_store_that_is_read_only_still_sends_archives_to_get_but_they_cannot_be_resumed() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let whole = store.run(&["get", SMALL, OTHER]).ends_with(0).stdout;
    let served = store.serve(&["--set=history.volumes=all"]);
    let proxy = Proxy::start(&served.url, &[30_000]);
    let begun = store.beside("begun.zip");
    let begin = ["get", "--server", &proxy.url, SMALL, OTHER, "--tries", "1", "-o", begun.to_str().unwrap()];
    Ran::of(penates(&begin)).ends_with(1);
    let time = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
    store.run(&["delete", SMALL]).ends_with(0);
    store.run(&["read-only", "on"]).ends_with(0);

    let resumed = Ran::of(penates(&begin)).ends_with(0);
    assert!(resumed.stderr.contains("Resuming"), "{}", resumed.stderr);
    assert!(fs::read(&begun).unwrap() == whole);

    let get = |args: &[&str], code: i32| {
        let ran = Ran::of(penates(&[&["get", "--server", &served.url], args].concat())).ends_with(code);
        let said = "The store is read-only: this download cannot be resumed.";
        assert!(ran.stderr.contains(said) && !ran.stderr.contains("Trying again"), "{args:?}: {}", ran.stderr);
        ran
    };
    let other = expected_entries(&sample_folder(OTHER));
    assert_eq!(unzip(&get(&[OTHER], 0).stdout), other);
    assert_eq!(unzip(&get(&["--where", "pages>20"], 0).stdout), other);
    assert_eq!(unzip(&get(&["--pages", &format!("{OTHER}[7]")], 0).stdout).len(), 1);
    let missing = get(&[SMALL, OTHER], 1);
    assert!(missing.stderr.contains("ERROR.err") && unzip(&missing.stdout).len() == 92 + 1, "{}", missing.stderr);

    let then = store.beside("then.zip");
    get(&[SMALL, OTHER, "--as-of", &time, "-o", then.to_str().unwrap()], 0);
    assert!(fs::read(&then).unwrap() == whole);
    assert!(!store.beside("then.zip.part").exists() && !store.beside("then.zip.part.json").exists());

    let folder = store.beside("texts");
    let unpacked = get(&[SMALL, OTHER, "--as-of", &time, "--unzip", folder.to_str().unwrap(), "--json"], 0);
    assert_eq!(unpacked.json()["files"], 24 + 92);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is left beside the volumes");
}

#[test]
fn what_satisfies_conditions_is_downloaded_and_resumed_whatever_was_imported_since() {
    let store = TestStore::with(&[OTHER]);
    let whole = store.run(&["get", OTHER]).ends_with(0).stdout;
    let served = store.serve(&[]);
    let proxy = Proxy::start(&served.url, &[30_000]);
    let target = store.beside("out.zip");
    let conditions = "language=eng and pages>20";
    let args = ["get", "--server", &proxy.url, "--where", conditions, "--tries", "1", "-o", target.to_str().unwrap()];
    Ran::of(penates(&args)).ends_with(1);
    store.run(&["import", sample_folder(SMALL).to_str().unwrap()]).ends_with(0);
    let listed = proxy.requests("GET /volumes/?").len();
    Ran::of(penates(&args)).ends_with(0);
    assert_eq!(fs::read(&target).unwrap(), whole);
    assert_eq!(proxy.requests("GET /volumes/?").len(), listed, "nothing is listed for what goes on");
    let none = store.run(&["get", "--where", "year<1000"]).ends_with(1);
    assert!(none.stderr.contains("no volume satisfies the conditions"), "{}", none.stderr);
    store.run(&["get", SMALL, "--where", "year<1000"]).ends_with(2);
}

#[test]
fn a_file_that_no_download_began_is_never_replaced() {
    let store = TestStore::with(&[SMALL]);
    let target = store.beside("out.zip");
    let get = |more: &[&str]| store.run(&[&["get", SMALL, "-o", target.to_str().unwrap()], more].concat());
    fs::write(&target, "mine").unwrap();
    for level in ["auto", "6"] {
        let refused = get(&["--level", level]).ends_with(2);
        assert!(refused.stderr.contains("not replaced without --force"), "{}", refused.stderr);
    }
    assert_eq!(fs::read(&target).unwrap(), b"mine");
    get(&["--force"]).ends_with(0);
    assert_eq!(unzip(&fs::read(&target).unwrap()).len(), 24);
    fs::remove_file(&target).unwrap();
    fs::write(store.beside("out.zip.part"), "mine too").unwrap();
    get(&[]).ends_with(2);
    assert_eq!(fs::read(store.beside("out.zip.part")).unwrap(), b"mine too");
    // A run that was killed before it stored its state.
    fs::write(store.beside("out.zip.part"), "").unwrap();
    get(&[]).ends_with(0);
    let folder = store.beside("texts");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(".penates-get.zip.part"), "mine").unwrap();
    let refused = store.run(&["get", SMALL, "--unzip", folder.to_str().unwrap()]).ends_with(2).stderr;
    assert!(refused.contains("remove it first") && !refused.contains("--force"), "{refused}");
}

#[test]
fn a_download_to_where_another_one_is_writing_is_refused() {
    let store = TestStore::with(&[SMALL]);
    let (file, folder) = (store.beside("out.zip"), store.beside("texts"));
    fs::create_dir(&folder).unwrap();
    for (to, target, part) in
        [("-o", &file, store.beside("out.zip.part")), ("--unzip", &folder, folder.join(".penates-get.zip.part"))]
    {
        let get = || store.run(&["get", SMALL, to, target.to_str().unwrap()]);
        let held = fs::File::create(&part).unwrap();
        held.lock().unwrap();
        let refused = get().ends_with(1);
        assert!(refused.stderr.contains("another penates get is writing"), "{}", refused.stderr);
        held.unlock().unwrap();
        drop(held);
        get().ends_with(0);
        assert!(!part.exists());
    }
    let absent = store.beside("absent.zip");
    store.run(&["get", "--text", "no.where", "-o", absent.to_str().unwrap()]).ends_with(1);
    assert!(!store.beside("absent.zip.part").exists(), "nothing was begun");
}

#[test]
fn bytes_that_were_not_asked_for_end_a_download() {
    let store = TestStore::vacant();
    let get = |name: &str, answers: Vec<String>| {
        let (url, target) = (server_of_ten_bytes(answers), store.beside(name));
        let ran = Ran::of(penates(&["get", "--server", &url, "a.b", "-o", target.to_str().unwrap()])).ends_with(1);
        assert!(!target.exists());
        ran.stderr
    };
    let answer = |head: &str, body: &str| format!("HTTP/1.1 {head}\r\netag: \"e\"\r\n{CLOSES}\r\n{body}");
    let cut = answer("200 OK\r\ncontent-length: 10", "0123");
    let said = get("long.zip", vec![answer("200 OK", "0123456789 and more")]);
    assert!(said.contains("more than the 10 bytes that it promised"), "{said}");
    let other = answer("206 Partial Content\r\ncontent-range: bytes 2-9/10", "23456789");
    let said = get("other.zip", vec![cut.clone(), other]);
    assert!(said.contains("another part than bytes 4 to 10: `bytes 2-9/10`"), "{said}");
    let said = get("none.zip", vec![cut, answer("206 Partial Content", "456789")]);
    assert!(said.contains("another part than bytes 4 to 10"), "{said}");
    for name in ["other.zip.part", "none.zip.part"] {
        assert_eq!(fs::read(store.beside(name)).unwrap(), b"0123", "{name}");
    }
}

/// The header of a server that closes the connection.
const CLOSES: &str = "connection: close\r\n";

/// A server of a selection of ten bytes, which responds to the requests for it with these answers in
/// turn. It closes each connection.
fn server_of_ten_bytes(answers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut answers = answers.into_iter();
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut request = BufReader::new(client.try_clone().unwrap());
            let (mut first, mut line, mut body_bytes) = (String::new(), String::from("-"), 0);
            request.read_line(&mut first).unwrap();
            while !line.trim().is_empty() {
                line.clear();
                request.read_line(&mut line).unwrap();
                let len = line.to_lowercase().strip_prefix("content-length:").map(|len| len.trim().parse().unwrap());
                body_bytes = len.unwrap_or(body_bytes);
            }
            request.read_exact(&mut vec![0; body_bytes]).unwrap();
            let selection = r#"{"address":"/selections/1","etag":"\"e\"","len_bytes":10,"missing":0}"#;
            let len = selection.len();
            let answer = match first.split(' ').next() {
                Some("POST") => format!("HTTP/1.1 201 Created\r\ncontent-length: {len}\r\n{CLOSES}\r\n{selection}"),
                _ => answers.next().unwrap(),
            };
            client.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn a_download_is_unpacked_into_a_folder_and_goes_on_where_it_was_broken() {
    let store = TestStore::with(&[SMALL, OTHER]);
    let served = store.serve(&[]);
    let proxy = Proxy::start(&served.url, &[30_000]);
    let folder = store.beside("texts");
    let get = |ids: &[&str]| {
        let args = ["get", "--server", &proxy.url, "--tries", "1", "--unzip", folder.to_str().unwrap()];
        Ran::of(penates(&[&args[..], ids].concat()))
    };
    get(&[SMALL, OTHER]).ends_with(1);
    let done = get(&[SMALL, OTHER, "--json"]).ends_with(0);
    assert!(done.stderr.contains("Resuming"), "{}", done.stderr);
    assert_eq!(done.json()["files"], 24 + 92);
    let mut expected = expected_entries(&sample_folder(SMALL));
    expected.extend(expected_entries(&sample_folder(OTHER)));
    for (name, text) in &expected {
        assert_eq!(&fs::read(folder.join(name)).unwrap(), text, "{name}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2, "nothing is left beside the volumes");
    assert_eq!(get(&[SMALL, "--json"]).ends_with(0).json()["present"], 24, "it can be repeated");
    let changed = folder.join("psia.ark+=13960=t0ks80527/00000003.txt");
    fs::write(&changed, "mine").unwrap();
    assert!(get(&[SMALL]).ends_with(1).stderr.contains("has other contents"));
    assert_eq!(fs::read(&changed).unwrap(), b"mine");
    let missing = Ran::of(store.command(&["get", "no.where", "--unzip", store.beside("n").to_str().unwrap()]));
    assert!(missing.ends_with(1).stderr.contains("Offending key: no.where"));
}

#[test]
fn the_text_of_a_volume_comes_without_a_zip() {
    let store = TestStore::with(&[SMALL]);
    let whole: Vec<u8> = expected_entries(&sample_folder(SMALL)).into_values().flatten().collect();
    assert_eq!(store.run(&["get", "--text", SMALL]).ends_with(0).stdout, whole);
    let served = store.serve(&[]);
    let proxy = Proxy::start(&served.url, &[9_000]);
    let target = store.beside("out.txt");
    let args = ["get", "--server", &proxy.url, "--text", SMALL, "-o", target.to_str().unwrap()];
    let ran = Ran::of(penates(&args)).ends_with(0);
    assert!(ran.stderr.contains("Trying again"), "{}", ran.stderr);
    assert_eq!(fs::read(&target).unwrap(), whole);
    assert_eq!(proxy.requests("DELETE ").len(), 0);
    let absent = store.run(&["get", "--text", "no.where"]).ends_with(1);
    assert!(absent.stderr.contains("no.where is not in the store"), "{}", absent.stderr);
    assert!(store.run(&["get", "--text", SMALL, OTHER]).ends_with(2).stderr.contains("one volume"));
}

#[test]
fn a_silent_server_and_a_long_download_end_at_their_limits() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    for which in [&["--text", SMALL][..], &["--where", "year>1"]] {
        let args = [&["get", "--server", &url, "--stall", "100ms"], which].concat();
        let stalled = Ran::of(penates(&args)).ends_with(1);
        assert!(stalled.stderr.contains("silent for 100ms"), "{}", stalled.stderr);
    }
    let planning = Ran::of(penates(&["get", "--server", &url, SMALL, "--stall", "100ms", "--max-time", "1s"]));
    let printed = planning.ends_with(1).stderr;
    assert!(printed.contains("longer than 1s") && !printed.contains("silent"), "{printed}");
    for command in ["get", "tokens"] {
        let long = Ran::of(penates(&[command, "--server", &url, SMALL, "--max-time", "100ms"])).ends_with(1);
        assert!(long.stderr.contains("longer than 100ms"), "{}", long.stderr);
    }
    Ran::of(penates(&["get", "--server", &url, SMALL, "--stall", "soon"])).ends_with(2);
}

fn range_of(head: &str) -> Option<String> {
    head.lines().find_map(|line| line.to_lowercase().strip_prefix("range: ").map(str::to_owned))
}
