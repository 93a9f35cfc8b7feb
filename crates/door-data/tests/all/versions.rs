//! Earlier versions of volumes: their list, their addresses, negotiation in time, and restoring.
use std::time::Duration;

use crate::support::{Fixture, Reply, SALMON, cleaned, empty_with, sample, sample_pages, volume};
use ::volumes::{CollectLimits, Unchanged};
use door_data::DataSettings;
use heads::{History, Keep, LibraryOptions};
use http::{HeaderName, Method, StatusCode, header};

const DAY: Duration = Duration::from_secs(24 * 3_600);
const ACCEPT_DATETIME: HeaderName = HeaderName::from_static("accept-datetime");
/// The times of the two versions.
const FIRST: &str = "Sun, 15 Jun 2025 15:06:40 GMT";
const SECOND: &str = "Mon, 16 Jun 2025 15:06:40 GMT";
/// The present of a fixture at first.
const PRESENT: &str = "Wed, 18 Jun 2025 15:06:40 GMT";

/// The address of the volume.
fn address() -> String {
    format!("/volumes/{}", cleaned(SALMON))
}

/// A sample volume that was replaced a day later, and two days before the present.
async fn replaced(volumes: Keep) -> Fixture {
    let history = History { volumes, ..History::default() };
    let options = LibraryOptions { history, ..LibraryOptions::default() };
    let fixture = empty_with(DataSettings::default(), options).await;
    fixture.library.volumes.import(sample(SALMON), Unchanged::Skip, |_| {}).await.unwrap();
    fixture.clock.advance(DAY);
    fixture.library.volumes.import(volume(SALMON, &["changed"]), Unchanged::Skip, |_| {}).await.unwrap();
    for _ in 0..2 {
        fixture.library.volumes.collect_once(CollectLimits::default()).await.unwrap();
        fixture.clock.advance(DAY);
    }
    fixture
}

/// The addresses of the versions, oldest first.
async fn versions(fixture: &Fixture) -> Vec<String> {
    let list = fixture.get(&format!("{}/versions/", address())).await;
    assert_eq!(list.status, StatusCode::OK, "{}", list.text());
    let list = list.json();
    list["versions"].as_array().unwrap().iter().map(|one| one["address"].as_str().unwrap().to_owned()).collect()
}

async fn at(fixture: &Fixture, path: &str, time: &str) -> Reply {
    fixture.ask(Method::GET, path).header(ACCEPT_DATETIME, time).answer().await
}

/// Replaces the volume by one of a single page.
async fn replace(fixture: &Fixture, text: &str) {
    fixture.library.volumes.import(volume(SALMON, &[text]), Unchanged::Skip, |_| {}).await.unwrap();
}

