//! What users do: scenarios in TOML, made ready to run.
//!
//! - `spec.rs`: a scenario as its author writes it.
//! - `template.rs`: texts with values in them; `feed.rs`: where values come from.
//! - `step.rs`: a step that is ready to be sent; `request.rs`: its request; `check.rs`: what is checked
//!   and kept of the answer.
//! - `shipped.rs`: the scenarios that come with the program.

mod check;
pub mod feed;
mod request;
pub mod shipped;
mod spec;
mod step;
mod template;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

pub use check::{Answer, Head};
pub use request::{HttpRequest, Outgoing};
pub use spec::ScenarioSpec;
pub use step::Step;

use crate::graph::{self, Comparison};
use crate::inputs::Files;
use crate::plan::{PlanError, invalid};
use crate::replay::Entry;
use feed::Feed;
use template::{Names, Template};

/// The values that every user has: its number over all workers, the seed, and how often it has
/// begun the scenario again.
const OF_EVERY_USER: [&str; 3] = ["user", "seed", "round"];

/// What requests are sent by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP
    Http,
    /// The Redis protocol, version 2 (RESP2).
    Resp,
}

/// The most bytes of the name of a scenario or a step.
const NAME_BYTES_MAX: usize = 200;

/// A scenario that is ready to run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What its steps speak.
    pub protocol: Protocol,
    /// Its steps.
    pub steps: Vec<Step>,
    feeds: Vec<(String, Feed)>,
    values: usize,
}

/// The values of a user, and its bodies.
#[derive(Debug, Default)]
pub struct UserValues {
    values: Vec<String>,
    bodies: Vec<Option<Bytes>>,
}

impl Scenario {
    /// Makes a scenario ready.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] names the step and what to write there.
    pub fn new(spec: ScenarioSpec, files: &Files) -> Result<Self, PlanError> {
        let mut names = Names::default();
        for name in OF_EVERY_USER {
            names.add(name);
        }
        let of_steps = spec.steps.iter().map(|step| &step.name);
        if let Some(name) = of_steps.clone().chain([&spec.name]).find(|name| !is_tag(name)) {
            let message = format!(
                "`{}` is no name: write 1 to {NAME_BYTES_MAX} bytes without spaces, commas and control characters",
                name.escape_debug()
            );
            return Err(invalid(format!("scenario {}", spec.name.escape_debug()), message));
        }
        if spec.name.contains('%') {
            let message = "a run keeps it in a file of this name, which has no `%`: rename it";
            return Err(invalid(format!("scenario {}", spec.name), message));
        }
        if let Some(name) = first_double(of_steps) {
            return Err(invalid(format!("scenario {}: step {name}", spec.name), "another step has the same name"));
        }
        let feeds = spec.feeds.iter().map(|feed| Ok((feed.name.clone(), Feed::new(feed, files, &mut names)?)));
        let feeds = feeds.collect::<Result<Vec<_>, PlanError>>()?;
        let mut steps = Vec::new();
        for step in &spec.steps {
            // A step may use what earlier steps have saved.
            let refuse = |message| invalid(format!("scenario {}: step {}", spec.name, step.name), message);
            let mut ready = Step::new(step, &feeds, &mut names).map_err(refuse)?;
            if let Some(file) = &step.check.isomorphic_to {
                let graph = wanted_graph(file, ready.protocol(), files, &names).map_err(refuse)?;
                (ready.graph, ready.keeps_body) = (Some(graph), true);
            }
            steps.push(ready);
        }
        let refuse = |message: &str| Err(invalid(format!("scenario {}: steps", spec.name), message));
        let Some(protocol) = steps.first().map(Step::protocol) else { return refuse("at least one") };
        if steps.iter().any(|step| step.protocol() != protocol) {
            return refuse("either all or none of its steps have a `command`: a run speaks one protocol");
        }
        Ok(Self { name: spec.name, protocol, steps, feeds, values: names.len() })
    }

    /// Its name and those of its steps.
    pub fn names(&self) -> (String, Vec<String>) {
        (self.name.clone(), self.steps.iter().map(|step| step.name.clone()).collect())
    }

