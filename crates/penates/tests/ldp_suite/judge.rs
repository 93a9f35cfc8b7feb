//! What counts as passing the suite: every test ran, every one passed, and what did not is listed with its reason, and nothing is
//! listed that need not be.

use std::fmt::Display;

use serde::Deserialize;

use crate::kinds::Kind;

/// How binding a requirement is (RFC 2119).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Must,
    Should,
    May,
}

impl Level {
    pub const ALL: [Self; 3] = [Self::Must, Self::Should, Self::May];

    /// The suite's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::May => "MAY",
        }
    }
}

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    Passed,
    /// The suite leaves it to a person.
    ByHand,
    /// It found that it does not apply, or could not run.
    Skipped(String),
    Failed(String),
}

/// A test and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Class and method.
    pub test: String,
    /// `None`: in no group.
    pub level: Option<Level>,
    pub status: Status,
}

/// Numbers of tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub must: usize,
    pub should: usize,
    pub may: usize,
    /// Of these, those that are left to a person.
    pub by_hand: usize,
}

impl Counts {
    fn of(outcomes: &[Outcome]) -> Self {
        let at = |level| outcomes.iter().filter(|outcome| outcome.level == Some(level)).count();
        let by_hand = outcomes.iter().filter(|outcome| outcome.status == Status::ByHand).count();
        Self { must: at(Level::Must), should: at(Level::Should), may: at(Level::May), by_hand }
    }
}

impl Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} MUST, {} SHOULD, {} MAY, {} of them by hand", self.must, self.should, self.may, self.by_hand)
    }
}

/// What is listed in `ldp-exceptions.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    #[serde(default, rename = "exception")]
    list: Vec<Exception>,
}

/// A test that need not pass.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    /// Class and method.
    test: String,
    /// In which parts of the suite.
    kinds: Vec<Kind>,
    /// How it ends.
    ends: Ending,
    /// Why that is right.
    reason: String,
}

/// How a test that need not pass ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Ending {
    /// The requirement is not met. Not for a MUST.
    Failed,
    /// The requirement has a condition that does not hold here, and the test finds that out.
    Skipped,
}

impl Exceptions {
    /// Reads the list.
    pub fn parse(toml: &str) -> Self {
        let exceptions: Self = toml::from_str(toml).unwrap();
        assert!(
            exceptions.list.iter().all(|exception| !exception.reason.trim().is_empty()),
            "an exception has no reason"
        );
        exceptions
    }

    fn find(&self, kind: Kind, test: &str) -> Option<&Exception> {
        self.list.iter().find(|exception| exception.test == test && exception.kinds.contains(&kind))
    }

    /// All that is wrong with the outcomes of one part of the suite, in sentences.
    pub fn judge(&self, kind: Kind, outcomes: &[Outcome]) -> Vec<String> {
        let mut wrong = Vec::new();
        let counts = Counts::of(outcomes);
        if counts != kind.expected() {
            wrong.push(format!("there should be {}, but there are {counts}", kind.expected()));
        }
        wrong.extend(outcomes.iter().filter_map(|outcome| self.complaint(kind, outcome)));
        let named = self.list.iter().filter(|exception| exception.kinds.contains(&kind));
        let unknown = named.filter(|exception| outcomes.iter().all(|outcome| outcome.test != exception.test));
        wrong.extend(
            unknown.map(|exception| format!("{}: listed as an exception, and there is no such test", exception.test)),
        );
        wrong
    }

