//! Forms for people: each does what the request of a program would do, under the same rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Extension;
use axum::body::Body;
use bytes::Bytes;
use door_http::{Acted, ReadsOnly};
use futures::{StreamExt, stream};
use http::{Method, StatusCode};
use store::Lane;
use tokio::sync::oneshot;

use crate::support::*;

const BOUNDARY: &str = "a-boundary";

/// A form as a browser sends it. The file comes last.
fn form(texts: &[(&str, &str)], file: Option<(&str, &str, &[u8])>) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, text) in texts {
        let part = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n");
        body.extend(part.into_bytes());
    }
    if let Some((name, media_type, bytes)) = file {
        let disposition = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"");
        body.extend(format!("--{BOUNDARY}\r\n{disposition}\r\nContent-Type: {media_type}\r\n\r\n").into_bytes());
        body.extend([bytes, b"\r\n"].concat());
    }
    body.extend(format!("--{BOUNDARY}--\r\n").into_bytes());
    body
}

async fn send(fixture: &Fixture, path: &str, body: impl Into<Body>) -> Reply {
    let asked = fixture.ask(Method::POST, &format!("{path}/fcr:forms"));
    asked.header("content-type", &format!("multipart/form-data; boundary={BOUNDARY}")).body(body).answer().await
}

/// The page of forms, and the value of its first hidden field of a name within a form.
async fn hidden(fixture: &Fixture, path: &str, action: &str, name: &str) -> String {
    let page = fixture.get(&format!("{path}/fcr:forms")).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text());
    let form = page.text().split("<section").find(|form| form.contains(&format!("value=\"{action}\""))).unwrap();
    let value = form.split(&format!("name=\"{name}\" value=\"")).nth(1).unwrap();
    value.split('"').next().unwrap().replace("&quot;", "\"")
}

