//! What two runs must have in common to be repetitions of each other.

use std::collections::BTreeMap;

use regex::Regex;

use crate::record::{Machine, Program, RunRecord};

/// Names and values, in the order in which they are shown.
pub(super) type Settings = Vec<(String, String)>;

/// What a run was made with.
///
/// The port and the temporary folder that the testbed has chosen differ from run to run and mean
/// nothing, so they are left out of the command line and the configuration.
pub(super) fn settings(record: &RunRecord, plan_toml: &str) -> Settings {
    let candidate = &record.candidate;
    let chosen = Chosen::new(&candidate.url);
    let known = |fact: Option<&String>| fact.cloned().unwrap_or_else(|| "not known".to_owned());
    let mut all = named(&[("plan", plan_toml), ("seed", &record.seed.to_string())]);
    // A plan has a digest too, which says nothing that its text does not.
    let files = record.inputs.iter().filter(|input| input.name != "plan");
    all.extend(files.map(|input| (input.name.clone(), input.sha256.clone())));
    all.extend(program("candidate", &candidate.program));
    all.extend(named(&[
        ("command line", &chosen.masked(&candidate.command.as_ref().map_or("not known".to_owned(), |it| it.join(" ")))),
        ("configuration", &chosen.masked(&known(candidate.configuration.as_ref()))),
    ]));
    let facts: BTreeMap<_, _> = candidate.facts.iter().cloned().collect();
    all.extend(facts.into_iter().map(|(name, fact)| (format!("fact: {name}"), fact)));
    all.push(("preparation".to_owned(), record.preparation.clone()));
    all.push(("workers".to_owned(), record.workers.len().to_string()));
    all.extend(program("testbed", &record.testbed));
    for (number, machine) in record.machines.iter().enumerate() {
        all.extend(machine_settings(number + 1, machine));
    }
    all
}

fn named(settings: &[(&str, &str)]) -> Settings {
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn program(who: &str, program: &Program) -> Settings {
    let dirty = if program.is_dirty == Some(true) { ", with changed files" } else { "" };
    let commit = program.commit.as_deref().map_or("not known".to_owned(), |commit| format!("{commit}{dirty}"));
    let sha256 = program.sha256.as_deref().unwrap_or("not known");
    let of = |what: &str, value: &str| (format!("{who}: {what}"), value.to_owned());
    vec![
        of("name", &program.name),
        of("version", &program.version),
        of("commit", &commit),
        of("SHA-256 of the program", sha256),
    ]
}

fn machine_settings(number: usize, machine: &Machine) -> Settings {
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| "not known".to_owned());
    let limits: Vec<_> = machine.limits.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    [
        ("name", machine.name.clone()),
        ("what ran there", machine.roles.join(", ")),
        ("processor", known(&machine.processor)),
        ("processors", machine.processors.to_string()),
        ("bytes of memory", machine.memory_bytes.map_or("not known".to_owned(), |bytes| bytes.to_string())),
        ("disk", known(&machine.disk)),
        ("kernel", known(&machine.kernel)),
        ("clock source", known(&machine.clock_source)),
        ("limits", limits.join("\n")),
    ]
    .map(|(what, value)| (format!("machine {number}: {what}"), value))
    .to_vec()
}

/// What the testbed has chosen for this run only.
struct Chosen {
    port: Option<String>,
    folder: Option<Regex>,
    /// Ports behind addresses of loopback: those of metrics, for example.
    loopback: Option<Regex>,
}

impl Chosen {
    fn new(url: &str) -> Self {
        let port = url.parse::<http::Uri>().ok().and_then(|uri| Some(uri.port()?.as_str().to_owned()));
        // The names that the crate tempfile gives.
        let folder = Regex::new(r"/[^\s\x22']*/\.tmp[A-Za-z0-9]{6}\b").ok();
        let loopback = Regex::new(r"\b(127\.0\.0\.1|localhost):\d{4,5}\b").ok();
        Self { port, folder, loopback }
    }

    fn masked(&self, text: &str) -> String {
        let without_folder = self.folder.as_ref().map(|folder| folder.replace_all(text, "$${folder}"));
        let text = without_folder.as_deref().unwrap_or(text);
        let port = self.port.as_ref().and_then(|port| Regex::new(&format!(r"\b{port}\b")).ok());
        let text = port.map_or(text.into(), |port| port.replace_all(text, "$${port}"));
        let loopback = self.loopback.as_ref().map(|loopback| loopback.replace_all(&text, "$1:$${port}"));
        loopback.unwrap_or(text.clone()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_testbed_has_chosen_is_no_difference() {
        let first = Chosen::new("http://127.0.0.1:41234/").masked("serve --data /tmp/.tmpAb12Cd/data --listen :41234");
        let second = Chosen::new("http://127.0.0.1:5000").masked("serve --data /var/.tmpXXXXXX/data --listen :5000");
        assert_eq!(first, "serve --data ${folder}/data --listen :${port}");
        assert_eq!(first, second);
        let metrics = Chosen::new("redis://127.0.0.1:5000").masked("-p 5000 --listen 127.0.0.1:41235");
        assert_eq!(metrics, "-p ${port} --listen 127.0.0.1:${port}");
    }

    #[test]
    fn other_numbers_and_folders_stay() {
        let chosen = Chosen::new("http://127.0.0.1:80/");
        let text = "--users 8080 --data /srv/.tmp/data";
        assert_eq!(chosen.masked(text), text);
        assert_eq!(Chosen::new("no address at all").masked(text), text);
    }
}
