//! A plan: which load, on what, and what must hold. It is a TOML file.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::arrivals::Shape;
use crate::beside::events::{self, PlannedEvent};
use crate::beside::fill::Fill;
use crate::link::Link;
use crate::objective::{Measure, Objective};
use crate::reach::Fields;
use crate::scenario::first_double;
use crate::tls::TlsSpec;

/// The longest duration of a plan, a scenario or an objective: a year. Clocks cannot express instants
/// that are much farther away.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Its name: small letters, digits and hyphens. Runs are named after it.
    pub name: String,
    /// What it is for, in a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where the candidate answers, such as `http://127.0.0.1:8080`, `https://localhost:8443` or
    /// `redis://127.0.0.1:6379`. `--url` on the command line comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What users do, each with its share of the users.
    pub scenarios: Vec<Share>,
    /// How users arrive.
    pub load: Shape,
    /// For how long nothing counts at the beginning of the load.
    #[serde(default, with = "humantime_serde", skip_serializing_if = "Duration::is_zero")]
    pub warm_up: Duration,
    /// Worker processes.
    #[serde(default = "four")]
    pub workers: u32,
    /// What random choices are drawn from, at most [`i64::MAX`]. The same plan and seed send the same
    /// requests.
    #[serde(default = "one")]
    pub seed: u64,
    /// How users connect.
    #[serde(default)]
    pub connections: Connections,
    /// Header fields of all requests over HTTP, by name. A step that has one of its own sends that.
    #[serde(default, skip_serializing_if = "Fields::is_empty")]
    pub headers: Fields,
    /// What must be true of the results, such as `p99 < 20ms` or `late share at 10ms < 1%`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<Objective>,
    /// The share of requests (0 to 1) that may fail in a run that holds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tolerated_errors: f64,
    /// How the candidate was prepared, for the record.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub preparation: String,
    /// The version that the candidate must have: a regular expression for a part of it, or its exact text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_version: Option<String>,
    /// What the candidate is made to do at stated instants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<PlannedEvent>,
    /// What is made before the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<Fill>,
    /// A longer link between each worker and the candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
}

/// A scenario and its share of the users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The name of a scenario that comes with the program, or a file beside the plan (`….toml`).
    pub scenario: String,
    /// Its weight beside the others.
    #[serde(default = "one_whole")]
    pub share: f64,
}

/// How users connect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connections {
    /// Who shares connections.
    pub keep: Keep,
    /// The version of HTTP.
    pub http: Http,
    /// TLS, if the address begins with `https:`.
    #[serde(skip_serializing_if = "TlsSpec::is_default")]
    pub tls: TlsSpec,
    /// How long a request may take.
    #[serde(with = "humantime_serde")]
    pub timeout: Duration,
    /// The most users of a worker at once. Users that arrive beyond it are dropped, and counted.
    pub users_max: usize,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            keep: Keep::User,
            http: Http::One,
            tls: TlsSpec::default(),
            timeout: Duration::from_secs(60),
            users_max: 20_000,
        }
    }
}

/// Who shares connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Each user has a connection for all its requests, and closes it at the end, as browsers do.
    User,
    /// The users of a worker share connections that stay open, as the clients of a service do.
    Worker,
    /// Each request has a connection.
    Request,
}

/// The version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Http {
    /// HTTP/1.1
    #[serde(rename = "1.1")]
    One,
    /// HTTP/2: by ALPN with TLS, by prior knowledge without (RFC 9113, 3.2 and 3.3).
    #[serde(rename = "2")]
    Two,
}

/// Why a plan cannot be run.
#[derive(Debug, Error)]
pub enum PlanError {
    /// It is no plan.
    #[error("{place}: {message}")]
    Invalid {
        /// The key, as far as it is known.
        place: String,
        /// What is wrong there, and what to write.
        message: String,
    },
}

/// An error at a key of a plan or a scenario.
pub(crate) fn invalid(place: impl Into<String>, message: impl Into<String>) -> PlanError {
    PlanError::Invalid { place: place.into(), message: message.into() }
}

/// Checks a duration that must not be 0, at a key of a plan.
pub(crate) fn check_duration(place: &str, duration: Duration, example: &str) -> Result<(), PlanError> {
    match !duration.is_zero() && duration <= DURATION_MAX {
        true => Ok(()),
        false => Err(invalid(place, format!("a duration above 0, a year at most, for example \"{example}\""))),
    }
}

/// Parses TOML. An error names the key.
pub(crate) fn from_toml<T: for<'a> Deserialize<'a>>(name: &str, text: &str) -> Result<T, PlanError> {
    let table = toml::Deserializer::parse(text).map_err(|error| invalid(name, error.to_string().trim()))?;
    serde_path_to_error::deserialize(table).map_err(|error| {
        let at = error.path().to_string();
        let place = if at == "." { name.to_owned() } else { format!("{name}: {at}") };
        invalid(place, error.inner().message())
    })
}

