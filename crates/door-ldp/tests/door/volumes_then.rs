//! The volumes that there were at earlier times.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::volumes::{ImportProgress, Unchanged};
use heads::{History, Keep, LibraryOptions, RevisionId};
use http::{Method, StatusCode};
use library::Library;
use store::{Clock, ManualClock, UnixMillis};

use crate::pages::page;
use crate::support::{Fixture, ROOT, Reply, fixture, fixture_keeping};

const MINUTE: Duration = Duration::from_secs(60);

const A: &str = "psia.ark:/13960/t0ks80527";
const B: &str = "uc2.ark:/13960/t1td9nf36";

/// The address of the second in which `A` is imported first.
const FIRST_A: &str = "/rest/volumes/fcr:versions/20250615150740";

/// Imports a sample, whatever is there, which takes so long.
async fn import(fixture: &Fixture, id: &str, takes: Duration) {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/pairtree");
    let files = hathi::locate(&samples, &id.parse().unwrap()).unwrap();
    let clock = fixture.clock.clone();
    let progress = move |progress: ImportProgress| {
        if progress.pages == 1 {
            clock.advance(takes);
        }
    };
    fixture.library.volumes.import(files.open().unwrap(), Unchanged::Force, progress).await.unwrap();
}

async fn delete(fixture: &Fixture, id: &str) {
    fixture.library.volumes.delete(&id.parse().unwrap()).await.unwrap();
}

pub fn keeping(volumes: Keep) -> LibraryOptions {
    LibraryOptions { history: History { volumes, ..History::default() }, ..LibraryOptions::default() }
}

/// A library since 15:06:40 whose volume `A` is there from 15:07:40 until 15:10:40, and again from
/// 15:11:40 on. The import of `B` begins at 15:08:40 and ends at 15:09:40. It is 15:12:40 then.
pub async fn lived(volumes: Keep) -> Fixture {
    let fixture = fixture_keeping(keeping(volumes)).await;
    fixture.clock.advance(MINUTE);
    import(&fixture, A, Duration::ZERO).await;
    fixture.clock.advance(MINUTE);
    import(&fixture, B, MINUTE).await;
    fixture.clock.advance(MINUTE);
    delete(&fixture, A).await;
    fixture.clock.advance(MINUTE);
    import(&fixture, A, Duration::ZERO).await;
    fixture.clock.advance(MINUTE);
    fixture
}

/// The answer to a request for a time of 15 June 2025.
async fn at(fixture: &Fixture, time: &str) -> Reply {
    let datetime = format!("Sun, 15 Jun 2025 {time} GMT");
    fixture.ask(Method::GET, "/rest/volumes").header("accept-datetime", &datetime).answer().await
}

/// The path of the state to which a request for a time leads.
async fn place(fixture: &Fixture, time: &str) -> String {
    let redirection = at(fixture, time).await;
    assert_eq!(redirection.status, StatusCode::FOUND, "{time}: {}", redirection.text());
    assert!(varies_by_time(&redirection), "{:?}", redirection.headers);
    redirection.header("location").unwrap().strip_prefix("http://test").unwrap().to_owned()
}

fn varies_by_time(reply: &Reply) -> bool {
    reply.headers.get_all("vary").iter().any(|value| value == "Accept-Datetime")
}

/// The status of the state with a name.
async fn status(fixture: &Fixture, name: &str) -> StatusCode {
    fixture.get(&format!("/rest/volumes/fcr:versions/{name}")).await.status
}

