//! The page of what was deleted from a container.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Extension;
use door_http::ReadsOnly;
use door_ldp::LdpSettings;
use heads::{History, Keep, LibraryOptions};
use http::{Method, StatusCode};

use crate::pages::{BROWSER, page};
use crate::support::*;

const LIST: &str = "/rest/c/fcr:versions?members=deleted";

async fn delete(fixture: &Fixture, path: &str) {
    let deleted = fixture.ask(Method::DELETE, path).answer().await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{path}: {}", deleted.text());
}

/// A container from which five resources were deleted, one of them twice, and one was not.
async fn with_deleted() -> Fixture {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    fixture.make("/rest/c/stays", "RDFSource", "").await;
    for name in ["1", "2", "3", "4", "%3Ci%3E"] {
        let path = format!("/rest/c/{name}");
        fixture.make(&path, "RDFSource", "").await;
        delete(&fixture, &path).await;
    }
    let again = fixture.put("/rest/c/1", "").header("overwrite-tombstone", "true").answer().await;
    assert_eq!(again.status, StatusCode::CREATED, "{}", again.text());
    delete(&fixture, "/rest/c/1").await;
    fixture
}

/// The addresses of what a page lists, from top to bottom.
fn listed(page: &Reply) -> Vec<String> {
    let rows = page.text().split("<th scope=\"row\"><a href=\"").skip(1);
    rows.map(|row| row.split('"').next().unwrap().to_owned()).collect()
}

