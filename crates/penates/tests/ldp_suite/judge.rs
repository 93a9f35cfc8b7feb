//! The criteria for passing the suite: every test ran and passed, or is listed as an exception with
//! its reason, and no exception is unnecessary.

use std::fmt::Display;
use std::path::Path;

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

    /// Its name in the suite.
    pub fn name(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
            Self::May => "MAY",
        }
    }
}

/// The outcome of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    Passed,
    /// The suite leaves it to a person.
    ByHand,
    /// It does not apply, or could not run.
    Skipped(String),
    Failed(String),
}

/// A test and its outcome.
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
    /// Tests among them that are left to a person.
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

/// The settings of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settings {
    /// The defaults.
    Default,
    /// Changes need a condition (`ldp.require_condition`), which LDP recommends.
    ConditionsRequired,
}

/// The contents of `ldp-exceptions.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exceptions {
    #[serde(default, rename = "exception")]
    list: Vec<Exception>,
    #[serde(default)]
    by_hand: Vec<ByHand>,
}

/// A test that the suite leaves to a person.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ByHand {
    /// The method, in any class.
    test: String,
    /// The parts of the suite.
    kinds: Vec<Kind>,
    /// What was done instead.
    done: String,
    /// Our own tests that show the same: `path/of/file.rs::name`.
    shown_by: Vec<String>,
}

/// A test that need not pass.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    /// Class and method.
    test: String,
    /// The parts of the suite.
    kinds: Vec<Kind>,
    /// The settings; none: all.
    #[serde(default)]
    settings: Vec<Settings>,
    /// Its outcome.
    ends: Ending,
    /// Why that outcome is right.
    reason: String,
}

/// The outcome of a test that need not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Ending {
    /// The requirement is not met. Not for a MUST.
    Failed,
    /// The requirement has a condition that does not hold here, and the test detects that.
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
        let says_what = |by_hand: &ByHand| !by_hand.done.trim().is_empty() && !by_hand.shown_by.is_empty();
        assert!(exceptions.by_hand.iter().all(says_what), "an entry does not say what was done by hand");
        exceptions
    }

    /// Listed tests of our own that do not exist below the folder of the repository.
    pub fn missing_tests(&self, repository: &Path) -> Vec<String> {
        let exists = |named: &str| {
            let Some((file, name)) = named.split_once("::") else { return false };
            let text = std::fs::read_to_string(repository.join(file)).unwrap_or_default();
            text.contains(&format!("fn {name}("))
        };
        self.by_hand.iter().flat_map(|by_hand| &by_hand.shown_by).filter(|named| !exists(named)).cloned().collect()
    }

    fn find(&self, kind: Kind, settings: Settings, test: &str) -> Option<&Exception> {
        self.of(kind, settings).find(|exception| exception.test == test)
    }

    fn of(&self, kind: Kind, settings: Settings) -> impl Iterator<Item = &Exception> {
        self.list.iter().filter(move |exception| {
            exception.kinds.contains(&kind) && (exception.settings.is_empty() || exception.settings.contains(&settings))
        })
    }

    fn is_done_by_hand(&self, kind: Kind, test: &str) -> bool {
        self.by_hand.iter().any(|by_hand| by_hand.kinds.contains(&kind) && is_method(test, &by_hand.test))
    }

    /// All problems with the outcomes of one part of the suite, in sentences.
    pub fn judge(&self, kind: Kind, settings: Settings, outcomes: &[Outcome]) -> Vec<String> {
        let mut wrong = Vec::new();
        let counts = Counts::of(outcomes);
        if counts != kind.expected() {
            wrong.push(format!("there should be {}, but there are {counts}", kind.expected()));
        }
        wrong.extend(outcomes.iter().filter_map(|outcome| self.complaint(kind, settings, outcome)));
        let needless = self.by_hand.iter().filter(|by_hand| by_hand.kinds.contains(&kind)).filter(|by_hand| {
            let is_it = |outcome: &&Outcome| is_method(&outcome.test, &by_hand.test);
            outcomes.iter().filter(is_it).all(|outcome| outcome.status != Status::ByHand)
        });
        wrong
            .extend(needless.map(|by_hand| format!("{}: listed as done by hand, but the suite runs it", by_hand.test)));
        let unknown =
            self.of(kind, settings).filter(|exception| outcomes.iter().all(|outcome| outcome.test != exception.test));
        wrong.extend(
            unknown.map(|exception| format!("{}: listed as an exception, but there is no such test", exception.test)),
        );
        wrong
    }

    fn complaint(&self, kind: Kind, settings: Settings, outcome: &Outcome) -> Option<String> {
        let exception = self.find(kind, settings, &outcome.test);
        let level = outcome.level.map_or("no level", Level::name);
        let (ending, how, message) = match (&outcome.status, exception) {
            (Status::ByHand, None) if !self.is_done_by_hand(kind, &outcome.test) => {
                return Some(format!("{} ({level}): is left to a person, but not listed as done", outcome.test));
            }
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
                (!is_excusable)
                    .then(|| format!("{} (MUST): failed, which no exception can excuse: {message}", outcome.test))
            }
            Some(_) => {
                Some(format!("{} ({level}): {how}, which is not what the exception says: {message}", outcome.test))
            }
            None => Some(format!("{} ({level}): {how}: {message}", outcome.test)),
        }
    }
}

