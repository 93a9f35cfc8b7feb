//! A popular library of RDF clients: the server accepts what it reads, changes and writes back.

use std::path::{Path, PathBuf};
use std::process::Command;

use http::{Method, StatusCode};
use server::config::Access;

use super::output;
use crate::support::{Server, not_run};

/// The library, as its registry names it.
const RDFLIB: &str = "rdflib==7.6.0";

/// A Python with the library, which is fetched once and kept from run to run.
fn python() -> Result<PathBuf, String> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let kept = cache.join(RDFLIB.replace("==", "-"));
    let python = |folder: &Path| folder.join("bin/python3");
    let has_library = |python: &Path| run(Command::new(python).args(["-c", "import rdflib"])).is_ok();
    if !has_library(&python(&kept)) {
        // Another run may make it at the same time. Its scripts contain its path, so it is made in
        // its final place.
        run(Command::new("python3").args(["-m", "venv"]).arg(&kept))?;
        run(Command::new(python(&kept)).args(["-m", "pip", "install", "--quiet", RDFLIB]))?;
    }
    Ok(python(&kept))
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[tokio::test]
async fn graphs_that_rdflib_read_and_changed_are_accepted_in_every_syntax() {
    let python = match tokio::task::spawn_blocking(python).await.unwrap() {
        Ok(python) => python,
        Err(reason) => return not_run(&format!("a real library of RDF as a client: {reason}")),
    };
    let (server, _folder) = Server::start(|config| config.auth.write = Access::Open).await;
    let link = |class: &str| format!("<http://www.w3.org/ns/ldp#{class}>; rel=\"type\"");
    for (name, class) in [("graph", "RDFSource"), ("container", "BasicContainer"), ("bytes", "NonRDFSource")] {
        let made = server.ask(Method::PUT, &format!("/rest/{name}"), &[("link", &link(class))]).await;
        assert_eq!(made.status, StatusCode::CREATED, "{name}: {}", made.text());
    }
    assert_eq!(server.ask(Method::PUT, "/rest/container/child", &[]).await.status, StatusCode::CREATED);
    let base = format!("http://{}/rest/", server.http());
    let reported = output(&python.display().to_string(), "rdf_client.py", &[&base]).await;
    let expected = ["graph", "container", "bytes"].map(|resource| {
        let taken = ["turtle", "json-ld", "nt", "xml"].map(|syntax| format!("{resource} {syntax} 204 204"));
        format!("{}\n{resource} by json-ld, by nt, by turtle, by xml", taken.join("\n"))
    });
    assert_eq!(reported.trim(), expected.join("\n"));
    server.end().await;
}
