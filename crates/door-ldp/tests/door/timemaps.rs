//! A page in the middle of a TimeMap of a million versions.

use http::{Method, StatusCode};

use crate::long_log::make_a_million_versions;
use crate::support::{ROOT, fixture};

#[tokio::test(flavor = "multi_thread")]
async fn a_page_in_the_middle_of_a_million_versions_has_all_of_them_and_leads_to_the_next() {
    let fixture = fixture().await;
    fixture.make("/rest/a", "RDFSource", "").await;
    make_a_million_versions(&fixture.library, &fixture.clock, &"a".parse().unwrap()).await;
    // The versions from number 499,720 on.
    let list = "/rest/a/fcr:versions?from=20250615162957-200&limit=1000";
    let reply = fixture.ask(Method::GET, list).header("accept", "application/link-format").answer().await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    let mementos: Vec<_> = reply.text().lines().filter(|line| line.contains("memento\"")).collect();
    assert_eq!(mementos.len(), 1_000);
    let versions = format!("{ROOT}a/fcr:versions");
    for (number, name, time) in [
        (0, "20250615162957-200", "16:29:57"),
        // The first of its second.
        (80, "20250615162958", "16:29:58"),
        (999, "20250615163007-190", "16:30:07"),
    ] {
        let link = format!("<{versions}/{name}>; rel=\"memento\"; datetime=\"Sun, 15 Jun 2025 {time} GMT\"");
        assert_eq!(mementos[number].trim_end_matches(','), link);
    }
    assert_eq!(reply.links("next"), [format!("{versions}?from=20250615163007-200&limit=1000")]);
}
