//! Failures below the door: damage, passing failures, a full disk, unknown outcomes.
use crate::support::{Fixture, HEADING, MACMAHON, SALMON, cleaned, sample_pages, with_samples};
use axum::body::to_bytes;
use door_data::{DataSettings, segment};
use http::{Method, StatusCode, header};
use store::faults::{Fault, Harm, Kind, Rates};

async fn fixture() -> Fixture {
    with_samples(DataSettings::default(), &[MACMAHON, SALMON]).await
}

fn path(id: &str) -> String {
    format!("/volumes/{}", segment(&id.parse().unwrap()))
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_breaks_the_stream_that_finds_it_and_the_next_one_is_whole() {
    for harm in [Harm::FlippedBit, Harm::Lost] {
        let fixture = fixture().await;
        fixture.damage_a_pack(MACMAHON, harm, false).await;
        let path = format!("/volumes?volumeIDs={SALMON}|{MACMAHON}");
        let (status, headers, body) = fixture.ask(Method::GET, &path).sent().await;
        assert_eq!(status, StatusCode::OK);
        assert!(headers.contains_key(header::CONTENT_LENGTH));
        assert!(
            to_bytes(body, usize::MAX).await.is_err(),
            "the promised length cannot be kept, so the response must end visibly broken"
        );
        let again = fixture.get(&path).await;
        let entries = again.entries();
        let (name, errors) = entries.last().unwrap();
        assert_eq!(name, "ERROR.err");
        let lines: Vec<&str> = errors.strip_prefix(HEADING).unwrap().lines().collect();
        let line = format!("RepositoryException: damaged: {MACMAHON}");
        assert!(!lines.is_empty() && lines.iter().all(|reported| reported.starts_with(&line)), "{harm:?}: {lines:?}");
        assert_eq!(again.header("penates-missing").unwrap(), lines.len().to_string());
        let sound: Vec<_> = entries.iter().filter(|(name, _)| name.starts_with(&cleaned(SALMON))).collect();
        assert_eq!(sound.len(), 25);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_report_mode_damaged_pages_are_left_out_and_named() {
    let settings = DataSettings { on_damage: volumes::OnDamage::Report, ..DataSettings::default() };
    let fixture = with_samples(settings, &[MACMAHON, SALMON]).await;
    fixture.damage_a_pack(MACMAHON, Harm::FlippedBit, false).await;
    let entries = fixture.get(&format!("/volumes?volumeIDs={MACMAHON}|{SALMON}&concat=true")).await.entries();
    let names: Vec<&str> = entries.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [format!("{}.txt", cleaned(MACMAHON)), format!("{}.txt", cleaned(SALMON)), "ERROR.err".into()]);
    assert!(entries[2].1.contains(&format!("RepositoryException: damaged: {MACMAHON}")));
    let texts: Vec<String> = sample_pages(MACMAHON).into_iter().map(|(_, text)| text).collect();
    let left_out = (1..texts.len()).find(|left_out| texts[*left_out..].concat() == entries[0].1);
    assert!(left_out.is_some(), "the first pack's pages are left out, and whole pages come after them");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_page_is_reported_and_marked_and_never_sent() {
    for coding in ["identity", "gzip"] {
        let fixture = fixture().await;
        fixture.damage_a_pack(SALMON, Harm::FlippedBit, false).await;
        let page = format!("{}/pages/3", path(SALMON));
        let answer = fixture.ask(Method::GET, &page).header(header::ACCEPT_ENCODING, coding).answer().await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        let problem = answer.json();
        assert_eq!(problem["kind"], "damaged");
        assert!(problem["detail"].as_str().unwrap().contains(SALMON), "{problem}");
        assert_eq!(fixture.get(&path(SALMON)).await.json()["damaged"], 1);
        fixture.faults.heal();
        let report = fixture.ask(Method::POST, &format!("{}/verify", path(SALMON))).answer().await.json();
        assert_eq!(report["sound"], true, "a member that is sound again is no longer marked");
        assert_eq!(fixture.get(&path(SALMON)).await.json()["damaged"], 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_page_is_named_by_its_sequence_and_its_printed_number() {
    let fixture = crate::support::empty(DataSettings::default()).await;
    let source = crate::support::volume("t.a", &["one", "two"]);
    fixture.library.volumes.import(source, volumes::Unchanged::Skip, |_| {}).await.unwrap();
    fixture.damage_a_pack("t.a", Harm::FlippedBit, false).await;
    let report = fixture.ask(Method::POST, "/volumes/t.a/verify").answer().await.json();
    assert_eq!(report["sound"], false);
    let named = |member: usize| {
        let mut found = report["damaged"][member].clone();
        let detail = found.as_object_mut().unwrap().remove("detail").unwrap();
        assert!(!detail.as_str().unwrap().is_empty(), "{report}");
        found
    };
    assert_eq!(named(0), serde_json::json!({"member": 0, "part": "page", "seq": 1, "label": "p1"}));
    assert_eq!(named(1), serde_json::json!({"member": 1, "part": "page", "seq": 2, "label": "p2"}));
    // The METS is in the same pack.
    assert_eq!(named(2), serde_json::json!({"member": 2, "part": "mets"}));

    // The page itself is called so too where it is asked for.
    let problem = fixture.get("/volumes/t.a/pages/2").await.json();
    assert!(problem["detail"].as_str().unwrap().starts_with("damaged: t.a: page 2: "), "{problem}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_replica_is_not_damage() {
    let fixture = fixture().await;
    fixture.damage_a_pack(SALMON, Harm::FlippedBit, true).await;
    assert_eq!(fixture.get(&format!("{}/pages/3", path(SALMON))).await.text(), sample_pages(SALMON)[2].1);
    assert_eq!(fixture.get(&format!("/volumes?volumeIDs={SALMON}")).await.names().len(), 25);
    assert_eq!(fixture.get(&path(SALMON)).await.json()["damaged"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_store_is_503_and_nothing_is_lost() {
    let fixture = fixture().await;
    let bulk = format!("/volumes?volumeIDs={SALMON}");
    let before = fixture.get(&bulk).await;
    fixture.faults.set_rates(1, Rates { unavailable: 1.0, ..Rates::default() });
    for (method, path, content_type) in [
        (Method::GET, bulk.clone(), "text/plain; charset=utf-8"),
        (Method::GET, path(SALMON), "application/problem+json"),
        (Method::GET, format!("{}/pages/3", path(SALMON)), "application/problem+json"),
        (Method::GET, "/volumes/".to_owned(), "application/problem+json"),
        (Method::GET, "/selections/0123456789abcdef0123456789abcdef".to_owned(), "application/problem+json"),
    ] {
        let answer = fixture.ask(method, &path).answer().await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert_eq!(answer.header("content-type"), Some(content_type), "{path}");
        assert!(answer.header("retry-after").is_some(), "{path}");
    }
    fixture.faults.set_rates(1, Rates::default());
    assert_eq!(fixture.get(&bulk).await.body, before.body);
    assert_eq!(fixture.get(&path(SALMON)).await.json()["damaged"], 0, "out of reach is not damaged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_507_and_stored_volumes_stay() {
    let fixture = fixture().await;
    let before = fixture.get(&path(SALMON)).await.json();
    fixture.faults.set_full(true);
    let source = crate::support::volume("t.a", &["one"]);
    let form = crate::support::form(&[("zip", source.zip.get_ref()), ("mets", &source.mets)]);
    let put = fixture.put("/volumes/t.a", form.clone()).await;
    assert_eq!((put.status, &put.json()["kind"]), (StatusCode::INSUFFICIENT_STORAGE, &"full".into()));
    let delete = fixture.ask(Method::DELETE, &path(SALMON)).answer().await;
    assert_eq!(delete.status, StatusCode::INSUFFICIENT_STORAGE);
    // Nothing is served that cannot be audited.
    let unaudited = fixture.get(&format!("{}/pages/3", path(SALMON))).await;
    assert!(unaudited.status.is_server_error(), "{}", unaudited.status);
    assert_eq!(fixture.get(&path(SALMON)).await.json(), before);
    fixture.faults.set_full(false);
    assert_eq!(fixture.put("/volumes/t.a", form).await.status, StatusCode::CREATED);
    assert_eq!(fixture.get("/volumes/t.a/pages/1").await.text(), "one");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_outcome_is_found_out() {
    for fault in [Fault::UnknownApplied, Fault::UnknownNotApplied] {
        let fixture = fixture().await;
        let source = crate::support::volume("t.a", &["one"]);
        let form = crate::support::form(&[("zip", source.zip.get_ref()), ("mets", &source.mets)]);
        fixture.faults.next(Kind::Run, fault);
        let put = fixture.put("/volumes/t.a", form).await;
        assert_eq!((put.status, put.header("penates-import")), (StatusCode::CREATED, Some("new")), "{fault:?}");
        fixture.faults.next(Kind::Run, fault);
        let delete = fixture.ask(Method::DELETE, "/volumes/t.a").answer().await;
        assert_eq!(delete.status, StatusCode::NO_CONTENT, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_cannot_be_found_out_is_reported_as_unknown() {
    let fixture = fixture().await;
    fixture.faults.set_rates(1, Rates { unknown_not_applied: 1.0, ..Rates::default() });
    let delete = fixture.ask(Method::DELETE, &path(SALMON)).answer().await;
    // An engine without atomic lists announces the change first. Before that is acknowledged, it is
    // certain that nothing was changed.
    let (status, detail) = match fixture.library.store().capabilities().has_atomic_lists {
        true => (StatusCode::GATEWAY_TIMEOUT, "may have been applied"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "unavailable for now"),
    };
    assert_eq!(delete.status, status, "{}", delete.text());
    assert!(delete.json()["detail"].as_str().unwrap().contains(detail), "{}", delete.text());
}
