//! `as_of`: archives, token counts and selections of volumes as they were at a time.
use std::time::Duration;

use crate::support::{Fixture, MACMAHON, SALMON, empty_with, sample, sample_pages, volume};
use ::volumes::{CollectLimits, Unchanged};
use door_data::DataSettings;
use heads::{History, Keep, LibraryOptions};
use http::{Method, StatusCode, header};
use store::Clock;

/// The second in which the clocks of tests begin, and that of the change a day later.
const FIRST: &str = "2025-06-15T15:06:40Z";
const DAY: Duration = Duration::from_secs(24 * 3_600);

async fn keeping(volumes: Keep) -> Fixture {
    let history = History { volumes, ..History::default() };
    empty_with(DataSettings::default(), LibraryOptions { history, ..LibraryOptions::default() }).await
}

/// Two sample volumes. A day later one of them is replaced, the other deleted, and a third is new.
async fn changed(volumes: Keep) -> (Fixture, bytes::Bytes) {
    let fixture = keeping(volumes).await;
    for id in [SALMON, MACMAHON] {
        fixture.library.volumes.import(sample(id), Unchanged::Skip, |_| {}).await.unwrap();
    }
    let before = fixture.get(&format!("/volumes?volumeIDs={SALMON}|{MACMAHON}")).await;
    fixture.clock.advance(DAY);
    fixture.library.volumes.import(volume(SALMON, &["changed"]), Unchanged::Skip, |_| {}).await.unwrap();
    fixture.library.volumes.delete(&MACMAHON.parse().unwrap()).await.unwrap();
    fixture.library.volumes.import(volume("new.1", &["new"]), Unchanged::Skip, |_| {}).await.unwrap();
    for _ in 0..3 {
        fixture.clock.advance(DAY);
        fixture.library.volumes.collect_once(CollectLimits::default()).await.unwrap();
    }
    (fixture, before.body)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_as_of_a_time_is_the_one_that_was_sent_then_byte_for_byte() {
    let (fixture, before) = changed(Keep::All).await;
    let query = format!("volumeIDs={SALMON}|{MACMAHON}&as_of={FIRST}");
    let path = format!("/volumes?{query}");
    let answer = fixture.get(&path).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body == before);
    assert_eq!(answer.header("penates-missing"), Some("0"));
    assert!(fixture.post("/volumes", &query).await.body == before);
    let head = fixture.head(&path).await;
    assert_eq!(head.header("etag"), answer.header("etag"));
    assert_eq!(head.header("content-length").unwrap(), before.len().to_string());
    let rest = fixture.ask(Method::GET, &path).header(header::RANGE, "bytes=20000-").answer().await;
    assert_eq!(rest.status, StatusCode::PARTIAL_CONTENT);
    assert!(rest.body == before[20_000..]);

    let pages = fixture.get(&format!("/pages?pageIDs={SALMON}[3]&as_of={FIRST}")).await;
    let (_, third) = sample_pages(SALMON).into_iter().find(|(seq, _)| *seq == 3).unwrap();
    assert_eq!(pages.entries()[1].1, third);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_is_empty_repeated_or_misspelt_is_refused_on_every_route_and_never_means_now() {
    let (fixture, _) = changed(Keep::All).await;
    for times in ["as_of=", "as_of=%20", &format!("as_of={FIRST}&as_of=2025-06-16T15:06:40Z"), "asOf=x", "as-of=x"] {
        for route in ["/volumes", "/tokencount", "/selections"] {
            let query = format!("volumeIDs={SALMON}&{times}");
            let mut answers = vec![fixture.post(route, &query).await];
            if route != "/selections" {
                answers.push(fixture.get(&format!("{route}?{query}")).await);
            }
            for answer in answers {
                assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{route} {times}");
                assert!(answer.text().contains("Malformed parameter as"), "{route} {times}: {}", answer.text());
            }
        }
        let pages = fixture.get(&format!("/pages?pageIDs={SALMON}[3]&{times}")).await;
        assert_eq!(pages.status, StatusCode::BAD_REQUEST, "/pages {times}");
    }
    for route in ["", "/text", "/mets", "/pages/", "/pages/3"] {
        for time in [&format!("as_of={FIRST}"), "asOf="] {
            let answer = fixture.get(&format!("/volumes/new.1{route}?{time}")).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{route} {time}");
            assert!(answer.text().contains("versions/"), "{route} {time}: {}", answer.text());
        }
    }
    let both = format!("/volumes?volumeIDs={SALMON}&as_of={FIRST}");
    assert_eq!(fixture.post(&both, &format!("as_of={FIRST}")).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_did_not_exist_then_is_missing_and_so_is_one_that_was_deleted() {
    let (fixture, _) = changed(Keep::All).await;
    let missing = async |query: &str| {
        let answer = fixture.get(&format!("/volumes?{query}")).await;
        let entries = answer.entries();
        let (name, errors) = entries.last().unwrap();
        assert_eq!(name, "ERROR.err");
        errors.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let absent = "edu.indiana.d2i.htrc.access.exception.KeyNotFoundException: Offending key: ";
    assert_eq!(missing(&format!("volumeIDs={SALMON}|new.1&as_of={FIRST}")).await, [format!("{absent}new.1")]);
    let deleted = missing(&format!("volumeIDs=new.1|{MACMAHON}&as_of=2025-06-16T17:06:40%2B02:00")).await;
    assert_eq!(deleted, [format!("{absent}{MACMAHON}")]);
    let before_all = missing(&format!("volumeIDs={SALMON}&as_of=1969-07-20T20:17:40Z")).await;
    assert_eq!(before_all, [format!("{absent}{SALMON}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_kept_is_named_as_such_and_unchanged_volumes_come_nevertheless() {
    let (fixture, _) = changed(Keep::None).await;
    fixture.library.volumes.import(volume("new.2", &["newer"]), Unchanged::Skip, |_| {}).await.unwrap();
    fixture.clock.advance(DAY);
    let answer = fixture.get(&format!("/volumes?volumeIDs={SALMON}|{MACMAHON}&as_of={FIRST}")).await;
    assert_eq!(answer.header("penates-missing"), Some("2"));
    let errors = answer.entries().pop().unwrap().1;
    let not_kept = "RepositoryException: the version of that time is not kept: ";
    assert!(errors.ends_with(&format!("\n{not_kept}{SALMON}\n{not_kept}{MACMAHON}\n")), "{errors}");
    let answer = fixture.get("/volumes?volumeIDs=new.1|new.2&as_of=2025-06-16T15:06:40Z").await;
    assert_eq!(answer.entries()[1], ("new.1/00000001.txt".to_owned(), "new".to_owned()));
    assert_eq!(answer.header("penates-missing"), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn token_counts_and_selections_take_a_time_too() {
    let (fixture, before) = changed(Keep::All).await;
    let counts = async |more: &str| {
        let answer = fixture.post("/tokencount", &format!("volumeIDs={SALMON}{more}")).await;
        answer.entries().remove(0).1
    };
    assert_eq!(counts("").await, "changed 1\n");
    assert!(counts(&format!("&as_of={FIRST}")).await.lines().count() > 100);

    let made = fixture.post("/selections", &format!("volumeIDs={SALMON}|{MACMAHON}&as_of={FIRST}")).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    assert!(fixture.get(made.header("location").unwrap()).await.body == before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_is_not_over_or_no_time_is_refused() {
    let fixture = keeping(Keep::All).await;
    fixture.library.volumes.import(volume("a.1", &["text"]), Unchanged::Skip, |_| {}).await.unwrap();
    // The clock is at the beginning of the second.
    assert_eq!(fixture.clock.now().0 % 1_000, 0);
    for time in [FIRST, "2025-06-15T15:06:40.000Z", "2999-01-01T00:00:00Z", "2025-06-15", "yesterday", "%2B"] {
        for path in ["/volumes?volumeIDs=a.1", "/pages?pageIDs=a.1[1]"] {
            let answer = fixture.get(&format!("{path}&as_of={time}")).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{time}: {}", answer.text());
            assert!(answer.text().starts_with("Malformed parameter as_of."), "{}", answer.text());
        }
        for path in ["/tokencount", "/selections"] {
            let answer = fixture.post(path, &format!("volumeIDs=a.1&as_of={time}")).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path} {time}");
        }
    }
    // What was changed within an hour is settled, however many servers there are.
    fixture.clock.advance(DAY / 24);
    let answer = fixture.get("/volumes?volumeIDs=a.1&as_of=2025-06-15T15:06:40.000Z").await;
    assert_eq!(answer.header("penates-missing"), Some("0"));
}
