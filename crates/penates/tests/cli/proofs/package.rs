//! The packages of `cargo xtask package`, each installed where nothing of it was before: it runs the
//! demo there. The Debian package is also upgraded and removed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

use crate::container::Podman;
use crate::harness::*;

/// What lintian finds wrong with a package that Debian itself does not distribute: it has the whole
/// licence, no changelog of Debian, and no address of somebody.
const OF_THE_ARCHIVE: [&str; 4] = [
    "copyright-file-contains-full-apache-2-license",
    "copyright-not-using-common-license-for-apache2",
    "malformed-contact",
    "no-changelog",
];

/// The Debian of the oldest libraries that its mirrors always have.
const DEBIAN: &str = "oldstable";

/// The command that every package must be able to run.
const DEMO: [&str; 5] = ["demo", "--listen", "127.0.0.1:0", "--records-listen", "off"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a command that must succeed; what it prints.
#[track_caller]
fn done(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(ran.status.success(), "{command:?}: {said}");
    said
}

fn command(program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

/// The only package whose name ends with this. All are made once.
fn package(suffix: &str) -> PathBuf {
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| {
        let mut make = command(env!("CARGO"), &["xtask", "package"]);
        assert!(make.current_dir(workspace()).status().unwrap().success());
    });
    file_with_suffix(&workspace().join("target/packages"), suffix)
}

/// Fails unless an installed program runs the demo with a store, and its server lists the samples.
fn assert_runs_the_demo(program: &[&str], store: &Path) {
    let begun = Instant::now();
    let args = [&program[1..], &DEMO, &["--store", text(store)]].concat();
    let server = Served::start(crate::harness::command(Path::new(program[0]), &args));
    println!("{}: the demo listens after {:.1?}", program.join(" "), begun.elapsed());
    let listed = Ran::of(penates(&["ls", "--server", &server.url])).ends_with(0);
    assert_eq!(listed.text().lines().count(), 16, "{}", listed.text());
    assert_eq!(server.stop("TERM").0, 0);
}

/// A root in which the package is installed.
pub struct Installed {
    folder: tempfile::TempDir,
    package: PathBuf,
}

impl Installed {
    /// Installs the package; `None` if this process may not change owners of files.
    pub fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            store_cassandra::testing::not_run("the Debian package: only root can install it");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Others go through it to the program.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let installed = Self { folder, package: package(".deb") };
        for path in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "etc", "run", "mnt", "tmp"] {
            fs::create_dir_all(installed.path(path)).unwrap();
        }
        fs::write(installed.path("var/lib/dpkg/status"), "").unwrap();
        installed.install();
        Some(installed)
    }

    /// A path in the root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join("root").join(path.trim_start_matches('/'))
    }

    fn dpkg(&self, args: &[&str]) -> String {
        let root = format!("--root={}", self.path("").display());
        let log = format!("--log={}", self.path("var/log").display());
        // There are no other packages in this root, and no shell for the scripts.
        let forced = ["--force-depends", "--force-script-chrootless", "--force-confold"];
        let mut dpkg = command("dpkg", &[&[&*root, &*log], &forced[..], args].concat());
        dpkg.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        done(&mut dpkg)
    }

    /// Installs the package, also over itself.
    pub fn install(&self) {
        self.dpkg(&["--install", text(&self.package)]);
    }

    /// The user and the group of the service.
    pub fn user(&self) -> [u32; 2] {
        let users = fs::read_to_string(self.path("etc/passwd")).unwrap();
        let penates = users.lines().find_map(|line| line.strip_prefix("penates:x:")).unwrap();
        let mut numbers = penates.split(':').map(|number| number.parse().unwrap_or_default());
        [numbers.next().unwrap(), numbers.next().unwrap()]
    }
}

/// The assets of the manifest: source, target and mode.
fn assets() -> Vec<[String; 3]> {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array().unwrap().clone();
    let texts = |asset: toml::Value| [0, 1, 2].map(|at| asset[at].as_str().unwrap().to_owned());
    assets.into_iter().map(texts).collect()
}

