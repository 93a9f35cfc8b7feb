//! Pages for people of the members of a volume. The data door sends the bytes of members; here
//! something else stands in for it.

use std::path::Path;
use std::sync::Arc;

use ::volumes::Unchanged;
use axum::Router;
use axum::body::to_bytes;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use door_http::page::ARROW_KEYS;
use door_ldp::{LdpDoor, LdpSettings, members};
use hathi::VolumeId;
use http::{HeaderMap, Method, StatusCode};
use sha2::{Digest, Sha256};

use crate::pages::{BROWSER, page};
use crate::support::*;

/// Ninety-two pages.
const VOLUME: &str = "uc2.ark:/13960/t8ff3zh99";
/// The address of the volume.
const AT: &str = "/rest/volumes/uc2.ark+=13960=t8ff3zh99";

fn id() -> VolumeId {
    VOLUME.parse().unwrap()
}

/// The bytes of a member, with a tag and ranges.
fn bytes_of_member(headers: &HeaderMap, text: String) -> Response {
    let status = match (headers.contains_key("range"), headers.contains_key("if-none-match")) {
        (true, _) => StatusCode::PARTIAL_CONTENT,
        (_, true) => StatusCode::NOT_MODIFIED,
        _ => StatusCode::OK,
    };
    let of_bytes = [("content-type", "text/plain; charset=utf-8"), ("etag", "\"1\""), ("vary", "accept-encoding")];
    (status, of_bytes, text).into_response()
}

/// A server with a volume.
async fn with_volume() -> Fixture {
    let fixture = fixture().await;
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/pairtree");
    let files = hathi::locate(&samples, &id()).unwrap();
    fixture.library.volumes.import(files.open().unwrap(), Unchanged::Skip, |_| {}).await.unwrap();
    fixture
}

/// A server with a volume whose members have this text.
async fn with_text(text: &str) -> Fixture {
    let fixture = with_volume().await;
    let text = text.to_owned();
    let member = move |headers: HeaderMap| {
        let text = text.clone();
        async move { bytes_of_member(&headers, text) }
    };
    let routes = Router::new()
        .route("/volumes/{id}/pages/{seq}", get(member.clone()))
        .route("/volumes/{id}/mets", get(member.clone()))
        .route("/volumes/{id}/record", get(member));
    let door = Arc::new(LdpDoor::new(fixture.library.clone(), LdpSettings::default()));
    Fixture { router: members(&door, routes), ..fixture }
}

fn varies_by(reply: &Reply, name: &str) -> bool {
    reply.headers.get_all("vary").iter().any(|value| value == name)
}

