//! Direct and Indirect Containers.

use http::{Method, StatusCode};

use crate::support::{Fixture, ROOT, fixture};

const PREFIX: &str = "@prefix ldp: <http://www.w3.org/ns/ldp#> . @prefix dc: <http://purl.org/dc/terms/> . ";

async fn with_book() -> Fixture {
    let fixture = fixture().await;
    fixture.make("/rest/book", "RDFSource", "").await;
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_direct_container_is_a_member_of_another_resource() {
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
async fn a_page_tells_membership_of_the_children_on_it_as_far_as_that_is_wanted() {
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
        let told = (0..5).filter(|n| page.says(&format!("<book> dc:hasPart <pages/{n}> ."))).collect::<Vec<_>>();
        assert_eq!(told.len(), if has_members { 3 } else { 0 }, "{omitted:?}: {}", page.text());
        if contains && has_members {
            let same = told.iter().all(|n| contained.contains(&format!("{ROOT}pages/{n}")));
            assert!(same, "{contained:?} and {told:?}");
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
async fn what_is_in_an_indirect_container_names_its_member() {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_is_not_one_is_refused() {
    let fixture = with_book().await;
    for rule in [
        "<> ldp:membershipResource <a>, <b> .",
        "<> ldp:membershipResource \"a\" .",
        "<> ldp:hasMemberRelation dc:hasPart ; ldp:isMemberOfRelation dc:isPartOf .",
    ] {
        let refused = fixture.put("/rest/d", &format!("{PREFIX}{rule}")).of_class("DirectContainer").answer().await;
        assert_eq!(refused.status, StatusCode::CONFLICT, "{rule}");
        assert!(refused.detail().contains("ldp#"), "{}", refused.detail());
    }
}
