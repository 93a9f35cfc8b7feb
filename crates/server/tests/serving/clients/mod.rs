//! Existing clients, unchanged: in their own languages, over real connections.

mod rdf;

use std::path::Path;
use std::process::{Command, Stdio};

use server::config::Access;

use crate::support::{PATIENCE, Server, import_samples, not_run, on_free_ports, open_store};

const MACMAHON: &str = "uc2.ark:/13960/t8ff3zh99";
const SALMON: &str = "psia.ark:/13960/t0ks80527";

/// Whether a client's language is installed. If not, that is reported.
fn is_there(program: &str, what: &str) -> bool {
    let tried = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = tried.is_ok_and(|end| end.success());
    if !is_there {
        not_run(&format!("{what}: {program} is not installed"));
    }
    is_there
}

async fn output(program: &str, source: &str, arguments: &[&str]) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/serving/clients").join(source);
    let mut command = tokio::process::Command::new(program);
    command.arg(source).args(arguments).env("LC_ALL", "C.UTF-8").kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("the client took too long").unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Two volumes, readable by anybody and writable by nobody.
async fn server(tls: bool) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open_store(folder.path());
    import_samples(store.clone(), &["t8ff3zh99", "t0ks80527"]).await;
    let mut config = on_free_ports();
    config.auth.write = Access::Token;
    config.listen.tls = tls.then(|| "127.0.0.1:0".parse().unwrap());
    (Server::serve(config, store).await, folder)
}

#[tokio::test]
async fn a_streaming_java_client_finds_each_volume_at_its_directory_entry() {
    if !is_there("java", "a streaming Java client of the data door") {
        return;
    }
    let (server, _folder) = server(false).await;
    let base = format!("http://{}/data-api", server.http());
    let listed = output("java", "VolumeClient.java", &[&base, SALMON, "none.such", MACMAHON]).await;
    let mut lines = listed.lines();
    assert_eq!(lines.next(), Some("200 application/zip"));
    let (mut volumes, mut pages) = (Vec::new(), Vec::new());
    for line in lines.by_ref().take(2 + 24 + 92) {
        match line.split_once(' ').unwrap() {
            ("volume", name) => volumes.push((name.to_owned(), pages.len())),
            ("page", page) => pages.push(page.to_owned()),
            _ => panic!("{line}"),
        }
    }
    assert_eq!(volumes, [("psia.ark+=13960=t0ks80527/".to_owned(), 0), ("uc2.ark+=13960=t8ff3zh99/".to_owned(), 24)]);
    let seventh = server.get("/volumes/psia.ark+=13960=t0ks80527/pages/7").await.body;
    assert_eq!(pages[6], format!("7 {:08x}", crc32fast::hash(&seventh)));
    assert!(pages[24].starts_with("1 ") && pages[24 + 91].starts_with("92 "));
    let errors: Vec<&str> = lines.collect();
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(errors[1].ends_with("KeyNotFoundException: Offending key: none.such"));
}

#[tokio::test]
async fn a_python_client_with_a_certificate_of_its_own_is_served_over_tls() {
    if !is_there("python3", "a Python client of the data door, over TLS") {
        return;
    }
    let (server, folder) = server(true).await;
    let tls = server.addresses.tls.unwrap();
    let trusted = server.addresses.tls_cert.clone().unwrap();
    let (certificate, key) = (folder.path().join("client.pem"), folder.path().join("client-key.pem"));
    let made = rcgen::generate_simple_self_signed(["client".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (base, files) = (format!("https://localhost:{}", tls.port()), [trusted, certificate, key]);
    let files = files.map(|file| file.display().to_string());
    let names = ["uc2.ark+=13960=t8ff3zh99", "none.such", "psia.ark+=13960=t0ks80527"];
    let arguments = [&[base.as_str()], &files.each_ref().map(String::as_str)[..], &names].concat();
    let listed = output("python3", "volume_client.py", &arguments).await;
    let expected = [
        "sound True",
        "volumes uc2.ark+=13960=t8ff3zh99/ psia.ark+=13960=t0ks80527/",
        "pages 116",
        "unavailable none.such",
    ];
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn curl_gets_the_reason_while_it_still_sends_over_both_versions_of_http() {
    if !is_there("curl", "curl as a client that is refused while it sends") {
        return;
    }
    let (server, folder) = server(false).await;
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'a'; 8 << 20]).unwrap();
    let address = format!("http://{}/volumes/some.volume", server.http());
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let mut command = tokio::process::Command::new("curl");
        command.args(["--silent", "--request", "PUT", "--header", "Expect:", "--write-out", "\n%{http_code}", version]);
        command.arg("--data-binary").arg(format!("@{}", body.display())).arg(&address).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("curl took too long").unwrap();
        let listed = String::from_utf8(output.stdout).unwrap();
        assert!(listed.contains("changing needs an access token") && listed.ends_with("\n401"), "{version}: {listed}");
    }
}
