//! The walk of a newcomer by docs/operations alone: the commands and files of the guide, in their
//! order, on a machine of its own. That is a folder in which the Debian package is installed; paths
//! and addresses of the guide become those of the folder. Commands of the user `penates` run as it.
//! systemd itself is not there: `systemctl` does what the unit says of program, user, folders and
//! readiness.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use axum::Router;
use axum::extract::State;
use axum::routing::post;

use super::package::Installed;
use crate::documentation::{self, Block};
use crate::fixtures;
use crate::harness::*;
use crate::watch::Prometheus;

/// The public name in the guide.
const NAME: &str = "books.example.org";

/// What the walk leaves out: blocks and lines by how they begin, and the test that uses what is in
/// them, with its file.
const ELSEWHERE: [(&str, &str, &str); 11] = [
    (
        "penates init --store ./data ",
        "operating.rs",
        "serve_makes_no_store_in_a_folder_that_is_missing_or_has_other_files",
    ),
    (
        "penates salvage",
        "salvage.rs",
        "losses_in_a_broken_block_are_named_and_an_import_into_the_salvaged_store_repairs_them",
    ),
    ("penates copy --from", "copy.rs", "a_store_moves_to_cassandra_and_back"),
    ("penates copy --follow", "follow.rs", "another_site_follows_with_a_token_that_the_source_names_and_ends_equal"),
    (
        "[http]\nhosts",
        "../../../server/tests/serving/sites.rs",
        "on_loopback_only_loopback_names_and_configured_ones_are_served",
    ),
    (
        "[telemetry]\notlp",
        "watch.rs",
        "a_collector_receives_the_span_of_a_request_in_its_clients_trace_and_the_metrics",
    ),
    (
        "[Unit]\nDescription=A backup of Penates every night",
        "packaging.rs",
        "the_timer_of_the_guide_is_valid_and_runs_the_commands_of_the_guide",
    ),
    (
        "systemctl reload penates",
        "operating.rs",
        "a_configuration_is_read_again_by_command_and_by_signal_while_connections_go_on",
    ),
    (
        "systemctl enable --now penates-tls.socket penates-redirect.socket",
        "operating.rs",
        "a_server_takes_the_sockets_for_https_and_for_its_redirect_together",
    ),
    (
        "systemctl enable --now penates-backup.timer",
        "packaging.rs",
        "the_timer_of_the_guide_is_valid_and_runs_the_commands_of_the_guide",
    ),
    (
        "systemctl start penates-backup",
        "packaging.rs",
        "the_timer_of_the_guide_is_valid_and_runs_the_commands_of_the_guide",
    ),
];

/// Stands for an Alertmanager: what it was sent.
#[derive(Clone, Default)]
struct Alerts(Arc<Mutex<String>>);

impl Alerts {
    /// Listens; the address.
    fn receive(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let receive = async |State(alerts): State<Self>, body: String| {
            alerts.0.lock().unwrap().push_str(&body);
        };
        let routes = Router::new().route("/api/v2/alerts", post(receive)).with_state(self.clone());
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), routes).await })
        });
        address
    }

    /// Whether an alert of this name came.
    fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap().contains(&format!("\"alertname\":\"{name}\""))
    }
}

/// A proxy that knows the public name: it passes connections to it on to a port of this machine.
/// Returns its address.
fn tunnel(port: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // One that ends early is the client's affair.
            thread::spawn(move || pass_on(&client, port).ok());
        }
    });
    address
}

fn pass_on(mut client: &TcpStream, port: u16) -> io::Result<()> {
    // The client sends nothing behind its request before it is answered.
    let lines = BufReader::new(client).lines().map_while(Result::ok);
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let is_known = head.first().is_some_and(|line| line.starts_with(&format!("CONNECT {NAME}:443 ")));
    assert!(is_known, "{head:?}");
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    io::copy(&mut client, &mut server)?;
    server.shutdown(Shutdown::Write)
}

/// The machine of the newcomer.
struct Machine {
    root: Installed,
    guide: Vec<Block>,
    /// Which blocks of the guide were used.
    used: Vec<usize>,
    /// The port of nginx, in place of 443.
    port: u16,
    service: Option<Child>,
    nginx: Option<Child>,
    /// Set until the guide has configured the addresses, so that the walk needs no certain port.
    environment: Vec<(&'static str, &'static str)>,
}

