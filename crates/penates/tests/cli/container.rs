//! The container: its image is built by podman from this program, and runs as its guide says,
//! without root and with nothing to write to but its volume.
//!
//! It needs podman, and a kernel that lets this process make containers. Where the kernel does not, no
//! package helps, so the test is listed as not run and does not fail. The containers have no network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::harness::*;
use crate::validators::programs;

/// What checks the syntax of a compose file, as its registry names it.
const COMPOSE: &str = "podman-compose==1.6.0";

/// What a container may not do, and what its limits are: some systems let nobody raise them.
const STRICT: [&str; 9] = [
    "--read-only",
    "--tmpfs=/tmp",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    "--network=none",
    "--ulimit=nofile=1024:1024",
    "--ulimit=nproc=1000:1000",
    "--volume=penates:/data",
    "--pull=never",
];

/// Where programs of this system and their libraries are.
const SYSTEM: [&str; 4] = ["/usr", "/bin", "/lib", "/lib64"];

/// Images and containers of their own, in a folder.
pub struct Podman {
    folder: tempfile::TempDir,
}

impl Podman {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let folder = |name: &str| self.folder.path().join(name);
        let mut podman = Command::new("podman");
        podman.arg("--root").arg(folder("root")).arg("--runroot").arg(folder("run"));
        podman.arg("--storage-driver=vfs");
        // Podman's usual runtime refuses machines that have control groups of both versions.
        if Command::new("runc").arg("--version").output().is_ok() {
            podman.arg("--runtime=runc");
        }
        podman.args(args);
        podman
    }

    /// Why no container runs here, if none does: tried with a program of this system.
    pub fn refusal(&self) -> Option<String> {
        let root = self.folder.path().join("empty");
        fs::create_dir(&root).unwrap();
        let there = SYSTEM.iter().filter(|path| Path::new(path).exists());
        let system: Vec<_> = there.map(|path| format!("--volume={path}:{path}:ro")).collect();
        let system: Vec<_> = system.iter().map(String::as_str).collect();
        let limits = ["--read-only", "--cap-drop=all", "--network=none", "--ulimit=nofile=1024:1024"];
        let program = ["--rootfs", root.to_str().unwrap(), "/usr/bin/true"];
        let ran = self.run(&[&["run", "--rm"], &limits[..], &system, &program].concat());
        (ran.code != 0).then_some(ran.stderr)
    }

    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args))
    }

    /// Runs the image with a command of the program.
    pub fn image(&self, more: &[&str], command: &[&str]) -> Ran {
        self.run(&[&["run"], &STRICT[..], more, &["penates"], command].concat())
    }

    /// Runs a command of the program in the running container.
    pub fn exec(&self, more: &[&str], command: &[&str]) -> Ran {
        self.run(&[&["exec"], more, &["penates", "/penates"], command].concat())
    }

    /// A field of the container.
    fn field(&self, name: &str) -> String {
        let field = self.run(&["inspect", "--format", &format!("{{{{{name}}}}}"), "penates"]).ends_with(0);
        field.text().trim().to_owned()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // Otherwise it would outlive the test.
        let _ = self.command(&["rm", "--force", "--all", "--time=0"]).output();
        let _ = self.command(&["rmi", "--force", "--all"]).output();
    }
}

fn file(name: &str) -> PathBuf {
    workspace().join("packaging/container").join(name)
}

/// A line of what the kernel says of a process.
fn status(pid: &str, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_image_runs_without_root_on_a_read_only_root_and_ends_in_order() {
    if Command::new("podman").arg("--version").output().is_err() {
        store_cassandra::testing::not_run("the container: there is no podman");
        return;
    }
    let podman = Podman::new();
    if let Some(refusal) = podman.refusal() {
        store_cassandra::testing::not_permitted(&format!("the container: no container runs here: {}", refusal.trim()));
        return;
    }
    let mut prepare = Command::new(workspace().join("packaging/prepare"));
    let prepared = prepare.arg(env!("CARGO_BIN_EXE_penates")).current_dir(workspace()).output().unwrap();
    assert!(prepared.status.success(), "{}", String::from_utf8_lossy(&prepared.stderr));
    let containerfile = file("Containerfile");
    let context = workspace().join("target/packaging");
    let [containerfile, context] = [&containerfile, &context].map(|path| path.to_str().unwrap());
    podman.run(&["build", "--network=none", "--file", containerfile, "--tag", "penates", context]).ends_with(0);

    // Without a store the server does not start; `init` makes one in the volume.
    let missing = podman.image(&["--rm"], &["serve"]).ends_with(3);
    assert!(missing.stderr.contains("penates init"), "{}", missing.stderr);
    podman.image(&["--rm"], &["init"]).ends_with(0);
    let samples = format!("--volume={}:/samples:ro", samples().display());
    podman.image(&["--detach", "--name=penates", &samples], &[]).ends_with(0);

    let listing = || podman.exec(&[], &["ls", "--server", "http://localhost:8080"]);
    wait_until(|| listing().stderr.contains("token"));
    podman.exec(&[], &["import", "/samples"]).ends_with(0);
    let refused = listing();
    assert!(refused.code != 0 && refused.text().is_empty(), "nobody reads without a token: {}", refused.text());
    let token = podman.exec(&[], &["token", "create", "reader", "--scope", "read"]).ends_with(0);
    let secret = format!("--env=PENATES_TOKEN={}", token.text().split_whitespace().last().unwrap());
    let listed = podman.exec(&[&secret], &["ls", "--server", "http://127.0.0.1:8080"]).ends_with(0);
    assert!(listed.text().lines().count() >= 16, "{}", listed.text());

    // What the kernel knows of it.
    let pid = podman.field(".State.Pid");
    assert!(status(&pid, "Uid").split(' ').all(|uid| uid != "0"), "{}", status(&pid, "Uid"));
    assert_eq!([status(&pid, "CapEff"), status(&pid, "CapBnd")], ["0000000000000000"; 2]);
    assert_eq!(status(&pid, "NoNewPrivs"), "1");
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    let root = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|mount| mount[4] == "/").unwrap();
    assert!(root[5].split(',').any(|option| option == "ro"), "{}", root.join(" "));

    // SIGTERM ends it in order, long before podman would kill it.
    let begun = Instant::now();
    podman.run(&["stop", "--time=100", "penates"]).ends_with(0);
    assert!(begun.elapsed() < Duration::from_secs(90), "{:?}", begun.elapsed());
    assert_eq!(podman.field(".State.ExitCode"), "0");
    podman.run(&["rm", "penates"]).ends_with(0);
    // Another container finds what was acknowledged.
    let kept = podman.image(&["--rm"], &["ls"]).ends_with(0);
    assert_eq!(kept.text(), listed.text());
}

#[test]
fn the_compose_file_is_valid_and_has_its_services() {
    let compose = programs(COMPOSE).unwrap().join("podman-compose");
    let mut config = Command::new(compose);
    config.arg("--file").arg(file("compose.yaml")).arg("config");
    let config = Ran::of(config).ends_with(0);
    for service in ["cassandra1", "cassandra2", "cassandra3", "init", "penates1", "penates2"] {
        assert!(config.text().contains(&format!("\n  {service}:\n")), "{service}: {}", config.text());
    }
}
