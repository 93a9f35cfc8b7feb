//! A real Fedora, judged by the statements of the crate `conformance`; and storage roots that it
//! writes here, loaded and compared with what it answers. It is fetched from Maven Central. If
//! `PENATES_FEDORA_ROOTS` is set, the recorded roots of `tests/cli/fedora/roots` are made.

use std::fs;
use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use conformance::site::Site;

use crate::conformance::{Server, keeps_to_what_is_documented};
use crate::fedora::answers::answers;
use crate::fedora::server::Fedora;
use crate::fedora::{Recorded, Told, command, folder, loads_as_told, population};
use crate::harness::*;

/// Makes a storage root, and loads it.
fn makes_and_loads(recorded: Recorded) {
    let options = match recorded {
        Recorded::Versioned => "-Dfcrepo.autoversioning.enabled=true",
        Recorded::OnRequest => "-Dfcrepo.autoversioning.enabled=false",
    };
    let mut fedora = Fedora::start(&[options]);
    let store = TestStore::vacant();
    match recorded {
        Recorded::Versioned => {
            population::versioned(&fedora.site, &fedora.elsewhere);
            // A first load while it runs. The next one brings what has changed since.
            let root = fedora.storage_root();
            Ran::of(command(&store, &fedora.elsewhere, &["load", root.to_str().unwrap()])).ends_with(1);
            population::later(&fedora.site);
        }
        Recorded::OnRequest => population::on_request(&fedora.site),
    }
    let recorded_answers =
        Told { elsewhere: fedora.elsewhere.clone(), answers: answers(&fedora.site, recorded.resources()) };
    fedora.stop();
    if std::env::var_os("PENATES_FEDORA_ROOTS").is_some() {
        record(recorded, &fedora, &recorded_answers);
    }
    loads_as_told(&store, &fedora.storage_root(), &recorded_answers, recorded);
}

/// Keeps a storage root for the tests.
fn record(recorded: Recorded, fedora: &Fedora, recorded_answers: &Told) {
    fs::create_dir_all(folder()).unwrap();
    let archive = folder().join(format!("{}.tar.gz", recorded.name()));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--file"]);
    assert!(tar.arg(archive).arg("--directory").arg(fedora.storage_root()).arg(".").status().unwrap().success());
    let answers = serde_json::to_vec_pretty(recorded_answers).unwrap();
    fs::write(folder().join(format!("{}.json", recorded.name())), answers).unwrap();
}

#[test]
#[ignore = "it fetches Fedora and runs it: `cargo xtask proofs` runs it"]
fn a_root_that_fedora_writes_now_is_loaded_as_fedora_answers() {
    makes_and_loads(Recorded::Versioned);
}

#[test]
#[ignore = "it fetches Fedora and runs it: `cargo xtask proofs` runs it"]
fn a_root_with_mutable_heads_that_fedora_writes_now_is_loaded() {
    makes_and_loads(Recorded::OnRequest);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it fetches Fedora and runs it: `cargo xtask proofs` runs it"]
async fn a_real_fedora_violates_just_what_the_documentation_says() {
    let fedora = tokio::task::block_in_place(|| Fedora::start(&["-Dfcrepo.autoversioning.enabled=true"]));
    let login = format!("Basic {}", BASE64_STANDARD.encode("fedoraAdmin:fedoraAdmin"));
    let site = Site::new(&fedora.site.root, None, &[("authorization".to_owned(), login)]).unwrap();
    let site = site.with_external(Some(format!("{}content", fedora.elsewhere)));
    keeps_to_what_is_documented(Server::Fedora, &site).await;
}
