//! The server keeps to every statement by which `cargo xtask conformance` judges any server.

use conformance::judge;
use conformance::site::Site;

use crate::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_server_keeps_to_memento_and_to_the_fedora_api_on_versions_and_fixity() {
    let store = TestStore::vacant();
    let served = store.serve(&["--set=auth.write=open"]);
    let site = Site::new(&format!("{}/rest/", served.url.trim_end_matches('/')), &[]).unwrap();
    let judged = judge(&site).await.unwrap();
    assert!(judged.len() > 30, "{}", judged.len());
    let violated: Vec<_> = judged.iter().filter(|one| one.violation.is_some()).collect();
    assert!(violated.is_empty(), "{violated:#?}");
}
