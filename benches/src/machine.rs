//! The machine of a measurement, as far as it describes itself.

use std::fmt;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The facts that make figures comparable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub processor: Option<String>,
    /// Processors that this process may use.
    pub processors: usize,
    /// Memory as Linux reports it, such as `24512344 kB`.
    pub memory: Option<String>,
    /// Kernel.
    pub kernel: Option<String>,
    /// Load averages over 1, 5 and 15 minutes at the beginning.
    pub load_before: Option<String>,
    /// Version of the program.
    pub version: String,
    /// The compiler that is installed now. It built this program unless it was changed since.
    pub rustc: Option<String>,
    /// The commit that is checked out, with `-dirty` if files differ from it.
    pub commit: Option<String>,
    /// False: a debug build, whose figures mean nothing.
    pub optimized: bool,
}

impl Machine {
    /// Collects the facts.
    pub fn find() -> Self {
        Self {
            processor: field("/proc/cpuinfo", "model name"),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory: field("/proc/meminfo", "MemTotal"),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            load_before: first_line("/proc/loadavg").map(|line| line.split(' ').take(3).collect::<Vec<_>>().join(" ")),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            rustc: output("rustc", &["--version"]),
            commit: output("git", &["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]),
            optimized: !cfg!(debug_assertions),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
        writeln!(
            out,
            "{} x {}, memory {}, Linux {}; load before: {}",
            self.processors,
            known(&self.processor),
            known(&self.memory),
            known(&self.kernel),
            known(&self.load_before),
        )?;
        write!(
            out,
            "penates {}, commit {}, {}, {} build",
            self.version,
            known(&self.commit),
            known(&self.rustc),
            if self.optimized { "release" } else { "DEBUG (the figures mean nothing)" },
        )
    }
}

fn first_line(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.lines().next()?.to_owned())
}

/// The value of the first line `name: value` of a file.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name).map(|(_, v)| v.to_owned())
}

/// The output of a program; `None` if it is missing or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(program).args(arguments).current_dir(source).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
