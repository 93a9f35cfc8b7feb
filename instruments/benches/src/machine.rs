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
    /// Version of the Linux kernel.
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
        let machine = testbed::record::Machine::find(None);
        Self {
            processor: machine.processor,
            processors: machine.processors,
            memory: machine.memory_bytes.map(|bytes| format!("{} kB", bytes / 1024)),
            kernel: machine.kernel.map(|kernel| kernel.trim_start_matches("Linux ").to_owned()),
            load_before: load(),
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

fn load() -> Option<String> {
    let averages = std::fs::read_to_string("/proc/loadavg").ok()?;
    Some(averages.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

/// The output of a program; `None` if it is missing or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(program).args(arguments).current_dir(source).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