/// The names of the files that a source of an asset means.
fn names(source: &str) -> Vec<String> {
    let (folder, name) = source.rsplit_once('/').unwrap();
    let Some((before, after)) = name.split_once('*') else { return vec![name.to_owned()] };
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(before) && name.ends_with(after)).collect()
}

#[test]
#[ignore = "it builds the packages: `cargo xtask proofs` runs it"]
fn the_debian_package_has_every_file_with_its_mode_and_is_installed_upgraded_and_removed() {
    let Some(installed) = Installed::new() else { return };
    let field = |name: &str| done(&mut command("dpkg-deb", &["--field", text(&installed.package), name]));
    assert!(field("Depends").contains("libc6 (>= "), "{}", field("Depends"));
    assert_eq!(field("Package").trim(), "penates");
    assert!(field("Version").starts_with(env!("CARGO_PKG_VERSION")), "{}", field("Version"));

    let mut files = 0;
    for [source, target, mode] in assets() {
        let named = names(&source);
        assert!(!named.is_empty(), "{source} is nothing");
        for name in named {
            let target = if target.ends_with('/') { format!("{target}{name}") } else { target.clone() };
            // Manuals and long texts are packed.
            let found = [target.clone(), format!("{target}.gz")].map(|path| installed.path(&path));
            let found = found.iter().find(|path| path.exists()).unwrap_or_else(|| panic!("{target} is missing"));
            let metadata = fs::metadata(found).unwrap();
            assert!(metadata.len() > 0, "{target} is empty");
            assert_eq!(format!("{:o}", metadata.mode() & 0o7777), mode, "{target}");
            assert_eq!([metadata.uid(), metadata.gid()], [0, 0], "{target}");
            files += 1;
        }
    }
    assert!(files > 60, "{files} files");
    let version = done(&mut command(text(&installed.path("usr/bin/penates")), &["--version"]));
    assert!(version.starts_with("penates 0."), "{version}");
    let manual =
        done(&mut command("man", &["--local-file", text(&installed.path("usr/share/man/man1/penates-serve.1.gz"))]));
    assert!(manual.contains("--listen"), "{manual}");
    let bash = installed.path("usr/share/bash-completion/completions/penates");
    done(&mut command("bash", &["-c", "source \"$0\" && complete -p penates", text(&bash)]));

    // The folder of the service belongs to its user, and to nobody else.
    let data = fs::metadata(installed.path("var/lib/penates")).unwrap();
    assert_eq!([data.uid(), data.gid()], installed.user());
    assert_eq!(data.mode() & 0o777, 0o700);
    // systemd accepts the unit, whose program is there.
    let unit = installed.path("usr/lib/systemd/system/penates.service");
    let here = fs::read_to_string(&unit).unwrap().replace("/usr/bin/penates", text(&installed.path("usr/bin/penates")));
    let service = installed.path("tmp/penates.service");
    fs::write(&service, here).unwrap();
    let said = done(&mut command("systemd-analyze", &["verify", "--man=no", text(&service)]));
    assert!(!said.contains("penates"), "{said}");

    // What somebody changed stays when the package is upgraded and removed, and so does the store.
    let (configuration, store) = (installed.path("etc/penates/penates.toml"), installed.path("var/lib/penates/data"));
    fs::write(&configuration, "# mine\n").unwrap();
    fs::create_dir(&store).unwrap();
    installed.install();
    installed.dpkg(&["--remove", "penates"]);
    assert!(!installed.path("usr/bin/penates").exists() && !unit.exists());
    assert_eq!(fs::read_to_string(&configuration).unwrap(), "# mine\n");
    assert!(store.exists());
    installed.dpkg(&["--purge", "penates"]);
    assert!(!configuration.exists() && store.exists());

    let suppressed = format!("--suppress-tags={}", OF_THE_ARCHIVE.join(","));
    let mut lintian = Command::new("lintian");
    let Ok(lintian) = lintian.args(["--fail-on", "error", &suppressed]).arg(&installed.package).output() else {
        return store_cassandra::testing::not_run("the rules for packages: there is no lintian");
    };
    let found = String::from_utf8_lossy(&lintian.stdout).into_owned();
    assert!(lintian.status.success(), "{found}");
}