/// The volumes in a list, by their ids.
fn listed(reply: &Reply) -> Vec<&'static str> {
    let contained = reply.objects(&format!("{ROOT}volumes"), "contains");
    let id = |iri: &String| match iri.rsplit('/').next().unwrap() {
        "psia.ark+=13960=t0ks80527" => A,
        "uc2.ark+=13960=t1td9nf36" => B,
        _ => panic!("{iri}"),
    };
    contained.iter().map(id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_container_of_volumes_lists_its_members_as_of_any_time() {
    let fixture = lived(Keep::All).await;
    for (time, name, volumes) in [
        ("14:00:00", "150640", &[][..]),
        ("15:06:40", "150640", &[]),
        ("15:07:39", "150739", &[]),
        ("15:07:40", "150740", &[A]),
        ("15:09:39", "150939", &[A]),
        ("15:09:40", "150940", &[A, B]),
        ("15:10:39", "151039", &[A, B]),
        ("15:10:40", "151040", &[B]),
        ("15:11:39", "151139", &[B]),
        ("15:11:40", "151140", &[A, B]),
        ("23:59:59", "151239", &[A, B]),
    ] {
        let place = place(&fixture, time).await;
        assert_eq!(place, format!("/rest/volumes/fcr:versions/20250615{name}"), "{time}");
        let then = fixture.get(&place).await;
        assert_eq!((then.status, listed(&then)), (StatusCode::OK, volumes.to_vec()), "{time}: {}", then.text());
        assert!(then.is("BasicContainer") && then.says("<volumes> a ldp:BasicContainer ."), "{time}");
    }
    let then = fixture.get(FIRST_A).await;
    assert_eq!(then.header("memento-datetime"), Some("Sun, 15 Jun 2025 15:07:40 GMT"));
    let present = fixture.get("/rest/volumes").await;
    assert!(varies_by_time(&present) && !varies_by_time(&then));
    for relation in ["original", "timegate"] {
        let container = vec![format!("{ROOT}volumes")];
        assert_eq!((present.links(relation), then.links(relation)), (container.clone(), container), "{relation}");
    }
    assert_eq!(listed(&present), [A, B]);

    let accepting = |media_type| fixture.ask(Method::GET, FIRST_A).header("accept", media_type);
    for media_type in ["application/n-triples", "application/ld+json", "application/rdf+xml"] {
        assert_eq!(accepting(media_type).answer().await.graph(), then.graph(), "{media_type}");
    }
    assert_eq!(accepting("application/zip").answer().await.status, StatusCode::NOT_ACCEPTABLE);
    let minimal = accepting("text/turtle").header("prefer", "return=minimal").answer().await;
    assert!(listed(&minimal).is_empty(), "{}", minimal.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_listed_until_it_is_deleted_however_slow_the_clock_of_the_server_is() {
    let fixture = lived(Keep::All).await;
    import(&fixture, A, MINUTE).await;
    // By that clock the deletion begins at 15:13:10. It is made after the import, at 15:13:40.
    let clock = Arc::new(ManualClock::new(UnixMillis(fixture.clock.now().0 - 30_000)));
    let slow = Library::open(fixture.library.store().clone(), clock, keeping(Keep::All)).await.unwrap();
    slow.volumes.delete(&A.parse().unwrap()).await.unwrap();
    fixture.clock.advance(MINUTE);
    for (name, volumes) in [("151309", &[A, B][..]), ("151320", &[A, B]), ("151339", &[A, B]), ("151340", &[B])] {
        let then = fixture.get(&format!("/rest/volumes/fcr:versions/20250615{name}")).await;
        assert_eq!((then.status, listed(&then)), (StatusCode::OK, volumes.to_vec()), "{name}: {}", then.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_the_volumes_never_changes_and_has_validators_once_that_is_certain() {
    let fixture = lived(Keep::All).await;
    let last = place(&fixture, "23:59:59").await;
    let early = fixture.get(&last).await;
    assert_eq!((early.header("etag"), early.header("last-modified")), (None, None), "it may still change");
    fixture.clock.advance(10 * MINUTE);
    let before = fixture.get(&last).await;
    delete(&fixture, A).await;
    fixture.clock.advance(MINUTE);
    let after = fixture.get(&last).await;
    assert_eq!((before.graph(), before.etag()), (after.graph(), after.etag()));
    assert_eq!((listed(&after), listed(&fixture.get("/rest/volumes").await)), (vec![A, B], vec![B]));
    let again = fixture.ask(Method::GET, &last).header("if-none-match", &after.etag()).answer().await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);
    for method in [Method::HEAD, Method::OPTIONS] {
        let reply = fixture.ask(method, &last).answer().await;
        assert_eq!((reply.status, reply.header("allow")), (StatusCode::OK, Some("GET, HEAD, OPTIONS")));
        assert!(reply.body.is_empty() && reply.header("memento-datetime").is_some(), "{:?}", reply.headers);
    }
    for method in [Method::PUT, Method::POST, Method::PATCH, Method::DELETE] {
        assert_eq!(fixture.ask(method, &last).answer().await.status, StatusCode::METHOD_NOT_ALLOWED);
    }

    // Without a change feed an import counts from when it began, so it may still be added.
    let without = fixture_keeping(LibraryOptions { feed_keep: Duration::ZERO, ..keeping(Keep::All) }).await;
    without.clock.advance(20 * MINUTE);
    let state = without.get("/rest/volumes/fcr:versions/20250615150640").await;
    assert_eq!((state.status, state.header("etag")), (StatusCode::OK, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_earlier_volumes_shows_each_as_it_was_and_offers_a_zip_of_that_time() {
    let fixture = lived(Keep::All).await;
    let first = fixture.library.volumes.versions(&A.parse().unwrap()).await.unwrap();
    let first = first.list(RevisionId::ZERO, 1).await.unwrap().remove(0);
    let shown = page(&fixture, "/rest/volumes/fcr:versions/20250615150940").await;
    for part in [
        "<h1>Volumes, Sun, 15 Jun 2025 15:09:40 GMT</h1>".to_owned(),
        "<a href=\"/rest/volumes\">Volumes</a>".to_owned(),
        format!("<a href=\"/volumes/psia.ark+=13960=t0ks80527/versions/{}\">", first.revision),
        format!("name=\"volumeIDs\" value=\"{B}\""),
        "<input type=\"hidden\" name=\"as_of\" value=\"2025-06-15T15:09:40Z\">".to_owned(),
    ] {
        assert!(shown.text().contains(&part), "{part} is not in {}", shown.text());
    }
    let path = "/rest/volumes/fcr:versions/20250615150940?limit=1";
    let one = page(&fixture, path).await;
    let next = "rel=\"next\" href=\"/rest/volumes/fcr:versions/20250615150940?limit=1&amp;after=1\"";
    assert!(one.text().contains(next), "{}", one.text());
    let other = page(&fixture, &format!("{path}&after=1")).await;
    assert!(other.text().contains("Previous page") && !other.text().contains("rel=\"next\""), "{}", other.text());
    let on = |page: &Reply| [A, B].map(|id| page.text().contains(&format!("value=\"{id}\"")));
    assert_eq!(on(&one), on(&other).map(|is_on| !is_on), "each is on one of them");
    let far = fixture.ask(Method::GET, &format!("{path}&after=10001")).header("accept", "text/html").answer().await;
    assert_eq!(far.status, StatusCode::BAD_REQUEST, "{}", far.text());
    let empty = page(&fixture, "/rest/volumes/fcr:versions/20250615150640").await;
    assert!(empty.text().contains("There were no volumes."), "{}", empty.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_time_of_the_volumes_is_refused_and_a_second_without_a_known_state_has_no_address() {
    let kept = lived(Keep::All).await;
    for time in ["yesterday", "Mon, 15 Jun 2025 15:07:40 GMT", "2025-06-15T15:07:40Z", ""] {
        let refused = kept.ask(Method::GET, "/rest/volumes").header("accept-datetime", time).answer().await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{time}");
    }
    let two = ["15:07:40", "15:08:40"].map(|time| format!("Sun, 15 Jun 2025 {time} GMT"));
    let two = two.iter().fold(kept.ask(Method::GET, "/rest/volumes"), |ask, time| ask.header("accept-datetime", time));
    assert_eq!(two.answer().await.status, StatusCode::BAD_REQUEST);
    for name in ["x", "2025061515074", "20250631150740", "mets"] {
        assert_eq!(status(&kept, name).await, StatusCode::BAD_REQUEST, "{name}");
    }
    // It is not over, is before the library, or is named like a version within a second.
    for name in ["20250615151240", "99981231235959", "20250615150639", "19691231235959", "20250615150740-000"] {
        assert_eq!(status(&kept, name).await, StatusCode::NOT_FOUND, "{name}");
    }

    // A state to which a client is led can be read for another minute.
    let forgetful = lived(Keep::For(5 * MINUTE)).await;
    assert_eq!(place(&forgetful, "14:00:00").await, "/rest/volumes/fcr:versions/20250615150840");
    assert_eq!(status(&forgetful, "20250615150840").await, StatusCode::OK);
    assert_eq!(status(&forgetful, "20250615150739").await, StatusCode::NOT_FOUND);

    for none in [fixture().await, lived(Keep::Newest(5)).await] {
        let present = none.ask(Method::GET, "/rest/volumes").header("accept-datetime", "yesterday").answer().await;
        assert_eq!((present.status, varies_by_time(&present)), (StatusCode::OK, false));
        assert!(present.links("timegate").is_empty());
        assert_eq!(status(&none, "20250615150640").await, StatusCode::NOT_FOUND);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_leads_to_its_versions_at_the_data_door() {
    let fixture = lived(Keep::All).await;
    let at = "volumes/psia.ark+=13960=t0ks80527";
    let volume = fixture.get(&format!("/rest/{at}")).await;
    assert_eq!(volume.links("timegate"), [format!("http://test/{at}")]);
    assert_eq!(volume.links("timemap"), [format!("http://test/{at}/versions/")]);
}