impl Machine {
    fn new(root: Installed) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let environment = vec![("PENATES_LISTEN__HTTP", "127.0.0.1:0"), ("PENATES_LISTEN__TLS", "off")];
        let guide = documentation::guide();
        let machine = Self { root, guide, used: Vec::new(), port, service: None, nginx: None, environment };
        let [user, group] = machine.root.user();
        for (name, script) in [
            (
                "runuser",
                format!(
                    "[ \"$1 $2 $3\" = '-u penates --' ] || exit 64\nshift 3\n\
                     exec setpriv --reuid {user} --regid {group} --clear-groups -- \"$@\"\n"
                ),
            ),
            ("ssh", format!("cd {} && exec sh -c \"$2\"\n", machine.path("vault").display())),
        ] {
            let path = machine.path("shims").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for folder in ["vault", "etc/prometheus", "etc/ssl"] {
            fs::create_dir_all(machine.path(folder)).unwrap();
            chown(machine.path(folder), Some(user), Some(group)).unwrap();
        }
        machine
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path(path)
    }

    /// A text of the guide with the paths of this machine.
    fn here(&self, text: &str) -> String {
        let paths = ["/etc/penates", "/etc/prometheus", "/etc/ssl", "/var/lib/penates", "/mnt/backups", "/run/penates"];
        let programs = ["/usr/bin/penates", "/usr/share/penates"];
        let all = paths.iter().chain(&programs);
        all.fold(text.to_owned(), |text, path| text.replace(path, self.path(path).to_str().unwrap()))
    }

    /// The first block of the guide in a language below a heading that was not used yet.
    #[track_caller]
    fn block(&mut self, heading: &str, language: &str) -> String {
        let is_it = |block: &Block| block.heading == heading && block.language == language;
        let at = (0..self.guide.len()).find(|at| !self.used.contains(at) && is_it(&self.guide[*at]));
        let at = at.unwrap_or_else(|| panic!("{heading} has no further block {language}"));
        self.used.push(at);
        self.guide[at].text.clone()
    }

    /// Runs the next block of commands below a heading, as root or as the user of the server; what
    /// the commands printed.
    #[track_caller]
    fn follow(&mut self, heading: &str, is_root: bool) -> String {
        let commands = self.block(heading, "sh");
        commands.lines().map(|line| self.run(line, is_root)).collect()
    }

    /// Runs a command of the guide.
    #[track_caller]
    fn run(&mut self, line: &str, is_root: bool) -> String {
        let words: Vec<&str> = line.split_whitespace().take_while(|word| !word.starts_with('#')).collect();
        match words[..] {
            ["apt", "install", "./penates_*.deb"] => self.root.install(),
            ["systemctl", "enable", "--now", "penates"] | ["systemctl", "start", "penates"] => self.start(),
            ["systemctl", "restart", "penates"] => {
                self.stop();
                self.start();
            }
            ["systemctl", "stop", "penates"] => self.stop(),
            ["systemctl", "reload", "nginx"] => self.start_nginx(),
            // Its worker runs as root here, because the user of nginx is one of the real machine.
            // What the group allows is asked when nginx starts.
            ["usermod", "--append", "--groups", "penates", "www-data"] => {}
            ["install", "--directory", "--owner", "penates", "--group", "penates", "--mode", mode, folder] => {
                let [user, group] = self.root.user();
                let (folder, mode) = (self.path(folder), u32::from_str_radix(mode, 8).unwrap());
                fs::create_dir_all(&folder).unwrap();
                fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
                chown(&folder, Some(user), Some(group)).unwrap();
            }
            _ => return self.bash(line, is_root).ends_with(0).text().to_owned(),
        }
        String::new()
    }

    fn bash(&self, line: &str, is_root: bool) -> Ran {
        let mut bash = if is_root { Command::new("bash") } else { self.as_user("bash") };
        bash.args(["-c", &format!("set -o pipefail; {}", self.here(line))]);
        Ran::of(self.in_place(bash))
    }

    /// A program that runs as the user of the server.
    fn as_user(&self, program: &str) -> Command {
        let mut command = Command::new(self.path("shims/runuser"));
        command.args(["-u", "penates", "--", program]);
        command
    }

    /// A command in the folder of the service, with the programs and the environment of this machine.
    fn in_place(&self, mut command: Command) -> Command {
        let programs = [self.path("shims"), self.path("usr/bin")].map(|path| path.to_str().unwrap().to_owned());
        let path = format!("{}:{}", programs.join(":"), std::env::var("PATH").unwrap());
        command.env_clear().env("PATH", path).envs(self.environment.iter().copied()).stdin(Stdio::null());
        command.current_dir(self.path("var/lib/penates"));
        command
    }