#[test]
#[ignore = "it builds the packages: `cargo xtask proofs` runs it"]
fn a_debian_with_nothing_else_runs_the_demo_of_the_package() {
    if !rustix::process::geteuid().is_root() {
        return store_cassandra::testing::not_run("the Debian package in a Debian: only root can make one");
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("debian");
    done(&mut command("mmdebstrap", &["--quiet", "--variant=minbase", DEBIAN, text(&root)]));
    fs::copy(package(".deb"), root.join("penates.deb")).unwrap();
    done(&mut command("chroot", &[text(&root), "dpkg", "--install", "/penates.deb"]));
    assert_runs_the_demo(&["chroot", text(&root), "penates"], Path::new("/root/data"));
}

#[test]
#[ignore = "it builds the packages: `cargo xtask proofs` runs it"]
fn an_empty_environment_of_python_runs_the_demo_of_the_wheel() {
    let folder = tempfile::tempdir().unwrap();
    let environment = folder.path().join("environment");
    done(&mut command("python3", &["-m", "venv", text(&environment)]));
    let begun = Instant::now();
    let pip = environment.join("bin/pip");
    done(&mut command(text(&pip), &["install", "--quiet", "--no-index", text(&package(".whl"))]));
    println!("the wheel is installed after {:.1?}", begun.elapsed());
    assert_runs_the_demo(&[text(&environment.join("bin/penates"))], &folder.path().join("data"));
}

#[test]
#[ignore = "it builds the packages: `cargo xtask proofs` runs it"]
fn an_empty_folder_runs_the_demo_of_the_tarball() {
    let folder = tempfile::tempdir().unwrap();
    let tarball = package("-linux.tar.gz");
    done(&mut command("tar", &["--extract", "--file", text(&tarball), "--directory", text(folder.path())]));
    let unpacked = file_with_suffix(folder.path(), "-linux");
    let manual = done(&mut command("man", &["--local-file", text(&unpacked.join("man/penates-serve.1"))]));
    assert!(manual.contains("--listen"), "{manual}");
    let bash = unpacked.join("completions/penates");
    done(&mut command("bash", &["-c", "source \"$0\" && complete -p penates", text(&bash)]));
    assert_runs_the_demo(&[text(&unpacked.join("penates"))], &folder.path().join("data"));
    // What is beside the packages says that nothing was changed on the way.
    done(command("sha256sum", &["--check", "--strict", "SHA256SUMS"]).current_dir(tarball.parent().unwrap()));
}

#[test]
#[ignore = "it builds the packages: `cargo xtask proofs` runs it"]
fn a_container_runs_the_demo_of_the_image() {
    let podman = Podman::new();
    if let Some(refusal) = podman.refusal() {
        let refusal = format!("the image: no container runs here: {}", refusal.trim());
        return store_cassandra::testing::not_permitted(&refusal);
    }
    podman.run(&["load", "--quiet", "--input", text(&package("-image.tar.gz"))]).ends_with(0);
    let here = ["--env=PENATES_AUTH__READ=open", "--env=PENATES_LISTEN__HTTP=127.0.0.1:8080"];
    podman.image(&[&["--detach", "--name=penates"], &here[..]].concat(), &["demo"]).ends_with(0);
    let list = || podman.exec(&[], &["ls", "--server", "http://localhost:8080"]);
    let begun = Instant::now();
    wait_until(|| list().code == 0);
    println!("the demo of the image listens after {:.1?}", begun.elapsed());
    assert_eq!(list().text().lines().count(), 16, "{}", list().text());
}
