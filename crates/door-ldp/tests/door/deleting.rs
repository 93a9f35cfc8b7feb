//! Deletion, tombstones, and reused names.

use std::io;
use std::time::Duration;

use area::{Area, Limit};
use axum::body::Body;
use bytes::Bytes;
use door_ldp::LdpSettings;
use futures::stream;
use heads::keys;
use http::{Method, StatusCode};
use store::Table;
use store::faults::{Damage, Harm};
use tokio::sync::oneshot;

use crate::support::{Fixture, LDP, ROOT, TURTLE, faulty, fixture, fixture_with};

async fn delete(fixture: &Fixture, path: &str) -> StatusCode {
    fixture.ask(Method::DELETE, path).answer().await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_resource_is_gone_until_its_tombstone_is_removed() {
    let fixture = fixture().await;
    fixture.put("/rest/a", "").answer().await;
    assert_eq!(delete(&fixture, "/rest/a").await, StatusCode::NO_CONTENT);
    let gone = fixture.get("/rest/a").await;
    assert_eq!((gone.status, gone.links("hasTombstone")), (StatusCode::GONE, vec![format!("{ROOT}a/fcr:tombstone")]));
    assert_eq!(fixture.get("/rest/").await.objects(ROOT, "contains"), [format!("{ROOT}volumes")]);
    assert_eq!(fixture.put("/rest/a", "").answer().await.status, StatusCode::GONE);
    assert_eq!(delete(&fixture, "/rest/a").await, StatusCode::GONE);
    let posted = fixture.post("/rest/", "").header("slug", "a").answer().await;
    assert_ne!(posted.header("location"), Some(&*format!("{ROOT}a")), "the name of a deleted resource is not reused");
    assert_eq!(delete(&fixture, "/rest/a/fcr:tombstone").await, StatusCode::NO_CONTENT);
    assert_eq!(fixture.get("/rest/a").await.status, StatusCode::NOT_FOUND);
    assert_eq!(delete(&fixture, "/rest/a/fcr:tombstone").await, StatusCode::NOT_FOUND);
    assert_eq!(fixture.put("/rest/a", "").answer().await.status, StatusCode::CREATED);
    assert_eq!(delete(&fixture, "/rest/a/fcr:tombstone").await, StatusCode::NOT_FOUND, "an existing resource has none");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tombstone_can_be_overwritten() {
    let fixture = fixture().await;
    fixture.put("/rest/a", "").answer().await;
    delete(&fixture, "/rest/a").await;
    for value in ["false", "1", ""] {
        let refused = fixture.put("/rest/a", "").header("overwrite-tombstone", value).answer().await;
        assert_eq!(refused.status, StatusCode::GONE, "{value}");
    }
    for value in ["true", "True"] {
        let put = fixture.put("/rest/a", "").header("overwrite-tombstone", value).answer().await;
        assert_eq!(put.status, StatusCode::CREATED, "{value}");
        assert_eq!(fixture.get("/rest/a").await.status, StatusCode::OK);
        delete(&fixture, "/rest/a").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tombstone_stays_if_what_is_to_overwrite_it_is_refused() {
    let fixture = fixture_with(LdpSettings { binary_bytes_max: 10, ..LdpSettings::default() }).await;
    fixture.put("/rest/a", "<> <http://a/p> 1 .").answer().await;
    delete(&fixture, "/rest/a").await;
    let ask = || fixture.ask(Method::PUT, "/rest/a").header("overwrite-tombstone", "true");
    let turtle = || ask().header("content-type", TURTLE);
    let image = || ask().header("content-type", "image/png");
    let other = format!("sha-256={}=", "A".repeat(43));
    let pieces = [Ok(Bytes::from_static(b"pix")), Err(io::Error::other("the client has left"))];
    for (what, request, status) in [
        ("no graph", turtle().body("no turtle"), StatusCode::BAD_REQUEST),
        ("a graph of another digest", turtle().header("digest", &other).body(""), StatusCode::CONFLICT),
        ("bytes of another digest", image().header("digest", &other).body("pixels"), StatusCode::CONFLICT),
        ("too many bytes", image().body("many more pixels"), StatusCode::PAYLOAD_TOO_LARGE),
        ("no media type of graphs", image().of_class("RDFSource").body("x"), StatusCode::UNSUPPORTED_MEDIA_TYPE),
        ("a statement of the server", turtle().body(format!("<> <{LDP}contains> <b> .")), StatusCode::CONFLICT),
        ("not all of it", image().body(Body::from_stream(stream::iter(pieces))), StatusCode::BAD_REQUEST),
        ("another state", turtle().header("if-match", "\"1\""), StatusCode::PRECONDITION_FAILED),
    ] {
        let refused = request.answer().await;
        assert_eq!(refused.status, status, "{what}: {}", refused.text());
        assert_eq!(fixture.get("/rest/a").await.status, StatusCode::GONE, "{what}");
    }
    assert_eq!(image().body("pixels").answer().await.status, StatusCode::CREATED);
    assert_eq!(fixture.get("/rest/a").await.text(), "pixels");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_may_not_create_a_resource_does_not_remove_its_tombstone() {
    let mut fixture = fixture().await;
    fixture.make("/rest/book", "RDFSource", "").await;
    let rule = format!(
        "<> <{LDP}membershipResource> </rest/book> ; <{LDP}hasMemberRelation> <http://purl.org/dc/terms/hasPart> ."
    );
    fixture.make("/rest/parts", "DirectContainer", &rule).await;
    fixture.make("/rest/parts/1", "RDFSource", "").await;
    delete(&fixture, "/rest/parts/1").await;
    let unlimited = fixture.router.clone();
    let area = Area::within(["rest:/parts".parse::<Limit>().unwrap()]);
    fixture.router = unlimited.clone().layer(axum::Extension(area));
    let refused = fixture.put("/rest/parts/1", "").header("overwrite-tombstone", "true").answer().await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN, "{}", refused.text());
    fixture.router = unlimited;
    assert_eq!(fixture.get("/rest/parts/1").await.status, StatusCode::GONE);
}

/// A body that says when it is waited for, and arrives when it is let.
fn held_up(text: &'static str) -> (Body, oneshot::Receiver<()>, oneshot::Sender<()>) {
    let (waits, is_waited_for) = oneshot::channel();
    let (let_go, held) = oneshot::channel();
    let piece = async move {
        waits.send(()).unwrap();
        held.await.map(|()| Bytes::from_static(text.as_bytes()))
    };
    (Body::from_stream(stream::once(piece)), is_waited_for, let_go)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_of_what_is_gone_when_its_body_arrives_is_a_creation_with_its_checks() {
    let fixture = fixture().await;
    fixture.make("/rest/book", "RDFSource", "").await;
    let rule = format!(
        "<> <{LDP}membershipResource> </rest/book> ; <{LDP}hasMemberRelation> <http://purl.org/dc/terms/hasPart> ."
    );
    fixture.make("/rest/parts", "DirectContainer", &rule).await;
    fixture.make("/rest/parts/1", "RDFSource", "").await;
    fixture.make("/rest/plain", "RDFSource", "").await;
    let mut limited = fixture.beside().await;
    let area = Area::within(["rest:/parts".parse::<Limit>().unwrap()]);
    limited.router = limited.router.layer(axum::Extension(area));
    for (path, client, status) in
        [("/rest/parts/1", &limited, StatusCode::FORBIDDEN), ("/rest/plain", &fixture, StatusCode::CREATED)]
    {
        let (body, is_waited_for, let_go) = held_up("");
        let put = client.put(path, "").of_class("RDFSource").body(body).answer();
        let deletion = async {
            is_waited_for.await.unwrap();
            for path in [path, &format!("{path}/fcr:tombstone")] {
                assert_eq!(delete(&fixture, path).await, StatusCode::NO_CONTENT, "{path}");
            }
            let_go.send(()).unwrap();
        };
        let (put, ()) = tokio::join!(put, deletion);
        assert_eq!(put.status, status, "{path}: {}", put.text());
    }
    assert_eq!(fixture.get("/rest/parts/1").await.status, StatusCode::NOT_FOUND);
    let plain = fixture.get("/rest/plain").await;
    assert!(plain.is("RDFSource") && !plain.is("Container"), "{:?}", plain.headers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_deleted_with_its_contents_and_made_again_empty() {
    let fixture = fixture().await;
    for path in ["/rest/c/d/e", "/rest/c/d/f", "/rest/c/g"] {
        fixture.put(path, "").answer().await;
    }
    assert_eq!(delete(&fixture, "/rest/c").await, StatusCode::NO_CONTENT);
    for path in ["/rest/c", "/rest/c/d", "/rest/c/d/e", "/rest/c/g", "/rest/c/never"] {
        let gone = fixture.get(path).await;
        assert_eq!(
            (gone.status, gone.links("hasTombstone")),
            (StatusCode::GONE, vec![format!("{ROOT}c/fcr:tombstone")])
        );
    }
    assert_eq!(fixture.put("/rest/c/new", "").answer().await.status, StatusCode::GONE);
    delete(&fixture, "/rest/c/fcr:tombstone").await;
    fixture.put("/rest/c", "").answer().await;
    assert!(fixture.get("/rest/c").await.objects(&format!("{ROOT}c"), "contains").is_empty());
    assert_eq!(fixture.get("/rest/c/d").await.status, StatusCode::NOT_FOUND, "that was in another container");
    assert_eq!(fixture.put("/rest/c/d/e", "").answer().await.status, StatusCode::CREATED);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_deleted_although_not_all_of_its_contents_can_be_yet() {
    let (fixture, faults) = faulty(fixture().await).await;
    for path in ["/rest/c/damaged", "/rest/c/sound"] {
        assert_eq!(fixture.put(path, "").answer().await.status, StatusCode::CREATED);
    }
    faults.damage(Damage {
        table: Table::Objects,
        partition: keys::resource_partition(&"c/damaged".parse().unwrap()),
        sort: Some(keys::head()),
        harm: Harm::FlippedBit,
        strong_reads_are_whole: false,
    });
    assert_eq!(delete(&fixture, "/rest/c").await, StatusCode::ACCEPTED);
    for path in ["/rest/c", "/rest/c/sound"] {
        assert_eq!(fixture.get(path).await.status, StatusCode::GONE, "{path}");
    }
    assert_eq!(delete(&fixture, "/rest/c/fcr:tombstone").await, StatusCode::CONFLICT, "it is not all deleted");
    faults.heal();
    assert_eq!(fixture.library.repository.resume_deletions(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(delete(&fixture, "/rest/c/fcr:tombstone").await, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_respects_its_condition() {
    let fixture = fixture().await;
    fixture.put("/rest/a", "").answer().await;
    let ask = |tag: &str| fixture.ask(Method::DELETE, "/rest/a").header("if-match", tag).answer();
    assert_eq!(ask("\"x\"").await.status, StatusCode::PRECONDITION_FAILED);
    let tag = fixture.get("/rest/a").await.etag();
    assert_eq!(ask(&tag).await.status, StatusCode::NO_CONTENT);
}