/// Whether a test, named by class and method, is this method.
fn is_method(test: &str, method: &str) -> bool {
    test.rsplit('.').next() == Some(method)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind::NonRdf;

    /// The expected number of tests, all passed.
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
        let by_hand = "[[by_hand]]\ntest = \"MAY5\"\nkinds = [\"non-rdf\"]\ndone = \"d\"\nshown_by = [\"f.rs::t\"]\n";
        let by_hand = if exceptions.contains("[[by_hand]]") { "" } else { by_hand };
        Exceptions::parse(&format!("{by_hand}{exceptions}")).judge(KIND, Settings::Default, &outcomes)
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
    fn a_test_that_failed_or_did_not_run_is_reported_at_every_level() {
        for (test, level) in [("T.MUST0", "MUST"), ("T.SHOULD0", "SHOULD"), ("T.MAY0", "MAY")] {
            assert_eq!(complaints(set(test, failed()), ""), [format!("{test} ({level}): failed: m")]);
            assert_eq!(complaints(set(test, skipped()), ""), [format!("{test} ({level}): did not run: m")]);
        }
    }

    #[test]
    fn a_listed_exception_excuses_anything_but_a_failed_must() {
        assert_eq!(complaints(set("T.SHOULD0", failed()), &exception("T.SHOULD0", "failed")), [""; 0]);
        assert_eq!(complaints(set("T.MUST0", skipped()), &exception("T.MUST0", "skipped")), [""; 0]);
        let output = complaints(set("T.MUST0", failed()), &exception("T.MUST0", "failed"));
        assert_eq!(output, ["T.MUST0 (MUST): failed, which no exception can excuse: m"]);
    }

    #[test]
    fn an_exception_with_another_outcome_is_reported() {
        let output = complaints(set("T.SHOULD0", skipped()), &exception("T.SHOULD0", "failed"));
        assert_eq!(output, ["T.SHOULD0 (SHOULD): did not run, which is not what the exception says: m"]);
    }

    #[test]
    fn an_unnecessary_exception_is_reported() {
        let output = complaints(|_| {}, &exception("T.SHOULD0", "failed"));
        assert_eq!(output, ["T.SHOULD0 (SHOULD): passes, so the exception is needless"]);
        let output = complaints(|_| {}, &exception("T.gone", "failed"));
        assert_eq!(output, ["T.gone: listed as an exception, but there is no such test"]);
    }

    #[test]
    fn an_exception_for_other_settings_excuses_nothing() {
        let of = |settings: &str| format!("{}settings = [\"{settings}\"]\n", exception("T.SHOULD0", "failed"));
        assert_eq!(complaints(set("T.SHOULD0", failed()), &of("default")), [""; 0]);
        let output = complaints(set("T.SHOULD0", failed()), &of("conditions-required"));
        assert_eq!(output, ["T.SHOULD0 (SHOULD): failed: m"]);
    }

    #[test]
    fn exactly_the_tests_left_to_a_person_are_listed_with_what_was_done() {
        let by_hand = "[[by_hand]]\ntest = \"MAY0\"\nkinds = [\"non-rdf\"]\ndone = \"d\"\nshown_by = [\"f.rs::t\"]\n";
        let mut output = complaints(|_| {}, by_hand);
        output.sort();
        assert_eq!(
            output,
            [
                "MAY0: listed as done by hand, but the suite runs it",
                "T.MAY5 (MAY): is left to a person, but not listed as done"
            ]
        );
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert_eq!(Exceptions::parse(by_hand).missing_tests(&repository), ["f.rs::t"]);
    }

    #[test]
    fn too_few_tests_are_reported() {
        let output = complaints(
            |outcomes| {
                outcomes.remove(0);
            },
            "",
        );
        assert_eq!(output.len(), 1);
        assert!(output[0].starts_with("there should be 15 MUST, 1 SHOULD, 6 MAY"), "{output:?}");
        assert!(!complaints(Vec::clear, "").is_empty());
    }
}