    /// Draws the values of a user. They depend on the seed, the user and the round alone.
    /// `users` is how many there are in all, in a closed loop.
    pub fn draw(&self, user: u64, round: u64, seed: u64, users: u64) -> UserValues {
        self.draw_with(user, round, seed, users, None)
    }

    /// How long a user may take for all steps, if each request may take so long. Checks of answers come
    /// on top.
    pub(crate) fn longest(&self, timeout: Duration) -> Duration {
        let of_step = |step: &Step| step.pause.saturating_add(timeout).saturating_mul(step.repeat);
        self.steps.iter().map(of_step).fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Whether it sends requests of an access log.
    pub fn is_replay(&self) -> bool {
        self.feeds.iter().any(|(_, feed)| feed.is_replay())
    }

    /// The same, with the request of an access log that the user sends.
    pub fn draw_with(&self, user: u64, round: u64, seed: u64, users: u64, entry: Option<&Entry>) -> UserValues {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // One stream per user; rounds begin far from each other in it.
        random.set_stream(user);
        random.set_word_pos(u128::from(round) << 40);
        let mut values = vec![String::new(); self.values];
        for (value, number) in values.iter_mut().zip([user, seed, round]) {
            *value = number.to_string();
        }
        // In a closed loop a user is another one in each round, as far as feeds are concerned.
        let drawn_by = user.wrapping_add(round.wrapping_mul(users));
        let draw = |(_, feed): &(String, Feed)| feed.draw(drawn_by, &mut random, &mut values);
        let bodies = self.feeds.iter().map(draw).collect();
        for (_, feed) in self.feeds.iter().filter(|(_, feed)| feed.is_replay()) {
            entry.iter().for_each(|entry| feed.set_entry(entry, &mut values));
        }
        UserValues { values, bodies }
    }
}

/// The graph that an answer must be, as Turtle with values.
fn wanted_graph(file: &str, protocol: Protocol, files: &Files, names: &Names) -> Result<Template, String> {
    if protocol != Protocol::Http {
        return Err("check.isomorphic_to: for steps with a `path`".to_owned());
    }
    let text = files.text(file).map_err(|error| format!("check.isomorphic_to: {error}"))?;
    let graph = Template::parse(text, names).map_err(|message| format!("check.isomorphic_to: {file}: {message}"))?;
    // With values it is known later what it is.
    if !text.contains("${") {
        let wrong = |_| format!("check.isomorphic_to: {file}: it is no graph in Turtle");
        graph::is_graph(&graph.filled(&[])).map_err(wrong)?;
    }
    Ok(graph)
}

/// Whether a name can be a tag in a log of histograms, where commas, spaces and ends of lines separate.
/// Response times without a tag would be missing there.
fn is_tag(name: &str) -> bool {
    let is_between = |char: char| char == ',' || char.is_whitespace() || char.is_control();
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(is_between)
}

/// The first name that is there twice.
pub(crate) fn first_double<'a>(names: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut known = BTreeSet::new();
    names.into_iter().find(|name| !known.insert(name.as_str()))
}

impl UserValues {
    /// The request of a step.
    pub fn request<'a>(&'a self, step: &'a Step) -> Outgoing<'a> {
        step.outgoing(&self.values, &self.bodies)
    }

    /// The comparison of the body of an answer with the graph that its step wants. `base` is the address of
    /// the request.
    pub(crate) fn comparison(&self, step: &Step, answer: &Answer, base: impl FnOnce() -> String) -> Option<Comparison> {
        let wanted = step.graph.as_ref()?.filled(&self.values).into_owned();
        let kind = answer.headers(&CONTENT_TYPE).next().unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_turtle = ["text/turtle", "application/n-triples"].contains(&kind.as_str());
        Some(Comparison { wanted, body: answer.body.clone(), is_turtle, base: base() })
    }