impl Plan {
    /// The response time from which on a request is too late: that of the first objective of a late
    /// share.
    pub fn late_from(&self) -> Option<Duration> {
        self.objectives.iter().find_map(|objective| match objective.of {
            Measure::LateShare(at_ms) => Some(Duration::from_secs_f64(at_ms / 1e3)),
            _ => None,
        })
    }

    /// Parses and checks a plan.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] names the key and what to write there.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let plan: Self = from_toml("plan", text)?;
        plan.validate()?;
        Ok(plan)
    }

    /// Whether its load is an access log.
    pub fn is_replay(&self) -> bool {
        matches!(self.load, Shape::Replay { .. })
    }

    /// The plan as TOML, with all defaults.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).unwrap_or_default()
    }

    /// Checks what no type says.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] names the key and what to write there.
    pub fn validate(&self) -> Result<(), PlanError> {
        let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
        if self.name.is_empty() || self.name.len() > 80 || !self.name.chars().all(is_plain) {
            return Err(invalid("plan: name", "1 to 80 small letters, digits and hyphens, for example \"ingest-20\""));
        }
        if self.workers == 0 || self.workers > 1_000 {
            return Err(invalid("plan: workers", "1 to 1000"));
        }
        if self.scenarios.is_empty() {
            return Err(invalid("plan: scenarios", "at least one, for example [{ scenario = \"read\" }]"));
        }
        let names: Vec<_> = self.scenarios.iter().map(|of| of.scenario.trim_end_matches(".toml").to_owned()).collect();
        if let Some(name) = first_double(names.iter()) {
            return Err(invalid("plan: scenarios", format!("`{name}` is there twice; give it a greater share")));
        }
        if let Some(of) = self.scenarios.iter().find(|of| of.scenario.contains(['/', '\\'])) {
            return Err(invalid("plan: scenarios", format!("`{}`: name a file beside the plan", of.scenario)));
        }
        // Of an infinite sum no share is a part.
        let shares: f64 = self.scenarios.iter().map(|of| of.share).sum();
        if !shares.is_finite() || self.scenarios.iter().any(|of| of.share <= 0.0) {
            return Err(invalid("plan: scenarios: share", "a number above 0"));
        }
        // TOML, as which workers and the archive get the plan, has no greater one.
        if i64::try_from(self.seed).is_err() {
            return Err(invalid("plan: seed", format!("0 to {}", i64::MAX)));
        }
        if !(0.0..1.0).contains(&self.tolerated_errors) {
            return Err(invalid("plan: tolerated_errors", "a share: 0 or more, and less than 1"));
        }
        check_duration("plan: connections.timeout", self.connections.timeout, "60s")?;
        if self.connections.users_max == 0 {
            return Err(invalid("plan: connections.users_max", "at least 1"));
        }
        self.load.check()?;
        // They arrive at once, before a warm-up is over: nobody would see that some are dropped.
        if let Shape::Closed { users_per_worker, .. } = self.load
            && users_per_worker > self.connections.users_max as u64
        {
            let message = format!("at least {users_per_worker}: so many users of a closed loop are there at once");
            return Err(invalid("plan: connections.users_max", message));
        }
        if let Some(fill) = &self.fill {
            fill.check()?;
            if fill.scenario.contains(['/', '\\']) {
                return Err(invalid("plan: fill.scenario", "name a file beside the plan"));
            }
        }
        if let Some(link) = self.link {
            link.check()?;
        }
        if self.warm_up >= self.load.duration() {
            return Err(invalid("plan: warm_up", "less than the duration of the load"));
        }
        events::check(&self.events, self.load.duration() - self.warm_up)
    }
}

fn four() -> u32 {
    4
}

fn one() -> u64 {
    1
}

fn one_whole() -> f64 {
    1.0
}

fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PLAN: &str = r#"
        name = "read-500"
        scenarios = [{ scenario = "read" }]
        load = { shape = "constant", rate = 500, duration = "60s" }
    "#;

    #[test]
    fn a_short_plan_has_sensible_defaults_and_survives_being_written() {
        let plan = Plan::parse(PLAN).unwrap();
        assert_eq!((plan.workers, plan.seed), (4, 1));
        assert_eq!(plan.connections, Connections::default());
        assert_eq!(Plan::parse(&plan.to_toml()).unwrap(), plan);
    }

    #[test]
    fn an_objective_of_a_late_share_says_what_is_too_late() {
        let late_from =
            |objectives: &str| Plan::parse(&format!("objectives = [{objectives}]\n{PLAN}")).unwrap().late_from();
        let of_two = late_from(r#""p99 < 20ms", "late share at 10ms < 1%""#);
        assert_eq!((of_two, late_from("")), (Some(Duration::from_millis(10)), None));
    }

    #[test]
    fn all_users_of_a_closed_loop_are_there_at_once() {
        let plan = |users: u64, more: &str| {
            let text = format!(
                "name = \"x\"\nscenarios = [{{ scenario = \"get\" }}]\nwarm_up = \"10s\"\n{more}\n\
                 load = {{ shape = \"closed\", users_per_worker = {users}, duration = \"60s\" }}\n"
            );
            Plan::parse(&text).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(plan(20_000, ""), Ok(()));
        let refused = "plan: connections.users_max: at least 20001: so many users of a closed loop are there at once";
        assert_eq!(plan(20_001, ""), Err(refused.to_owned()));
        assert_eq!(plan(20_001, "connections = { users_max = 20001 }"), Ok(()));
    }

    #[test]
    fn an_error_names_the_key_and_what_to_write() {
        let error = |from: &str, to: &str| Plan::parse(&PLAN.replace(from, to)).unwrap_err().to_string();
        assert_eq!(
            error("read-500", "Read 500"),
            "plan: name: 1 to 80 small letters, digits and hyphens, for example \"ingest-20\""
        );
        assert!(
            error("rate = 500", "rate = -1").starts_with("plan: load.rate: "),
            "{}",
            error("rate = 500", "rate = -1")
        );
        assert!(error("name =", "nam =").contains("unknown field `nam`"));
        assert!(error("\"60s\"", "\"60 parsecs\"").contains("load"), "{}", error("\"60s\"", "\"60 parsecs\""));
    }

    #[test]
    fn what_no_clock_can_wait_for_and_no_number_can_count_is_refused() {
        const LONG: &str = "584542046090 years";
        let refused = |plan: &str| Plan::parse(plan).unwrap_err().to_string();
        let shape = |shape: &str| {
            let load = "{ shape = \"constant\", rate = 500, duration = \"60s\" }";
            refused(&PLAN.replace(load, &format!("{{ {shape} }}")))
        };
        let year = "a duration above 0, a year at most, for example";
        for wrong in ["0s", "367 days", LONG] {
            let duration = refused(&PLAN.replace("60s", wrong));
            assert!(duration.starts_with(&format!("plan: load.duration: {year}")), "{duration}");
            let timeout = refused(&format!("connections = {{ timeout = \"{wrong}\" }}\n{PLAN}"));
            assert!(timeout.starts_with(&format!("plan: connections.timeout: {year}")), "{timeout}");
            let fill = refused(&format!("fill = {{ scenario = \"get\", units = 1, within = \"{wrong}\" }}\n{PLAN}"));
            assert!(fill.starts_with(&format!("plan: fill.within: {year}")), "{fill}");
            let event = format!("events = [{{ at = \"1s\", run = \"kill\", within = \"{wrong}\" }}]\n{PLAN}");
            assert!(refused(&event).starts_with(&format!("plan: events[0].within: {year}")), "{}", refused(&event));
        }
        let step = format!("{{ rate = 0, duration = \"{LONG}\" }}");
        let steps = shape(&format!("shape = \"steps\", steps = [{step}, {step}]"));
        assert!(steps.starts_with("plan: load.duration: "), "{steps}");
        assert!(shape("shape = \"steps\", steps = []").starts_with("plan: load.duration: "));
        for rate in ["nan", "inf", "-1", "0"] {
            let rate = shape(&format!("shape = \"poisson\", rate = {rate}, duration = \"1s\""));
            assert!(rate.starts_with("plan: load.rate: "), "{rate}");
        }
        let most = "users_per_worker = 9223372036854775807, duration = \"1s\"";
        for of in ["even", "closed"] {
            let users = shape(&format!("shape = \"{of}\", {most}"));
            assert_eq!(users, "plan: load: at most 1e10 users");
        }
        assert!(refused(&format!("objectives = [\"p99 < {LONG}\"]\n{PLAN}")).contains("is no objective"));
        let share = |share: &str| {
            let two = format!("{{ scenario = \"get\", share = {share} }}, {{ scenario = \"read\", share = {share} }}");
            refused(&PLAN.replace("{ scenario = \"read\" }", &two))
        };
        for wrong in ["1e308", "nan", "0", "-1"] {
            assert_eq!(share(wrong), "plan: scenarios: share: a number above 0", "{wrong}");
        }
        let great = Plan { seed: u64::MAX, ..Plan::parse(PLAN).unwrap() };
        assert!(great.validate().unwrap_err().to_string().starts_with("plan: seed: 0 to "));
        let greatest = Plan { seed: i64::MAX as u64, ..great };
        assert_eq!(Plan::parse(&greatest.to_toml()).unwrap(), greatest);
    }
}
