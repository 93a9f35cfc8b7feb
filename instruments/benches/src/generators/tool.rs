//! The generators, and their command lines.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;

use super::said::{self, Said};

/// A generator with the kind of its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// The testbed's generator, in an open loop
    PenatesOpen,
    /// k6, in an open loop
    K6Open,
    /// The testbed's generator, in a closed loop
    PenatesClosed,
    /// k6, in a closed loop
    K6Closed,
    /// wrk, which knows closed loops only
    Wrk,
    /// hey, in a closed loop
    Hey,
}

/// A load to be made.
#[derive(Clone, Debug)]
pub struct Load {
    /// The address of the server.
    pub url: String,
    /// Connections of a closed loop.
    pub connections: u32,
    /// Requests per second of an open loop.
    pub rate: u32,
    /// How long it lasts, in seconds.
    pub seconds: u32,
    /// A folder for files of generators.
    pub folder: PathBuf,
    /// The program `penates`.
    pub penates: PathBuf,
}

impl fmt::Display for Tool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::PenatesOpen | Self::PenatesClosed => "Penates",
            Self::K6Open | Self::K6Closed => "k6",
            Self::Wrk => "wrk",
            Self::Hey => "hey",
        })
    }
}

impl Tool {
    /// Whether its requests are due at fixed times, whatever the server does.
    pub fn is_open(self) -> bool {
        matches!(self, Self::PenatesOpen | Self::K6Open)
    }

    fn program(self, penates: &Path) -> &Path {
        match self {
            Self::PenatesOpen | Self::PenatesClosed => penates,
            Self::K6Open | Self::K6Closed => Path::new("k6"),
            Self::Wrk => Path::new("wrk"),
            Self::Hey => Path::new("hey"),
        }
    }

    /// What it says about its version, if it says anything.
    ///
    /// # Errors
    /// It is not installed.
    pub fn version(self, penates: &Path) -> Result<Option<String>> {
        let (asked, how_to_get) = match self {
            Self::PenatesOpen | Self::PenatesClosed => ("--version", "cargo build --release -p penates"),
            Self::K6Open | Self::K6Closed => ("version", "https://grafana.com/docs/k6/latest/set-up/install-k6/"),
            Self::Wrk => ("-v", "Debian: wrk"),
            // It has no such option, and prints how it is used.
            Self::Hey => ("-h", "Debian: hey"),
        };
        let output = match Command::new(self.program(penates)).arg(asked).output() {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => bail!("{self} is not installed ({how_to_get})"),
            Err(error) => return Err(error).with_context(|| format!("{self} cannot be started")),
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let first = said.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty());
        Ok(first.filter(|_| self != Self::Hey))
    }

    /// The words of its command line.
    ///
    /// # Errors
    /// A file for it cannot be written.
    pub fn words(self, load: &Load) -> Result<Vec<String>> {
        let Load { url, connections, rate, seconds, folder, penates } = load;
        let program = self.program(penates).to_string_lossy().into_owned();
        let file = |name: &str, text: &str| -> Result<String> {
            let path = folder.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            Ok(path.to_string_lossy().into_owned())
        };
        let (connections, duration) = (connections.to_string(), format!("{seconds}s"));
        let words = match self {
            Self::PenatesOpen | Self::PenatesClosed => {
                let load = match self.is_open() {
                    true => format!("shape = \"constant\", rate = {rate}"),
                    false => format!("shape = \"closed\", users_per_worker = {connections}"),
                };
                let plan = format!(
                    "name = \"generators\"\nworkers = 1\nscenarios = [{{ scenario = \"get\" }}]\n\
                     load = {{ {load}, duration = \"{duration}\" }}\nconnections = {{ keep = \"worker\" }}\n"
                );
                let (plan, runs) = (file("plan.toml", &plan)?, folder.join("runs").to_string_lossy().into_owned());
                let made = ["testbed", "run", &plan, "--url", url, "--archive", &runs];
                [&made[..], &["--untraceable", "--busy", "--json"]].concat().into_iter().map(str::to_owned).collect()
            }
            Self::K6Open | Self::K6Closed => {
                let load = match self.is_open() {
                    true => format!(
                        "executor: 'constant-arrival-rate', rate: {rate}, timeUnit: '1s', \
                         preAllocatedVUs: {connections}, maxVUs: 20000"
                    ),
                    false => format!("executor: 'constant-vus', vus: {connections}"),
                };
                let script = format!(
                    "import http from 'k6/http';\nexport const options = {{ discardResponseBodies: true, \
                     scenarios: {{ load: {{ {load}, duration: '{duration}' }} }} }};\n\
                     export default function () {{ http.get('{url}'); }}\n"
                );
                let (script, summary) = (file("load.js", &script)?, summary_of_k6(folder));
                let summary = summary.to_string_lossy();
                let words = ["run", "--quiet", "--no-usage-report", "--summary-export", &summary, &script];
                words.map(str::to_owned).to_vec()
            }
            Self::Wrk => ["-t1", "-c", &connections, "-d", &duration, url].map(str::to_owned).to_vec(),
            Self::Hey => ["-c", &connections, "-z", &duration, url].map(str::to_owned).to_vec(),
        };
        Ok(std::iter::once(program).chain(words).collect())
    }

