//! The audit records who requested what, by every kind of request, and what was about to be sent.
use crate::support::{Fixture, MACMAHON, SALMON, with_samples};
use audit::AuditRecord;
use door_data::{DataSettings, segment};
use futures::TryStreamExt;
use http::{Method, header};
use store::UnixMillis;

async fn fixture() -> Fixture {
    with_samples(DataSettings::default(), &[MACMAHON, SALMON]).await
}

fn path(id: &str) -> String {
    format!("/volumes/{}", segment(&id.parse().unwrap()))
}

/// The entries of the audit, as `ACTION volume[pages]…`.
async fn audited(fixture: &Fixture) -> Vec<String> {
    let records = fixture.library.audit.read(UnixMillis(0), UnixMillis(u64::MAX / 2));
    let line = |record: AuditRecord| {
        let volumes = record.volumes.iter().map(|volume| match &volume.pages {
            None => format!(" {}", volume.volume),
            Some(pages) => format!(" {}{pages:?}", volume.volume),
        });
        format!("{}{}", record.action.as_str(), volumes.collect::<String>())
    };
    records.map_ok(|entry| line(entry.record().unwrap())).try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sent_volume_is_recorded_as_requested_and_then_as_accessed() {
    let fixture = fixture().await;
    fixture.get(&format!("{}/pages/5", path(SALMON))).await;
    fixture.get(&format!("/volumes?volumeIDs={MACMAHON}|none.such")).await;
    let expected = [
        format!("REQUESTED {SALMON}[5]"),
        format!("ACCESSED {SALMON}[5]"),
        format!("REQUESTED {MACMAHON} none.such"),
        format!("ACCESSED {MACMAHON}"),
    ];
    assert_eq!(audited(&fixture).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_several_ranges_is_one_request() {
    let fixture = fixture().await;
    let asked = format!("/volumes?volumeIDs={MACMAHON}|{SALMON}");
    let request = fixture.ask(Method::GET, &asked).header(header::RANGE, "bytes=0-9, 100-199, -3000");
    assert_eq!(request.answer().await.status, http::StatusCode::PARTIAL_CONTENT);
    let audited = audited(&fixture).await;
    let of = |action: &str| audited.iter().filter(|line| line.starts_with(action)).count();
    // The last range contains only the central directory.
    assert_eq!((of("REQUESTED"), of("ACCESSED")), (1, 2), "{audited:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_request_for_an_archive_is_recorded_as_a_request() {
    let fixture = fixture().await;
    let asked = format!("/pages?pageIDs={SALMON}[2,99]|none.such[1]");
    fixture.head(&asked).await;
    let line = format!("REQUESTED {SALMON}[2] {SALMON}[99] none.such[1]");
    assert_eq!(audited(&fixture).await, [line.as_str()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_that_a_volume_lacks_are_recorded_together() {
    let fixture = fixture().await;
    fixture.head(&format!("/pages?pageIDs=none.such[3,1,2]|{SALMON}[98,99]|none.other[1]")).await;
    let line = format!("REQUESTED none.such[3, 1, 2] {SALMON}[98, 99] none.other[1]");
    assert_eq!(audited(&fixture).await, [line.as_str()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_selection_is_recorded_with_its_contents_and_requested_when_it_is_read() {
    let fixture = fixture().await;
    let made = fixture.post("/selections", &format!("volumeIDs={SALMON}|none.such")).await;
    let selected = format!("SELECTED {SALMON} none.such");
    assert_eq!(audited(&fixture).await, [selected.as_str()]);
    let address = made.header("location").unwrap();
    fixture.head(address).await;
    fixture.get(address).await;
    let (requested, accessed) = (format!("REQUESTED {SALMON} none.such"), format!("ACCESSED {SALMON}"));
    assert_eq!(audited(&fixture).await, [&selected, &requested, &requested, &accessed].map(String::as_str));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_representation_that_the_client_has_is_recorded_as_requested_only() {
    let fixture = fixture().await;
    for (asked, line) in [
        (format!("{}/pages/7", path(SALMON)), format!("REQUESTED {SALMON}[7]")),
        (format!("/volumes?volumeIDs={SALMON}"), format!("REQUESTED {SALMON}")),
    ] {
        let etag = fixture.head(&asked).await.header("etag").unwrap().to_owned();
        fixture.ask(Method::GET, &asked).header(header::IF_NONE_MATCH, &etag).answer().await;
        let audited = audited(&fixture).await;
        assert_eq!(audited[audited.len() - 2..], [line.as_str(), line.as_str()], "HEAD and 304 of {asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volumes_mets_and_record_are_audited_too() {
    let fixture = fixture().await;
    for member in ["mets", "record"] {
        let asked = format!("{}/{member}", path(MACMAHON));
        let before = audited(&fixture).await.len();
        fixture.head(&asked).await;
        fixture.get(&asked).await;
        let expected = ["REQUESTED", "REQUESTED", "ACCESSED"].map(|action| format!("{action} {MACMAHON}[]"));
        assert_eq!(audited(&fixture).await[before..], expected, "{member}");
    }
}
