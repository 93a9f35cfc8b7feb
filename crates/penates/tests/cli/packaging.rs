//! What a machine gets beside the program: the units of systemd, the user of the service and its
//! folder, a disk, a timer for backups, and the files for containers and of the Debian package.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use store_cassandra::testing::not_run;

use crate::documentation::{file, guide};
use crate::harness::*;

/// The units of systemd; the service is the first of them.
const UNITS: [&str; 4] = ["penates.service", "penates.socket", "penates-tls.socket", "penates-redirect.socket"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A file of `packaging/`.
fn packaged(name: &str) -> PathBuf {
    file("packaging").join(name)
}

/// Fails unless systemd accepts units, given their names and texts, with this program in the place
/// of the installed one.
fn assert_valid(units: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    for (name, unit) in units {
        let path = folder.path().join(name);
        fs::write(&path, unit.replace("/usr/bin/penates", env!("CARGO_BIN_EXE_penates"))).unwrap();
        verify.arg(path);
    }
    let Ok(verified) = verify.output() else {
        return not_run("the units are valid: there is no systemd-analyze (Debian package systemd)");
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    // Of other units it may say more.
    let of_ours: Vec<&str> = said.lines().filter(|line| line.contains("penates")).collect();
    assert!(verified.status.success() && of_ours.is_empty(), "{said}");
}

#[test]
fn the_units_are_valid_and_their_configuration_is_accepted() {
    let store = TestStore::vacant();
    store.run(&["config", "--config", text(&packaged("penates.toml"))]).ends_with(0);
    let units = UNITS.map(|name| fs::read_to_string(packaged("systemd").join(name)).unwrap());
    let named: Vec<_> = UNITS.into_iter().zip(units.iter().map(String::as_str)).collect();
    assert_valid(&named);
    // The disk of the store is mounted first.
    let [service, sockets @ ..] = &units;
    let value = |unit: &str, key: &str| -> String {
        unit.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("no {key} in {unit}")).to_owned()
    };
    let store = value(service, "ExecStart=/usr/bin/penates serve ").rsplit(' ').next().unwrap().to_owned();
    assert!(Path::new(&store).starts_with(value(service, "RequiresMountsFor=")), "{store}");
    // `serve` knows what each socket is for by this name.
    let names: Vec<_> = sockets.iter().map(|socket| value(socket, "FileDescriptorName=")).collect();
    assert_eq!(names, ["http", "tls", "redirect"]);
}

#[test]
fn the_service_may_do_little_besides_serving() {
    for name in UNITS.into_iter().filter(|name| name.ends_with(".service")) {
        let mut security = Command::new("systemd-analyze");
        // In tenths. Without restrictions a service has 96.
        security.args(["security", "--offline=true", "--threshold=20", "--no-pager"]);
        let Ok(judged) = security.arg(packaged("systemd").join(name)).output() else {
            return not_run("what the service may do: there is no systemd-analyze (Debian package systemd)");
        };
        let said = String::from_utf8_lossy(&[judged.stdout, judged.stderr].concat()).into_owned();
        assert!(judged.status.success() && said.contains("Overall exposure level"), "{said}");
    }
}

#[test]
fn the_timer_of_the_guide_is_valid_and_runs_the_commands_of_the_guide() {
    let of_backups = |language: &str| -> Vec<String> {
        let blocks = guide().into_iter().filter(|block| block.heading == "Every night" && block.language == language);
        blocks.map(|block| block.text).collect()
    };
    let units = of_backups("ini");
    let [service, timer] = &units[..] else { panic!("{units:?}") };
    assert_valid(&[("penates-backup.service", service.as_str()), ("penates-backup.timer", timer.as_str())]);
    let commands = of_backups("sh").concat();
    let timed: Vec<_> = service.lines().filter_map(|line| line.strip_prefix("ExecStart=/usr/bin/")).collect();
    assert_eq!(timed.len(), 2, "{service}");
    for command in timed {
        assert!(commands.lines().any(|line| line == command), "{command} is no command of the guide");
    }
}

#[test]
fn without_a_package_the_user_and_its_folder_are_made_and_a_new_disk_is_given_to_the_user() {
    if Command::new("systemd-tmpfiles").arg("--version").output().is_err() {
        return not_run("the user and its folder: there is no systemd-tmpfiles (Debian package systemd)");
    }
    if !rustix::process::geteuid().is_root() {
        return not_run("the user and its folder: only root can make them");
    }
    let root = tempfile::tempdir().unwrap();
    for (source, target) in [("penates.sysusers", "etc/sysusers.d"), ("penates.tmpfiles", "etc/tmpfiles.d")] {
        let folder = root.path().join(target);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(packaged("systemd").join(source), folder.join("penates.conf")).unwrap();
    }
    let run = |program: &str, more: &[&str]| {
        let mut command = Command::new(program);
        command.arg(format!("--root={}", root.path().display())).args(more);
        Ran::of(command).ends_with(0);
    };
    run("systemd-sysusers", &[]);
    let users = fs::read_to_string(root.path().join("etc/passwd")).unwrap();
    let user = users.lines().find_map(|line| line.strip_prefix("penates:x:")).unwrap();
    let user: u32 = user.split(':').next().unwrap().parse().unwrap();

    let folder = root.path().join("var/lib/penates");
    let is_of_the_user = || {
        let made = fs::metadata(&folder).unwrap();
        made.uid() == user && made.permissions().mode() & 0o777 == 0o700
    };
    run("systemd-tmpfiles", &["--create"]);
    assert!(is_of_the_user());
    // A new disk has a folder of root, which everybody may read.
    fs::remove_dir(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!is_of_the_user());
    run("systemd-tmpfiles", &["--create"]);
    assert!(is_of_the_user());
}

/// A command for which a folder is mounted at another one, as a disk is. It has mounts of its own:
/// all other processes see the empty folder there.
fn on_mounted(disk: &Path, at: &Path, command: &Command) -> Command {
    let mut mounted = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        mounted.arg("--map-root-user");
    }
    mounted.args(["--mount", "sh", "-c", "mount --bind \"$0\" \"$1\" && shift && exec \"$@\""]);
    mounted.args([disk, at]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => mounted.env(name, value),
            None => mounted.env_remove(name),
        };
    }
    mounted.stdin(Stdio::null());
    mounted
}

