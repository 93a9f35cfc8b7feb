//! Makes the packages of the program, in `target/packages`: a tarball, a wheel of Python, the Debian
//! package, the image of a container, and their SHA-256 sums. One build is in all of them. Zig links it
//! as on a system with an older glibc, so it runs on that and on each later one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, root, run};

/// The oldest glibc that the program runs with: that of RHEL 8 and Debian 10.
const GLIBC: [u32; 2] = [2, 28];

/// What builds for it, as Python's registry names it.
const ZIG: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// The version of cargo-deb.
const CARGO_DEB: &str = "3.6.4";

const VERSION: &str = env!("CARGO_PKG_VERSION");
const ARCH: &str = std::env::consts::ARCH;

/// Makes them all.
pub fn make() -> Result<()> {
    let program = build()?;
    let folder = root().join("target/packages");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    run(Command::new(root().join("packaging/prepare")).arg(&program).current_dir(root()))?;
    tarball(&root().join("target/packaging"), &folder)?;
    wheel(&program, &folder)?;
    debian_package(&folder)?;
    image(&folder)?;
    for name in sums(&folder)? {
        println!("{:>10} bytes  target/packages/{name}", fs::metadata(folder.join(&name))?.len());
    }
    Ok(())
}

fn triple() -> String {
    format!("{ARCH}-unknown-linux-gnu")
}

/// Builds the program.
fn build() -> Result<PathBuf> {
    let [major, minor] = GLIBC;
    let mut path = zig()?.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut build = cargo();
    build.args(["zigbuild", "--release", "--locked", "--package", "penates", "--target-dir", "target", "--target"]);
    run(build.arg(format!("{}.{major}.{minor}", triple())).env("PATH", path))?;
    let program = root().join("target").join(triple()).join("release/penates");
    let symbols = output(Command::new("objdump").arg("-T").arg(&program))?;
    match newest_glibc(&symbols) {
        Some(newest) if newest <= GLIBC => Ok(program),
        newest => bail!("{} needs glibc {newest:?}, and may need at most {GLIBC:?}", program.display()),
    }
}

/// The folder of Python's programs that build for an older glibc. It is kept from run to run.
fn zig() -> Result<PathBuf> {
    let kept = root().join("target/tmp").join(ZIG.join("-").replace("==", "-"));
    let programs = kept.join("bin");
    if !kept.join("fetched").exists() {
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&kept))?;
        run(Command::new(programs.join("python3")).args(["-m", "pip", "install", "--quiet"]).args(ZIG))?;
        fs::write(kept.join("fetched"), "")?;
    }
    Ok(programs)
}

/// The newest version of glibc that symbols are of, as `objdump -T` prints them.
fn newest_glibc(symbols: &str) -> Option<[u32; 2]> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split(|sign: char| !sign.is_ascii_digit()).map(str::parse);
        Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
    });
    versions.max()
}

/// Packs what `packaging/prepare` made.
fn tarball(prepared: &Path, folder: &Path) -> Result<()> {
    let name = format!("penates-{VERSION}-{ARCH}-linux");
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--gzip").arg("--file").arg(folder.join(format!("{name}.tar.gz")));
    tar.args(["--owner=root:0", "--group=root:0", "--sort=name", "--mode=u=rwX,go=rX"]);
    tar.arg(format!("--transform=s,^,{name}/,"));
    tar.arg("--directory").arg(prepared).args(["penates", "man", "completions"]);
    run(tar.arg("--directory").arg(root()).arg("LICENSE"))
}

/// Packs the program for Python, whose installers put it beside Python's own programs.
fn wheel(program: &Path, folder: &Path) -> Result<()> {
    let [major, minor] = GLIBC;
    let mut pack = Command::new("python3");
    pack.arg(root().join("packaging/wheel/pack.py")).arg(program).arg(VERSION);
    run(pack.arg(format!("manylinux_{major}_{minor}_{ARCH}")).arg(folder))
}

/// Packs the program for Debian, with what `packaging/prepare` made.
fn debian_package(folder: &Path) -> Result<()> {
    let kept = root().join("target/tmp").join(format!("cargo-deb-{CARGO_DEB}"));
    let program = kept.join("bin/cargo-deb");
    if !program.exists() {
        let mut install = cargo();
        install.args(["install", "--locked", "--version", CARGO_DEB, "--root"]).arg(&kept);
        run(install.arg("--target-dir").arg(kept.join("target")).arg("cargo-deb"))?;
        fs::remove_dir_all(kept.join("target"))?;
    }
    let mut deb = Command::new(program);
    deb.args(["deb", "--package", "penates", "--no-build", "--target", &triple(), "--output"]).arg(folder);
    run(deb.env("CARGO_TARGET_DIR", root().join("target")).current_dir(root()))
}

