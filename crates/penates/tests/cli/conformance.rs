//! Judgements of `lares conformance`: of this server here, of a real Fedora among the proofs.
//! `instruments/docs/conformance.md` lists every statement to which one of them does not keep.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use conformance::judge;
use conformance::site::Site;

use crate::fedora::server::elsewhere;
use crate::harness::*;

/// A server of which the document has a column.
#[derive(Clone, Copy, Debug)]
pub enum Server {
    Penates,
    Fedora,
}

/// The statements to which the document says that a server does not keep.
fn documented(server: Server) -> BTreeSet<String> {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../instruments/docs/conformance.md");
    let text = fs::read_to_string(document).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")).map(|row| row.split(" | ").collect::<Vec<_>>());
    let column = match server {
        Server::Penates => 2,
        Server::Fedora => 3,
    };
    rows.filter(|cells| cells.get(column) == Some(&"no")).map(|cells| cells[0].to_owned()).collect()
}

/// Judges a server. It violates just the statements that the document names.
pub async fn keeps_to_what_is_documented(server: Server, site: &Site) {
    let judged = judge(site).await.unwrap();
    assert!(judged.len() > 99, "{}", judged.len());
    let violated = judged.iter().filter(|one| one.violation.is_some());
    let found: BTreeSet<_> = violated.clone().map(|one| one.says.clone()).collect();
    let reasons: Vec<_> = violated.collect();
    assert_eq!(found, documented(server), "{server:?}: {reasons:#?}");
}

/// Judges a server with settings.
async fn judged(settings: &[&str]) {
    let store = TestStore::vacant();
    let elsewhere = elsewhere();
    let external = format!("--set=ldp.external=[\"{elsewhere}\"]");
    let served = store.serve(&[&["--set=auth.write=open", external.as_str()], settings].concat());
    let server = served.url.trim_end_matches('/');
    let site = Site::new(&format!("{server}/rest/"), Some(format!("{server}/feed")), &[]).unwrap();
    let site = site.with_external(Some(format!("{elsewhere}content")));
    keeps_to_what_is_documented(Server::Penates, &site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_keeps_to_every_statement_but_those_that_are_documented() {
    judged(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_does_so_too_where_clients_may_delete_versions_and_add_some_with_a_time_in_the_past() {
    judged(&["--set=ldp.receive_versions=true", "--set=ldp.delete_versions=true"]).await;
}