#[test]
fn a_disk_that_is_not_mounted_is_no_empty_library_and_has_everything_when_it_is_mounted() {
    let folder = tempfile::tempdir().unwrap();
    let [disk, library, backups] = ["disk", "library", "backups"].map(|name| folder.path().join(name));
    for path in [&disk, &library] {
        fs::create_dir(path).unwrap();
    }
    if !on_mounted(&disk, &library, &Command::new("true")).status().is_ok_and(|status| status.success()) {
        return not_run("a disk that is not mounted: mounting a folder is not allowed here");
    }
    let data = library.join("data");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "off"];
    let in_store = |store: &Path, args: &[&str]| penates(&[args, &["--store", text(store)]].concat());
    let mounted = |args: &[&str]| on_mounted(&disk, &library, &in_store(&data, args));
    Ran::of(mounted(&["init"])).ends_with(0);
    Ran::of(mounted(&["import", text(&sample_folder(SMALL))])).ends_with(0);

    // Whether the store is in a folder of the disk or is all of it.
    for store in [&data, &library] {
        let refused = Ran::of(in_store(store, &serve)).ends_with(3);
        assert!(refused.stderr.contains("is its disk mounted?"), "{}", refused.stderr);
        let checked = Ran::of(in_store(store, &[&["config", "--check"], &serve[1..]].concat())).ends_with(2);
        assert!(checked.stderr.contains("is its disk mounted?"), "{}", checked.stderr);
        for args in [
            &["ls"][..],
            &["verify"],
            &["token", "create", "reader"],
            &["backup", "create", text(&backups)],
            &["import", text(&sample_folder(SMALL))],
            &["records", "set", "user:1", "city=Ulm"],
        ] {
            let refused = Ran::of(in_store(store, args)).ends_with(3);
            assert!(refused.stderr.contains("there is no store in"), "{args:?}: {}", refused.stderr);
        }
    }
    assert_eq!(fs::read_dir(&library).unwrap().count(), 0, "something was made where the disk belongs");
    assert!(!backups.exists(), "a folder of backups was made for no store");

    assert_eq!(Ran::of(mounted(&["ls"])).ends_with(0).text().trim(), SMALL);
    let server = Served::start(mounted(&serve));
    assert_eq!(server.stop("TERM").0, 0);
}