    /// Starts the service as its unit says, and waits until it is ready.
    fn start(&mut self) {
        assert!(self.service.is_none());
        let unit = fs::read_to_string(self.path("usr/lib/systemd/system/penates.service")).unwrap();
        let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap().to_owned();
        let [user, group] = self.root.user();
        assert_eq!([value("User="), value("Group="), value("Type=")], ["penates", "penates", "notify"]);
        let runtime = self.path("run").join(value("RuntimeDirectory="));
        fs::create_dir_all(&runtime).unwrap();
        chown(&runtime, Some(user), Some(group)).unwrap();
        let notified = self.path("run/notify");
        let _ = fs::remove_file(&notified);
        let manager = UnixDatagram::bind(&notified).unwrap();
        fs::set_permissions(&notified, fs::Permissions::from_mode(0o777)).unwrap();
        manager.set_nonblocking(true).unwrap();
        let mut command = self.as_user("bash");
        let start = format!("umask {}; exec {}", value("UMask="), self.here(&value("ExecStart=")));
        command.args(["-c", &start]);
        let mut command = self.in_place(command);
        let log = fs::File::create(self.path("tmp/penates.log")).unwrap();
        let mut service = command.env("NOTIFY_SOCKET", &notified).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        wait_until(|| {
            let ended = service.try_wait().unwrap();
            assert!(ended.is_none(), "{ended:?}: {}", fs::read_to_string(self.path("tmp/penates.log")).unwrap());
            let mut message = [0; 256];
            match manager.recv(&mut message) {
                Ok(len) => message[..len].starts_with(b"READY=1"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                    false
                }
            }
        });
        self.service = Some(service);
    }

    fn stop(&mut self) {
        let Some(mut service) = self.service.take() else { return };
        signal(&service, "TERM");
        wait_until(|| service.try_wait().unwrap().is_some());
        assert_eq!(service.wait().unwrap().code(), Some(0));
    }

    /// Loses the disk under the server, which dies.
    fn lose_the_disk(&mut self) {
        let mut service = self.service.take().unwrap();
        service.kill().unwrap();
        service.wait().unwrap();
        fs::remove_dir_all(self.path("var/lib/penates/data/db")).unwrap();
    }

