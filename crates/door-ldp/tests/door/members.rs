//! Direct and Indirect Containers.

use http::{Method, StatusCode};

use crate::support::{Fixture, ROOT, Reply, fixture};

const PREFIX: &str = "@prefix ldp: <http://www.w3.org/ns/ldp#> . @prefix dc: <http://purl.org/dc/terms/> . ";

async fn with_book() -> Fixture {
    let fixture = fixture().await;
    fixture.make("/rest/book", "RDFSource", "").await;
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_of_a_direct_container_is_a_member_of_another_resource() {
    let fixture = with_book().await;
    let rule = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart .");
    fixture.make("/rest/pages", "DirectContainer", &rule).await;
    let before = fixture.get("/rest/book").await.etag();
    fixture.put("/rest/pages/1", "").answer().await;
    let member = "<book> dc:hasPart <pages/1> .";
    let pages = fixture.get("/rest/pages").await;
    assert!(pages.is("DirectContainer") && pages.says(member), "{}", pages.text());
    let book = fixture.get("/rest/book").await;
    assert!(book.says(member), "{}", book.text());
    assert_ne!(book.etag(), before);
    let unchanged = fixture.put("/rest/book", book.text()).header("if-match", &book.etag()).answer().await;
    assert_eq!(unchanged.status, StatusCode::NO_CONTENT, "{}", unchanged.text());
    let invented = format!("{PREFIX} <> dc:hasPart <pages/2> .");
    assert_eq!(fixture.put("/rest/book", &invented).answer().await.status, StatusCode::CONFLICT);
    let without = "return=representation; omit=\"http://www.w3.org/ns/ldp#PreferMembership\"";
    assert!(!fixture.ask(Method::GET, "/rest/pages").header("prefer", without).answer().await.says(member));
    fixture.ask(Method::DELETE, "/rest/pages/1").answer().await;
    assert!(!fixture.get("/rest/book").await.says(member) && !fixture.get("/rest/pages").await.says(member));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_the_membership_of_its_children_on_request() {
    let fixture = with_book().await;
    let rule = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart .");
    fixture.make("/rest/pages", "DirectContainer", &rule).await;
    for n in 0..5 {
        fixture.put(&format!("/rest/pages/{n}"), "").answer().await;
    }
    let omitting = |what: &[&str]| {
        let iris: Vec<_> = what.iter().map(|what| format!("http://www.w3.org/ns/ldp#{what}")).collect();
        format!("return=representation; omit=\"{}\"", iris.join(" "))
    };
    let cases = [
        (&[][..], true, true),
        (&["PreferMembership"][..], true, false),
        (&["PreferContainment"][..], false, true),
        (&["PreferMembership", "PreferContainment"][..], false, false),
    ];
    for (omitted, contains, has_members) in cases {
        let prefer = omitting(omitted);
        let page = fixture.ask(Method::GET, "/rest/pages?limit=3").header("prefer", &prefer).answer().await;
        let contained = page.objects(&format!("{ROOT}pages"), "contains");
        assert_eq!(contained.len(), if contains { 3 } else { 0 }, "{omitted:?}: {}", page.text());
        let described = (0..5).filter(|n| page.says(&format!("<book> dc:hasPart <pages/{n}> ."))).collect::<Vec<_>>();
        assert_eq!(described.len(), if has_members { 3 } else { 0 }, "{omitted:?}: {}", page.text());
        if contains && has_members {
            let same = described.iter().all(|n| contained.contains(&format!("{ROOT}pages/{n}")));
            assert!(same, "{contained:?} and {described:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn membership_can_point_the_other_way_and_to_the_container_itself() {
    let fixture = with_book().await;
    let rule = format!("{PREFIX}<> ldp:membershipResource <book#me> ; ldp:isMemberOfRelation dc:isPartOf .");
    fixture.make("/rest/pages", "DirectContainer", &rule).await;
    fixture.put("/rest/pages/1", "").answer().await;
    assert!(fixture.get("/rest/book").await.says("<pages/1> dc:isPartOf <book#me> ."));
    fixture.make("/rest/own", "DirectContainer", "").await;
    fixture.put("/rest/own/1", "").answer().await;
    let own = fixture.get("/rest/own").await;
    assert!(own.says("<own> ldp:member <own/1> ; ldp:membershipResource <own> ; ldp:hasMemberRelation ldp:member ."));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_of_an_indirect_container_names_the_member() {
    let fixture = with_book().await;
    let rule = format!(
        "{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart ; ldp:insertedContentRelation dc:references ."
    );
    fixture.make("/rest/proxies", "IndirectContainer", &rule).await;
    let proxy = format!("{PREFIX}<> dc:references <http://example.org/page/1> .");
    let made = fixture.post("/rest/proxies", &proxy).header("slug", "p").answer().await;
    assert_eq!(made.status, StatusCode::CREATED);
    fixture.put("/rest/proxies/silent", "").answer().await;
    let book = fixture.get("/rest/book").await;
    assert!(book.says("<book> dc:hasPart <http://example.org/page/1> ."), "{}", book.text());
    assert!(!book.text().contains("silent"));
    let proxies = fixture.get("/rest/proxies").await;
    assert_eq!(proxies.objects(&format!("{ROOT}proxies"), "contains").len(), 2);
    fixture.ask(Method::DELETE, "/rest/proxies/p").answer().await;
    assert!(!fixture.get("/rest/book").await.text().contains("example.org"));
}

const INDIRECT: &str =
    "<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart ; ldp:insertedContentRelation dc:references .";

async fn put(fixture: &Fixture, path: &str, turtle: &str) -> Reply {
    fixture.put(path, &format!("{PREFIX}{turtle}")).answer().await
}

fn assert_refused(answer: &Reply, named: &str) {
    assert_eq!(answer.status, StatusCode::CONFLICT, "{named}: {answer:?}");
    assert!(answer.detail().contains(named), "{}", answer.detail());
    assert_eq!(answer.links("http://www.w3.org/ns/ldp#constrainedBy"), [format!("{ROOT}fcr:constraints")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_no_child_named_is_refused_and_a_former_one_does_no_harm() {
    let fixture = with_book().await;
    fixture.make("/rest/proxies", "IndirectContainer", &format!("{PREFIX}{INDIRECT}")).await;
    for n in 1..=3 {
        let named = format!("<> dc:references <http://example.org/page/{n}> .");
        assert_eq!(put(&fixture, &format!("/rest/proxies/{n}"), &named).await.status, StatusCode::CREATED);
    }
    let book = fixture.get("/rest/book").await;
    assert!(book.says("<book> dc:hasPart <http://example.org/page/2> ."), "{}", book.text());
    let invented = format!("{} <> <http://purl.org/dc/terms/hasPart> <http://example.org/page/9> .", book.text());
    assert_refused(&fixture.put("/rest/book", &invented).answer().await, "http://example.org/page/9");
    let lenient = fixture.put("/rest/book", &invented).header("prefer", "handling=lenient").answer().await;
    assert_eq!(lenient.status, StatusCode::NO_CONTENT);
    assert!(!fixture.get("/rest/book").await.text().contains("page/9"));
    // Statements that a client was sent do no harm, even if a child is gone since.
    fixture.ask(Method::DELETE, "/rest/proxies/2").answer().await;
    for path in ["/rest/book", "/rest/proxies"] {
        let sent =
            if path == "/rest/book" { book.text().to_owned() } else { fixture.get(path).await.text().to_owned() };
        let unchanged = fixture.put(path, &sent).answer().await;
        assert_eq!(unchanged.status, StatusCode::NO_CONTENT, "{path}: {}", unchanged.text());
    }
    let read = fixture.get("/rest/book").await;
    assert!(read.text().contains("page/1") && !read.text().contains("page/2"), "{}", read.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_two_containers_with_the_same_relation_can_be_sent_back() {
    let fixture = with_book().await;
    let direct = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart .");
    for container in ["pages", "covers"] {
        fixture.make(&format!("/rest/{container}"), "DirectContainer", &direct).await;
        fixture.put(&format!("/rest/{container}/1"), "").answer().await;
    }
    fixture.make("/rest/proxies", "IndirectContainer", &format!("{PREFIX}{INDIRECT}")).await;
    put(&fixture, "/rest/proxies/1", "<> dc:references <http://example.org/x> .").await;
    let book = fixture.get("/rest/book").await;
    assert!(book.says("<book> dc:hasPart <pages/1>, <covers/1>, <http://example.org/x> ."), "{}", book.text());
    let unchanged = fixture.put("/rest/book", book.text()).answer().await;
    assert_eq!(unchanged.status, StatusCode::NO_CONTENT, "{}", unchanged.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_older_than_a_containers_rule_stay_the_clients() {
    let fixture = fixture().await;
    let own = "<book> dc:hasPart <http://example.org/own> .";
    fixture.make("/rest/book", "RDFSource", &format!("{PREFIX}{}", own.replace("<book>", "<>"))).await;
    let direct = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart .");
    fixture.make("/rest/pages", "DirectContainer", &direct).await;
    let patch = |update: &'static str| {
        let ask = fixture.ask(Method::PATCH, "/rest/book").header("content-type", "application/sparql-update");
        ask.body(update).answer()
    };
    let book = fixture.get("/rest/book").await;
    assert_eq!(fixture.put("/rest/book", book.text()).answer().await.status, StatusCode::NO_CONTENT);
    let titled = patch("INSERT DATA { <> <http://purl.org/dc/terms/title> \"t\" }").await;
    assert_eq!(titled.status, StatusCode::NO_CONTENT, "{}", titled.text());
    assert!(fixture.get("/rest/book").await.says(own));
    let gone = patch("DELETE DATA { <> <http://purl.org/dc/terms/hasPart> <http://example.org/own> }").await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT, "{}", gone.text());
    assert!(!fixture.get("/rest/book").await.says(own));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_container_has_no_members() {
    let fixture = with_book().await;
    for (class, rule) in [
        ("DirectContainer", "<> ldp:member <http://example.org/x> ."),
        ("DirectContainer", "<> ldp:membershipResource <book> . <book> ldp:member <http://example.org/x> ."),
        ("DirectContainer", "<> ldp:isMemberOfRelation dc:isPartOf . <http://example.org/x> dc:isPartOf <> ."),
        ("IndirectContainer", "<> ldp:insertedContentRelation dc:references ; ldp:member <http://example.org/x> ."),
    ] {
        let refused = fixture.put("/rest/d", &format!("{PREFIX}{rule}")).of_class(class).answer().await;
        assert_refused(&refused, "http://example.org/x");
        assert_eq!(fixture.get("/rest/d").await.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_can_get_another_rule_together_with_its_consequences() {
    let fixture = with_book().await;
    fixture.make("/rest/pages", "DirectContainer", &format!("{PREFIX}<> ldp:hasMemberRelation dc:hasPart .")).await;
    fixture.put("/rest/pages/1", "").answer().await;
    let other = |member: &str| format!("<> ldp:hasMemberRelation dc:references ; dc:references <{member}> .");
    assert_refused(&put(&fixture, "/rest/pages", &other("pages/2")).await, "pages/2");
    assert_refused(&put(&fixture, "/rest/pages", &other("pages/1#part")).await, "pages/1#part");
    let changed = put(&fixture, "/rest/pages", &other("pages/1")).await;
    assert_eq!(changed.status, StatusCode::NO_CONTENT, "{}", changed.text());
    fixture.ask(Method::DELETE, "/rest/pages/1").answer().await;
    let pages = fixture.get("/rest/pages").await;
    assert!(pages.says("<pages> ldp:hasMemberRelation dc:references .") && !pages.text().contains("pages/1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_would_delete_containment_or_membership_is_refused() {
    let fixture = with_book().await;
    let direct = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:hasMemberRelation dc:hasPart .");
    fixture.make("/rest/pages", "DirectContainer", &direct).await;
    let other_way = format!("{PREFIX}<> ldp:membershipResource <book> ; ldp:isMemberOfRelation dc:isPartOf .");
    fixture.make("/rest/covers", "DirectContainer", &other_way).await;
    fixture.put("/rest/pages/1", "").answer().await;
    fixture.put("/rest/covers/1", "").answer().await;
    let patch = |path: &str, update: &str| {
        let update = format!("{}{update}", PREFIX.replace("@prefix", "PREFIX").replace("> .", ">"));
        let ask = fixture.ask(Method::PATCH, path).header("content-type", "application/sparql-update");
        ask.body(update)
    };
    for (path, update, named) in [
        ("/rest/pages", "DELETE DATA { <> ldp:contains <pages/1> }", "ldp#contains> <http://test/rest/pages/1>"),
        ("/rest/pages", "DELETE { <> ldp:contains ?c } WHERE { <> ldp:contains ?c }", "ldp#contains> ?"),
        ("/rest/pages", "DELETE WHERE { ?c ldp:contains <pages/1> }", "ldp#contains>"),
        ("/rest/pages", "DELETE { <> ldp:contains <pages/1> } WHERE { }", "ldp#contains>"),
        ("/rest/pages", "DELETE DATA { <book> dc:hasPart <pages/1> }", "dc/terms/hasPart>"),
        ("/rest/book", "DELETE DATA { <book> dc:hasPart <pages/1> }", "dc/terms/hasPart>"),
        ("/rest/book", "DELETE WHERE { <book> dc:hasPart ?page }", "dc/terms/hasPart> ?"),
        ("/rest/book", "DELETE DATA { <covers/1> dc:isPartOf <book> }", "dc/terms/isPartOf>"),
    ] {
        let before = fixture.get(path).await;
        assert_refused(&patch(path, update).answer().await, named);
        assert_eq!(fixture.get(path).await.body, before.body, "{path}: {update}");
        let lenient = patch(path, update).header("prefer", "handling=lenient").answer().await;
        assert_eq!(lenient.status, StatusCode::NO_CONTENT, "{path}: {update}: {}", lenient.text());
    }
    let others = "DELETE DATA { <book> dc:title \"t\" ; dc:hasPart <pages/9> . <other> ldp:contains <pages/1> } ; \
                  DELETE WHERE { <> dc:isPartOf ?x }";
    let patched = patch("/rest/book", others).answer().await;
    assert_eq!(patched.status, StatusCode::NO_CONTENT, "{}", patched.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_rule_is_refused() {
    let fixture = with_book().await;
    for rule in [
        "<> ldp:membershipResource <a>, <b> .",
        "<> ldp:membershipResource \"a\" .",
        "<> ldp:hasMemberRelation dc:hasPart ; ldp:isMemberOfRelation dc:isPartOf .",
        "<> ldp:hasMemberRelation ldp:contains .",
        "<> ldp:membershipResource <book> ; ldp:isMemberOfRelation ldp:contains .",
        "<> ldp:hasMemberRelation a . ",
        "<> ldp:hasMemberRelation <http://fedora.info/definitions/v4/repository#hasMember> .",
    ] {
        let rule = rule.replace(" a .", " <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> .");
        let refused = fixture.put("/rest/d", &format!("{PREFIX}{rule}")).of_class("DirectContainer").answer().await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{rule}");
        assert!(refused.detail().contains("ldp#"), "{}", refused.detail());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_cannot_change_its_membership_to_containment() {
    let fixture = with_book().await;
    fixture.make("/rest/pages", "DirectContainer", &format!("{PREFIX}<> ldp:hasMemberRelation ldp:member .")).await;
    let refused = put(&fixture, "/rest/pages", "<> ldp:hasMemberRelation ldp:contains .").await;
    assert_refused(&refused, "hasMemberRelation");
    let update = "INSERT DATA { <> <http://www.w3.org/ns/ldp#hasMemberRelation> <http://www.w3.org/ns/ldp#contains> } ; \
                  DELETE DATA { <> <http://www.w3.org/ns/ldp#hasMemberRelation> <http://www.w3.org/ns/ldp#member> }";
    let patch = fixture.ask(Method::PATCH, "/rest/pages").header("content-type", "application/sparql-update");
    assert_refused(&patch.body(update).answer().await, "hasMemberRelation");
}