/// What is printed on a page of the volume: its METS has numbers for some of them.
fn printed_on(seq: u32) -> String {
    if (16..=85).contains(&seq) { (seq - 14).to_string() } else { String::new() }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_pages_has_what_is_printed_on_each_beside_its_sequence() {
    let fixture = with_volume().await;
    let list = page(&fixture, AT).await;
    for part in [
        "<p>Pages are counted from the first image. The number that is printed on a page is beside it.</p>",
        "<th scope=\"col\">Page</th><th scope=\"col\">Printed number</th>",
    ] {
        assert!(list.text().contains(part), "{part} is not in {}", list.text());
    }
    let rows: Vec<_> = list.text().split("<th scope=\"row\">").skip(1).collect();
    assert_eq!(rows.len(), 92);
    for (row, seq) in rows.into_iter().zip(1..) {
        let begin = format!("<a href=\"{AT}/pages/{seq}\">{seq}</a></th><td>{}</td>", printed_on(seq));
        assert!(row.starts_with(&begin), "{begin} is not the beginning of {row}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn page_7_is_the_seventh_image_and_the_page_with_a_printed_7_is_another() {
    let fixture = with_text("Text").await;
    let about = async |seq: u32| {
        let shown = page(&fixture, &format!("{AT}/pages/{seq}")).await;
        assert!(shown.text().contains(&format!("<h1>Page {seq}</h1>")), "{}", shown.text());
        shown.text().split("<dt>Page</dt>").nth(1).unwrap().split("<dt>Size</dt>").next().unwrap().to_owned()
    };
    let seventh = about(7).await;
    assert!(seventh.starts_with("<dd>7</dd>") && !seventh.contains("Printed number"), "{seventh}");
    assert_eq!(printed_on(21), "7");
    let other = about(21).await;
    assert!(other.starts_with("<dd>21</dd><dt>Printed number</dt><dd>7</dd>"), "{other}");
    // The form that leads to a page asks for the seventh image too.
    let fixture = with_volume().await;
    let there = fixture.ask(Method::GET, &format!("{AT}?page=7")).header("accept", BROWSER).answer().await;
    assert_eq!((there.status, there.header("location")), (StatusCode::SEE_OTHER, Some(&*format!("{AT}/pages/7"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_volume_has_its_text_its_printed_number_and_the_pages_beside_it() {
    let fixture = with_text("Text <script>alert(1)</script> & more").await;
    let pages = fixture.library.volumes.page_list(&id(), 0..92).await.unwrap();
    let numbered = (1..91).find(|index| pages[*index].label.is_some()).unwrap();
    let [before, here, after] = [numbered - 1, numbered, numbered + 1].map(|index| pages[index].seq);
    let shown = page(&fixture, &format!("{AT}/pages/{here}")).await;
    for part in [
        format!("<h1>Page {here}</h1>"),
        "<pre>Text &lt;script&gt;alert(1)&lt;/script&gt; &amp; more</pre>".to_owned(),
        format!("<dt>Printed number</dt><dd>{}</dd>", pages[numbered].label.as_ref().unwrap()),
        format!("rel=\"prev\" href=\"{AT}/pages/{before}\""),
        format!("rel=\"next\" href=\"{AT}/pages/{after}\""),
        "<a href=\"/rest/\">Repository</a>".to_owned(),
        "<a href=\"/rest/volumes\">Volumes</a>".to_owned(),
        format!("<a href=\"{AT}\">"),
        "<a class=\"brand\" href=\"/\">".to_owned(),
        format!("<form class=\"row\" action=\"{AT}\"><label>Go to page "),
        "<span>of 92</span>".to_owned(),
        format!("<script>{ARROW_KEYS}</script>"),
        format!("href=\"/volumes/uc2.ark+=13960=t8ff3zh99/pages/{here}\">Plain text</a>"),
    ] {
        assert!(shown.text().contains(&part), "{part} is not in {}", shown.text());
    }
    assert_eq!(shown.text().matches("<script").count(), 1, "{}", shown.text());
    let allowed = format!("script-src 'sha256-{}';", BASE64_STANDARD.encode(Sha256::digest(ARROW_KEYS)));
    assert!(shown.header("content-security-policy").unwrap().contains(&allowed), "it is {allowed}");
    assert!(varies_by(&shown, "accept") && shown.header("etag").is_none(), "{:?}", shown.headers);
    assert!(shown.is("NonRDFSource") && shown.links("describedby") == [format!("{AT}/mets")]);

    let first = page(&fixture, &format!("{AT}/pages/{}", pages[0].seq)).await;
    assert!(!first.text().contains("rel=\"prev\"") && first.text().contains("rel=\"next\""), "{}", first.text());
    let last = page(&fixture, &format!("{AT}/pages/{}", pages[91].seq)).await;
    assert!(last.text().contains("rel=\"prev\"") && !last.text().contains("rel=\"next\""), "{}", last.text());
    let head = fixture.ask(Method::HEAD, &format!("{AT}/pages/{here}")).header("accept", BROWSER).answer().await;
    assert_eq!((head.status, head.header("content-type")), (StatusCode::OK, Some("text/html; charset=utf-8")));
    assert!(head.body.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_get_the_bytes_of_members_as_before() {
    let fixture = with_text("Text").await;
    for member in ["pages/7", "mets", "record"] {
        let ask = || fixture.ask(Method::GET, &format!("{AT}/{member}"));
        for request in [ask(), ask().header("accept", "*/*"), ask().header("accept", "text/plain, application/*")] {
            let plain = request.answer().await;
            assert_eq!((plain.status, plain.text(), &*plain.etag()), (StatusCode::OK, "Text", "\"1\""), "{member}");
            assert_eq!(plain.header("content-type"), Some("text/plain; charset=utf-8"), "{member}");
            assert!(varies_by(&plain, "accept") && varies_by(&plain, "accept-encoding"), "{:?}", plain.headers);
        }
        assert_eq!(ask().header("range", "bytes=0-1").answer().await.status, StatusCode::PARTIAL_CONTENT);
        assert_eq!(ask().header("if-none-match", "\"1\"").answer().await.status, StatusCode::NOT_MODIFIED);
        // These are about the bytes.
        let browser = ask().header("accept", BROWSER).header("range", "bytes=0-1").header("if-none-match", "\"1\"");
        let shown = browser.answer().await;
        assert_eq!((shown.status, shown.header("content-type")), (StatusCode::OK, Some("text/html; charset=utf-8")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mets_and_record_are_pages_that_lead_to_their_bytes() {
    let fixture = with_text("<mets>\"text\"</mets>").await;
    for (member, title, format) in [("mets", "METS", "XML"), ("record", "Record", "JSON")] {
        let shown = page(&fixture, &format!("{AT}/{member}")).await;
        for part in [
            format!("<h1>{title}</h1>"),
            format!("<pre class=\"text\" tabindex=\"0\" role=\"region\" aria-label=\"{title}\">"),
            "&lt;mets&gt;&quot;text&quot;&lt;/mets&gt;</pre>".to_owned(),
            format!("<a href=\"{AT}\">"),
            format!("href=\"/volumes/uc2.ark+=13960=t8ff3zh99/{member}\">{format}</a>"),
        ] {
            assert!(shown.text().contains(&part), "{part} is not in {}", shown.text());
        }
    }
    let absent = fixture.ask(Method::GET, "/rest/volumes/no.such/mets").header("accept", BROWSER).answer().await;
    assert_eq!(absent.status, StatusCode::NOT_FOUND, "{}", absent.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_long_text_a_page_shows_the_beginning() {
    let fixture = with_text(&format!("{}ü and more", "x".repeat((256 << 10) - 1))).await;
    let asked = fixture.ask(Method::GET, &format!("{AT}/pages/7")).header("accept", BROWSER);
    let response = asked.response().await;
    let taken_bytes = fixture.library.memory.taken_bytes();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    assert_eq!(taken_bytes, body.len() as u64, "it holds its share until it is sent");
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(text.contains("xxx</pre>") && !text.contains("and more"), "a letter is not cut");
    assert!(text.contains("The first 256 KiB are shown.") && text.contains(">Plain text, all of it</a>"));
}
