//! Archival groups: containers whose contents belong together, as in Fedora.

use std::time::Duration;

use http::{Method, StatusCode};

use crate::support::{Ask, Fixture, LDP, ROOT, Reply, fixture, parsed};

const GROUP: &str = "http://fedora.info/definitions/v4/repository#ArchivalGroup";
/// The links by which Fedora's clients ask for one.
const LINK: &str = "<http://fedora.info/definitions/v4/repository#ArchivalGroup>; rel=\"type\"";

async fn make_group(fixture: &Fixture, path: &str) {
    let made = fixture.put(path, "").header("link", LINK).answer().await;
    assert_eq!(made.status, StatusCode::CREATED, "{path}: {}", made.text());
}

fn is_group(reply: &Reply) -> bool {
    reply.links("type").contains(&GROUP.to_owned())
}

fn says_group(reply: &Reply, path: &str) -> bool {
    reply.says(&format!("<{path}> a <{GROUP}>, ldp:Container ."))
}

async fn begin(fixture: &Fixture) -> String {
    let begun = fixture.ask(Method::POST, "/rest/fcr:tx").answer().await;
    begun.header("location").unwrap().to_owned()
}

async fn of(ask: Ask<'_>, transaction: &str) -> Reply {
    ask.header("atomic-id", transaction).answer().await
}

