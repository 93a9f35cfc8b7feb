//! The commands of a candidate.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, ChildStdin, Command};

use super::{CandidateError, CandidateSpec};

/// The variables that commands of candidates inherit: settings of the person that measures do not
/// reach what is measured.
pub const INHERITED: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TMPDIR", "JAVA_HOME"];

/// Names the file of the program `penates`, where it is neither beside this program nor in `PATH`.
pub const PENATES_VARIABLE: &str = "PENATES_PROGRAM";

/// Further folders of programs.
const SERVER_FOLDERS: &str = ":/usr/local/sbin:/usr/sbin:/sbin";
/// The most bytes of a program's output.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// The places that every candidate has.
pub const PLACES: [&str; 8] = ["data", "folder", "self", "penates", "port", "port2", "port3", "port4"];

/// What commands are filled with.
#[derive(Clone, Debug)]
pub struct Places {
    /// An empty folder.
    pub data: PathBuf,
    /// The candidate's own folder.
    pub folder: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// Free ports on loopback.
    pub ports: [u16; 4],
    /// Folders that the user names, by the names of their places.
    pub folders: BTreeMap<String, PathBuf>,
}

impl Places {
    /// A text with the values of its places.
    pub fn fill(&self, text: &str) -> String {
        let of_every = [
            self.data.to_string_lossy().into_owned(),
            self.folder.to_string_lossy().into_owned(),
            self.program.to_string_lossy().into_owned(),
            penates(&self.program).to_string_lossy().into_owned(),
        ];
        let of_every = of_every.into_iter().chain(self.ports.map(|port| port.to_string()));
        let named = self.folders.iter().map(|(name, folder)| (name.as_str(), folder.to_string_lossy().into_owned()));
        let places = PLACES.into_iter().zip(of_every).chain(named);
        places.fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${{{name}}}"), &value))
    }

    /// The words that give a candidate a setting, or ask for it.
    pub fn setting(&self, words: &[String], name: &str, value: &str) -> Vec<String> {
        // What a value says is no place.
        let fill = |word: &String| self.fill(word).replace("${name}", name).replace("${value}", value);
        words.iter().map(fill).collect()
    }

    /// The words of a command.
    pub fn words(&self, words: &[String]) -> Vec<String> {
        words.iter().map(|word| self.fill(word)).collect()
    }
}

/// Where programs are looked for: servers are often in folders that only the superuser has in `PATH`.
fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(SERVER_FOLDERS);
    path
}

/// The programs of a list that are not installed.
pub fn missing(programs: &[String]) -> Vec<String> {
    programs.iter().filter(|program| find(program).is_none()).cloned().collect()
}

/// The file of a program.
pub fn find(program: &str) -> Option<PathBuf> {
    cluster::program_in(&search_path(), program)
}

/// The program `penates`: the one that [`PENATES_VARIABLE`] names, the one beside `itself`, or the installed one. Its
/// bare name if there is none, so that starting it says what is missing.
pub fn penates(itself: &Path) -> PathBuf {
    const NAME: &str = "penates";
    let named = std::env::var_os(PENATES_VARIABLE).map(PathBuf::from);
    let beside = || Some(itself.with_file_name(NAME)).filter(|file| file.is_absolute() && file.is_file());
    named.or_else(beside).or_else(|| find(NAME)).unwrap_or_else(|| NAME.into())
}

/// What keeps the processes of a group running: they are killed when it is dropped, and when this process
/// ends, however that ends.
pub type Lifeline = ChildStdin;

/// A command of a candidate.
fn command(spec: &CandidateSpec, words: &[String]) -> Command {
    let (program, arguments) = split(words);
    let mut command = Command::new(program);
    command.args(arguments);
    with_environment(spec, command)
}

/// A command of a candidate in a process group of its own, for [`start`]: nothing of the group outlives this
/// process.
///
/// # Errors
/// The program is missing.
pub fn guarded(spec: &CandidateSpec, words: &[String]) -> io::Result<Command> {
    let (program, arguments) = split(words);
    if find(program).is_none() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no program `{program}`")));
    }
    Ok(with_environment(spec, cluster::guarded(program.as_ref(), arguments).into()))
}

/// Starts a guarded command. Both its outputs go to a file.
///
/// # Errors
/// It cannot be started.
pub async fn start(mut command: Command, out: File) -> io::Result<(Child, Lifeline)> {
    let mut process = command.stdout(out).kill_on_drop(true).spawn()?;
    let missing = |what: &str| io::Error::other(format!("the process has no standard {what}"));
    let lifeline = process.stdin.take().ok_or_else(|| missing("input"))?;
    let mut unwatched = process.stderr.take().ok_or_else(|| missing("error"))?;
    tokio::io::copy(&mut unwatched, &mut tokio::io::sink()).await?;
    Ok((process, lifeline))
}

/// The program and its arguments.
fn split(words: &[String]) -> (&str, &[String]) {
    words.split_first().map_or(("", [].as_slice()), |(first, rest)| (first.as_str(), rest))
}

/// A command with the variables that a candidate has.
fn with_environment(spec: &CandidateSpec, mut command: Command) -> Command {
    command.env_clear();
    command.envs(INHERITED.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.env("PATH", search_path()).envs(&spec.environment);
    command
}

/// A command has failed.
pub fn command_error(name: &str, words: &[String], message: &str) -> CandidateError {
    let (name, command, message) = (name.to_owned(), words.join(" "), message.trim().to_owned());
    CandidateError::Command { name, command, message }
}

/// The output of a command that must succeed.
pub async fn output(spec: &CandidateSpec, words: &[String]) -> Result<String, CandidateError> {
    let done = command(spec, words).stdin(Stdio::null()).kill_on_drop(true).output().await;
    let done = done.map_err(|error| command_error(&spec.name, words, &error.to_string()))?;
    if !done.status.success() {
        return Err(command_error(&spec.name, words, &String::from_utf8_lossy(&done.stderr)));
    }
    let len = done.stdout.len().min(OUTPUT_BYTES_MAX);
    Ok(String::from_utf8_lossy(&done.stdout[..len]).trim().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn places_are_filled_and_other_texts_stay() {
        let places = Places {
            data: "/data".into(),
            folder: "/folder".into(),
            program: "/bin/program".into(),
            ports: [1_000, 2_000, 3_000, 4_000],
            folders: [("jars".to_owned(), "/jars".into())].into(),
        };
        let filled = places.fill("${self} -d ${data} -f ${folder} ${port} ${port4} ${jars}/a.jar ${source:Package}");
        assert_eq!(filled, "/bin/program -d /data -f /folder 1000 4000 /jars/a.jar ${source:Package}");
    }

    #[test]
    fn programs_that_are_not_installed_are_named() {
        let programs = ["sh", "no-such-program"].map(str::to_owned);
        assert_eq!(missing(&programs), ["no-such-program"]);
    }
}