    /// Starts nginx with the file of the guide, at another port.
    fn start_nginx(&mut self) {
        assert!(self.nginx.is_none());
        assert!(self.is_socket_open(true), "the group of the server does not reach its socket");
        assert!(!self.is_socket_open(false), "everybody reaches the socket of the server");
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        fs::write(self.path("etc/ssl/books.pem"), made.cert.pem()).unwrap();
        fs::write(self.path("etc/ssl/books.key"), made.signing_key.serialize_pem()).unwrap();
        let servers = self.block("Behind a proxy", "nginx");
        assert!(servers.contains("listen 443 ssl;"));
        let servers = self.here(&servers).replace("listen 443 ssl;", &format!("listen 127.0.0.1:{} ssl;", self.port));
        let kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary = kinds.map(|kind| format!("{kind}_temp_path {kind};")).concat();
        let whole = format!(
            "user root; daemon off; worker_processes 1; pid nginx.pid; error_log error.log notice; events {{}}\n\
             http {{ access_log off; {temporary}\n{servers}\n}}\n"
        );
        let folder = self.path("nginx");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("nginx.conf"), whole).unwrap();
        let mut nginx = Command::new("nginx");
        nginx.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").arg("-p").arg(&folder);
        nginx.args(["-c", "nginx.conf", "-e", "error.log"]).stderr(Stdio::null());
        self.nginx = Some(nginx.spawn().unwrap());
        wait_until(|| self.ask("/healthz", &[]).is_some());
    }

    /// Whether a user without rights reaches the socket of the server, in its group or not.
    fn is_socket_open(&self, is_in_group: bool) -> bool {
        let groups = match (is_in_group, self.root.user()) {
            (true, [_, group]) => format!("--groups={group}"),
            (false, _) => "--clear-groups".to_owned(),
        };
        let mut curl = Command::new("setpriv");
        curl.args(["--reuid=65534", "--regid=65534", &groups, "--", "curl", "-s", "-o", "/dev/null", "--unix-socket"]);
        curl.arg(self.path("run/penates/http.sock")).arg(format!("http://{NAME}/healthz"));
        curl.status().unwrap().success()
    }

    /// Starts Prometheus with the files of the guide. It asks often and does not wait with alerts,
    /// finds the public name by a proxy, and sends its alerts to this address.
    fn start_prometheus(&self, alertmanager: &str) -> Option<Prometheus> {
        let folder = self.path("etc/prometheus");
        let with = |name: &str, exchanged: &[(&str, &str)]| {
            let text = fs::read_to_string(folder.join(name)).unwrap();
            exchanged.iter().fold(text, |text, (from, to)| {
                assert!(text.contains(from), "{from} is not in {name}:\n{text}");
                text.replace(from, to)
            })
        };
        let reach = format!("scheme: https\n    proxy_url: {}\n", tunnel(self.port));
        let exchanged = [("scheme: https\n", reach.as_str()), ("127.0.0.1:9093", alertmanager)];
        let configuration = with("prometheus.yml", &exchanged);
        fs::write(folder.join("penates.rules.yml"), with("penates.rules.yml", &[("for: 2m", "for: 1s")])).unwrap();
        let often = "global: { scrape_interval: 1s, evaluation_interval: 1s }\n";
        Prometheus::start(&folder, &format!("{often}{configuration}"), Some(&self.path("etc/ssl/books.pem")))
    }

    /// Requests a path by HTTPS, as the public does; the body, if the answer is a success.
    fn ask(&self, path: &str, more: &[&str]) -> Option<Vec<u8>> {
        let mut curl = Command::new("curl");
        curl.args(["-sf", "--max-time", "60", "--resolve", &format!("{NAME}:{}:127.0.0.1", self.port), "--cacert"]);
        curl.arg(self.path("etc/ssl/books.pem")).args(more).arg(format!("https://{NAME}:{}{path}", self.port));
        let ran = curl.output().unwrap();
        ran.status.success().then_some(ran.stdout)
    }

    /// A file that the user of the server may read.
    fn hand_over(&self, path: &Path) {
        let [user, group] = self.root.user();
        let owner = format!("{user}:{group}");
        assert!(Command::new("chown").args(["-R", &owner]).arg(path).status().unwrap().success());
    }

    /// promtool, in the folder of Prometheus.
    fn promtool(&self, args: &[&str]) {
        let Ok(ran) = Command::new("promtool").args(args).current_dir(self.path("etc/prometheus")).output() else {
            return store_cassandra::testing::not_run("the configuration of Prometheus: there is no promtool");
        };
        let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        assert!(ran.status.success(), "{args:?}: {said}");
    }

    /// Fails unless the walk used every block of commands, of a configuration or of a unit, or says
    /// what does.
    fn has_left_out_nothing(&self) {
        for at in (0..self.guide.len()).filter(|at| !self.used.contains(at)) {
            let Block { heading, language, text } = &self.guide[at];
            let is_elsewhere = ELSEWHERE.iter().any(|(begins, ..)| text.starts_with(begins));
            let is_shown = ["sh", "toml", "ini"].contains(&language.as_str());
            assert!(is_elsewhere || !is_shown, "nothing uses this of {heading}:\n{text}");
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut service) = self.service.take() {
            let _ = service.kill();
            let _ = service.wait();
        }
        if let Some(mut nginx) = self.nginx.take() {
            // A kill of the master would leave its worker.
            let _ = Command::new("kill").args(["-QUIT", &nginx.id().to_string()]).status();
            let _ = nginx.wait();
        }
    }
}

#[test]
fn what_the_walk_leaves_out_is_in_the_guide_and_there_is_the_test_that_uses_it() {
    let (guide, lines) = (documentation::guide(), documentation::systemctl_in_guide());
    let texts: Vec<&String> = guide.iter().map(|block| &block.text).chain(&lines).collect();
    for (begins, name, test) in ELSEWHERE {
        assert!(texts.iter().any(|text| text.starts_with(begins)), "nothing of the guide begins with {begins}");
        let tests = fs::read_to_string(documentation::file("crates/penates/tests/cli").join(name)).unwrap();
        assert!(tests.contains(&format!("fn {test}(")), "{name} has no test {test}");
    }
    for line in lines {
        assert!(ELSEWHERE.iter().any(|(begins, ..)| line.starts_with(begins)), "nothing runs `{line}`");
    }
}

