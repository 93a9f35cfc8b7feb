//! Webhooks, received and verified by a library of others.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::harness::*;
use crate::validators::programs;

/// The Python library of Standard Webhooks.
const VERIFIER: &str = "standardwebhooks==1.0.1";

pub const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Receives messages at a free port, over TLS if it is given a folder with a certificate. Prints the
/// port, and each message that the library verifies.
const RECEIVER: &str = r#"
import http.server, json, ssl, sys
from standardwebhooks.webhooks import Webhook

class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        try:
            Webhook(sys.argv[1]).verify(body, dict((name.lower(), value) for name, value in self.headers.items()))
        except Exception as error:
            body = json.dumps({"refused": str(error)})
        # In one piece: messages may come on two connections at once.
        sys.stdout.write(body + "\n")
        sys.stdout.flush()
        self.send_response(400 if "refused" in json.loads(body) else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
if len(sys.argv) > 2:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[2] + "/cert.pem", sys.argv[2] + "/key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// A receiver that knows a secret. Dropping the value kills it.
pub struct Receiver {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pub url: String,
}

impl Receiver {
    pub fn start(secret: &str) -> Self {
        Self::start_with(&[secret], "http")
    }

    fn start_with(arguments: &[&str], scheme: &str) -> Self {
        let python = programs(VERIFIER).unwrap().join("python3");
        let mut command = Command::new(python);
        command.args(["-c", RECEIVER]).args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = format!("{scheme}://127.0.0.1:{}/", lines.next().unwrap().unwrap());
        Self { child, lines, url }
    }

    /// The type of the next message, and what it is about.
    pub fn next(&mut self) -> (String, String) {
        let message: Value = serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap();
        assert!(message.get("refused").is_none(), "{message}");
        let object = message["data"]["object"]["id"].as_str().unwrap_or_default();
        (message["type"].as_str().unwrap().to_owned(), object.to_owned())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn config(url: &str) -> String {
    format!(
        "[auth]\nwrite = \"open\"\n[ldp]\norigin = \"http://books.test\"\n[feed]\nwebhooks_networks = [\"127.0.0.0/8\"]\n\
         [[feed.webhooks]]\nname = \"index\"\nurl = \"{url}\"\nsecret = \"{SECRET}\"\n"
    )
}

#[test]
fn a_receiver_verifies_what_a_server_sends_and_misses_nothing_when_it_restarts() {
    let mut receiver = Receiver::start(SECRET);
    let store = TestStore::with(&[SMALL]);
    let file = store.beside("penates.toml");
    fs::write(&file, config(&receiver.url)).unwrap();
    let given = ["--config", file.to_str().unwrap()];
    let webhooks = |args: &[&str]| store.run(&[&["webhooks"], args, &given].concat());
    assert_eq!(webhooks(&["list", "--json"]).ends_with(0).json()["state"], "new");
    let refused = webhooks(&["resume", "other"]);
    assert!(refused.code != 0 && refused.stderr.contains("other"), "{}", refused.stderr);
    webhooks(&["resume", "index", "--from", "start"]).ends_with(0);

    let served = store.serve(&given);
    let volume = format!("http://books.test/rest/volumes/{}", SMALL.replace('/', "=").replacen(':', "+", 1));
    let mut first = [receiver.next(), receiver.next()];
    first.sort();
    let root = ("resource.created".to_owned(), "http://books.test/rest/".to_owned());
    assert_eq!(first, [root, ("volume.created".to_owned(), volume)]);
    let put = |name: &str| {
        let text = store.beside("text");
        fs::write(&text, "text").unwrap();
        Ran::of(penates(&["put", name, text.to_str().unwrap(), "--server", &served.url])).ends_with(0);
    };
    put("a");
    assert_eq!(receiver.next(), ("resource.created".to_owned(), "http://books.test/rest/a".to_owned()));
    let tested = webhooks(&["test", "index"]).ends_with(0);
    assert!(tested.text().contains("accepted"), "{}", tested.text());
    assert_eq!(receiver.next().0, "webhook.test");
    wait_until(|| webhooks(&["list"]).ends_with(0).text().contains("delivering"));
    assert_eq!(served.stop("TERM").0, 0);

    // What happens while no server runs comes when one does.
    let text = store.beside("text");
    store.run(&["put", "b", text.to_str().unwrap()]).ends_with(0);
    let served = store.serve(&given);
    let mut next = receiver.next();
    if next.1 == "http://books.test/rest/a" {
        // It was stopped before it noted that this was accepted.
        next = receiver.next();
    }
    assert_eq!(next, ("resource.created".to_owned(), "http://books.test/rest/b".to_owned()));
    let (code, said) = served.stop("TERM");
    assert_eq!(code, 0);
    let shown = store.run(&[&["config"], &given[..]].concat()).ends_with(0);
    assert!(shown.text().contains("(hidden)"), "{}", shown.text());
    assert!([said.as_str(), shown.text()].iter().all(|text| !text.contains(&SECRET[6..])), "{said} {}", shown.text());
}

#[test]
fn a_test_of_a_webhook_whose_receiver_knows_another_secret_reports_why() {
    let receiver = Receiver::start("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    let store = TestStore::with(&[SMALL]);
    let file = store.beside("penates.toml");
    fs::write(&file, config(&receiver.url)).unwrap();
    let tested = store.run(&["webhooks", "test", "index", "--config", file.to_str().unwrap()]).ends_with(1);
    assert!(tested.text().contains("400"), "{}", tested.text());
}

#[test]
fn a_message_over_tls_is_sent_only_to_a_receiver_whose_certificate_the_system_trusts() {
    let store = TestStore::vacant();
    let served =
        Served::start(store.command(&["serve", "--init", "--listen", "127.0.0.1:0", "--tls-listen", "127.0.0.1:0"]));
    assert_eq!(served.stop("TERM").0, 0);
    let certificate = store.path().join("tls");
    let receiver = Receiver::start_with(&[SECRET, certificate.to_str().unwrap()], "https");
    let file = store.beside("penates.toml");
    fs::write(&file, config(&receiver.url)).unwrap();
    let args = ["webhooks", "test", "index", "--config", file.to_str().unwrap()];
    let test = |trusted: Option<&str>| {
        let mut command = store.command(&args);
        trusted.map(|name| command.env("SSL_CERT_FILE", certificate.join(name)));
        Ran::of(command)
    };
    let refused = test(None).ends_with(1);
    assert!(refused.text().contains("certificate"), "{}", refused.text());
    test(Some("cert.pem")).ends_with(0);
}

#[test]
fn a_webhook_without_tls_needs_no_certificates_of_the_system() {
    let receiver = Receiver::start(SECRET);
    let store = TestStore::vacant();
    store.run(&["init"]).ends_with(0);
    let file = store.beside("penates.toml");
    fs::write(&file, config(&receiver.url)).unwrap();
    let mut command = store.command(&["webhooks", "test", "index", "--config", file.to_str().unwrap()]);
    command.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
    Ran::of(command).ends_with(0);
}

#[test]
fn a_secret_that_is_none_is_refused_without_being_shown() {
    let store = TestStore::vacant();
    let file = store.beside("penates.toml");
    for secret in ["a-secret-that-is-none", "whsec_a-secret-that-is-none"] {
        fs::write(&file, config("http://127.0.0.1:1/").replace(SECRET, secret)).unwrap();
        let refused = store.run(&["webhooks", "list", "--config", file.to_str().unwrap()]);
        assert!(refused.code != 0 && refused.stderr.contains("`index`: its secret"), "{}", refused.stderr);
        assert!(!refused.stderr.contains("that-is-none"), "{}", refused.stderr);
    }
}
