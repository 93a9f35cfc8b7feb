//! The versions of a candidate: which one is expected, which one runs, and what the user says of a
//! server that the testbed has not started.

use regex::Regex;

use crate::record::CandidateRecord;

/// The versions of a candidate at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// The one that the command of the candidate prints, or that the user names: that of the program file.
    pub program: Option<String>,
    /// The one that the running server reports: `nginx/1.22.1`.
    pub served: Option<String>,
}

impl Versions {
    /// Whether these are of the version that is expected: a regular expression for a part of it, or its
    /// exact text. If both contradict each other, that of the running server counts. `name` is the
    /// candidate's.
    pub fn are(&self, expected: &str, name: &str) -> bool {
        let pattern = Regex::new(expected).ok();
        let is = |version: &String| version == expected || pattern.as_ref().is_some_and(|it| it.is_match(version));
        let program = self.program.as_ref().filter(|_| !self.contradict(name));
        program.into_iter().chain(&self.served).any(is)
    }

    /// Whether both are known and contradict each other. Servers often name the library that speaks HTTP
    /// for them, which is no contradiction.
    pub fn contradict(&self, name: &str) -> bool {
        let (Some(program), Some(served)) = (&self.program, &self.served) else { return false };
        let Some((_, number)) = served.split_once('/') else { return false };
        let Some(number) = numbers(number).next() else { return false };
        names_candidate(served, name, program) && !numbers(program).any(|of_program| of_program == number)
    }

    /// Whether later ones are of another candidate. What is not known any more is no difference: a server
    /// that has ended reports nothing.
    pub fn differ(&self, later: &Self) -> bool {
        let differ = |one: &Option<String>, other: &Option<String>| one.is_some() && other.is_some() && one != other;
        differ(&self.program, &later.program) || differ(&self.served, &later.served)
    }

    /// Both, for people.
    pub fn shown(&self) -> String {
        match (&self.program, &self.served) {
            (Some(program), Some(served)) if program != served => format!("{program}, served by {served}"),
            (Some(version), _) | (None, Some(version)) => version.clone(),
            (None, None) => "(none)".to_owned(),
        }
    }

    /// What the running server reports besides the version of the program file, as facts; also that it
    /// reports none.
    pub(crate) fn facts(&self, name: &str) -> Vec<(String, String)> {
        let fact = |text: &str| vec![("version that the server reports".to_owned(), text.to_owned())];
        let Some(served) = &self.served else { return fact("none") };
        let Some(program) = &self.program else { return Vec::new() };
        if !names_candidate(served, name, program) {
            return fact(&format!("none of its own: it names {served}"));
        }
        let mut facts = fact(served);
        if self.contradict(name) {
            let fact = format!("the program file is {program}, and the running server reports {served}");
            facts.push(("contradiction of versions".to_owned(), fact));
        }
        facts
    }
}

/// Whether what a server reports names the candidate, by its name or by what its program prints, and not
/// a library that speaks HTTP for it, such as `Jetty(9.4.57)`.
fn names_candidate(served: &str, name: &str, program: &str) -> bool {
    let product = served.split(['/', '(']).next().unwrap_or_default().to_lowercase();
    let has_product = |text: &str| text.to_lowercase().contains(&product);
    !product.is_empty() && (has_product(name) || has_product(program))
}

/// The numbers of versions in a text: `7.0.15`.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|char: char| !char.is_ascii_digit() && char != '.');
    parts.map(|part| part.trim_matches('.')).filter(|part| !part.is_empty())
}

/// What the user says of a server that runs already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// The commit from which it was built.
    pub commit: Option<String>,
    /// Its configuration.
    pub configuration: Option<String>,
    /// The tag of its version, such as `v6.1.0`: it is the version, if the server reports none.
    pub tag: Option<String>,
    /// Where its source is.
    pub repository: Option<String>,
    /// Facts, such as its nodes, its copies and its consistency.
    pub facts: Vec<(String, String)>,
}

