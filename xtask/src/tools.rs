//! The programs that tests use: ZIP readers, a browser, a client, a server to compare with.

use std::process::{Command, Stdio};

/// A program that some tests need.
pub struct Tool {
    /// Its name on the command line.
    pub program: &'static str,
    /// How to find out whether it is installed.
    probe: Probe,
    /// Its Debian package.
    package: &'static str,
    /// The tests that need it.
    pub tests: &'static str,
}

/// How to find out whether a program is installed.
enum Probe {
    /// It runs with these arguments.
    Runs(&'static [&'static str]),
    /// A Java is installed that Cassandra runs on.
    CassandrasJava,
}

/// All of them.
pub const TOOLS: [Tool; 21] = [
    Tool { program: "curl", probe: Probe::Runs(&["--version"]), package: "curl", tests: "the documented examples" },
    Tool { program: "unzip", probe: Probe::Runs(&["-v"]), package: "unzip", tests: "archives open in Info-ZIP" },
    Tool { program: "7z", probe: Probe::Runs(&["i"]), package: "p7zip-full", tests: "archives open in 7-Zip" },
    Tool {
        program: "bsdtar",
        probe: Probe::Runs(&["--version"]),
        package: "libarchive-tools",
        tests: "archives open in libarchive",
    },
    Tool {
        program: "python3",
        probe: Probe::Runs(&["--version"]),
        package: "python3",
        tests: "archives open in Python's zipfile",
    },
    Tool {
        program: "python3",
        probe: Probe::Runs(&["-m", "ensurepip", "--version"]),
        package: "python3-venv",
        tests: "libraries of RDF and Redis as clients",
    },
    Tool {
        program: "java",
        probe: Probe::Runs(&["-version"]),
        package: "default-jdk-headless",
        tests: "archives open in both of Java's readers",
    },
    Tool { program: "Rscript", probe: Probe::Runs(&["--version"]), package: "r-base-core", tests: "the guide for R" },
    Tool {
        program: "javac",
        probe: Probe::Runs(&["-version"]),
        package: "default-jdk-headless",
        tests: "the W3C LDP test suite",
    },
    Tool {
        program: "nginx",
        probe: Probe::Runs(&["-v"]),
        package: "nginx-light",
        tests: "servers behind nginx, benchmarks beside it, nginx as a candidate of the testbed",
    },
    Tool {
        program: "Java 17",
        probe: Probe::CassandrasJava,
        package: "openjdk-17-jdk-headless",
        tests: "Cassandra nodes",
    },
    Tool {
        program: "mvn",
        probe: Probe::Runs(&["--version"]),
        package: "maven",
        tests: "Cassandra nodes, the W3C LDP test suite, clients of Fedora, RDF and Redis in Java",
    },
    Tool {
        program: "npm",
        probe: Probe::Runs(&["--version"]),
        package: "npm",
        tests: "ioredis as a client of records, solid-client as one of the repository",
    },
    Tool {
        program: "redis-server",
        probe: Probe::Runs(&["--version"]),
        package: "redis-server",
        tests: "records as in Redis, redis-cli and redis-benchmark as clients, Redis as a candidate of the testbed",
    },
    Tool {
        program: "promtool",
        probe: Probe::Runs(&["--version"]),
        package: "prometheus",
        tests: "metrics, alerts and the expressions of the dashboard, by Prometheus's own checks",
    },
    Tool {
        program: "systemd-analyze",
        probe: Probe::Runs(&["--version"]),
        package: "systemd",
        tests: "the units of the package and of the operations guide",
    },
    Tool {
        program: "iostat",
        probe: Probe::Runs(&["-V"]),
        package: "sysstat",
        tests: "figures of the disk, beside those of iostat",
    },
    Tool {
        program: "fincore",
        probe: Probe::Runs(&["--version"]),
        // Where the distribution has no such package, `util-linux` has it, which is always there.
        package: "util-linux-extra",
        tests: "what is in the page cache when a load of the lab begins",
    },
    Tool {
        program: "chromium",
        probe: Probe::Runs(&["--version"]),
        package: "chromium",
        tests: "the page for people in a real browser",
    },
    Tool { program: "podman", probe: Probe::Runs(&["--version"]), package: "podman", tests: "the container" },
    Tool {
        program: "runc",
        probe: Probe::Runs(&["--version"]),
        package: "runc",
        tests: "the container, where control groups of both versions are in use",
    },
];

/// Those that only proofs need.
const OF_PROOFS: [Tool; 5] = [
    Tool {
        program: "go",
        probe: Probe::Runs(&["version"]),
        package: "golang-go",
        tests: "go-redis as a client of records",
    },
    Tool { program: "man", probe: Probe::Runs(&["--version"]), package: "man-db", tests: "manuals of the package" },
    Tool { program: "lintian", probe: Probe::Runs(&["--version"]), package: "lintian", tests: "the Debian package" },
    Tool {
        program: "mmdebstrap",
        probe: Probe::Runs(&["--version"]),
        package: "mmdebstrap",
        tests: "the Debian package in a Debian of its own",
    },
    Tool {
        program: "pg_isready",
        probe: Probe::Runs(&["--version"]),
        package: "postgresql",
        tests: "Fedora with PostgreSQL as a candidate of the testbed",
    },
];

impl Tool {
    /// Whether it is installed.
    pub fn is_there(&self) -> bool {
        match self.probe {
            Probe::Runs(arguments) => runs(self.program, arguments),
            Probe::CassandrasJava => cluster::Java::find().is_ok(),
        }
    }
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut probe = Command::new(program);
    probe.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

/// Finds the tools, installs missing ones if the system's package manager permits, and returns what
/// is still missing.
pub fn provide() -> Vec<&'static Tool> {
    provide_these(&TOOLS)
}

/// The same for proofs.
pub fn provide_for_proofs() {
    provide_these(&TOOLS);
    provide_these(&OF_PROOFS);
}

fn provide_these(tools: &'static [Tool]) -> Vec<&'static Tool> {
    let missing = || tools.iter().filter(|tool| !tool.is_there()).collect::<Vec<_>>();
    let wanted = missing();
    if wanted.is_empty() {
        return wanted;
    }
    let packages: Vec<_> = wanted.iter().map(|tool| tool.package).collect();
    eprintln!("missing for the tests: {}; trying to install {}", names(&wanted), packages.join(" "));
    if !install(&packages) {
        eprintln!("could not install them; by hand: apt-get install {}", packages.join(" "));
    }
    missing()
}

fn names(tools: &[&Tool]) -> String {
    tools.iter().map(|tool| tool.program).collect::<Vec<_>>().join(", ")
}

/// Installs Debian packages, as root or if `sudo` requires no password.
fn install(packages: &[&str]) -> bool {
    let apt_get = |arguments: &[&str]| {
        let direct = Command::new("apt-get")
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdout(Stdio::null())
            .status();
        direct.is_ok_and(|status| status.success())
            || Command::new("sudo")
                .args(["-n", "apt-get"])
                .args(arguments)
                .stdout(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
    };
    // One by one, so that a package that the distribution lacks does not affect the others.
    let install_one = |package: &&str| apt_get(&["install", "-y", "-qq", "--no-install-recommends", package]);
    apt_get(&["update", "-qq"]) && packages.iter().map(install_one).fold(true, |all, installed| all & installed)
}
