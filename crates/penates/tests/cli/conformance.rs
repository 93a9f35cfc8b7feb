//! The server keeps to every statement by which `cargo xtask conformance` judges any server.

use conformance::judge;
use conformance::site::Site;
use conformance::statement::Level;

use crate::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_server_keeps_to_memento_and_to_what_fedora_says_of_its_interfaces() {
    let store = TestStore::vacant();
    let served = store.serve(&["--set=auth.write=open"]);
    let server = served.url.trim_end_matches('/');
    let site = Site::new(&format!("{server}/rest/"), Some(format!("{server}/feed")), &[]).unwrap();
    let judged = judge(&site).await.unwrap();
    assert!(judged.len() > 64, "{}", judged.len());
    let violated: Vec<_> = judged.iter().filter(|one| one.violation.is_some()).collect();
    let [agent] = &violated[..] else { panic!("{violated:#?}") };
    // The feed does not say who made a change: docs/limits.md.
    assert_eq!(
        (agent.level, &agent.says[..]),
        (Level::Should, "a notification names the agent that caused the change")
    );
}
