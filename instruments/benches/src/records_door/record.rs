//! The records: 400 bytes in five attributes each, as a bidder keeps them of a user.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Attributes of a record.
pub const ATTRIBUTES: [&str; 5] = ["segments", "last_seen", "caps", "model", "region"];

/// Bytes of the value of an attribute, as text.
pub const VALUE_BYTES: usize = 72;

/// Those of a SHA-256 in hexadecimal.
const DIGEST_CHARS: usize = 64;

/// The id of a record. Popular records have small numbers. They are not neighbours in a store,
/// because numbers without leading zeros are sorted as texts.
pub fn id(number: u64) -> String {
    format!("user:{}", number + 1)
}

/// The same in a scenario.
const ID: &str = "user:${n}";

/// A value of an attribute, drawn so that it cannot be compressed by much more than half.
pub fn value(random: &mut impl RngCore) -> String {
    let mut bytes = [0; VALUE_BYTES / 2];
    random.fill_bytes(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The command that writes the whole of the record with an id.
pub fn set(id: &str, random: &mut impl RngCore) -> redis::Cmd {
    let mut command = redis::cmd("HSET");
    command.arg(id);
    ATTRIBUTES.iter().for_each(|attribute| {
        command.arg(attribute).arg(value(random));
    });
    command
}

/// How records are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Each as likely as any other.
    Uniform,
    /// The n-th most popular with a share of 1/n^0.99, as YCSB draws.
    Zipf,
}

/// The exponent of [`Draw::Zipf`].
const EXPONENT: f64 = 0.99;

impl Draw {
    /// A scenario of the testbed whose users read one of so many records.
    pub fn reading(self, records: u64) -> String {
        let (feed, breaks) = (self.feed(records), 2 * ATTRIBUTES.len() - 1);
        // The answer as text has a line for each name and each value.
        format!(
            "feeds = [{feed}]\n[[steps]]\nname = \"read\"\ncommand = [\"HGETALL\", \"{ID}\"]\n\
             check = {{ answer = '^[^\\n]*(?:\\n[^\\n]*){{{breaks}}}$' }}\n"
        )
    }

    /// One whose users write the whole of one of so many records, with values of the same length as
    /// [`value`]: most of each is a digest of random bytes.
    pub fn writing(self, records: u64) -> String {
        let (feed, last) = (self.feed(records), "9".repeat(VALUE_BYTES - DIGEST_CHARS));
        let first = format!("1{}", "0".repeat(last.len() - 1));
        let feeds = ATTRIBUTES.map(|name| format!("{{ name = \"{name}\", kind = \"bytes\", count = 16 }}"));
        let words = ATTRIBUTES.map(|name| format!("\"{name}\", \"${{{name}.sha256}}${{end}}\""));
        format!(
            "feeds = [{feed}, {}, {{ name = \"end\", kind = \"uniform\", from = {first}, to = {last} }}]\n\
             [[steps]]\nname = \"write\"\ncommand = [\"HSET\", \"{ID}\", {}]\n",
            feeds.join(", "),
            words.join(", ")
        )
    }

    /// The feed of the numbers of records.
    fn feed(self, records: u64) -> String {
        match self {
            Self::Uniform => format!("{{ name = \"n\", kind = \"uniform\", from = 1, to = {records} }}"),
            Self::Zipf => format!("{{ name = \"n\", kind = \"zipf\", count = {records}, exponent = {EXPONENT} }}"),
        }
    }
}

/// Randomness of a request.
pub fn random(request: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(request)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use testbed::inputs::Files;
    use testbed::scenario::{Answer, Head, Outgoing, Scenario, ScenarioSpec};

    use super::*;

    fn scenario(text: &str) -> Scenario {
        Scenario::new(ScenarioSpec::parse("test", text).unwrap(), &Files::default()).unwrap()
    }

    /// The words of the command of a user.
    fn words(scenario: &Scenario, user: u64) -> Vec<String> {
        let values = scenario.draw(user, 0, 1, 0);
        match values.request(&scenario.steps[0]) {
            Outgoing::Command(words) => words.into_iter().map(|word| word.into_owned()).collect(),
            Outgoing::Http(_) => Vec::new(),
        }
    }

    #[test]
    fn a_record_that_is_written_has_four_hundred_bytes_and_its_attributes() {
        for draw in [Draw::Uniform, Draw::Zipf] {
            let words = words(&scenario(&draw.writing(1_000_000)), 7);
            let bytes = words[1..].iter().map(String::len).sum::<usize>();
            assert!((398..=405).contains(&bytes), "{bytes}: {words:?}");
            let attributes: Vec<_> = words[2..].chunks(2).map(|pair| (pair[0].as_str(), pair[1].len())).collect();
            assert_eq!(attributes, ATTRIBUTES.map(|name| (name, VALUE_BYTES)));
        }
    }

    #[test]
    fn records_that_were_filled_are_read_and_an_answer_must_have_all_attributes() {
        let reading = scenario(&Draw::Uniform.reading(3));
        let filled = [id(0), id(1), id(2)];
        assert!((0..100).all(|user| filled.contains(&words(&reading, user)[1])));
        let is_right = |lines: usize| {
            let body = vec!["x"; lines].join("\n");
            let answer = Answer { head: Head::Done, body_bytes: body.len() as u64, body: body.into() };
            reading.draw(0, 0, 1, 0).take(&reading.steps[0], &answer).is_ok()
        };
        assert_eq!([0, 9, 10, 11].map(is_right), [false, false, true, false]);
    }
}
