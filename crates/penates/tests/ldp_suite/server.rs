//! The servers under test: the built one, and one that can do nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::judge::Settings;

/// A running `penates serve` over an empty store, open to writers.
pub struct Penates {
    process: Child,
    /// `127.0.0.1:41234`.
    address: String,
    _folder: TempDir,
}

impl Penates {
    /// Starts it and waits until it prints its address.
    pub fn start(settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_penates"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PENATES_")) {
            command.env_remove(name);
        }
        command.args(["serve", "--init", "--listen", "127.0.0.1:0", "--tls-listen", "off", "--store"]);
        command.arg(folder.path().join("data"));
        command.args(["--set", "auth.write=open"]);
        if settings == Settings::ConditionsRequired {
            command.args(["--set", "ldp.require_condition=true"]);
        }
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut text = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(said.read_line(&mut line).unwrap() > 0, "it ended before it listened: {text}");
            text.push_str(&line);
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split('/').next().unwrap().trim().to_owned();
            }
        };
        // Its later output is read, so that it never waits for a reader.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { process, address, _folder: folder }
    }

    /// Creates a resource under the repository's base. Returns its address.
    pub fn create(&self, name: &str, model: &str, turtle: &str) -> String {
        let mut connection = TcpStream::connect(&self.address).unwrap();
        write!(
            connection,
            "PUT /rest/{name} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Type: text/turtle\r\n\
             Link: <http://www.w3.org/ns/ldp#{model}>; rel=\"type\"\r\nContent-Length: {}\r\n\r\n{turtle}",
            self.address,
            turtle.len()
        )
        .unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201 "), "{name} could not be made: {answer}");
        let header = |name: &str| {
            let mut headers =
                answer.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_once(':'));
            headers.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
        };
        header("location").unwrap_or_else(|| format!("http://{}/rest/{name}", self.address))
    }
}

impl Drop for Penates {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Responds to every request with 404 as long as the tests run. Returns its address.
pub fn serve_nothing() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_404(connection));
        }
    });
    format!("http://{address}/")
}

/// Reads one request per connection, and ignores its body.
fn answer_404(connection: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut body_bytes = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let length = line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
        body_bytes = length.map_or(body_bytes, |(_, value)| value.trim().parse().unwrap_or(0));
    }
    std::io::copy(&mut reader.take(body_bytes), &mut std::io::sink())?;
    (&connection).write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
