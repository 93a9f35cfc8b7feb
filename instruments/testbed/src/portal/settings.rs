//! What two runs must have in common to be repetitions of each other.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::beside::Beside;
use crate::record::{CandidateRecord, Machine, Program, RunRecord, WorkerRecord};

/// Names and values, in the order in which they are shown.
pub(super) type Settings = Vec<(String, String)>;

/// What a run was made with.
///
/// Ports and the temporary folder that the testbed has chosen differ from run to run and mean nothing, so
/// they are left out of the command line, the configuration and the facts; so are the network of a
/// cluster's nodes and a certificate that the candidate makes for each run.
pub(super) fn settings(record: &RunRecord, plan_toml: &str) -> Settings {
    let candidate = &record.candidate;
    let chosen = Chosen::new(candidate);
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
    all.extend(facts.into_iter().map(|(name, fact)| (format!("fact: {name}"), chosen.masked(&fact))));
    all.push(("preparation".to_owned(), record.preparation.clone()));
    all.extend(made_beside(&record.beside));
    all.push(("workers".to_owned(), record.workers.len().to_string()));
    all.extend(program("testbed", &record.testbed));
    all.extend(other_programs(&record.testbed, &record.workers));
    for (number, machine) in record.machines.iter().enumerate() {
        all.extend(machine_settings(number + 1, machine));
    }
    all
}

