//! The Debian package: made by cargo-deb of this program, and installed into a root of its own by
//! dpkg, upgraded and removed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cargo_installed;
use crate::harness::*;

/// What lintian finds wrong with a package that Debian itself does not distribute: it has the whole
/// licence, no changelog of Debian, no address of somebody, and here a program with symbols.
const OF_THE_ARCHIVE: [&str; 5] = [
    "copyright-file-contains-full-apache-2-license",
    "copyright-not-using-common-license-for-apache2",
    "malformed-contact",
    "no-changelog",
    "unstripped-binary-or-object",
];

/// The version of cargo-deb.
const CARGO_DEB: &str = "3.6.4";

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

/// Makes the package in a folder, as the guide does, but of this program.
fn make(folder: &Path) -> PathBuf {
    let mut prepare = Command::new(workspace().join("packaging/prepare"));
    done(prepare.arg(env!("CARGO_BIN_EXE_penates")).current_dir(workspace()));
    let cargo_deb = cargo_installed("cargo-deb", CARGO_DEB, &[]);
    let program = Path::new(env!("CARGO_BIN_EXE_penates"));
    let profile = program.parent().unwrap();
    let mut deb = Command::new(cargo_deb);
    deb.args(["deb", "-p", "penates", "--no-build", "--fast", "--profile"]);
    deb.arg(if profile.ends_with("debug") { "dev" } else { "release" });
    deb.arg("--output").arg(folder);
    done(deb.env("CARGO_TARGET_DIR", profile.parent().unwrap()).current_dir(workspace()));
    file_with_suffix(folder, ".deb")
}

/// A root in which the package is installed.
pub struct Installed {
    folder: tempfile::TempDir,
    /// The package.
    pub package: PathBuf,
}

impl Installed {
    /// Makes and installs the package; `None` if this process may not change owners of files.
    pub fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            store_cassandra::testing::not_run("the Debian package: only root can install it");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Others go through it to the program.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let package = make(folder.path());
        let installed = Self { folder, package };
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
#[ignore = "it builds cargo-deb: `cargo xtask proofs` runs it"]
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