/// Makes the image, for `podman load` and `docker load`. Nothing of it stays in podman's own storage.
fn image(folder: &Path) -> Result<()> {
    let storage = tempfile::tempdir()?;
    let podman = || {
        let mut podman = Command::new("podman");
        podman.arg("--root").arg(storage.path().join("root")).arg("--runroot").arg(storage.path().join("run"));
        podman.arg("--storage-driver=vfs");
        podman
    };
    let image = folder.join(format!("penates-{VERSION}-{ARCH}-image.tar"));
    let containerfile = root().join("packaging/container/Containerfile");
    let build = ["build", "--quiet", "--network=none", "--tag=penates", "--file"];
    run(podman().args(build).arg(containerfile).arg(root().join("target/packaging")))?;
    run(podman().args(["save", "--quiet", "--output"]).arg(&image).arg("penates"))?;
    // Files in it may belong to users who are not this one.
    run(podman().args(["rmi", "--force", "--all"]))?;
    run(Command::new("gzip").arg("--no-name").arg(&image))
}

/// Writes the sums of a folder's files beside them; the names of these.
fn sums(folder: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<_>>>()?;
    names.sort();
    let sums = output(Command::new("sha256sum").args(&names).current_dir(folder))?;
    fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(names)
}

/// What a command prints.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// What the program prints that is packed here.
    const PRINTED: &str = "a small program\n";

    /// A folder as `packaging/prepare` makes it, of a small program.
    fn prepared() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("penates");
        fs::write(&program, format!("#!/bin/sh\nprintf '{PRINTED}'\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        for (path, name) in [("man", "penates.1"), ("completions", "_penates")] {
            fs::create_dir(folder.path().join(path)).unwrap();
            fs::write(folder.path().join(path).join(name), name).unwrap();
        }
        folder
    }

    #[test]
    fn the_tarball_has_program_manuals_and_completions_for_everybody() {
        let folder = tempfile::tempdir().unwrap();
        tarball(prepared().path(), folder.path()).unwrap();
        let name = format!("penates-{VERSION}-{ARCH}-linux");
        let listed = output(Command::new("tar").arg("-tvf").arg(folder.path().join(format!("{name}.tar.gz")))).unwrap();
        let entries: Vec<_> = listed
            .lines()
            .map(|line| {
                let words: Vec<_> = line.split_whitespace().collect();
                [words[0], words[1], words[5].strip_prefix(&*name).unwrap()]
            })
            .collect();
        let expected = [
            ["-rwxr-xr-x", "root/root", "/penates"],
            ["drwxr-xr-x", "root/root", "/man/"],
            ["-rw-r--r--", "root/root", "/man/penates.1"],
            ["drwxr-xr-x", "root/root", "/completions/"],
            ["-rw-r--r--", "root/root", "/completions/_penates"],
            ["-rw-r--r--", "root/root", "/LICENSE"],
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn pip_installs_the_wheel_without_a_network_and_the_program_is_a_command() {
        let folder = tempfile::tempdir().unwrap();
        wheel(&prepared().path().join("penates"), folder.path()).unwrap();
        let name = format!("penates_server-{VERSION}-py3-none-manylinux_2_28_{ARCH}.whl");
        assert!(folder.path().join(name).exists());
        let environment = folder.path().join("environment");
        run(Command::new("python3").args(["-m", "venv"]).arg(&environment)).unwrap();
        let python = || Command::new(environment.join("bin/python3"));
        let from = ["-m", "pip", "install", "--quiet", "--no-index", "--find-links"];
        run(python().args(from).arg(folder.path()).arg("penates-server")).unwrap();
        assert_eq!(output(&mut Command::new(environment.join("bin/penates"))).unwrap(), PRINTED);
        let shown = output(python().args(["-m", "pip", "show", "--files", "penates-server"])).unwrap();
        assert!(shown.contains(&format!("\nVersion: {VERSION}\n")) && shown.contains("/bin/penates\n"), "{shown}");
    }

    #[test]
    fn the_sums_are_those_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["two", "one"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        assert_eq!(sums(folder.path()).unwrap(), ["one", "two"]);
        let check = || output(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(folder.path()));
        assert_eq!(check().unwrap(), "one: OK\ntwo: OK\n");
        fs::write(folder.path().join("one"), "another").unwrap();
        assert!(check().is_err());
    }

    #[test]
    fn the_newest_glibc_that_symbols_need_is_found() {
        let symbols = "0 DF *UND* 0 (GLIBC_2.2.5) read\n0 DF *UND* 0 (GLIBC_2.28) statx\n0 DF *UND* 0 (GLIBC_2.3) a\n";
        assert_eq!(newest_glibc(symbols), Some([2, 28]));
        assert_eq!(newest_glibc("0 DF .text 0 Base main\n"), None);
    }
}