/// Where the link of a page to the next or the previous one leads.
fn address(page: &Reply, rel: &str) -> Option<String> {
    let (_, rest) = page.text().split_once(&format!("rel=\"{rel}\" href=\""))?;
    Some(rest.split('"').next()?.replace("&amp;", "&"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_container_leads_to_what_was_deleted_from_it_and_that_to_forms_that_bring_it_back() {
    let fixture = with_deleted().await;
    let of_container = page(&fixture, "/rest/c").await;
    assert!(of_container.text().contains(&format!("href=\"{LIST}\"")), "{}", of_container.text());
    let of_child = page(&fixture, "/rest/c/stays").await;
    assert!(!of_child.text().contains("members=deleted"), "it is no container: {}", of_child.text());

    let all = page(&fixture, LIST).await;
    let expected = ["1", "2", "3", "4", "%3Ci%3E"].map(|name| format!("/rest/c/{name}"));
    assert_eq!(listed(&all).len(), 5, "each once: {}", all.text());
    assert_eq!(BTreeSet::from_iter(listed(&all)), BTreeSet::from(expected), "{}", all.text());
    for part in [
        "<h1>Deleted from /c</h1>",
        "<a href=\"/rest/c\">c</a>",
        "2025-06-15 15:06:40 UTC",
        "href=\"/rest/c/2/fcr:versions\" aria-label=\"Versions: 2\"",
        "href=\"/rest/c/2/fcr:forms\" aria-label=\"Bring it back: 2\"",
        "&lt;i&gt;",
    ] {
        assert!(all.text().contains(part), "{part} is not in {}", all.text());
    }
    assert!(!all.text().contains("<i>") && !all.text().contains("rel=\"next\""), "{}", all.text());
    assert_eq!(fixture.get("/rest/c/2").await.status, StatusCode::GONE, "there is its tombstone");
    let form = page(&fixture, "/rest/c/2/fcr:forms").await;
    assert!(form.text().contains("Bring back what was deleted"), "{}", form.text());
    fixture.clock.advance(Duration::from_secs(5));
    let restored = fixture.ask(Method::POST, "/rest/c/2/fcr:versions?restore=").answer().await;
    assert_eq!(restored.status, StatusCode::CREATED, "{}", restored.text());
    assert!(!listed(&page(&fixture, LIST).await).contains(&"/rest/c/2".to_owned()));

    let reader = Fixture { router: fixture.router.clone().layer(Extension(ReadsOnly)), ..fixture };
    let of_reader = page(&reader, LIST).await;
    assert!(!of_reader.text().contains("fcr:forms") && listed(&of_reader).len() == 4, "{}", of_reader.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_what_was_deleted_have_all_of_it_once_and_lead_back() {
    let fixture = with_deleted().await;
    let mut pages = vec![page(&fixture, &format!("{LIST}&limit=2")).await];
    while let Some(next) = address(pages.last().unwrap(), "next") {
        pages.push(page(&fixture, &next).await);
    }
    let found: Vec<_> = pages.iter().map(listed).collect();
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 1], "{found:?}");
    assert_eq!(BTreeSet::from_iter(found.iter().flatten()).len(), 5, "{found:?}");
    // The way back has the same pages.
    let mut back = page(&fixture, &format!("{LIST}&limit=2&after=90000")).await;
    assert!(back.text().contains("There are no more."), "{}", back.text());
    let last = page(&fixture, &address(&back, "prev").unwrap()).await;
    assert_eq!((listed(&last).len(), address(&last, "next")), (2, None), "{}", last.text());
    back = pages.pop().unwrap();
    for earlier in pages.iter().rev() {
        let (_, first) = back.text().split_once(">Previous page</a><a href=\"").unwrap();
        assert!(first.starts_with(&format!("{LIST}&amp;limit=2\">First page</a>")), "{first}");
        back = page(&fixture, &address(&back, "prev").unwrap()).await;
        assert_eq!(listed(&back), listed(earlier), "{}", back.text());
        assert!(address(&back, "next").is_some(), "{}", back.text());
    }
    assert!(address(&back, "prev").is_none() && !back.text().contains("First page"), "{}", back.text());
    let ask = |method: Method, path: String| fixture.ask(method, &path).header("accept", BROWSER).answer();
    for wrong in ["limit=0", "limit=201", "after=x", "after=100001", "before=x", "after=1&before=2", "last=true"] {
        let refused = ask(Method::GET, format!("{LIST}&{wrong}")).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{wrong}: {}", refused.text());
    }
    let head = ask(Method::HEAD, LIST.to_owned()).await;
    assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
    assert_eq!((head.header("content-type"), head.header("vary")), (Some("text/html; charset=utf-8"), Some("accept")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_deleted_container_leads_to_the_form_that_brings_back_all_of_it() {
    let fixture = with_deleted().await;
    delete(&fixture, "/rest/c").await;
    let deleted = page(&fixture, LIST).await;
    assert!(listed(&deleted).contains(&"/rest/c/stays".to_owned()), "{}", deleted.text());
    assert!(deleted.text().contains("href=\"/rest/c/fcr:forms\">Bring back the container</a>"), "{}", deleted.text());
    assert!(!deleted.text().contains("/rest/c/stays/fcr:forms"), "{}", deleted.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_leads_to_what_was_deleted_only_where_that_is_kept_and_shown() {
    let hidden = fixture_with(LdpSettings { deleted_versions: false, ..LdpSettings::default() }).await;
    let history = History { resources: Keep::None, ..History::default() };
    let kept_none = fixture_keeping(LibraryOptions { history, ..LibraryOptions::default() }).await;
    for fixture in [hidden, kept_none] {
        fixture.make("/rest/c", "BasicContainer", "").await;
        assert!(!page(&fixture, "/rest/c").await.text().contains("members=deleted"));
        let list = fixture.ask(Method::GET, LIST).header("accept", BROWSER).answer().await;
        assert_eq!(list.status, StatusCode::NOT_FOUND);
    }
    let history = History { resources: Keep::Explicit, ..History::default() };
    let explicit = fixture_keeping(LibraryOptions { history, ..LibraryOptions::default() }).await;
    explicit.make("/rest/c", "BasicContainer", "").await;
    for name in ["asked", "none"] {
        explicit.make(&format!("/rest/c/{name}"), "RDFSource", "").await;
    }
    explicit.clock.advance(Duration::from_secs(5));
    let made = explicit.ask(Method::POST, "/rest/c/asked/fcr:versions").answer().await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text());
    assert!(listed(&page(&explicit, LIST).await).is_empty());
    for name in ["asked", "none"] {
        delete(&explicit, &format!("/rest/c/{name}")).await;
    }
    let kept = page(&explicit, LIST).await;
    assert_eq!(listed(&kept), ["/rest/c/asked"], "the other one left nothing: {}", kept.text());
}