async fn end(fixture: &Fixture, method: Method, transaction: &str) {
    let ended = fixture.ask(method, transaction.strip_prefix("http://test").unwrap()).answer().await;
    assert_eq!(ended.status, StatusCode::NO_CONTENT, "{}", ended.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_each_kind_is_an_archival_group_if_its_creator_says_so() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/g").await;
    for (model, method) in [
        ("BasicContainer", Method::PUT),
        ("DirectContainer", Method::PUT),
        ("IndirectContainer", Method::POST),
        ("Container", Method::POST),
    ] {
        let at = if method == Method::PUT { format!("/rest/{model}") } else { "/rest/".to_owned() };
        let ask = fixture.ask(method, &at).header("slug", model).header("content-type", "text/turtle");
        let made = ask.header("link", &format!("{LINK}, <{LDP}{model}>; rel=\"type\"")).body("").answer().await;
        assert_eq!(made.status, StatusCode::CREATED, "{model}: {}", made.text());
        let class = if model == "Container" { "BasicContainer" } else { model };
        let head = fixture.ask(Method::HEAD, &format!("/rest/{model}")).answer().await;
        assert!(is_group(&head) && head.is(class), "{model}: {:?}", head.headers);
        let read = fixture.get(&format!("/rest/{model}")).await;
        assert!(says_group(&read, model) && read.says(&format!("<{model}> a ldp:{class} .")), "{}", read.text());
    }
    let bare = fixture.ask(Method::PUT, "/rest/bare").header("link", LINK).answer().await;
    assert_eq!(bare.status, StatusCode::CREATED, "a container needs no body: {}", bare.text());
    fixture.put("/rest/g/part/file", "").answer().await;
    for plain in ["/rest/", "/rest/g/part", "/rest/g/part/file"] {
        assert!(!is_group(&fixture.get(plain).await), "{plain}");
    }
    let page = fixture.ask(Method::GET, "/rest/").header("accept", "text/html").answer().await;
    assert!(page.text().contains("Archival Group"), "{}", page.text());
    let page = fixture.ask(Method::GET, "/rest/g").header("accept", "text/html").answer().await;
    assert!(page.text().contains("ArchivalGroup"), "{}", page.text());
    let bytes = fixture.ask(Method::PUT, "/rest/bytes").header("content-type", "image/png").body("pixels");
    let refused = bytes.header("link", &format!("{LINK}, <{LDP}NonRDFSource>; rel=\"type\"")).answer().await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "bytes contain nothing: {}", refused.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_within_a_group_is_refused_and_the_outer_one_named() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/a/g").await;
    fixture.put("/rest/a/g/part", "").answer().await;
    for (method, at) in [
        (Method::PUT, "/rest/a/g/inner"),
        (Method::PUT, "/rest/a/g/part/inner"),
        (Method::PUT, "/rest/a/g/missing/inner"),
        (Method::POST, "/rest/a/g"),
        (Method::POST, "/rest/a/g/part"),
    ] {
        let ask = fixture.ask(method.clone(), at).header("content-type", "text/turtle").header("link", LINK);
        let refused = ask.body("").answer().await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{method} {at}: {}", refused.text());
        assert!(refused.detail().contains("/a/g, which is an archival group"), "{}", refused.detail());
        assert_eq!(refused.links(&format!("{LDP}constrainedBy")).len(), 1, "{method} {at}");
    }
    let part = fixture.get("/rest/a/g/part").await;
    assert!(part.objects(&format!("{ROOT}a/g/part"), "contains").is_empty());
    assert_eq!(fixture.get("/rest/a/g/missing").await.status, StatusCode::NOT_FOUND);
    make_group(&fixture, "/rest/a/beside").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_neither_becomes_a_group_nor_stops_being_one() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/g").await;
    fixture.put("/rest/c", "").answer().await;
    let put = |path, body: &str| fixture.put(path, body);
    let refused = put("/rest/c", "").header("link", LINK).answer().await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    let refused = put("/rest/c", &format!("<> a <{GROUP}> .")).answer().await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    for model in ["NonRDFSource", "DirectContainer"] {
        let refused = put("/rest/g", "").header("link", &format!("<{LDP}{model}>; rel=\"type\"")).answer().await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{model}: {}", refused.text());
    }
    let titled = "<> <http://purl.org/dc/terms/title> \"letters\" .";
    for link in [LINK.to_owned(), format!("<{LDP}BasicContainer>; rel=\"type\""), format!("<{LDP}Resource>; rel=type")]
    {
        let replaced = put("/rest/g", titled).header("link", &link).answer().await;
        assert_eq!(replaced.status, StatusCode::NO_CONTENT, "{link}: {}", replaced.text());
    }
    let read = fixture.get("/rest/g").await;
    assert_eq!(put("/rest/g", read.text()).answer().await.status, StatusCode::NO_CONTENT, "what was read comes back");
    let patch = fixture.ask(Method::PATCH, "/rest/g").header("content-type", "application/sparql-update");
    let update = "INSERT DATA { <> <http://purl.org/dc/terms/creator> \"A\" }";
    assert_eq!(patch.body(update).answer().await.status, StatusCode::NO_CONTENT);
    let read = fixture.get("/rest/g").await;
    assert!(is_group(&read) && says_group(&read, "g") && read.says("<g> dc:creator \"A\" ."), "{}", read.text());
    let known = fixture.ask(Method::GET, "/rest/g").header("accept", "text/turtle");
    let known = known
        .header("prefer", "return=representation; omit=\"http://fedora.info/definitions/v4/repository#ServerManaged\"");
    let own = known.answer().await.graph();
    assert_eq!(own, parsed("<g> dc:title \"letters\" ; dc:creator \"A\" ."), "it is no statement of the client");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_of_a_group_is_one_and_comes_back_as_one_with_what_was_in_it() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/g").await;
    fixture.clock.advance(Duration::from_secs(10));
    fixture.put("/rest/g/part", "<> <http://purl.org/dc/terms/title> \"one\" .").answer().await;
    fixture.clock.advance(Duration::from_secs(10));
    let list = fixture.ask(Method::GET, "/rest/g/fcr:versions").header("accept", "application/link-format");
    let list = list.answer().await;
    assert_eq!(list.text().matches("memento\"").count(), 1, "a change in it is no version of it: {}", list.text());
    let then = fixture.ask(Method::GET, "/rest/g").header("accept-datetime", "Sun, 15 Jun 2025 15:06:50 GMT");
    let then = then.answer().await;
    let memento = fixture.get(then.header("location").unwrap().strip_prefix("http://test").unwrap()).await;
    assert!(is_group(&memento) && says_group(&memento, "g"), "{}", memento.text());
    assert_eq!(memento.objects(&format!("{ROOT}g"), "contains"), [format!("{ROOT}g/part")]);

    let deleted = fixture.ask(Method::DELETE, "/rest/g").answer().await;
    assert_eq!(deleted.status, StatusCode::NO_CONTENT, "{}", deleted.text());
    assert_eq!(fixture.get("/rest/g/part").await.status, StatusCode::GONE);
    fixture.clock.advance(Duration::from_secs(10));
    let restored = fixture.ask(Method::POST, "/rest/g/fcr:versions?restore=").answer().await;
    assert_eq!(restored.status, StatusCode::CREATED, "{}", restored.text());
    assert!(is_group(&fixture.get("/rest/g").await));
    assert!(fixture.get("/rest/g/part").await.says("<g/part> dc:title \"one\" ."));
    fixture.ask(Method::DELETE, "/rest/g").answer().await;
    fixture.ask(Method::DELETE, "/rest/g/fcr:tombstone").answer().await;
    fixture.put("/rest/g", "").answer().await;
    assert!(!is_group(&fixture.get("/rest/g").await), "another resource of the same name is what its creator says");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_transactions_do_not_change_the_same_group() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/g").await;
    fixture.put("/rest/g/a", "").answer().await;
    fixture.put("/rest/g/b", "").answer().await;
    let (one, two) = (begin(&fixture).await, begin(&fixture).await);
    assert_eq!(of(fixture.put("/rest/g/a", "<> <urn:p> 1 ."), &one).await.status, StatusCode::NO_CONTENT);
    assert_eq!(of(fixture.put("/rest/g/new/deep", ""), &one).await.status, StatusCode::CREATED);
    let posted =
        of(fixture.ask(Method::POST, "/rest/g").header("content-type", "image/png").body("pixels"), &one).await;
    assert_eq!(posted.status, StatusCode::CREATED, "{}", posted.text());
    let delete = |path| fixture.ask(Method::DELETE, path);
    let post = || fixture.ask(Method::POST, "/rest/g/b").header("content-type", "image/png").body("pixels");
    for (what, refused) in [
        ("a new part", of(fixture.put("/rest/g/c", ""), &two).await),
        ("a new part of a part", of(post(), &two).await),
        ("a change of another part", of(fixture.put("/rest/g/b", "<> <urn:p> 1 ."), &two).await),
        ("the deletion of a part", of(delete("/rest/g/b"), &two).await),
        ("a change of the group", of(fixture.put("/rest/g", "<> <urn:p> 1 ."), &two).await),
        ("the deletion of the group", of(delete("/rest/g"), &two).await),
        ("a plain change of the group", fixture.put("/rest/g", "<> <urn:p> 1 .").answer().await),
        ("a plain deletion of the group", delete("/rest/g").answer().await),
    ] {
        assert_eq!(refused.status, StatusCode::CONFLICT, "{what}: {}", refused.text());
        let detail = refused.detail();
        assert!(
            detail.starts_with("/g is held by a transaction of ") && detail.contains(" until "),
            "{what}: {detail}"
        );
    }
    // The other transaction goes on, and so do plain requests for other parts.
    assert_eq!(of(fixture.put("/rest/beside", ""), &two).await.status, StatusCode::CREATED);
    assert_eq!(fixture.put("/rest/g/b", "<> <urn:p> 2 .").answer().await.status, StatusCode::NO_CONTENT);
    assert_eq!(fixture.put("/rest/g/plain", "").answer().await.status, StatusCode::CREATED);
    let versions = || async {
        fixture.get("/rest/g/fcr:versions").await.objects(&format!("{ROOT}g/fcr:versions"), "contains").len()
    };
    let before = versions().await;
    end(&fixture, Method::PUT, &one).await;
    assert_eq!(versions().await, before, "the group itself is as it was");
    assert!(fixture.get("/rest/g/a").await.says("<g/a> <urn:p> 1 ."));
    assert_eq!(fixture.get("/rest/g/new/deep").await.status, StatusCode::OK);
    assert_eq!(of(fixture.put("/rest/g/c", ""), &two).await.status, StatusCode::CREATED, "the group is free again");
    end(&fixture, Method::DELETE, &two).await;
    assert_eq!(fixture.put("/rest/g", "<> <urn:p> 3 .").answer().await.status, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_creates_changes_and_deletes_groups_with_what_is_in_them() {
    let fixture = fixture().await;
    make_group(&fixture, "/rest/old").await;
    fixture.put("/rest/old/part", "").answer().await;
    let tx = begin(&fixture).await;
    assert_eq!(of(fixture.put("/rest/g", "").header("link", LINK), &tx).await.status, StatusCode::CREATED);
    assert_eq!(of(fixture.put("/rest/g", "<> <urn:p> 1 ."), &tx).await.status, StatusCode::NO_CONTENT);
    assert_eq!(of(fixture.put("/rest/g/part", ""), &tx).await.status, StatusCode::CREATED);
    let refused = of(fixture.put("/rest/g/part/inner", "").header("link", LINK), &tx).await;
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.text());
    let seen = of(fixture.ask(Method::GET, "/rest/g"), &tx).await;
    assert!(is_group(&seen) && seen.says("<g> <urn:p> 1 ; ldp:contains <g/part> ."), "{}", seen.text());
    // First what is in it, then the group.
    assert_eq!(of(fixture.put("/rest/old/part", "<> <urn:p> 1 ."), &tx).await.status, StatusCode::NO_CONTENT);
    assert_eq!(of(fixture.put("/rest/old", "<> <urn:p> 1 ."), &tx).await.status, StatusCode::NO_CONTENT);
    assert!(is_group(&of(fixture.ask(Method::GET, "/rest/old"), &tx).await));
    assert_eq!(of(fixture.ask(Method::DELETE, "/rest/old"), &tx).await.status, StatusCode::NO_CONTENT);
    end(&fixture, Method::PUT, &tx).await;
    let read = fixture.get("/rest/g").await;
    assert!(is_group(&read) && read.says("<g> <urn:p> 1 ; ldp:contains <g/part> ."), "{}", read.text());
    assert_eq!(fixture.get("/rest/old").await.status, StatusCode::GONE);
    assert_eq!(fixture.get("/rest/old/part").await.status, StatusCode::GONE);
}