fn named(settings: &[(&str, &str)]) -> Settings {
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// What was made beside the load: with less of it, two runs with one plan are no repetitions.
fn made_beside(beside: &Beside) -> Settings {
    let fill = beside.fill.iter().map(|fill| ("fill", format!("{} units of {}", fill.units, fill.scenario)));
    let replay = beside.replay.iter().map(|replay| {
        let cut = if replay.is_cut { ", and the log goes on" } else { "" };
        ("replay", format!("{} requests of {} lines{cut}", replay.requests, replay.lines))
    });
    fill.chain(replay).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn program(who: &str, program: &Program) -> Settings {
    let dirty = if program.is_dirty == Some(true) { ", with changed files" } else { "" };
    let commit = program.commit.as_deref().map_or("not known".to_owned(), |commit| format!("{commit}{dirty}"));
    let sha256 = program.sha256.as_deref().unwrap_or("not known");
    let of = |what: &str, value: &str| (format!("{who}: {what}"), value.to_owned());
    let mut all = vec![of("name", &program.name), of("version", &program.version)];
    all.extend(program.tag.as_ref().map(|tag| of("tag", tag)));
    all.extend([of("commit", &commit), of("SHA-256 of the program", sha256)]);
    all
}

/// The programs of workers that are not that of the testbed: they may make another load.
fn other_programs(testbed: &Program, workers: &[WorkerRecord]) -> Settings {
    let others = workers.iter().filter(|worker| worker.program != *testbed);
    others.flat_map(|worker| program(&format!("worker {}", worker.number), &worker.program)).collect()
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
        ("container", machine.is_container.map_or("not known", |it| if it { "yes" } else { "no" }).to_owned()),
    ]
    .map(|(what, value)| (format!("machine {number}: {what}"), value))
    .to_vec()
}

/// The configuration of a candidate, without what the testbed has chosen for this run only.
pub(super) fn configuration(candidate: &CandidateRecord) -> Option<String> {
    Some(Chosen::new(candidate).masked(candidate.configuration.as_ref()?))
}

/// Free ports that the kernel gives have five digits nearly everywhere.
const PORT_MIN: u16 = 10_000;

/// What the testbed, or the candidate itself, has chosen for this run only: patterns, and what is put in
/// the place of what they find.
struct Chosen(Vec<(Regex, &'static str)>);

impl Chosen {
    fn new(candidate: &CandidateRecord) -> Self {
        let ports: Vec<_> = ports(candidate).iter().map(u16::to_string).collect();
        // Without ports this would find every empty text.
        let of_ports = (!ports.is_empty()).then(|| (format!(r"\b(?:{})\b", ports.join("|")), "$${port}"));
        let others = [
            // The names that the crate tempfile gives.
            (r"/[^\s\x22']*/\.tmp[A-Za-z0-9]{6}\b", "$${folder}"),
            // Ports behind addresses of loopback: those of metrics, for example.
            (r"\b(127\.0\.0\.1|localhost):\d{4,5}\b", "$1:$${port}"),
            // The network of a cluster's nodes is the first that is free.
            (r"\b127\.0\.[1-9]\d{0,2}\.", "127.0.$${network}."),
            // A certificate that the candidate has made itself.
            (r"(\$\{data\}\S*) \(SHA-256 [0-9a-f]{64}\)", "$1"),
        ];
        let others = others.map(|(pattern, instead)| (pattern.to_owned(), instead));
        let compiled = |(pattern, instead): (String, &'static str)| Some((Regex::new(&pattern).ok()?, instead));
        Self(others.into_iter().chain(of_ports).filter_map(compiled).collect())
    }

    fn masked(&self, text: &str) -> String {
        let one = |text: String, (pattern, instead): &(Regex, &str)| pattern.replace_all(&text, *instead).into_owned();
        self.0.iter().fold(text.to_owned(), one)
    }
}

/// The ports that the run was given: those of its addresses, and the numbers of its command line that are
/// words of their own, as scripts take them, and not values of options.
fn ports(candidate: &CandidateRecord) -> BTreeSet<u16> {
    let further = candidate.facts.iter().filter(|(name, _)| name == "further address").map(|(_, url)| url);
    let addresses = std::iter::once(&candidate.url).chain(further);
    let of_addresses = addresses.filter_map(|url| url.parse::<http::Uri>().ok()?.port_u16());
    let pairs = candidate.command.as_deref().unwrap_or_default().windows(2);
    let of_words = pairs.filter(|pair| !pair[0].starts_with('-')).filter_map(|pair| pair[1].parse::<u16>().ok());
    of_addresses.chain(of_words.filter(|port| *port >= PORT_MIN)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beside::FillRecord;

    fn candidate(url: &str, command: &str) -> CandidateRecord {
        let command = Some(command.split(' ').map(str::to_owned).collect());
        CandidateRecord { url: url.to_owned(), command, ..CandidateRecord::default() }
    }

    fn masked(url: &str, command: &str) -> String {
        Chosen::new(&candidate(url, command)).masked(command)
    }

    #[test]
    fn what_the_testbed_has_chosen_is_no_difference() {
        let first = masked("http://127.0.0.1:41234/", "serve --data /tmp/.tmpAb12Cd/data --listen :41234");
        let second = masked("http://127.0.0.1:5000", "serve --data /var/.tmpXXXXXX/data --listen :5000");
        assert_eq!(first, "serve --data ${folder}/data --listen :${port}");
        assert_eq!(first, second);
        let metrics = masked("redis://127.0.0.1:5000", "-p 5000 --listen 127.0.0.1:41235");
        assert_eq!(metrics, "-p ${port} --listen 127.0.0.1:${port}");
    }

    #[test]
    fn further_ports_networks_and_a_certificate_of_the_run_are_no_difference() {
        // As the candidates `fedora-postgresql` and `penates-cassandra-2-servers` run.
        let run = |ports: [u16; 4], network: u8| {
            let [http, jms, stomp, sql] = ports;
            let url = format!("http://127.0.0.1:{http}");
            let command = format!("sh start.sh /jars {http} {jms} {stomp} {sql}");
            let facts = [("further address", format!("http://127.0.0.1:{sql}"))];
            let facts = facts.map(|(name, fact)| (name.to_owned(), fact)).to_vec();
            let configuration =
                format!("-Dfcrepo.dynamic.jms.port={jms} port|{sql}\nlisten_address: 127.0.{network}.2:9042\n");
            let configuration = Some(configuration);
            let candidate = CandidateRecord { configuration, facts, ..candidate(&url, &command) };
            (configuration_of(&candidate), Chosen::new(&candidate).masked(&candidate.facts[0].1))
        };
        let first = run([41_234, 41_235, 41_236, 41_237], 7);
        assert_eq!(first, run([51_234, 51_235, 51_236, 51_237], 120));
        let wanted = "-Dfcrepo.dynamic.jms.port=${port} port|${port}\nlisten_address: 127.0.${network}.2:9042\n";
        assert_eq!(first, (wanted.to_owned(), "http://127.0.0.1:${port}".to_owned()));

        let trusted = |digit: &str| format!("checked by ${{data}}/tls/cert.pem (SHA-256 {})", digit.repeat(64));
        let chosen = Chosen::new(&candidate("https://127.0.0.1:41234", ""));
        assert_eq!(chosen.masked(&trusted("a")), chosen.masked(&trusted("b")));
        let of_plan = format!("checked by ca.pem (SHA-256 {})", "a".repeat(64));
        assert_eq!(chosen.masked(&of_plan), of_plan, "this one was chosen by the user");
    }

    fn configuration_of(candidate: &CandidateRecord) -> String {
        configuration(candidate).unwrap_or_default()
    }

    #[test]
    fn runs_with_fills_of_different_lengths_are_no_repetitions() {
        let of = |units: u64| {
            let fill = FillRecord { scenario: "ingest".to_owned(), units, seconds: 3.0, ..FillRecord::default() };
            made_beside(&Beside { fill: Some(fill), ..Beside::default() })
        };
        assert_eq!(of(20), [("fill".to_owned(), "20 units of ingest".to_owned())]);
        assert_ne!(of(20), of(7));
        assert!(made_beside(&Beside::default()).is_empty());
    }

    #[test]
    fn runs_with_another_program_of_a_worker_or_in_a_container_are_no_repetitions() {
        let program = |commit: &str| Program { commit: Some(commit.to_owned()), ..Program::default() };
        let worker = |number, commit| WorkerRecord { number, program: program(commit), ..WorkerRecord::default() };
        let others = |commit| other_programs(&program("first"), &[worker(0, "first"), worker(1, commit)]);
        assert_eq!(others("first"), []);
        assert!(others("second").contains(&("worker 1: commit".to_owned(), "second".to_owned())));

        let machine = |is_container| machine_settings(1, &Machine { is_container, ..Machine::default() });
        assert_ne!(machine(Some(true)), machine(Some(false)));
        assert_ne!(machine(Some(true)), machine(None));
    }

    #[test]
    fn other_numbers_and_folders_stay() {
        let text = "--users 8080 --cache 41234 --data /srv/.tmp/data";
        assert_eq!(masked("http://127.0.0.1:80/", text), text);
        assert_eq!(masked("no address at all", text), text);
        assert_eq!(masked("", "sh start.sh 3 127.0.0.1"), "sh start.sh 3 127.0.0.1");
    }
}