fn location(reply: &Reply) -> &str {
    assert_eq!(reply.status, StatusCode::SEE_OTHER, "{}", reply.text());
    reply.header("location").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_create_containers_and_upload_files_with_their_names() {
    let fixture = fixture().await;
    let created = send(&fixture, "/rest", form(&[("action", "create"), ("title", "Letters \"1\" <b>")], None)).await;
    assert_eq!(location(&created), "/rest/Letters-1-b");
    let container = fixture.ask(Method::GET, location(&created)).header("accept", TURTLE).answer().await;
    assert!(
        container.is("BasicContainer") && container.text().contains("Letters \\\"1\\\" <b>"),
        "{}",
        container.text()
    );
    let named = send(&fixture, "/rest", form(&[("action", "create"), ("title", ""), ("name", "box")], None)).await;
    assert_eq!(location(&named), "/rest/box");
    let title = "A long title ".repeat(50);
    let created = send(&fixture, "/rest", form(&[("action", "create"), ("title", &title)], None)).await;
    assert!(location(&created).starts_with("/rest/A-long-title-A-long"), "{}", location(&created));

    let file = Some(("Über uns.ttl", "text/turtle", &b"no turtle"[..]));
    let uploaded = send(&fixture, "/rest/box", form(&[("action", "upload"), ("name", "")], file)).await;
    let file = "/rest/box/%C3%9Cber-uns.ttl";
    assert_eq!(location(&uploaded), format!("{file}/fcr:metadata"), "a graph in a file is a file");
    let bytes = fixture.get(file).await;
    assert_eq!((&bytes.body[..], bytes.header("content-type")), (&b"no turtle"[..], Some("text/turtle")));
    assert!(bytes.header("content-disposition").unwrap().contains("filename*=UTF-8''%C3%9Cber%20uns.ttl"));
    for none in [None, Some(("", "application/octet-stream", &b""[..]))] {
        let refused = send(&fixture, "/rest/box", form(&[("action", "upload"), ("name", "x")], none)).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
        assert!(refused.text().contains("choose a file"), "{}", refused.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_create_containers_with_members_and_archival_groups() {
    let fixture = fixture().await;
    fixture.make("/rest/book", "RDFSource", "").await;
    let direct = form(
        &[
            ("action", "create-with-members"),
            ("kind", "direct"),
            ("title", "Parts <b>"),
            ("name", ""),
            ("membership-resource", "/book"),
            ("direction", "has-member"),
            ("relation", "dcterms:hasPart"),
            ("inserted-content-relation", ""),
        ],
        None,
    );
    assert_eq!(location(&send(&fixture, "/rest", direct).await), "/rest/Parts-b");
    assert!(fixture.get("/rest/Parts-b").await.is("DirectContainer"));
    fixture.make("/rest/Parts-b/one", "RDFSource", "").await;
    let book = fixture.get("/rest/book").await;
    assert!(book.says("<book> dc:hasPart <Parts-b/one> ."), "{}", book.text());

    let indirect = form(
        &[
            ("action", "create-with-members"),
            ("kind", "indirect"),
            ("name", "subjects"),
            ("membership-resource", "http://test/rest/book"),
            ("direction", "is-member-of"),
            ("relation", "http://purl.org/dc/terms/isPartOf"),
            ("inserted-content-relation", "foaf:primaryTopic"),
        ],
        None,
    );
    assert_eq!(location(&send(&fixture, "/rest", indirect).await), "/rest/subjects");
    assert!(fixture.get("/rest/subjects").await.is("IndirectContainer"));
    let topic = "<> <http://xmlns.com/foaf/0.1/primaryTopic> <http://a/topic> .";
    fixture.make("/rest/subjects/one", "RDFSource", topic).await;
    let subjects = fixture.get("/rest/subjects").await;
    assert!(subjects.says("<http://a/topic> dc:isPartOf <book> ."), "{}", subjects.text());

    let usual = [("action", "create-with-members"), ("kind", "indirect"), ("direction", "has-member"), ("name", "own")];
    assert_eq!(location(&send(&fixture, "/rest", form(&usual, None)).await), "/rest/own");
    let own = fixture.get("/rest/own").await;
    let rule = "<own> ldp:membershipResource <own> ; ldp:hasMemberRelation ldp:member ;
                ldp:insertedContentRelation ldp:MemberSubject .";
    assert!(own.says(rule), "{}", own.text());

    let group = form(&[("action", "create"), ("title", "Group"), ("group", "yes")], None);
    assert_eq!(location(&send(&fixture, "/rest", group.clone()).await), "/rest/Group");
    let made = fixture.get("/rest/Group").await;
    let class = "http://fedora.info/definitions/v4/repository#ArchivalGroup".to_owned();
    assert!(made.links("type").contains(&class), "{:?}", made.headers);
    assert!(!fixture.get("/rest/Group/fcr:forms").await.text().contains("name=\"group\""), "there is none in another");
    let refused = send(&fixture, "/rest/Group", group).await;
    assert!(refused.status.is_client_error() && refused.text().contains("role=\"alert\""), "{}", refused.text());

    assert_eq!(fixture.get("/rest/own/fcr:forms").await.text().matches("name=\"group\"").count(), 2);
    let both = [("name", "both"), ("group", "yes")];
    let both: Vec<_> = usual.into_iter().filter(|(name, _)| *name != "name").chain(both).collect();
    assert_eq!(location(&send(&fixture, "/rest", form(&both, None)).await), "/rest/both");
    let made = fixture.get("/rest/both").await;
    assert!(made.is("IndirectContainer") && made.links("type").contains(&class), "{:?}", made.headers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_creates_a_plain_description_and_another_one_edits_it() {
    let fixture = fixture().await;
    let about = [("action", "create-description"), ("title", "Ada Lovelace")];
    assert_eq!(location(&send(&fixture, "/rest", form(&about, None)).await), "/rest/Ada-Lovelace");
    let made = fixture.get("/rest/Ada-Lovelace").await;
    assert!(made.is("RDFSource") && !made.is("Container"), "{}", made.text());
    assert!(made.says("<Ada-Lovelace> dc:title \"Ada Lovelace\" ."), "{}", made.text());
    let page = fixture.get("/rest/Ada-Lovelace/fcr:forms").await;
    assert!(page.text().contains("value=\"describe\""), "{}", page.text());
    assert!(!page.text().contains("value=\"create-description\""), "it contains nothing: {}", page.text());
    let inside = send(&fixture, "/rest/Ada-Lovelace", form(&about, None)).await;
    assert!(inside.status.is_client_error(), "{}", inside.status);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_container_with_members_keeps_what_was_typed_and_creates_nothing() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "").await;
    for (field, typed, shown) in [
        ("membership-resource", "book", "<option value=\"is-member-of\" selected>"),
        ("membership-resource", "/a/../b", "value=\"/a/../b\""),
        ("relation", "dcterms:a b", "value=\"dcterms:a b\""),
        ("relation", "<img src=x>", "value=\"&lt;img src=x&gt;\""),
        ("relation", "ldp:contains", "value=\"ldp:contains\""),
        ("relation", "rdf:type", "<details open>"),
        ("inserted-content-relation", "no address", "value=\"no address\""),
        ("kind", "direct", "value=\"direct\" checked"),
        ("kind", "basic", "value=\"Kept\""),
        ("direction", "up", "value=\"Kept\""),
    ] {
        let mut fields = vec![
            ("action", "create-with-members"),
            ("kind", "indirect"),
            ("title", "Kept"),
            ("direction", "is-member-of"),
            ("inserted-content-relation", "dcterms:subject"),
        ];
        fields.retain(|(known, _)| *known != field);
        fields.push((field, typed));
        let refused = send(&fixture, "/rest/c", form(&fields, None)).await;
        assert!(refused.status.is_client_error(), "{field}: {typed}: {}", refused.status);
        for part in ["role=\"alert\"", "value=\"Kept\"", shown] {
            assert!(refused.text().contains(part), "{field}: {typed}: {part}: {}", refused.text());
        }
        assert!(!refused.text().contains("<img"), "{}", refused.text());
    }
    let container = fixture.get("/rest/c").await;
    assert!(container.objects(&format!("{ROOT}c"), "contains").is_empty(), "{}", container.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_edit_descriptions_replace_files_and_delete_only_what_they_show() {
    let fixture = fixture().await;
    fixture.make("/rest/a", "RDFSource", "<> <http://purl.org/dc/terms/title> \"One\" .").await;
    let page = fixture.get("/rest/a/fcr:forms").await;
    assert!(page.text().contains("&quot;One&quot;"), "{}", page.text());
    assert!(!page.text().contains("lastModified"), "what the server manages is not to be edited: {}", page.text());
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let tag = hidden(&fixture, "/rest/a", "describe", "etag").await;
    let turtle = "<> <http://purl.org/dc/terms/title> \"Two\" .";
    let describe = |turtle: &str| form(&[("action", "describe"), ("etag", &tag), ("turtle", turtle)], None);
    let refused = send(&fixture, "/rest/a", describe("<> no turtle </textarea><script>")).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.text().contains("no turtle &lt;/textarea&gt;&lt;script&gt;"), "what was typed stays");
    assert_eq!(location(&send(&fixture, "/rest/a", describe(turtle)).await), "/rest/a");
    assert!(fixture.get("/rest/a").await.says("<a> dc:title \"Two\" ."));
    let stale = send(&fixture, "/rest/a", describe("<> <http://a/p> 3 .")).await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED, "another change came between");
    assert!(stale.text().contains("&lt;http://a/p&gt; 3"), "what was typed stays");
    assert!(stale.text().contains("Somebody has changed this"), "{}", stale.text());
    assert!(stale.text().contains("href=\"/rest/a/fcr:forms\""), "{}", stale.text());
    assert!(!stale.text().contains("If-Match"), "{}", stale.text());

    let put = fixture.ask(Method::PUT, "/rest/file").of_class("NonRDFSource").header("content-type", "image/png");
    assert_eq!(put.body("old").answer().await.status, StatusCode::CREATED);
    let tag = hidden(&fixture, "/rest/file", "replace", "etag").await;
    let new = Some(("new.txt", "text/plain", &b"new"[..]));
    let replaced = send(&fixture, "/rest/file", form(&[("action", "replace"), ("etag", &tag)], new)).await;
    assert_eq!(location(&replaced), "/rest/file/fcr:metadata");
    assert_eq!(fixture.get("/rest/file").await.text(), "new");
    let tag = hidden(&fixture, "/rest/file", "describe", "etag").await;
    let described =
        send(&fixture, "/rest/file", form(&[("action", "describe"), ("etag", &tag), ("turtle", turtle)], None));
    assert_eq!(location(&described.await), "/rest/file/fcr:metadata");
    assert!(fixture.get("/rest/file/fcr:metadata").await.says("<file> dc:title \"Two\" ."));

    let old_tag = tag;
    let unsure = send(&fixture, "/rest/file", form(&[("action", "delete"), ("etag", &old_tag)], None)).await;
    assert_eq!(unsure.status, StatusCode::BAD_REQUEST, "nobody confirmed it");
    let tag = hidden(&fixture, "/rest/file", "delete", "etag").await;
    let deleted =
        send(&fixture, "/rest/file", form(&[("action", "delete"), ("etag", &tag), ("sure", "yes")], None)).await;
    assert_eq!(location(&deleted), "/rest/");
    assert_eq!(fixture.get("/rest/file").await.status, StatusCode::GONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_that_showed_an_empty_container_deletes_no_member_that_came_later() {
    let fixture = fixture().await;
    fixture.make("/rest/box", "BasicContainer", "").await;
    let tag = hidden(&fixture, "/rest/box", "delete", "etag").await;
    assert_eq!(hidden(&fixture, "/rest/box", "delete", "empty").await, "yes");
    let shown_empty = form(&[("action", "delete"), ("etag", &tag), ("empty", "yes"), ("sure", "yes")], None);
    fixture.make("/rest/box/in", "RDFSource", "").await;
    let refused = send(&fixture, "/rest/box", shown_empty.clone()).await;
    assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED, "{}", refused.text());
    assert!(refused.text().contains("Somebody has changed this"), "{}", refused.text());
    assert!(refused.text().contains("with everything in it (1 member)"), "{}", refused.text());
    assert!(!refused.text().contains("name=\"empty\""), "{}", refused.text());
    assert_eq!(fixture.get("/rest/box/in").await.status, StatusCode::OK);
    assert_eq!(fixture.ask(Method::DELETE, "/rest/box/in").answer().await.status, StatusCode::NO_CONTENT);
    assert_eq!(location(&send(&fixture, "/rest/box", shown_empty).await), "/rest/", "it is empty again");

    fixture.make("/rest/full", "BasicContainer", "").await;
    fixture.make("/rest/full/in", "RDFSource", "").await;
    let tag = hidden(&fixture, "/rest/full", "delete", "etag").await;
    let all = form(&[("action", "delete"), ("etag", &tag), ("sure", "yes")], None);
    assert_eq!(location(&send(&fixture, "/rest/full", all).await), "/rest/");
    assert_eq!(fixture.get("/rest/full/in").await.status, StatusCode::GONE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_a_file_deletes_and_restores_no_description_that_it_did_not_show() {
    let fixture = fixture().await;
    let put = async |bytes: &'static str| {
        let put = fixture.ask(Method::PUT, "/rest/file").header("content-type", "image/png").body(bytes);
        assert!(put.answer().await.status.is_success());
        fixture.clock.advance(std::time::Duration::from_secs(5));
    };
    put("old").await;
    put("new").await;
    let list = fixture.ask(Method::GET, "/rest/file/fcr:versions").header("accept", "text/html").answer().await;
    let link = list.text().split("href=\"").find(|link| link.contains("fcr:forms?restore=")).unwrap();
    let version = link.split(['=', '"']).nth(1).unwrap().to_owned();
    let tag = hidden(&fixture, "/rest/file", "delete", "etag").await;
    let shown = fixture.get(&format!("/rest/file/fcr:forms?restore={version}")).await;
    assert!(shown.text().contains(&tag.replace('"', "&quot;")), "{}", shown.text());
    let described = fixture.put("/rest/file/fcr:metadata", "<> <http://purl.org/dc/terms/title> \"Theirs\" .");
    assert_eq!(described.answer().await.status, StatusCode::NO_CONTENT);
    let delete = |tag: &str| form(&[("action", "delete"), ("etag", tag), ("sure", "yes")], None);
    let restore = |tag: &str| form(&[("action", "restore"), ("version", &version), ("etag", tag)], None);
    for stale in [delete(&tag), restore(&tag)] {
        let refused = send(&fixture, "/rest/file", stale).await;
        assert_eq!(refused.status, StatusCode::PRECONDITION_FAILED, "{}", refused.text());
        assert!(refused.text().contains("Somebody has changed this"), "{}", refused.text());
    }
    assert!(fixture.get("/rest/file/fcr:metadata").await.says("<file> dc:title \"Theirs\" ."));
    assert_eq!(fixture.get("/rest/file").await.text(), "new");
    let restored = send(&fixture, "/rest/file", restore(&hidden(&fixture, "/rest/file", "delete", "etag").await));
    assert_eq!(location(&restored.await), "/rest/file/fcr:metadata");
    assert_eq!(fixture.get("/rest/file").await.text(), "old");
    let deleted = send(&fixture, "/rest/file", delete(&hidden(&fixture, "/rest/file", "delete", "etag").await));
    assert_eq!(location(&deleted.await), "/rest/");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_typed_comes_back_while_the_store_refuses_changes() {
    let fixture = fixture().await;
    fixture.make("/rest/a", "RDFSource", "").await;
    let (fixture, faults) = faulty(fixture).await;
    let tag = hidden(&fixture, "/rest/a", "describe", "etag").await;
    let typed: [(&str, &str); 3] = [("action", "describe"), ("etag", &tag), ("turtle", "<> <http://a/p> \"typed\" .")];
    faults.set_poisoned(Lane::Text, true);
    let refused = send(&fixture, "/rest/a", form(&typed, None)).await;
    let expected = (StatusCode::SERVICE_UNAVAILABLE, Some("60"), Some("text/html; charset=utf-8"));
    let found = (refused.status, refused.header("retry-after"), refused.header("content-type"));
    assert_eq!(found, expected, "{}", refused.text());
    assert!(refused.text().contains("&quot;typed&quot;"), "{}", refused.text());
    assert!(refused.text().contains("role=\"alert\""), "{}", refused.text());
    faults.set_poisoned(Lane::Text, false);
    assert_eq!(hidden(&fixture, "/rest/a", "describe", "etag").await, tag, "nothing was changed");
    assert_eq!(location(&send(&fixture, "/rest/a", form(&typed, None)).await), "/rest/a");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_typed_comes_back_if_the_resource_is_gone() {
    let fixture = fixture().await;
    fixture.make("/rest/a", "BasicContainer", "").await;
    let tag = hidden(&fixture, "/rest/a", "describe", "etag").await;
    let describe: [(&str, &str); 3] =
        [("action", "describe"), ("etag", &tag), ("turtle", "<> <http://a/p> \"typed\" .")];
    let create = [("action", "create"), ("title", "typed"), ("name", "named")];
    for (removed, status) in [("/rest/a", StatusCode::GONE), ("/rest/a/fcr:tombstone", StatusCode::NOT_FOUND)] {
        assert_eq!(fixture.ask(Method::DELETE, removed).answer().await.status, StatusCode::NO_CONTENT);
        let refused = send(&fixture, "/rest/a", form(&describe, None)).await;
        assert_eq!(refused.status, status, "{}", refused.text());
        assert!(refused.text().contains("&quot;typed&quot;"), "{}", refused.text());
        assert_eq!(refused.text().contains("Bring back what was deleted"), status == StatusCode::GONE);
        let refused = send(&fixture, "/rest/a", form(&create, None)).await;
        assert_eq!(refused.status, status, "{}", refused.text());
        for part in ["value=\"typed\"", "value=\"named\"", "role=\"alert\""] {
            assert!(refused.text().contains(part), "{part}: {}", refused.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_takes_a_description_as_long_as_it_offers_with_the_line_ends_of_browsers() {
    let fixture = fixture().await;
    fixture.make("/rest/a", "RDFSource", "").await;
    let tag = hidden(&fixture, "/rest/a", "describe", "etag").await;
    let lines = |count| format!("<> <http://a/p> 1 .{}<> <http://a/q> 2 .", "\r\n".repeat(count));
    let describe = |turtle: &str| form(&[("action", "describe"), ("etag", &tag), ("turtle", turtle)], None);
    let too_long = send(&fixture, "/rest/a", describe(&lines(256 << 10))).await;
    assert_eq!(too_long.status, StatusCode::PAYLOAD_TOO_LARGE);
    let saved = send(&fixture, "/rest/a", describe(&lines((256 << 10) - 100))).await;
    assert_eq!(location(&saved), "/rest/a");
    let read = fixture.get("/rest/a").await;
    assert!(read.says("<a> <http://a/p> 1 ; <http://a/q> 2 ."), "{}", read.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_restore_earlier_versions_and_what_was_deleted() {
    let fixture = fixture().await;
    fixture.make("/rest/c", "BasicContainer", "<> <http://purl.org/dc/terms/title> \"One\" .").await;
    fixture.make("/rest/c/in", "RDFSource", "").await;
    fixture.clock.advance(std::time::Duration::from_secs(5));
    let changed = fixture.put("/rest/c", "<> <http://purl.org/dc/terms/title> \"Two\" .").answer().await;
    assert_eq!(changed.status, StatusCode::NO_CONTENT);
    let list = fixture.ask(Method::GET, "/rest/c/fcr:versions").header("accept", "text/html").answer().await;
    let link = list.text().split("href=\"").find(|link| link.contains("fcr:forms?restore=")).unwrap();
    let version = link.split(['=', '"']).nth(1).unwrap().to_owned();
    let page = fixture.get(&format!("/rest/c/fcr:forms?restore={version}")).await;
    assert!(page.text().contains("Restore an earlier version"), "{}", page.text());
    let form_page = page.text().to_owned();
    let tag =
        form_page.split("name=\"etag\" value=\"").nth(1).unwrap().split('"').next().unwrap().replace("&quot;", "\"");
    let restore = form(&[("action", "restore"), ("version", &version), ("etag", &tag)], None);
    assert_eq!(location(&send(&fixture, "/rest/c", restore).await), "/rest/c");
    assert!(fixture.get("/rest/c").await.says("<c> dc:title \"One\" ."));

    let answer = fixture.ask(Method::DELETE, "/rest/c").answer().await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    let page = fixture.get("/rest/c/fcr:forms").await;
    assert!(page.text().contains("Bring back what was deleted"), "{}", page.text());
    let restore = form(&[("action", "restore"), ("version", ""), ("contents", "true")], None);
    assert_eq!(location(&send(&fixture, "/rest/c", restore).await), "/rest/c");
    assert_eq!(fixture.get("/rest/c/in").await.status, StatusCode::OK);
    assert_eq!(fixture.get("/rest/never/fcr:forms").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_only_read_is_offered_no_change() {
    let fixture = fixture().await;
    let page = fixture.ask(Method::GET, "/rest/").header("accept", "text/html").answer().await;
    assert!(page.text().contains("href=\"/rest/fcr:forms\""), "{}", page.text());
    let reader = Fixture { router: fixture.router.clone().layer(Extension(ReadsOnly)), ..fixture };
    for path in ["/rest/", "/rest/fcr:forms"] {
        let page = reader.ask(Method::GET, path).header("accept", "text/html").answer().await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(!page.text().contains("<textarea") && !page.text().contains("href=\"/rest/fcr:forms\""), "{path}");
    }
    let page = reader.get("/rest/a%20b/fcr:forms").await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    let page = reader.get("/rest/fcr:forms").await;
    assert!(page.text().contains("href=\"/sign-in?to=rest%2Ffcr%3Aforms\">Sign in</a>"), "{}", page.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_reader_and_of_a_writer_have_different_tags() {
    let fixture = fixture().await;
    assert_eq!(
        fixture.ask(Method::PUT, "/rest/a").of_class("RDFSource").header("content-type", TURTLE).answer().await.status,
        201
    );
    let tag = async |fixture: &Fixture| {
        let page = fixture.ask(Method::GET, "/rest/a").header("accept", "text/html").answer().await;
        assert_eq!(page.status, StatusCode::OK, "{}", page.text());
        page.header("etag").unwrap().to_owned()
    };
    let (of_writer, again) = (tag(&fixture).await, tag(&fixture).await);
    assert_eq!(of_writer, again);
    let reader = Fixture { router: fixture.router.clone().layer(Extension(ReadsOnly)), ..fixture };
    assert_ne!(tag(&reader).await, of_writer);
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_that_are_none_are_refused_and_nothing_is_changed() {
    let fixture = fixture().await;
    for (body, status) in [
        (form(&[("action", "explode")], None), StatusCode::BAD_REQUEST),
        (form(&[], None), StatusCode::BAD_REQUEST),
        (form(&[("x", "y"); 20], None), StatusCode::BAD_REQUEST),
        (form(&[("action", "create"), ("title", &"a".repeat(300 << 10))], None), StatusCode::PAYLOAD_TOO_LARGE),
        (form(&[("action", "create"), ("title", "a")], None)[..60].to_vec(), StatusCode::BAD_REQUEST),
        (form(&[("action", "delete"), ("sure", "yes"), ("etag", "\"0\"")], None), StatusCode::METHOD_NOT_ALLOWED),
        (form(&[("action", "restore"), ("version", "no version")], None), StatusCode::BAD_REQUEST),
        (form(&[("action", "describe"), ("etag", "a\r\nslug: b"), ("turtle", "")], None), StatusCode::BAD_REQUEST),
    ] {
        let text = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
        assert_eq!(send(&fixture, "/rest", body).await.status, status, "{text}");
    }
    let other = fixture.ask(Method::POST, "/rest/fcr:forms").header("content-type", "text/plain").body("x");
    assert_eq!(other.answer().await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(fixture.ask(Method::PUT, "/rest/fcr:forms").answer().await.status, StatusCode::METHOD_NOT_ALLOWED);
    let root = fixture.get("/rest/").await;
    assert_eq!(root.objects(ROOT, "contains"), [format!("{ROOT}volumes")], "{}", root.text());
}

/// A body that begins like this and goes on for 64 MiB, and how many bytes of it were asked for.
fn long(start: &str) -> (Body, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let rest = std::iter::repeat_n(Bytes::from_static(&[b'a'; 16 << 10]), 4 << 10);
    let pieces = std::iter::once(Bytes::from(start.to_owned())).chain(rest).map(move |piece| {
        count.fetch_add(piece.len(), Ordering::Relaxed);
        Ok::<_, std::io::Error>(piece)
    });
    (Body::from_stream(futures::stream::iter(pieces)), asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn little_is_read_of_a_form_that_never_gets_to_a_field() {
    let fixture = fixture().await;
    for start in [String::new(), format!("--{BOUNDARY}\r\nA: ")] {
        let (body, asked) = long(&start);
        let refused = send(&fixture, "/rest", body).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text());
        assert!(refused.text().contains("too much before"), "{}", refused.text());
        let asked = asked.load(Ordering::Relaxed);
        assert!(asked < 128 << 10, "{start}: {asked}");
    }
    let names = form(&[(&*"n".repeat(50_000), ""); 12], None);
    assert_eq!(send(&fixture, "/rest", names).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let long_boundary = format!("multipart/form-data; boundary={}", "x".repeat(71));
    let asked = fixture.ask(Method::POST, "/rest/fcr:forms").header("content-type", &long_boundary);
    assert_eq!(asked.answer().await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_holds_little_memory_while_its_file_arrives() {
    let fixture = fixture().await;
    let file = Some(("slow.txt", "text/plain", &b"first, then the rest"[..]));
    let whole = form(&[("action", "upload"), ("name", "slow")], file);
    let end = whole.windows(6).position(|bytes| bytes == b", then").unwrap();
    let (first, rest) = (Bytes::copy_from_slice(&whole[..end]), Bytes::copy_from_slice(&whole[end..]));
    let (waits, is_waited_for) = oneshot::channel();
    let (let_go, held) = oneshot::channel();
    let rest = async move {
        waits.send(()).unwrap();
        held.await.map(|()| rest)
    };
    let pieces = stream::iter([Ok(first)]).chain(stream::once(rest));
    let look = async {
        is_waited_for.await.unwrap();
        let taken_bytes = fixture.library.memory.taken_bytes();
        assert!(taken_bytes < 512 << 10, "{taken_bytes}");
        let_go.send(()).unwrap();
    };
    let (uploaded, ()) = futures::join!(send(&fixture, "/rest", Body::from_stream(pieces)), look);
    assert_eq!(location(&uploaded), "/rest/slow/fcr:metadata");
    assert_eq!(&fixture.get("/rest/slow").await.body[..], b"first, then the rest");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_names_the_request_that_it_made() {
    let fixture = fixture().await;
    let body = form(&[("action", "create"), ("title", "a")], None);
    let asked = fixture.ask(Method::POST, "/rest/fcr:forms");
    let asked = asked.header("content-type", &format!("multipart/form-data; boundary={BOUNDARY}")).body(body);
    let acted = asked.response().await.extensions().get::<Acted>().cloned();
    assert_eq!(
        acted,
        Some(Acted { method: Method::POST, path: "/rest/".to_owned(), made: Some("/rest/a".to_owned()) })
    );
}