#[test]
fn the_files_for_containers_name_settings_and_commands_that_there_are() {
    let [image, compose] =
        ["container/Containerfile", "container/compose.yaml"].map(|name| fs::read_to_string(packaged(name)).unwrap());
    let variables = |text: &str, sign: char| -> Vec<(String, String)> {
        let words = text.lines().filter_map(|line| {
            let line = line.trim().trim_start_matches("ENV ").trim_end_matches('\\').trim();
            line.starts_with("PENATES_").then(|| line.split_once(sign).unwrap())
        });
        words.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
    };
    let mut config = penates(&["config"]);
    let all = [variables(&image, '='), variables(&compose, ':')].concat();
    assert!(all.len() >= 5, "{all:?}");
    config.envs(all);
    let shown = Ran::of(config).ends_with(0);
    assert!(shown.text().contains("cassandra://cassandra1,cassandra2,cassandra3/penates"), "{}", shown.text());
    assert!(image.lines().any(|line| line == "FROM scratch") && image.contains("USER 65532"));
    // A new volume has the owner of the folder in the image.
    assert!(image.contains("COPY --chown=65532:65532 data /data\n"));
    assert!(fs::read_to_string(packaged("prepare")).unwrap().contains("\"$to/data\""));
    // What has no writable disk has memory for files that wait.
    let read_only: Vec<_> = compose.split("\n\n").filter(|block| block.contains("  read_only: true\n")).collect();
    assert!(!read_only.is_empty(), "{compose}");
    for block in read_only {
        let tmpfs = block.lines().find_map(|line| line.trim().strip_prefix("tmpfs: ")).expect("it has no /tmp");
        let mounts: Vec<String> = serde_json::from_str(tmpfs).unwrap();
        assert!(mounts.iter().any(|mount| mount.starts_with("/tmp:size=")), "{block}");
    }
    assert!(!compose.contains("nodetool info"), "it ends normally while a node still joins");
    for line in compose.lines().filter_map(|line| line.trim().strip_prefix("command: ")) {
        let words: Vec<String> = serde_json::from_str(line).unwrap();
        Ran::of(penates(&[&words[..], &["--help".to_owned()]].concat())).ends_with(0);
    }
}

#[test]
fn every_file_of_the_debian_package_is_there_or_made_by_prepare() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cargo: toml::Table = fs::read_to_string(manifest.join("Cargo.toml")).unwrap().parse().unwrap();
    let assets = cargo["package"]["metadata"]["deb"]["assets"].as_array().unwrap();
    let prepare = fs::read_to_string(packaged("prepare")).unwrap();
    for asset in assets {
        let source = asset[0].as_str().unwrap();
        match source.split_once("target/packaging/") {
            Some((_, made)) => assert!(prepare.contains(&format!("\"$to/{}", made.trim_end_matches("/*"))), "{source}"),
            None if source == "target/release/penates" => {}
            None => {
                let folder = source.split_once('*').map_or(source, |(folder, _)| folder);
                assert!(manifest.join(folder).exists(), "{source}");
            }
        }
    }
    let postinst = fs::read_to_string(packaged("postinst")).unwrap();
    let [user, folder] = ["systemd-sysusers ", "systemd-tmpfiles "].map(|program| {
        let run = postinst.lines().position(|line| line.trim().starts_with(program));
        run.unwrap_or_else(|| panic!("{program}is not run"))
    });
    assert!(user < folder, "the folder belongs to the user");
}

/// What a script of the package asks of systemd, if `arguments` are dpkg's. `root`: the package is
/// installed below this folder, as into an image. Nothing else that the script may call is there.
fn asked_of_systemd(script: &str, arguments: &[&str], is_running: bool, root: Option<&str>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let [programs, running, asked] = ["bin", "running", "asked"].map(|name| folder.path().join(name));
    fs::create_dir(&programs).unwrap();
    if is_running {
        fs::create_dir(&running).unwrap();
    }
    let systemctl = programs.join("systemctl");
    fs::write(&systemctl, format!("#!/bin/sh\necho \"$@\" >> '{}'\n", asked.display())).unwrap();
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
    let script = fs::read_to_string(packaged(script)).unwrap().replace("/run/systemd/system", text(&running));
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script, "script"]).args(arguments).env("PATH", &programs).env_remove("DPKG_ROOT");
    if let Some(root) = root {
        shell.env("DPKG_ROOT", root);
    }
    Ran::of(shell).ends_with(0);
    fs::read_to_string(&asked).unwrap_or_default().lines().map(str::to_owned).collect()
}

