//! The container of volumes, as a child of the root: its contents do not matter here.

use std::io::{Cursor, Read};

use http::{Method, StatusCode};

use crate::support::{ROOT, fixture};

#[tokio::test(flavor = "multi_thread")]
async fn the_volumes_are_found_from_the_root_unless_omitted() {
    let fixture = fixture().await;
    fixture.put("/rest/a", "").answer().await;
    let contained = [format!("{ROOT}a"), format!("{ROOT}volumes")];
    assert_eq!(fixture.get("/rest/").await.objects(ROOT, "contains"), contained);
    assert_eq!(fixture.get("/rest/?limit=10").await.objects(ROOT, "contains"), contained);
    let volumes = fixture.get("/rest/volumes").await;
    assert!(volumes.is("BasicContainer") && volumes.says("<volumes> a ldp:BasicContainer ."), "{}", volumes.text());
    for prefer in ["return=minimal", "return=representation; omit=\"http://www.w3.org/ns/ldp#PreferContainment\""] {
        let root = fixture.ask(Method::GET, "/rest/").header("prefer", prefer).answer().await;
        assert!(root.objects(ROOT, "contains").is_empty(), "{prefer}: {}", root.text());
    }
    let a = fixture.get("/rest/a").await;
    assert!(a.objects(&format!("{ROOT}a"), "contains").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn containment_of_the_volumes_in_the_root_is_server_managed() {
    let fixture = fixture().await;
    let root = fixture.get("/rest/").await;
    let unchanged = fixture.put("/rest/", root.text()).header("if-match", &root.etag()).answer().await;
    assert_eq!(unchanged.status, StatusCode::NO_CONTENT, "{}", unchanged.text());
    assert_eq!(fixture.put("/rest/", "").answer().await.status, StatusCode::NO_CONTENT);
    let delete = "DELETE DATA { <> <http://www.w3.org/ns/ldp#contains> <volumes> }";
    let patch = fixture.ask(Method::PATCH, "/rest/").header("content-type", "application/sparql-update").body(delete);
    assert_eq!(patch.answer().await.status, StatusCode::CONFLICT);
    assert_eq!(fixture.ask(Method::DELETE, "/rest/volumes").answer().await.status, StatusCode::CONFLICT);
    let elsewhere = "<> <http://www.w3.org/ns/ldp#contains> <http://test/rest/volumes> .";
    assert_eq!(fixture.put("/rest/a", elsewhere).answer().await.status, StatusCode::CONFLICT);
    assert_eq!(fixture.get("/rest/").await.objects(ROOT, "contains"), [format!("{ROOT}volumes")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_of_the_root_names_the_volumes_as_omitted() {
    let fixture = fixture().await;
    fixture.put("/rest/a", "").answer().await;
    let answer = fixture.ask(Method::GET, "/rest/").header("accept", "application/zip").answer().await;
    let mut archive = zip::ZipArchive::new(Cursor::new(answer.body)).unwrap();
    let mut left_out = String::new();
    archive.by_name("ERROR.err").unwrap().read_to_string(&mut left_out).unwrap();
    assert_eq!(left_out, "sent by the data door: /volumes\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_all_volumes_as_one_archive_is_referred_to_selections() {
    let fixture = fixture().await;
    let get = |accept| fixture.ask(Method::GET, "/rest/volumes").header("accept", accept).answer();
    let refused = get("application/zip").await;
    assert_eq!(refused.status, StatusCode::NOT_ACCEPTABLE);
    assert!(refused.detail().contains("/selections"), "{}", refused.detail());
    let less_liked = get("application/zip, text/turtle;q=0.5").await;
    assert_eq!((less_liked.status, less_liked.header("content-type")), (StatusCode::OK, Some("text/turtle")));
    let other = get("image/png").await;
    assert_eq!(other.status, StatusCode::NOT_ACCEPTABLE);
    assert!(other.detail().contains("text/turtle") && !other.detail().contains("/selections"));
}