impl CandidateRecord {
    /// Adds what the user says, and that the user has said it.
    pub(crate) fn add(&mut self, given: &Given) {
        let Given { commit, configuration, tag, repository, facts } = given.clone();
        let known = [
            ("commit", commit.is_some()),
            ("configuration", configuration.is_some()),
            ("tag", tag.is_some()),
            ("repository", repository.is_some()),
        ];
        let known = known.into_iter().filter(|(_, is_given)| *is_given).map(|(what, _)| what);
        let known: Vec<_> = known.chain(facts.iter().map(|(name, _)| name.as_str())).collect();
        if !known.is_empty() {
            self.facts.push(("given by the user".to_owned(), known.join(", ")));
        }
        self.facts.extend(facts);
        if commit.is_some() {
            self.program.set_commit(commit);
        }
        self.configuration = configuration.or(self.configuration.take());
        self.program.repository = repository.or(self.program.repository.take());
        if let Some(tag) = tag {
            if self.program.version.is_empty() {
                self.program.version.clone_from(&tag);
            }
            self.program.tag = Some(tag);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn versions(program: &str, served: &str) -> Versions {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Versions { program: some(program), served: some(served) }
    }

    #[test]
    fn an_expected_version_is_a_text_or_a_pattern_and_that_of_the_running_server_counts() {
        let redis = versions("Redis server v=7.0.15 sha=00000000:0", "redis/7.0.15");
        assert!(redis.are(r"7\.0\.", "redis") && redis.are("redis/7.0.15", "redis"));
        assert!(!redis.are(r"7\.2\.", "redis") && !versions("", "").are(".*", "redis"));
        assert!(versions("1.0 (+", "").are("1.0 (+", "odd"), "no pattern, and the exact text");
        // The file was replaced while the server ran on.
        let replaced = versions("Redis server v=7.2.4 sha=00000000:0", "redis/7.0.15");
        assert!(replaced.are(r"7\.0\.15", "redis") && !replaced.are(r"7\.2\.4", "redis"));
    }

    #[test]
    fn versions_contradict_each_other_only_if_both_are_of_the_candidate() {
        assert!(!versions("nginx version: nginx/1.22.1", "nginx/1.22.1").contradict("nginx"));
        assert!(versions("nginx version: nginx/1.22.1", "nginx/1.22.10").contradict("nginx"));
        assert!(!versions("6.1.0", "Jetty(9.4.57.v20241219)").contradict("fedora"));
        assert!(!versions("3", "SimpleHTTP/0.6 Python/3.11.2").contradict("files"));
        assert!(!versions("penates 0.1.0", "penates/").contradict("penates"));
        assert!(!versions("", "redis/7.0.15").contradict("redis"));
        let facts = versions("v=7.2.4", "redis/7.0.15").facts("redis-everysec");
        assert_eq!(facts[0], ("version that the server reports".to_owned(), "redis/7.0.15".to_owned()));
        assert!(facts[1].1.contains("v=7.2.4") && facts[1].1.contains("redis/7.0.15"), "{facts:?}");
        assert_eq!(versions("v=7.0.15", "redis/7.0.15").facts("redis").len(), 1);
        // The server's own version is that of the record.
        assert!(versions("", "redis/7.0.15").facts("redis").is_empty());
    }

    #[test]
    fn a_server_that_reports_no_version_has_that_as_a_fact() {
        let none = [("version that the server reports".to_owned(), "none".to_owned())];
        assert_eq!(versions("6.1.0", "").facts("fedora"), none);
        assert_eq!(versions("", "").facts("odd"), none);
        let of_jetty = versions("6.1.0", "Jetty(9.4.57.v20241219)").facts("fedora");
        let wanted = "none of its own: it names Jetty(9.4.57.v20241219)";
        assert_eq!(of_jetty, [("version that the server reports".to_owned(), wanted.to_owned())]);
    }

    #[test]
    fn a_candidate_is_another_one_if_a_version_that_is_known_has_changed() {
        let before = versions("1.0", "x/1.0");
        assert!(!before.differ(&before) && !before.differ(&versions("1.0", "")) && !before.differ(&versions("", "")));
        assert!(before.differ(&versions("1.1", "x/1.0")) && before.differ(&versions("1.0", "x/1.1")));
    }

    #[test]
    fn what_the_user_says_fills_the_gaps_of_the_record_and_is_marked_as_such() {
        let given = Given {
            commit: Some("abc-dirty".to_owned()),
            configuration: Some("a = 1".to_owned()),
            tag: Some("v6.1.0".to_owned()),
            repository: None,
            facts: vec![("nodes".to_owned(), "3".to_owned())],
        };
        let mut record = CandidateRecord::default();
        record.add(&given);
        assert_eq!((record.program.version.as_str(), record.program.is_dirty), ("v6.1.0", Some(true)));
        assert_eq!((record.configuration.as_deref(), record.program.tag.as_deref()), (Some("a = 1"), Some("v6.1.0")));
        let wanted = [("given by the user", "commit, configuration, tag, nodes"), ("nodes", "3")];
        assert_eq!(record.facts, wanted.map(|(name, fact)| (name.to_owned(), fact.to_owned())));
        let mut known = CandidateRecord::default();
        known.program.version = "6.1".to_owned();
        known.add(&given);
        assert_eq!(known.program.version, "6.1", "the server's own word comes first");
        let mut nothing = CandidateRecord::default();
        nothing.add(&Given::default());
        assert!(nothing.facts.is_empty());
    }
}