    /// Checks an answer, and keeps what the step saves of it.
    ///
    /// # Errors
    /// The kind of the failure, in a few words: `status 404`, `error ERR`, `check: sha256`.
    pub fn take(&mut self, step: &Step, answer: &Answer) -> Result<(), String> {
        step.take(answer, &mut self.values)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::{HeaderMap, StatusCode};

    use super::*;

    const SCENARIO: &str = r#"
        description = "Creates and reads."
        feeds = [{ name = "n", kind = "uniform", from = 1, to = 1000000 }, { name = "body", kind = "bytes", count = 4 }]
        [[steps]]
        name = "create"
        method = "POST"
        path = "/rest/"
        headers = { Slug = "a${user}-${n}" }
        body = { feed = "body" }
        check = { status = [201], header = { Location = "^/rest/" } }
        save = { place = { header = "Location" } }
        [[steps]]
        name = "read"
        path = "${place}"
        check = { bytes = "${body.bytes}", sha256 = "${body.sha256}" }
    "#;

    fn scenario() -> Scenario {
        Scenario::new(ScenarioSpec::parse("test", SCENARIO).unwrap(), &Files::default()).unwrap()
    }

    #[test]
    fn a_user_sends_the_same_requests_for_the_same_seed() {
        let scenario = scenario();
        let sent = |user, seed| {
            let values = scenario.draw(user, 0, seed, 0);
            format!("{:?}", values.request(&scenario.steps[0]))
        };
        assert_eq!(sent(3, 1), sent(3, 1));
        assert_ne!(sent(3, 1), sent(4, 1));
        assert_ne!(sent(3, 1), sent(3, 2));
        assert!(sent(3, 1).contains("a3-"), "{}", sent(3, 1));
    }

    #[test]
    fn a_later_step_uses_what_an_earlier_one_saved() {
        let scenario = scenario();
        let mut values = scenario.draw(0, 0, 1, 0);
        let mut headers = HeaderMap::new();
        headers.insert("location", "/rest/a0".parse().unwrap());
        let head = Head::Http(StatusCode::CREATED, headers);
        values.take(&scenario.steps[0], &Answer { head, body: Bytes::new(), body_bytes: 0 }).unwrap();
        assert!(format!("{:?}", values.request(&scenario.steps[1])).contains("\"/rest/a0\""));
        let head = Head::Http(StatusCode::OK, HeaderMap::new());
        let wrong = Answer { head, body: Bytes::from_static(b"abcd"), body_bytes: 4 };
        assert_eq!(values.take(&scenario.steps[1], &wrong).unwrap_err(), "check: sha256");
    }

    #[test]
    fn a_value_is_saved_from_its_place_in_a_json_answer() {
        let saved = |pointer: &str, body: &'static str| {
            let text = format!(
                "[[steps]]\nname = \"a\"\npath = \"/\"\nsave = {{ x = {{ json = \"{pointer}\" }} }}\n\
                 [[steps]]\nname = \"b\"\npath = \"/${{x}}\"\n"
            );
            let scenario = Scenario::new(ScenarioSpec::parse("test", &text).unwrap(), &Files::default()).unwrap();
            let mut values = scenario.draw(0, 0, 1, 0);
            let head = Head::Http(StatusCode::OK, HeaderMap::new());
            let answer = Answer { head, body: body.into(), body_bytes: body.len() as u64 };
            values.take(&scenario.steps[0], &answer)?;
            let Outgoing::Http(request) = values.request(&scenario.steps[1]) else { panic!("it is a command") };
            Ok::<_, String>(request.path.into_owned())
        };
        // RFC 6901: `~1` is a slash in a name, and a number is a place in a list.
        let body = r#"{"ids": ["one", {"a/b": 2}]}"#;
        assert_eq!(saved("/ids/0", body).unwrap(), "/one");
        assert_eq!(saved("/ids/1/a~1b", body).unwrap(), "/2");
        assert!(saved("/ids/2", body).is_err());
        assert!(saved("/ids/0", "{\"ids\": [").is_err());
    }

    #[test]
    fn a_method_that_is_a_value_is_sent_as_it_is() {
        let text = r#"
            feeds = [{ name = "verb", kind = "choice", values = ["PATCH"] }]
            [[steps]]
            name = "change"
            method = "${verb}"
            path = "/"
        "#;
        let scenario = Scenario::new(ScenarioSpec::parse("test", text).unwrap(), &Files::default()).unwrap();
        let values = scenario.draw(0, 0, 1, 0);
        let Outgoing::Http(request) = values.request(&scenario.steps[0]) else { panic!("it is a command") };
        assert_eq!(request.method, "PATCH");
    }

