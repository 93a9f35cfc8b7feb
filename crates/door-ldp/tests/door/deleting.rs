//! Deletion, tombstones, and reused names.

use http::{Method, StatusCode};

use crate::support::{Fixture, ROOT, fixture};

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
    let put = fixture.put("/rest/a", "").header("overwrite-tombstone", "true").answer().await;
    assert_eq!(put.status, StatusCode::CREATED);
    assert_eq!(fixture.get("/rest/a").await.status, StatusCode::OK);
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
async fn a_deletion_respects_its_condition() {
    let fixture = fixture().await;
    fixture.put("/rest/a", "").answer().await;
    let ask = |tag: &str| fixture.ask(Method::DELETE, "/rest/a").header("if-match", tag).answer();
    assert_eq!(ask("\"x\"").await.status, StatusCode::PRECONDITION_FAILED);
    let tag = fixture.get("/rest/a").await.etag();
    assert_eq!(ask(&tag).await.status, StatusCode::NO_CONTENT);
}