#[test]
#[ignore = "it builds the packages: `cargo xtask proofs` runs it"]
fn a_newcomer_installs_serves_behind_tls_watches_backs_up_loses_the_disk_restores_and_upgrades_by_the_guide() {
    let Some(root) = Installed::new() else { return };
    let mut machine = Machine::new(root);
    machine.follow("Installing", true);
    machine.stop();

    // TLS behind nginx.
    let configuration = machine.block("Behind a proxy", "toml");
    fs::write(machine.path("etc/penates/penates.toml"), machine.here(&configuration)).unwrap();
    machine.environment.clear();
    let check =
        "runuser -u penates -- penates config --check --config /etc/penates/penates.toml --store /var/lib/penates/data";
    assert!(machine.run(check, true).contains("is sound"));
    machine.follow("Behind a proxy", true);
    assert!(machine.ask("/readyz", &[]).is_some());
    assert!(machine.follow("Changing the configuration", false).contains("was read again"));

    // Something to lose.
    let volume = machine.path("tmp/volume");
    copy_folder(&sample_folder(SMALL), &volume);
    machine.hand_over(&volume);
    let import = format!("penates import --store /var/lib/penates/data {}", volume.display());
    assert!(machine.run(&import, false).starts_with("1 new"));
    let archive = format!("/volumes?volumeIDs={SMALL}");
    let reference = machine.ask(&archive, &[]).unwrap();
    assert_eq!(unzip(&reference), expected_entries(&sample_folder(SMALL)));

    // Prometheus scrapes and has rules.
    let token = "penates token create prometheus --scope metrics --expires 90days --store /var/lib/penates/data";
    let token = machine.run(token, false);
    fs::write(machine.path("etc/prometheus/penates-token"), token.trim()).unwrap();
    let configuration = machine.block("Watch", "yaml");
    fs::write(machine.path("etc/prometheus/prometheus.yml"), machine.here(&configuration)).unwrap();
    for file in fs::read_dir(machine.path("usr/share/penates/prometheus")).unwrap().map(|file| file.unwrap().path()) {
        fs::copy(&file, machine.path("etc/prometheus").join(file.file_name().unwrap())).unwrap();
    }
    machine.promtool(&["check", "config", "prometheus.yml"]);
    machine.promtool(&["test", "rules", "penates.rules.test.yml"]);
    let alerts = Alerts::default();
    let prometheus = machine.start_prometheus(&alerts.receive());
    let is_up = |prometheus: &Prometheus| prometheus.value("up%7Bjob=%22penates%22%7D").as_deref() == Some("1");
    if let Some(prometheus) = &prometheus {
        wait_until(|| is_up(prometheus) && prometheus.value("penates_ready").as_deref() == Some("1"));
        assert!(!alerts.has("PenatesDown"));
    }

    // Every night, and to another machine.
    machine.follow("Every night", true);
    machine.follow("Every night", false);
    let timed = machine.block("Every night", "ini");
    for command in timed.lines().filter_map(|line| line.strip_prefix("ExecStart=")) {
        machine.run(command, false);
    }
    machine.follow("As one stream", false);
    let streamed = machine.run("penates verify --store /var/lib/penates/restored", false);
    assert!(streamed.contains("volumes: 1 sound, 0 damaged"), "{streamed}");

    // The disk is lost.
    machine.lose_the_disk();
    assert!(machine.ask(&archive, &[]).is_none());
    if prometheus.is_some() {
        wait_until(|| alerts.has("PenatesDown"));
    }
    assert!(machine.follow("When the disk is lost", true).contains("volumes: 1 sound, 0 damaged"));
    assert!(machine.ask(&archive, &[]).unwrap() == reference, "another archive came");
    if let Some(prometheus) = &prometheus {
        wait_until(|| is_up(prometheus));
    }

    // The store that another program wrote is upgraded.
    machine.stop();
    let data = machine.path("var/lib/penates/data");
    for folder in [&data, &machine.path("mnt/backups")] {
        fs::remove_dir_all(folder).unwrap();
    }
    fixtures::unpack_newest(&data);
    fs::create_dir(machine.path("mnt/backups")).unwrap();
    machine.hand_over(&data);
    machine.hand_over(&machine.path("mnt/backups"));
    machine.start();
    let before = machine.ask(&archive, &[]).unwrap();
    let printed = machine.follow("Upgrading", true);
    assert!(printed.contains("level 1; this program knows level 1"), "{printed}");
    assert!(machine.ask(&archive, &[]).unwrap() == before, "another archive came");
    machine.stop();
    machine.has_left_out_nothing();
}