#[test]
fn the_debian_package_stops_and_disables_what_it_removes_and_leaves_running_what_it_upgrades() {
    let asked = |script, arguments: &[&str]| asked_of_systemd(script, arguments, true, None);
    assert_eq!(asked("postinst", &["configure", ""]), ["daemon-reload"]);
    assert_eq!(asked("prerm", &["upgrade", "9.9.9"]), [""; 0]);
    assert_eq!(asked("postrm", &["upgrade", "9.9.9"]), [""; 0]);
    let removed = asked("prerm", &["remove"]);
    let [stopped, disabled] = &removed[..] else { panic!("{removed:?}") };
    for unit in UNITS {
        let has = |line: &str| line.split(' ').any(|word| word == unit);
        assert!(stopped.starts_with("stop ") && has(stopped), "{stopped}");
        assert!(disabled.starts_with("--quiet disable ") && has(disabled), "{disabled}");
    }
    for how in ["remove", "purge"] {
        assert_eq!(asked("postrm", &[how]), ["daemon-reload"], "{how}");
    }
    // Where systemd does not run, and in an image, there is nothing to stop.
    let at_rest = asked_of_systemd("prerm", &["remove"], false, None);
    assert_eq!(at_rest, [disabled.as_str()]);
    let in_image = asked_of_systemd("prerm", &["remove"], true, Some("/mnt"));
    assert_eq!(in_image, [format!("--root=/mnt {disabled}")]);
    for (script, argument) in [("postinst", "configure"), ("postrm", "remove")] {
        assert_eq!(asked_of_systemd(script, &[argument], true, Some("/mnt")), [""; 0], "{script}");
    }
}

#[test]
fn without_certificates_of_authorities_servers_are_reached_over_http_and_the_package_is_named_for_https() {
    let store = TestStore::with(&[SMALL]);
    let server = store.serve(&[]);
    let ls = |url: &str| {
        let mut command = penates(&["ls", "--server", url]);
        command.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
        Ran::of(command)
    };
    assert_eq!(ls(&server.url).ends_with(0).text().trim(), SMALL);
    let refused = ls(&server.url.replace("http://", "https://"));
    assert!(refused.code != 0 && refused.stderr.contains("ca-certificates"), "{}", refused.stderr);
    assert_eq!(server.stop("TERM").0, 0);
}

#[test]
fn without_certificates_of_authorities_a_server_reads_content_elsewhere_over_http_and_names_the_package_for_https() {
    let elsewhere = TestStore::vacant();
    let content = elsewhere.serve(&[]);
    let store = TestStore::vacant();
    let allowed = format!("--set=ldp.external=[\"{}/\", \"https://127.0.0.1:1/\"]", content.url);
    let args = ["serve", "--init", "--listen", "127.0.0.1:0", "--tls-listen", "off", "--set=auth.write=open", &allowed];
    let mut command = store.command(&args);
    command.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent");
    let server = Served::start(command);
    let copy = |name: &str, url: &str| {
        let relation = "http://fedora.info/definitions/fcrepo#ExternalContent";
        let link = format!("Link: <{url}>; rel=\"{relation}\"; handling=\"copy\"");
        let (put, at) = (["-s", "-X", "PUT", "-H", &link], format!("{}/rest/{name}", server.url));
        String::from_utf8(Command::new("curl").args(put).arg(at).output().unwrap().stdout).unwrap()
    };
    copy("plain", &format!("{}/healthz", content.url));
    let plain = Command::new("curl").arg("-sf").arg(format!("{}/rest/plain", server.url)).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&plain.stdout), "alive\n");
    let refused = copy("encrypted", "https://127.0.0.1:1/scan");
    assert!(refused.contains("ca-certificates"), "{refused}");
    assert_eq!(server.stop("TERM").0, 0);
}
