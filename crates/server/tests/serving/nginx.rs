//! The server behind nginx, as the operations guide configures it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use http::Method;
use server::config::Config;

use crate::support::{PATIENCE, Server, VOLUME, not_run, soon};

/// nginx with a configuration. Dropping it ends it.
struct Nginx(Child);

impl Nginx {
    fn start(folder: &Path, servers: &str) -> Self {
        let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = kinds.map(|kind| format!("{kind}_temp_path {kind};")).concat();
        // Where it may change its user, its worker would not be the owner of the socket.
        let whole = format!(
            "user root; daemon off; worker_processes 1; pid nginx.pid; error_log error.log notice; events {{}}\n\
             http {{ access_log off; {temporary}\n{servers}\n}}\n"
        );
        fs::write(folder.join("nginx.conf"), whole).unwrap();
        let mut command = Command::new("nginx");
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").arg("-p").arg(folder);
        Self(command.args(["-c", "nginx.conf", "-e", "error.log"]).stderr(Stdio::null()).spawn().unwrap())
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if self.runs() {
            // A kill of the master would leave its worker.
            let _ = Command::new("kill").args(["-QUIT", &self.0.id().to_string()]).status();
            let _ = self.0.wait();
        }
    }
}

/// The configuration in the guide, with other files and another address.
fn documented(folder: &Path, socket: &Path, address: &str) -> String {
    let made = rcgen::generate_simple_self_signed(["books.example.org".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("books.pem"), folder.join("books.key"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let guide = include_str!("../../../../docs/operations/network.md");
    let block = guide.split("```nginx\n").nth(1).unwrap().split("```").next().unwrap();
    let exchange = |text: String, (from, to): (&str, &str)| {
        assert!(text.contains(from), "{from} is not in\n{text}");
        text.replace(from, to)
    };
    let exchanged = [
        ("/run/penates/http.sock", socket.to_str().unwrap()),
        ("listen 443 ssl;", &format!("listen {address} ssl;")),
        ("/etc/ssl/books.pem", certificate.to_str().unwrap()),
        ("/etc/ssl/books.key", key.to_str().unwrap()),
    ];
    exchanged.into_iter().fold(block.to_owned(), exchange)
}

/// The head and the body of an answer.
async fn curl(address: &str, path: &str, more: &[&str]) -> String {
    let (_, port) = address.rsplit_once(':').unwrap();
    let mut curl = tokio::process::Command::new("curl");
    curl.args(["-ski", "--max-time", "60", "--resolve", &format!("books.example.org:{port}:127.0.0.1")]);
    curl.args(more).arg(format!("https://books.example.org:{port}{path}"));
    String::from_utf8_lossy(&soon(path, curl.output()).await.unwrap().stdout).into_owned()
}

#[tokio::test]
async fn the_server_behind_nginx_knows_its_clients_and_its_address_at_every_path() {
    if Command::new("/usr/sbin/nginx").arg("-v").stderr(Stdio::null()).status().is_err() {
        return not_run("the server behind nginx: nginx is not installed");
    }
    for base_path in ["", "/penates"] {
        let beside = tempfile::tempdir().unwrap();
        let socket = beside.path().join("http.sock");
        let (server, _folder) = Server::start(|config: &mut Config| {
            config.listen.http = Some(format!("unix:{}", socket.display()).parse().unwrap());
            config.http.trusted_proxies = vec!["unix".to_owned()];
            config.http.hosts = vec!["books.example.org".to_owned()];
            config.http.base_path = base_path.to_owned();
        })
        .await;
        let token = server.token("writer").await;
        let ready = async {
            // Another program may take the port before nginx does. Then nginx ends.
            loop {
                let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
                let servers = documented(beside.path(), &socket, &address);
                let servers = servers.replace("location / {", &format!("location {base_path}/ {{"));
                let mut nginx = Nginx::start(beside.path(), &servers);
                while nginx.runs() {
                    if curl(&address, &format!("{base_path}/healthz"), &[]).await.starts_with("HTTP/1.1 200") {
                        return (nginx, address);
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        let (_nginx, address) = tokio::time::timeout(PATIENCE, ready).await.expect("nginx does not answer");

        let page = format!("{base_path}/volumes/{VOLUME}/pages/7");
        let from = ["--interface", "127.0.0.7", "-H", "X-Forwarded-For: 203.0.113.9"];
        let read = curl(&address, &page, &from).await;
        assert!(read.starts_with("HTTP/1.1 200"), "{read}");
        let audited = server.admin(Method::GET, "/admin/audit?top=9").await.text();
        assert!(audited.contains("address 127.0.0.7") && !audited.contains("203.0.113.9"), "{audited}");

        let (_, port) = address.rsplit_once(':').unwrap();
        let bearer = format!("authorization: Bearer {token}");
        let put =
            ["-X", "PUT", "-H", &*bearer, "-H", "content-type: text/turtle", "-H", "x-forwarded-host: evil.example"];
        let made = curl(&address, &format!("{base_path}/rest/a"), &put).await;
        let location = format!("Location: https://books.example.org:{port}{base_path}/rest/a\r\n");
        assert!(made.starts_with("HTTP/1.1 201") && made.contains(&location), "{made}");
        drop(server);
    }
}