/// Restores the version of a time.
async fn restore_at(fixture: &Fixture, time: &str) -> Reply {
    let ask = fixture.ask(Method::POST, &format!("{}/versions/?restore=", address()));
    ask.header(ACCEPT_DATETIME, time).answer().await
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_listed_with_their_times_and_sizes_and_which_is_current() {
    let fixture = replaced(Keep::All).await;
    let list = fixture.get(&format!("{}/versions/", address())).await.json();
    assert_eq!(list["id"], SALMON);
    let versions = list["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 2);
    let bytes: usize = sample_pages(SALMON).iter().map(|(_, text)| text.len()).sum();
    assert_eq!((&versions[0]["pages"], &versions[0]["size_bytes"]), (&24.into(), &bytes.into()));
    assert_eq!((&versions[0]["time"], &versions[0]["current"]), (&"2025-06-15T15:06:40Z".into(), &false.into()));
    assert_eq!((&versions[1]["time"], &versions[1]["current"]), (&"2025-06-16T15:06:40Z".into(), &true.into()));
    assert_eq!(versions[1]["revision"], fixture.get(&address()).await.json()["revision"]);

    let part = fixture.get(&format!("{}/versions/?limit=1", address())).await.json();
    assert_eq!((part["versions"].as_array().unwrap().len(), &part["next"]), (1, &versions[1]["revision"]));
    let rest = fixture.get(&format!("{}/versions/?from={}", address(), part["next"].as_str().unwrap())).await.json();
    assert_eq!((&rest["versions"][0], &rest["next"]), (&versions[1], &serde_json::Value::Null));
    for query in ["limit=0", "limit=10001", "limit=x", "from=x"] {
        let refused = fixture.get(&format!("{}/versions/?{query}", address())).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_volumes_with_kept_versions_are_listed_with_the_time_of_their_deletion() {
    let fixture = replaced(Keep::All).await;
    let deleted = async || {
        let list = fixture.get("/volumes/?deleted=true").await;
        assert_eq!((list.status, list.header("content-type")), (StatusCode::OK, Some("application/x-ndjson")));
        list.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<serde_json::Value>>()
    };
    let at = async || fixture.get(&format!("{}/versions/", address())).await.json()["deleted"].clone();
    assert_eq!((deleted().await, at().await), (Vec::new(), serde_json::Value::Null));
    assert_eq!(fixture.ask(Method::DELETE, &address()).answer().await.status, StatusCode::NO_CONTENT);
    let time = "2025-06-18T15:06:40Z";
    let expected = serde_json::json!({"id": SALMON, "deleted": time});
    assert_eq!((deleted().await, at().await), (vec![expected], serde_json::Value::from(time)));
    // It comes back.
    let restored = fixture.ask(Method::POST, &format!("{}/versions/?restore=", address())).answer().await;
    assert_eq!(restored.status, StatusCode::CREATED);
    assert_eq!((deleted().await, at().await), (Vec::new(), serde_json::Value::Null));
    for (query, status) in [
        ("deleted=yes", StatusCode::BAD_REQUEST),
        ("deleted=true&limit=1", StatusCode::BAD_REQUEST),
        ("deleted=true&deleted=true", StatusCode::BAD_REQUEST),
        ("deleted=", StatusCode::BAD_REQUEST),
    ] {
        assert_eq!(fixture.get(&format!("/volumes/?{query}")).await.status, status, "{query}");
    }
    let csv = fixture.ask(Method::GET, "/volumes/?deleted=true").header(header::ACCEPT, "text/csv").answer().await;
    assert_eq!(csv.status, StatusCode::NOT_ACCEPTABLE);
    // Nothing is kept.
    let fixture = replaced(Keep::None).await;
    assert_eq!(fixture.get("/volumes/?deleted=true").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_a_timemap_too() {
    let fixture = replaced(Keep::All).await;
    let ask = fixture.ask(Method::GET, &format!("/data-api{}/versions/", address()));
    let map = ask.header(header::ACCEPT, "application/link-format").answer().await;
    assert_eq!(map.header("content-type"), Some("application/link-format"));
    let lines: Vec<_> = map.text().lines().collect();
    assert_eq!(lines.len(), 5, "{}", map.text());
    let original = lines[0].strip_suffix(">; rel=\"original\",").unwrap();
    assert!(original.starts_with("</data-api/volumes/"), "{original}");
    assert_eq!(lines[1], format!("{original}>; rel=\"timegate\","));
    let typed = "type=\"application/link-format\"";
    let times = format!("from=\"{FIRST}\"; until=\"{SECOND}\"");
    assert_eq!(lines[2], format!("{original}/versions/>; rel=\"self\"; {typed}; {times},"));
    assert!(lines[3].ends_with(&format!("rel=\"first memento\"; datetime=\"{FIRST}\",")), "{}", lines[3]);
    assert!(lines[4].ends_with(&format!("rel=\"last memento\"; datetime=\"{SECOND}\"")), "{}", lines[4]);

    let all = versions(&fixture).await;
    let [first, second] = [0, 1].map(|place| all[place].rsplit('/').next().unwrap());
    let ask = fixture.ask(Method::GET, &format!("/data-api{}/versions/?limit=1", address()));
    let map = ask.header(header::ACCEPT, "application/link-format").answer().await;
    let lines: Vec<_> = map.text().lines().collect();
    assert_eq!(lines.len(), 5, "{}", map.text());
    let times = format!("from=\"{FIRST}\"; until=\"{FIRST}\"");
    assert_eq!(lines[2], format!("{original}/versions/?limit=1>; rel=\"self\"; {typed}; {times},"));
    let rest = format!("{original}/versions/?from={second}&limit=1>; rel=\"timemap\"; {typed}; from=\"{SECOND}\",");
    assert_eq!(lines[3], rest);
    assert!(lines[4].ends_with(&format!("rel=\"first memento\"; datetime=\"{FIRST}\"")), "{}", lines[4]);

    for (from, relation) in [(first, "first memento"), (second, "last memento")] {
        let ask = fixture.ask(Method::GET, &format!("/data-api{}/versions/?from={from}", address()));
        let map = ask.header(header::ACCEPT, "application/link-format").answer().await;
        let begin = map.text().lines().nth(3).unwrap();
        assert!(begin.contains(&format!("{from}>; rel=\"{relation}\";")), "{}", map.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_leads_to_those_beside_it_and_to_the_first_and_the_last() {
    let fixture = replaced(Keep::All).await;
    replace(&fixture, "again").await;
    let all = versions(&fixture).await;
    let around = async |path: &str| {
        let described = fixture.get(path).await;
        let links = described.headers.get_all(header::LINK).iter().map(|link| link.to_str().unwrap().to_owned());
        links.filter(|link| link.contains(" memento\"")).collect::<Vec<_>>()
    };
    let link = |place: usize, relation: &str| {
        let time = [FIRST, SECOND, PRESENT][place];
        format!("<{}>; rel=\"{relation} memento\"; datetime=\"{time}\"", all[place])
    };
    assert_eq!(around(&all[0]).await, [link(0, "first"), link(1, "next"), link(2, "last")]);
    assert_eq!(around(&all[1]).await, [link(0, "first"), link(0, "prev"), link(2, "next"), link(2, "last")]);
    assert_eq!(around(&all[2]).await, [link(0, "first"), link(1, "prev"), link(2, "last")]);
    assert_eq!(around(&format!("{}/mets", all[1])).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_versions_of_one_millisecond_have_archives_of_their_own() {
    let fixture = replaced(Keep::All).await;
    for text in ["one", "two"] {
        replace(&fixture, text).await;
    }
    fixture.clock.advance(DAY);
    for (version, text) in versions(&fixture).await[2..].iter().zip(["one", "two"]) {
        let zip = fixture.ask(Method::GET, version).header(header::ACCEPT, "application/zip").answer().await;
        assert_eq!(zip.status, StatusCode::SEE_OTHER);
        let texts = fixture.get(zip.header("location").unwrap()).await.entries().into_iter().map(|(_, text)| text);
        assert_eq!(texts.filter(|text| !text.is_empty()).collect::<Vec<_>>(), [text]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_has_the_pages_mets_and_description_that_the_volume_had_and_cannot_be_changed() {
    let fixture = replaced(Keep::All).await;
    let first = versions(&fixture).await.remove(0);
    let described = fixture.get(&first).await;
    assert_eq!(described.json()["pages"], 24);
    assert_eq!(described.header("memento-datetime"), Some(FIRST));
    let links: Vec<_> = described.headers.get_all(header::LINK).iter().map(|link| link.to_str().unwrap()).collect();
    assert!(links[0].ends_with("rel=\"original timegate\"") && links[1].ends_with("/versions/>; rel=\"timemap\""));

    let pages = fixture.get(&format!("{first}/pages/")).await.json();
    assert_eq!(pages.as_array().unwrap().len(), 24);
    for (seq, text) in sample_pages(SALMON).into_iter().take(3) {
        let page = fixture.get(&format!("{first}/pages/{seq}")).await;
        assert_eq!((page.text(), page.header("memento-datetime")), (&*text, Some(FIRST)));
    }
    let mets = fixture.get(&format!("{first}/mets")).await;
    assert_eq!(mets.body, sample(SALMON).mets);
    let record = fixture.get(&format!("{first}/record")).await;
    assert_eq!(record.body, sample(SALMON).record.unwrap());
    let ask = fixture.ask(Method::GET, &format!("{first}/mets"));
    let known = ask.header(header::IF_NONE_MATCH, mets.header("etag").unwrap()).answer().await;
    assert_eq!(known.status, StatusCode::NOT_MODIFIED);
    for (method, member) in [(Method::PUT, "/mets"), (Method::PUT, "/pages/1"), (Method::DELETE, "")] {
        let refused = fixture.ask(method, &format!("{first}{member}")).answer().await;
        assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED);
    }
    let zip = fixture.ask(Method::GET, &first).header(header::ACCEPT, "application/zip").answer().await;
    assert_eq!(zip.status, StatusCode::SEE_OTHER);
    assert_eq!(fixture.get(zip.header("location").unwrap()).await.names().len(), 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_and_its_members_lead_to_the_version_of_a_time() {
    let fixture = replaced(Keep::All).await;
    let all = versions(&fixture).await;
    let cases = [
        ("Fri, 01 Jan 1999 00:00:00 GMT", &all[0]),
        (FIRST, &all[0]),
        ("Mon, 16 Jun 2025 15:06:39 GMT", &all[0]),
        (SECOND, &all[1]),
        ("Fri, 01 Jan 2100 00:00:00 GMT", &all[1]),
    ];
    for (time, version) in cases {
        for member in ["", "/mets", "/record", "/pages/", "/pages/1"] {
            let answer = at(&fixture, &format!("{}{member}", address()), time).await;
            assert_eq!(answer.status, StatusCode::FOUND, "{time} {member}");
            assert_eq!(answer.header("location").unwrap(), format!("{version}{member}"));
            assert_eq!(answer.header("vary"), Some("accept-datetime"));
        }
    }
    // Under a prefix too. At the address of a version the header is ignored.
    let prefixed = at(&fixture, &format!("/data-api{}/mets", address()), FIRST).await;
    assert_eq!(prefixed.header("location").unwrap(), format!("/data-api{}/mets", all[0]));
    assert_eq!(at(&fixture, &format!("{}/mets", all[0]), SECOND).await.status, StatusCode::OK);
    let malformed = at(&fixture, &address(), "Mon, 15 Jun 2025 15:06:40 GMT").await;
    assert_eq!(malformed.status, StatusCode::BAD_REQUEST);
    let two = fixture.ask(Method::GET, &address()).header(ACCEPT_DATETIME, FIRST).header(ACCEPT_DATETIME, SECOND);
    assert_eq!(two.answer().await.status, StatusCode::BAD_REQUEST, "it is not known which counts");
    let present = fixture.get(&format!("{}/pages/1", address())).await;
    assert!(present.headers.get_all(header::VARY).iter().any(|vary| vary == "accept-datetime"));
    assert_eq!(present.headers.get_all(header::LINK).iter().count(), 2);
    assert_eq!(present.header("memento-datetime"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_of_a_deleted_volume_stay_and_the_last_comes_back() {
    let fixture = replaced(Keep::All).await;
    let id = SALMON.parse().unwrap();
    fixture.library.volumes.delete(&id).await.unwrap();
    assert_eq!(fixture.get(&address()).await.status, StatusCode::GONE);
    let all = versions(&fixture).await;
    assert_eq!(all.len(), 2);
    assert_eq!(fixture.get(&format!("{}/pages/1", all[1])).await.text(), "changed");
    let then = at(&fixture, &address(), "Fri, 01 Jan 2100 00:00:00 GMT").await;
    assert_eq!(then.header("location"), Some(all[1].as_str()));

    let restore = async |query: &str| fixture.post(&format!("{}/versions/?{query}", address()), "").await;
    let restored = restore("restore=").await;
    assert_eq!(restored.status, StatusCode::CREATED, "{}", restored.text());
    assert_eq!(fixture.get(&format!("{}/pages/1", address())).await.text(), "changed");
    assert_eq!(versions(&fixture).await.last().map(String::as_str), restored.header("location"));

    let first = all[0].rsplit('/').next().unwrap();
    assert_eq!(restore(&format!("restore={first}")).await.status, StatusCode::CREATED);
    assert_eq!(fixture.get(&format!("{}/mets", address())).await.body, sample(SALMON).mets);
    assert_eq!(versions(&fixture).await.len(), 4);
    let verified = fixture.library.volumes.verify(&id).await.unwrap();
    assert!(verified.damaged.is_empty() && verified.members == 26);
    // A copy of a sample is recognised as such.
    let again = fixture.library.volumes.import(sample(SALMON), Unchanged::Skip, |_| {}).await.unwrap();
    assert!(matches!(again, ::volumes::Imported::Unchanged { .. }));

    assert_eq!(restore_at(&fixture, SECOND).await.status, StatusCode::CREATED);
    assert_eq!(fixture.get(&format!("{}/pages/1", address())).await.text(), "changed");
    assert_eq!(restore("").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(restore("restore=yesterday").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(restore(&format!("restore={}", "0".repeat(32))).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_of_exactly_that_time_is_restored_and_never_one_beside_it() {
    let fixture = replaced(Keep::Newest(1)).await;
    replace(&fixture, "again").await;
    let there = versions(&fixture).await;
    let refused = async |time: &str, why: &str| {
        let answer = restore_at(&fixture, time).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{time}: {}", answer.text());
        assert!(answer.text().contains(why), "{time}: {}", answer.text());
    };
    refused(FIRST, &format!("no version of {FIRST} that is kept")).await;
    refused("Mon, 01 Jan 2001 00:00:00 GMT", "it did not exist then").await;
    // What is there needs no restoring.
    let unnamed = fixture.post(&format!("{}/versions/?restore=", address()), "").await;
    assert_eq!(unnamed.status, StatusCode::BAD_REQUEST);
    assert!(unnamed.text().contains("is not deleted: name the version"), "{}", unnamed.text());
    assert_eq!(versions(&fixture).await, there);

    assert_eq!(restore_at(&fixture, SECOND).await.status, StatusCode::CREATED);
    assert_eq!(fixture.get(&format!("{}/pages/1", address())).await.text(), "changed");
    fixture.clock.advance(DAY);
    fixture.library.volumes.delete(&SALMON.parse().unwrap()).await.unwrap();
    refused("Thu, 19 Jun 2025 15:06:40 GMT", "or was deleted").await;
    assert_eq!(fixture.get(&address()).await.status, StatusCode::GONE);
    assert_eq!(restore_at(&fixture, "Thu, 19 Jun 2025 15:06:39 GMT").await.status, StatusCode::CREATED);
    assert_eq!(fixture.get(&format!("{}/pages/1", address())).await.text(), "changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_kept_is_neither_listed_nor_found() {
    let fixture = replaced(Keep::All).await;
    let all = versions(&fixture).await;
    replace(&fixture, "again").await;
    let history = History { volumes: Keep::Newest(1), ..History::default() };
    let fixture = fixture.reopened(LibraryOptions { history, ..LibraryOptions::default() }).await;
    assert_eq!(versions(&fixture).await.len(), 2);
    assert_eq!(fixture.get(&all[0]).await.status, StatusCode::NOT_FOUND);
    assert_eq!(fixture.get(&format!("{}/mets", all[0])).await.status, StatusCode::NOT_FOUND);
    assert_eq!(at(&fixture, &address(), FIRST).await.header("location"), Some(all[1].as_str()));
    for name in ["yesterday", &"0".repeat(32), &all[1].rsplit('/').next().unwrap().to_uppercase()] {
        assert_eq!(fixture.get(&format!("{}/versions/{name}", address())).await.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_no_versions_are_kept_nothing_is_said_about_them() {
    let fixture = replaced(Keep::None).await;
    let present = at(&fixture, &address(), FIRST).await;
    assert_eq!((present.status, present.header("link"), present.header("vary")), (StatusCode::OK, None, None));
    let list = fixture.get(&format!("{}/versions/", address())).await;
    assert_eq!(list.status, StatusCode::NOT_FOUND);
    assert!(list.text().contains("history.volumes"), "{}", list.text());
    let restored = restore_at(&fixture, FIRST).await;
    assert_eq!(restored.status, StatusCode::NOT_FOUND);
    assert!(restored.text().contains("history.volumes"), "{}", restored.text());
    let revision = present.json()["revision"].as_str().unwrap().to_owned();
    assert_eq!(fixture.get(&format!("{}/versions/{revision}", address())).await.status, StatusCode::NOT_FOUND);
}