    fn complaint(&self, kind: Kind, outcome: &Outcome) -> Option<String> {
        let exception = self.find(kind, &outcome.test);
        let level = outcome.level.map_or("no level", Level::name);
        let (ending, how, message) = match (&outcome.status, exception) {
            (Status::Passed | Status::ByHand, None) => return None,
            (Status::Passed | Status::ByHand, Some(_)) => {
                return Some(format!("{} ({level}): passes, so the exception is needless", outcome.test));
            }
            (Status::Skipped(message), _) => (Ending::Skipped, "did not run", message),
            (Status::Failed(message), _) => (Ending::Failed, "failed", message),
        };
        match exception {
            Some(exception) if exception.ends == ending => {
                let is_excusable = ending == Ending::Skipped || outcome.level != Some(Level::Must);
                (!is_excusable).then(|| format!("{} (MUST): failed, and nothing excuses that: {message}", outcome.test))
            }
            Some(_) => {
                Some(format!("{} ({level}): {how}, which is not what the exception says: {message}", outcome.test))
            }
            None => Some(format!("{} ({level}): {how}: {message}", outcome.test)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind::NonRdf;

    /// As many tests as there should be, all passed.
    fn all_passed() -> Vec<Outcome> {
        let Counts { must, should, may, by_hand } = KIND.expected();
        let levels = [(Level::Must, must), (Level::Should, should), (Level::May, may)];
        let each = levels.into_iter().flat_map(|(level, count)| (0..count).map(move |number| (level, number)));
        let mut outcomes: Vec<_> = each
            .map(|(level, number)| Outcome {
                test: format!("T.{}{number}", level.name()),
                level: Some(level),
                status: Status::Passed,
            })
            .collect();
        outcomes.iter_mut().rev().take(by_hand).for_each(|outcome| outcome.status = Status::ByHand);
        outcomes
    }

    fn complaints(change: impl FnOnce(&mut Vec<Outcome>), exceptions: &str) -> Vec<String> {
        let mut outcomes = all_passed();
        change(&mut outcomes);
        Exceptions::parse(exceptions).judge(KIND, &outcomes)
    }

    fn set(test: &'static str, status: Status) -> impl FnOnce(&mut Vec<Outcome>) {
        move |outcomes| outcomes.iter_mut().find(|outcome| outcome.test == test).unwrap().status = status
    }

    fn exception(test: &str, ends: &str) -> String {
        format!("[[exception]]\ntest = \"{test}\"\nkinds = [\"non-rdf\"]\nends = \"{ends}\"\nreason = \"r\"\n")
    }

    fn failed() -> Status {
        Status::Failed("m".to_owned())
    }

    fn skipped() -> Status {
        Status::Skipped("m".to_owned())
    }

    #[test]
    fn all_tests_passed_is_fine() {
        assert_eq!(complaints(|_| {}, ""), [""; 0]);
    }

    #[test]
    fn a_test_that_failed_or_did_not_run_is_told_at_every_level() {
        for (test, level) in [("T.MUST0", "MUST"), ("T.SHOULD0", "SHOULD"), ("T.MAY0", "MAY")] {
            assert_eq!(complaints(set(test, failed()), ""), [format!("{test} ({level}): failed: m")]);
            assert_eq!(complaints(set(test, skipped()), ""), [format!("{test} ({level}): did not run: m")]);
        }
    }

    #[test]
    fn what_is_listed_is_excused_but_no_must_that_failed() {
        assert_eq!(complaints(set("T.SHOULD0", failed()), &exception("T.SHOULD0", "failed")), [""; 0]);
        assert_eq!(complaints(set("T.MUST0", skipped()), &exception("T.MUST0", "skipped")), [""; 0]);
        let told = complaints(set("T.MUST0", failed()), &exception("T.MUST0", "failed"));
        assert_eq!(told, ["T.MUST0 (MUST): failed, and nothing excuses that: m"]);
    }

    #[test]
    fn an_exception_that_says_something_else_is_told() {
        let told = complaints(set("T.SHOULD0", skipped()), &exception("T.SHOULD0", "failed"));
        assert_eq!(told, ["T.SHOULD0 (SHOULD): did not run, which is not what the exception says: m"]);
    }

    #[test]
    fn a_needless_exception_is_told() {
        let told = complaints(|_| {}, &exception("T.SHOULD0", "failed"));
        assert_eq!(told, ["T.SHOULD0 (SHOULD): passes, so the exception is needless"]);
        let told = complaints(|_| {}, &exception("T.gone", "failed"));
        assert_eq!(told, ["T.gone: listed as an exception, and there is no such test"]);
    }

    #[test]
    fn too_few_tests_are_told() {
        let told = complaints(
            |outcomes| {
                outcomes.remove(0);
            },
            "",
        );
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("there should be 15 MUST, 1 SHOULD, 6 MAY"), "{told:?}");
        assert!(!complaints(Vec::clear, "").is_empty());
    }
}