    /// Reads its results: what it printed, or what it wrote.
    ///
    /// # Errors
    /// They make no sense.
    pub fn said(self, load: &Load, printed: &str) -> Result<Said> {
        match self {
            Self::PenatesOpen | Self::PenatesClosed => said::by_penates(printed),
            Self::K6Open | Self::K6Closed => {
                let summary = fs::read(summary_of_k6(&load.folder)).context("k6 has written no summary")?;
                said::by_k6(&serde_json::from_slice(&summary)?)
            }
            Self::Wrk => said::by_wrk(printed),
            Self::Hey => said::by_hey(printed),
        }
    }

    /// Whether it ends well with this code. That of Penates is its verdict about the server, which its row
    /// shows: the figures of a void run mean nothing.
    pub fn has_ended_well(self, code: Option<i32>) -> bool {
        match self {
            Self::PenatesOpen | Self::PenatesClosed => matches!(code, Some(0 | 1 | 4)),
            _ => code == Some(0),
        }
    }
}

/// Where k6 writes its results.
fn summary_of_k6(folder: &Path) -> PathBuf {
    folder.join("k6-summary.json")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use testbed::plan::Plan;

    use super::*;

    #[test]
    fn each_generator_gets_the_load_in_its_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let load = Load {
            url: "http://127.0.0.1:8090/".to_owned(),
            connections: 7,
            rate: 300,
            seconds: 5,
            folder: folder.path().to_owned(),
            penates: PathBuf::from("/opt/penates"),
        };
        let words = |tool: Tool| tool.words(&load).unwrap().join(" ");
        assert_eq!(words(Tool::Wrk), "wrk -t1 -c 7 -d 5s http://127.0.0.1:8090/");
        assert_eq!(words(Tool::Hey), "hey -c 7 -z 5s http://127.0.0.1:8090/");
        let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        for (tool, wanted) in [(Tool::K6Open, "rate: 300, timeUnit: '1s'"), (Tool::K6Closed, "vus: 7")] {
            assert!(words(tool).starts_with("k6 run ") && words(tool).ends_with("load.js"), "{}", words(tool));
            assert!(text("load.js").contains(wanted) && text("load.js").contains("duration: '5s'"), "{wanted}");
        }
        for (tool, wanted) in [(Tool::PenatesOpen, 300.0), (Tool::PenatesClosed, 7.0)] {
            assert!(words(tool).starts_with("/opt/penates testbed run "), "{}", words(tool));
            let shape = Plan::parse(&text("plan.toml")).unwrap().load;
            assert_eq!(shape.mean_rate(1).unwrap_or(shape.closed_users(1) as f64), wanted);
        }
    }

    #[test]
    fn a_generator_that_is_not_installed_says_how_it_can_be_had() {
        let error = Tool::PenatesOpen.version(Path::new("/no/such/penates")).unwrap_err().to_string();
        assert_eq!(error, "Penates is not installed (cargo build --release -p penates)");
    }
}