    #[test]
    fn an_error_names_the_step() {
        let error = |from: &str, to: &str| {
            let text = SCENARIO.replace(from, to);
            let spec = ScenarioSpec::parse("test", &text);
            spec.and_then(|spec| Scenario::new(spec, &Files::default())).unwrap_err().to_string()
        };
        assert!(error("${place}", "${plaice}").starts_with("scenario test: step read: there is no ${plaice}"));
        assert!(error("feed = \"body\" }", "feed = \"n\" }").contains("has no bodies"));
        assert!(error("[201]", "[99]").contains("status"));
        let conflict = |code: &str| error("[201]", &format!("[201], conflict = [412, {code}]"));
        assert!(conflict("600").ends_with("step create: check.conflict: 600 is no status"), "{}", conflict("600"));
        assert!(conflict("201").ends_with("check.conflict: 201 is also a right `status`"), "{}", conflict("201"));
        assert!(error("count = 4", "count = 4, colour = 2").contains("colour"));
        let pause = error("name = \"read\"", "name = \"read\"\npause = \"2 years\"");
        assert_eq!(pause, "scenario test: step read: pause: a year at most");
    }

    #[test]
    fn a_step_has_a_name_that_a_log_of_histograms_can_have() {
        let named = |scenario: &str, step: &str| {
            let text = format!("[[steps]]\nname = {step:?}\npath = \"/\"\n");
            Scenario::new(ScenarioSpec::parse(scenario, &text).unwrap(), &Files::default())
        };
        for wrong in ["", "two words", "a,b", "a\nb", "a\tb", "a".repeat(201).as_str()] {
            let error = named("test", wrong).unwrap_err().to_string();
            assert!(error.starts_with("scenario test: `") && error.contains("` is no name: "), "{error}");
            assert!(named(wrong, "get").is_err(), "{wrong:?}");
        }
        assert!(named("test", "größe/1_b-2").is_ok());
        // The archive keeps a file for each scenario.
        let error = named("50%.toml", "get").unwrap_err().to_string();
        assert!(error.starts_with("scenario 50%: ") && error.contains("no `%`"), "{error}");
        assert!(named("test", "50%").is_ok());
    }

    #[test]
    fn a_step_speaks_one_protocol_and_the_error_names_the_key() {
        let error = |step: &str| {
            let spec = ScenarioSpec::parse("test", &format!("[[steps]]\nname = \"s\"\n{step}\n")).unwrap();
            Scenario::new(spec, &Files::default()).unwrap_err().to_string()
        };
        let after = |message: &str| format!("scenario test: step s: {message}");
        assert_eq!(error(""), after("path: a step has a `path` (HTTP) or a `command` (Redis protocol)"));
        let both = "path = \"/\"\ncommand = [\"PING\"]";
        assert_eq!(error(both), after("command: a step has a `command` or a `path`, not both"));
        assert!(error("command = []").contains("command: at least one word"));
        for (key, value) in [("method", "\"GET\""), ("headers", "{ A = \"b\" }"), ("body", "{ text = \"b\" }")] {
            let message = after(&format!("{key}: a step with a `command` has none"));
            assert_eq!(error(&format!("command = [\"PING\"]\n{key} = {value}")), message);
        }
        assert!(error("command = [\"PING\"]\ncheck = { status = [200] }").contains("check.status"));
        assert!(error("command = [\"PING\"]\ncheck = { conflict = [412] }").contains("check.conflict: for steps"));
        assert!(error("command = [\"PING\"]\nsave = { x = { header = \"A\" } }").contains("`answer`"));
        assert!(error("path = \"/\"\ncheck = { answer = \"a\" }").contains("check.answer"));
        let mixed = "command = [\"PING\"]\n[[steps]]\nname = \"t\"\npath = \"/\"";
        assert!(error(mixed).contains("either all or none of its steps have a `command`"), "{}", error(mixed));
    }
}
