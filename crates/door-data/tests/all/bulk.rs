//! `/volumes` and `/pages`: requests of HTRC Data API clients, and the contents of the ZIP.
use std::time::{Duration, Instant};

use crate::support::{Fixture, HEADING, MACMAHON, SALMON, TAYLOR, cleaned, empty, sample, sample_pages, with_samples};
use bytes::Bytes;
use door_data::DataSettings;
use http::{Method, StatusCode, header};
use store::{Call, Class, Deadline, Scan, Store, Table};

/// Bounds every wait.
const PATIENCE: Duration = Duration::from_secs(30);

async fn fixture() -> Fixture {
    with_samples(DataSettings::default(), &[MACMAHON, SALMON]).await
}

/// The entries of a volume in the layout `pages`.
fn pages_apart(id: &str) -> Vec<(String, String)> {
    let cleaned = cleaned(id);
    let pages = sample_pages(id).into_iter().map(|(seq, text)| (format!("{cleaned}/{seq:08}.txt"), text));
    std::iter::once((format!("{cleaned}/"), String::new())).chain(pages).collect()
}

fn joined(id: &str) -> String {
    sample_pages(id).into_iter().map(|(_, text)| text).collect()
}

fn mets(id: &str) -> String {
    String::from_utf8(sample(id).mets).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_in_the_order_of_first_mention_each_after_its_directory_entry() {
    let fixture = fixture().await;
    let answer = fixture.get(&format!("/volumes?volumeIDs={SALMON}|{MACMAHON}|{SALMON}&version=7")).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("content-type"), Some("application/zip"));
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"volumes.zip\""));
    assert_eq!(answer.header("content-length").unwrap(), answer.body.len().to_string());
    assert_eq!(answer.header("penates-entries"), Some("118"));
    assert_eq!(answer.header("penates-missing"), Some("0"));
    assert_eq!(answer.entries(), [pages_apart(SALMON), pages_apart(MACMAHON)].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_local_header_has_what_streaming_java_readers_need() {
    let fixture = fixture().await;
    let answer = fixture.get(&format!("/volumes?volumeIDs={SALMON}&mets=true")).await;
    let mut zip = answer.zip();
    for index in 0..zip.len() {
        let entry = zip.by_index_raw(index).unwrap();
        let name = entry.name().unwrap();
        let local = &answer.body[entry.header_start() as usize..];
        let at = |offset: usize| u16::from_le_bytes([local[offset], local[offset + 1]]);
        let long = |offset: usize| u32::from_le_bytes(local[offset..offset + 4].try_into().unwrap());
        let (method, mode) = if name.ends_with('/') { (0, 0o755) } else { (8, 0o644) };
        assert_eq!(at(6) & 0x08, 0, "no data descriptor: {name}");
        assert_eq!(at(8), method, "{name}");
        assert_eq!(u64::from(long(22)), entry.size(), "{name}");
        assert_eq!(long(14), entry.crc32(), "{name}");
        assert_eq!(entry.unix_mode().map(|mode| mode & 0o777), Some(mode), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn layouts_and_their_older_form_name_entries_as_the_original_did() {
    let fixture = fixture().await;
    let (a, b) = (cleaned(SALMON), cleaned(MACMAHON));
    let both = format!("volumeIDs={SALMON}|{MACMAHON}");
    for query in ["concat=true", "layout=volumes"] {
        let answer = fixture.get(&format!("/volumes?{both}&{query}&mets=true")).await;
        let expected = [
            (format!("{a}.txt"), joined(SALMON)),
            (format!("{a}.mets.xml"), mets(SALMON)),
            (format!("{b}.txt"), joined(MACMAHON)),
            (format!("{b}.mets.xml"), mets(MACMAHON)),
        ];
        assert_eq!(answer.entries(), expected, "{query}");
    }
    let apart = fixture.get(&format!("/volumes?volumeIDs={SALMON}&mets=true")).await.entries();
    let with_mets = [pages_apart(SALMON), vec![(format!("{a}/mets.xml"), mets(SALMON))]].concat();
    assert_eq!(apart, with_mets);
    let sequence = fixture.get(&format!("/volumes?{both}&layout=wordseq")).await;
    assert_eq!(sequence.entries(), [("wordseq.txt".to_owned(), joined(SALMON) + &joined(MACMAHON))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_in_the_requested_order_by_sequence_and_not_by_file_name() {
    let fixture = with_samples(DataSettings::default(), &[TAYLOR, SALMON]).await;
    let page = |id: &str, seq: u32| {
        let (_, text) = sample_pages(id).into_iter().find(|(number, _)| *number == seq).unwrap();
        (format!("{}/{seq:08}.txt", cleaned(id)), text)
    };
    let ids = format!("pageIDs={TAYLOR}[40,9]|{SALMON}[7]|{TAYLOR}[9,41]");
    let answer = fixture.get(&format!("/pages?{ids}")).await;
    assert_eq!(answer.header("content-disposition"), Some("attachment; filename=\"pages.zip\""));
    let directory = |id: &str| (format!("{}/", cleaned(id)), String::new());
    let expected =
        [directory(TAYLOR), page(TAYLOR, 40), page(TAYLOR, 9), page(TAYLOR, 41), directory(SALMON), page(SALMON, 7)];
    assert_eq!(answer.entries(), expected);
    let sequence = fixture.get(&format!("/pages?{ids}&concat=true")).await.entries();
    let words = [page(TAYLOR, 40), page(TAYLOR, 9), page(TAYLOR, 41), page(SALMON, 7)].map(|(_, text)| text).concat();
    assert_eq!(sequence, [("wordseq.txt".to_owned(), words)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_volumes_are_named_last_and_break_nothing() {
    let fixture = fixture().await;
    let answer = fixture.get(&format!("/pages?pageIDs=none.such[1]|{SALMON}[1,25,99]")).await;
    let entries = answer.entries();
    assert_eq!(entries.len(), 3);
    let (name, text) = &entries[2];
    assert_eq!((name.as_str(), answer.header("penates-missing")), ("ERROR.err", Some("3")));
    let lines = text.strip_prefix(HEADING).unwrap();
    let line = |id: &str| format!("edu.indiana.d2i.htrc.access.exception.KeyNotFoundException: Offending key: {id}\n");
    let expected = ["none.such[1]", &format!("{SALMON}[25]"), &format!("{SALMON}[99]")].map(line).concat();
    assert_eq!(lines, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_finds_nothing_gets_a_zip_with_errors_alone() {
    let fixture = fixture().await;
    let answer = fixture.get("/volumes?volumeIDs=none.such|none.other&layout=wordseq").await;
    assert_eq!((answer.status, answer.names()), (StatusCode::OK, vec!["ERROR.err".to_owned()]));
    let (_, text) = &answer.entries()[0];
    let words: Vec<&str> = text.lines().filter(|line| line.contains("KeyNotFoundException")).map(last_word).collect();
    assert_eq!(words, ["none.such", "none.other"]);
}

fn last_word(line: &str) -> &str {
    line.split(' ').next_back().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_with_literal_bars_and_a_foreign_token_gets_the_same_as_get() {
    let fixture = fixture().await;
    // As the Scala client sends it: each id is encoded, the bar between them is not.
    let form = format!("volumeIDs={}|{}&mets=true", encoded(SALMON), encoded(MACMAHON));
    let ask = fixture.ask(Method::POST, "/data-api/volumes").header(header::AUTHORIZATION, "Bearer of-another-maker");
    let ask = ask.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded; charset=UTF-8");
    let posted = ask.body(form).answer().await;
    let got = fixture.get(&format!("/volumes?volumeIDs={SALMON}|{MACMAHON}&mets=true")).await;
    assert_eq!(posted.status, StatusCode::OK);
    assert_eq!(posted.body, got.body);
    assert_eq!(posted.header("etag"), got.header("etag"));
}

fn encoded(id: &str) -> String {
    door_data::segment(&id.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_ids_as_plain_text_is_accepted() {
    let fixture = fixture().await;
    let plain = |path: &str, body: String| {
        fixture.ask(Method::POST, path).header(header::CONTENT_TYPE, "text/plain").body(body).answer()
    };
    let volumes = plain("/volumes?layout=volumes", format!("{MACMAHON}\r\n\r\n {SALMON}\n")).await;
    assert_eq!(volumes.names(), [format!("{}.txt", cleaned(MACMAHON)), format!("{}.txt", cleaned(SALMON))]);
    let pages = plain("/pages", format!("{SALMON}[3]\n{SALMON}[2]\n")).await;
    assert_eq!(pages.names().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_level_contains_the_same_texts() {
    let fixture = fixture().await;
    let query = format!("volumeIDs={SALMON}|none.such&mets=true");
    let auto = fixture.get(&format!("/volumes?{query}&level=auto")).await;
    for level in ["0", "1", "6", "9"] {
        let answer = fixture.get(&format!("/volumes?{query}&level={level}")).await;
        assert_eq!(answer.entries(), auto.entries(), "level {level}");
        let promised = answer.header("content-length").map(str::to_owned);
        let expected = (level == "0").then(|| answer.body.len().to_string());
        assert_eq!(promised, expected, "level {level}");
        assert_eq!(answer.header("accept-ranges"), Some(if level == "0" { "bytes" } else { "none" }));
        assert_eq!(answer.header("etag").is_some(), level == "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn head_has_the_headers_of_get_and_sends_nothing() {
    let fixture = fixture().await;
    for path in [
        format!("/volumes?volumeIDs={SALMON}|none.such"),
        format!("/volumes?volumeIDs={SALMON}&level=5"),
        format!("/pages?pageIDs={SALMON}[1,2,77]&concat=true"),
        format!("/volumes/{}/pages/5", encoded(SALMON)),
        format!("/volumes/{}/mets", encoded(SALMON)),
        format!("/volumes/{}/record", encoded(SALMON)),
        format!("/volumes/{}", encoded(SALMON)),
        "/volumes/".to_owned(),
    ] {
        let (head, get) = (fixture.head(&path).await, fixture.get(&path).await);
        assert_eq!((head.status, &head.headers), (get.status, &get.headers), "{path}");
        assert!(head.body.is_empty() && !get.body.is_empty(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_400_in_plain_text_with_the_original_messages() {
    let fixture = fixture().await;
    let page_conflict = "Conflicting parameters in page retrieval. Offending Parameters: concat, mets";
    for (path, expected) in [
        ("/volumes", "Missing required parameter volumeIDs"),
        ("/pages", "Missing required parameter pageIDs"),
        ("/volumes?volumeIDs=", "Malformed Volume ID list. Offending token: "),
        ("/volumes?volumeIDs=a.1|nodot|b.2", "Malformed Volume ID list. Offending token: nodot"),
        ("/volumes?volumeIDs=%20", "Malformed Volume ID list. Offending token:  "),
        ("/pages?pageIDs=yale.1[0]", "Malformed Page ID list. Offending token: yale.1[0]"),
        ("/pages?pageIDs=yale.1", "Malformed Page ID list. Offending token: yale.1"),
        ("/pages?pageIDs=yale.1[1]&concat=true&mets=true", page_conflict),
        (
            "/volumes?volumeIDs=a.1&layout=wordseq&mets=true",
            "Conflicting parameters in volume retrieval. Offending Parameters: layout, mets",
        ),
    ] {
        for path in [path.to_owned(), format!("/data-api{path}")] {
            let answer = fixture.get(&path).await;
            assert_eq!((answer.status, answer.text()), (StatusCode::BAD_REQUEST, expected), "{path}");
            assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
        }
    }
    let posted = fixture.post("/volumes", "this is no form").await;
    assert_eq!((posted.status.as_u16(), posted.text()), (400, "Missing required parameter volumeIDs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_are_checked_before_anything_is_sent() {
    let settings = DataSettings { max_volumes: 2, max_pages: 100, max_pages_per_volume: 95, ..DataSettings::default() };
    let fixture = with_samples(settings, &[MACMAHON, SALMON, TAYLOR]).await;
    let greedy = |policy: &str, id: &str| format!("Request too greedy. Request violates {policy}. Offending ID: {id}");
    for (path, expected) in [
        ("/volumes?volumeIDs=a.1|a.2|a.3".to_owned(), greedy("Max Volumes Allowed 2", "a.3")),
        (format!("/volumes?volumeIDs={TAYLOR}"), greedy("Max Pages Per Volume Allowed 95", TAYLOR)),
        (format!("/volumes?volumeIDs={MACMAHON}|{SALMON}"), greedy("Max Total Pages Allowed 100", SALMON)),
    ] {
        let answer = fixture.get(&path).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (400, expected.as_str()), "{path}");
        for route in ["/volumes", "/tokencount"] {
            let posted = fixture.post(route, path.split_once('?').unwrap().1).await;
            assert_eq!(posted.status, StatusCode::BAD_REQUEST, "{route} for {path}");
            assert_eq!(posted.text(), expected, "{route} for {path}");
        }
    }
    let pages: Vec<String> = (1..=96).map(|seq| seq.to_string()).collect();
    let answer = fixture.get(&format!("/pages?pageIDs={SALMON}[{}]", pages.join(","))).await;
    assert_eq!(answer.text(), greedy("Max Pages Per Volume Allowed 95", SALMON));
    assert_eq!(fixture.get(&format!("/volumes?volumeIDs={MACMAHON}")).await.status, StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_another_type_or_over_the_limit_is_refused() {
    let fixture = with_samples(DataSettings::default(), &[SALMON]).await;
    let json = fixture.ask(Method::POST, "/volumes").header(header::CONTENT_TYPE, "application/json").body("{}");
    assert_eq!(json.answer().await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let at_the_limit = format!("volumeIDs={SALMON}&x={}", "y".repeat((16 << 20) - SALMON.len() - 13));
    assert_eq!(at_the_limit.len(), 16 << 20);
    assert_eq!(fixture.post("/volumes", &at_the_limit).await.status, StatusCode::OK);
    assert_eq!(fixture.post("/volumes", &(at_the_limit + "z")).await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_ids_in_one_body_work() {
    let fixture = with_samples(DataSettings::default(), &[SALMON]).await;
    let mut ids: Vec<String> = (0..100_000).map(|number| format!("none.{number}")).collect();
    ids.insert(50_000, SALMON.to_owned());
    let answer = fixture.post("/volumes?concat=true", &format!("volumeIDs={}", ids.join("|"))).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.names(), [format!("{}.txt", cleaned(SALMON)), "ERROR.err".to_owned()]);
    assert_eq!(answer.header("penates-missing"), Some("100000"));
    let (_, errors) = &answer.entries()[1];
    assert_eq!(errors.lines().filter(|line| line.contains("KeyNotFoundException")).count(), 100_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_would_take_too_much_memory_is_refused() {
    let settings = DataSettings { ids_max: 3, ..DataSettings::default() };
    let fixture = with_samples(settings, &[SALMON]).await;
    for (route, list) in [
        ("/volumes", "volumeIDs=a.1|a.2|a.3"),
        ("/tokencount", "volumeIDs=a.1|a.2|a.3"),
        ("/pages", "pageIDs=abcd.1[1,2]|abcd.2[1]"),
        ("/selections", "volumeIDs=a.1|a.2|a.3"),
    ] {
        let within = fixture.post(route, list).await;
        assert!(within.status.is_success(), "{route}: {}", within.status);
        let beyond = fixture.post(route, &list.replace('2', "2|a.4,")).await;
        assert_eq!(beyond.status, StatusCode::PAYLOAD_TOO_LARGE, "{route}");
        assert!(beyond.text().contains("more than 3 volumes and pages"), "{}", beyond.text());
    }
    let lines =
        fixture.ask(Method::POST, "/volumes").header(header::CONTENT_TYPE, "text/plain").body("a.1\na.2\na.3\na.4");
    assert_eq!(lines.answer().await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

/// Bytes of keys and values of all rows of a table.
async fn row_bytes(fixture: &Fixture, table: Table) -> usize {
    let call = || Call::new(Class::Description, Deadline::within(PATIENCE));
    let walked = fixture.faults.walk(call(), table, None, 10_000).await.unwrap();
    let mut bytes = 0;
    for partition in &walked.partitions {
        let mut scan = Some(Scan::prefix(Bytes::new(), 4 << 20));
        while let Some(range) = scan {
            let page = fixture.faults.scan(call(), table, partition, range.clone()).await.unwrap();
            bytes += page.rows.iter().map(|row| row.sort.len() + row.value.len()).sum::<usize>();
            scan = range.resumed(page.next);
        }
    }
    bytes
}

/// A list of pages of a volume that is not there, whose id is as long as an id may be.
fn absent_pages(count: u32) -> String {
    let pages: Vec<String> = (1..=count).map(|seq| seq.to_string()).collect();
    format!("pageIDs=x.{}[{}]", "y".repeat(998), pages.join(","))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_of_absent_pages_is_stored_and_audited_in_no_more_than_its_list_and_reads_back() {
    let fixture = empty(DataSettings::default()).await;
    let list = absent_pages(100_000);
    let made = fixture.post("/selections", &list).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    for table in [Table::Selections, Table::Audit] {
        let bytes = row_bytes(&fixture, table).await;
        assert!(bytes > 100_000 && bytes <= list.len(), "{bytes} bytes in {table:?} for a list of {}", list.len());
    }
    gives_back_all_memory(&fixture).await;
    let description = made.json();
    let found = fixture.head(made.header("location").unwrap()).await;
    assert_eq!((found.status, found.header("penates-missing")), (StatusCode::OK, Some("100000")));
    // A line of `ERROR.err` names the volume and its page.
    let len_bytes = description["len_bytes"].as_u64().unwrap();
    assert!(len_bytes > 107_000_000, "{len_bytes}");
    assert_eq!(found.header("content-length").unwrap(), len_bytes.to_string());
    assert_eq!(found.header("etag"), description["etag"].as_str());
    gives_back_all_memory(&fixture).await;
}

/// Waits until the memory of all requests is given back, which is soon after their answers.
async fn gives_back_all_memory(fixture: &Fixture) {
    let deadline = Instant::now() + PATIENCE;
    while fixture.library.memory.taken_bytes() > 0 {
        assert!(Instant::now() < deadline, "{} bytes stay", fixture.library.memory.taken_bytes());
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_which_too_much_could_be_missing_is_refused_and_nothing_is_stored() {
    let fixture = empty(DataSettings::default()).await;
    let list = absent_pages(150_000);
    for route in ["/selections", "/pages"] {
        let refused = fixture.post(route, &list).await;
        assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE, "{route}");
        assert!(refused.text().contains("split the request"), "{}", refused.text());
    }
    assert_eq!(row_bytes(&fixture, Table::Selections).await, 0);
    gives_back_all_memory(&fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_nobody_reads_holds_the_memory_of_its_plan_until_its_client_leaves() {
    let settings = DataSettings { post_selection: false, ..DataSettings::default() };
    let fixture = with_samples(settings, &[SALMON]).await;
    let memory = &fixture.library.memory;
    // Responses of five megabytes: more than is made ahead of a client.
    let absent: Vec<String> = (0..5_000).map(|number| format!("none.{number:0>990}")).collect();
    let list = format!("volumeIDs={SALMON}|{}", absent.join("|"));
    for route in ["/volumes", "/tokencount?format=csv"] {
        let asked = fixture.ask(Method::POST, route).header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        let (status, _, body) = asked.body(list.clone()).sent().await;
        assert_eq!(status, StatusCode::OK, "{route}");
        assert!(memory.taken_bytes() > 9_000_000, "{route}: {} bytes", memory.taken_bytes());
        drop(body);
        gives_back_all_memory(&fixture).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn token_counts_are_those_of_the_words() {
    let fixture = with_samples(DataSettings::default(), &[]).await;
    let source = crate::support::volume("t.a", &["b a exam-\nple a\n", "", "c-\n"]);
    fixture.library.volumes.import(source, volumes::Unchanged::Skip, |_| {}).await.unwrap();
    let by_volume = fixture.post("/tokencount", "volumeIDs=t.a|none.such&sortBy=count&sortOrder=desc").await;
    assert_eq!(by_volume.header("content-disposition"), Some("attachment; filename=\"tokencount.zip\""));
    assert_eq!(by_volume.header("content-type"), Some("application/zip"));
    let entries = by_volume.entries();
    assert_eq!(entries[0], ("t.a.count".to_owned(), "a 2\nb 1\nc- 1\nexam-ple 1\n".to_owned()));
    assert_eq!((entries[1].0.as_str(), entries.len()), ("ERROR.err", 2));
    let by_page = fixture.post("/data-api/tokencount", "volumeIDs=t.a&level=page").await.entries();
    let expected = [
        ("t.a/00000001.count", "a 2\nb 1\nexam-ple 1\n"),
        ("t.a/00000002.count", ""),
        ("t.a/00000003.count", "c- 1\n"),
    ];
    let counts: Vec<(&str, &str)> = by_page
        .iter()
        .filter(|(name, _)| !name.ends_with('/'))
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    assert_eq!(counts, expected);
    assert_eq!(fixture.post("/tokencount", "level=page").await.text(), "Missing required parameter volumeIDs");
}

#[tokio::test(flavor = "multi_thread")]
async fn report_mode_promises_no_length() {
    let settings = DataSettings { on_damage: volumes::OnDamage::Report, ..DataSettings::default() };
    let fixture = with_samples(settings, &[SALMON]).await;
    let form = format!("volumeIDs={SALMON}");
    let answer = fixture.post("/volumes", &form).await;
    for name in ["content-length", "etag", "content-location"] {
        assert_eq!(answer.header(name), None, "{name}");
    }
    assert_eq!(answer.entries(), pages_apart(SALMON));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_does_not_wait_behind_archives_that_nobody_reads() {
    let fixture = fixture().await;
    let mut held = Vec::new();
    for _ in 0..50 {
        // Responses whose bodies are kept and never read, like those of slow clients.
        held.push(fixture.ask(Method::GET, &format!("/volumes?volumeIDs={MACMAHON}|{SALMON}&level=0")).sent().await);
    }
    assert!(held.iter().all(|(status, ..)| *status == StatusCode::OK));
    let (seq, text) = &sample_pages(SALMON)[6];
    let path = format!("/volumes/{}/pages/{seq}", encoded(SALMON));
    let page = tokio::time::timeout(PATIENCE, fixture.get(&path)).await.unwrap();
    assert_eq!(page.text(), text);
    let one_more = fixture.get(&format!("/volumes?volumeIDs={SALMON}")).await;
    assert_eq!(one_more.entries(), pages_apart(SALMON));
}
