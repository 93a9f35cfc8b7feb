//! Feeds: where the values of a scenario come from. Each user draws once from each feed.

use std::collections::BTreeMap;

use bytes::Bytes;
use rand::RngCore;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Zipf};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::template::Names;
use crate::inputs::Files;
use crate::plan::{PlanError, invalid};
use crate::replay::Entry;

/// The most bytes of a random body.
const RANDOM_BYTES_MAX: u64 = 1 << 30;

/// A feed, as a scenario describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FeedSpec {
    /// Its name: `${name}`, or `${name.column}` where it has columns.
    pub name: String,
    /// What it draws from.
    #[serde(flatten)]
    pub source: Source,
}

/// What a feed draws from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// Numbers that no other user of the run draws: `from` plus the number of the user.
    Counter {
        /// The first.
        #[serde(default)]
        from: u64,
    },
    /// A whole number between two, both included, each as likely.
    Uniform {
        /// The least.
        from: u64,
        /// The greatest.
        to: u64,
    },
    /// A whole number from 1, small ones more often (Zipf's law).
    Zipf {
        /// The greatest.
        count: u64,
        /// How uneven it is: 1 is the usual one.
        #[serde(default = "one")]
        exponent: f64,
    },
    /// One of some texts.
    Choice {
        /// The texts.
        values: Vec<String>,
    },
    /// The lines of a file.
    Lines {
        /// The file, beside the plan.
        file: String,
        /// In which order.
        #[serde(default)]
        order: Order,
    },
    /// The rows of a CSV file with a header: `${name.column}`.
    Csv {
        /// The file, beside the plan.
        file: String,
        /// In which order.
        #[serde(default)]
        order: Order,
    },
    /// The objects of a file with one JSON object on each line: `${name.key}`.
    Ndjson {
        /// The file, beside the plan.
        file: String,
        /// In which order.
        #[serde(default)]
        order: Order,
    },
    /// The files of a folder as bodies: `${name.name}`, `${name.bytes}`, `${name.sha256}`.
    Files {
        /// The folder, beside the plan.
        folder: String,
        /// In which order.
        #[serde(default)]
        order: Order,
    },
    /// The requests of an access log that a load of the shape `replay` sends: `${name.method}`,
    /// `${name.path}`. Each user has one.
    Replay {},
    /// Random bytes as a body: `${name.bytes}`, `${name.sha256}`.
    Bytes {
        /// How many.
        count: u64,
    },
}

/// In which order a feed is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// One after the other over all users of the run, and again from the beginning.
    #[default]
    Sequential,
    /// Any, each as likely.
    Random,
}

/// A feed that is ready to be drawn from.
#[derive(Clone, Debug)]
pub struct Feed {
    draw: Draw,
    /// The number of the first value of each draw.
    first_value: usize,
}

#[derive(Clone, Debug)]
enum Draw {
    Counter(u64),
    Uniform(u64, u64),
    Zipf(Zipf<f64>),
    Rows(Vec<Vec<String>>, Order),
    Files(Vec<(Vec<String>, Bytes)>, Order),
    Bytes(usize),
    Replay,
}

impl Feed {
    /// Prepares a feed, and adds the names of its values.
    pub(super) fn new(spec: &FeedSpec, files: &Files, names: &mut Names) -> Result<Self, PlanError> {
        let place = format!("feed {}", spec.name);
        let refuse = |message: &str| invalid(&place, message);
        let (columns, draw) = match &spec.source {
            Source::Counter { from } => (vec![], Draw::Counter(*from)),
            Source::Uniform { from, to } if from <= to => (vec![], Draw::Uniform(*from, *to)),
            Source::Uniform { .. } => return Err(refuse("`from` is greater than `to`")),
            // Numbers of an infinite one would be drawn for ever.
            Source::Zipf { exponent, .. } if !exponent.is_finite() => {
                return Err(refuse("`exponent` is a number, 0 or more"));
            }
            Source::Zipf { count, exponent } => {
                let law = Zipf::new(*count as f64, *exponent).map_err(|error| refuse(&error.to_string()))?;
                (vec![], Draw::Zipf(law))
            }
            Source::Choice { values } => (vec![], Draw::Rows(values.iter().map(row).collect(), Order::Random)),
            Source::Lines { file, order } => {
                let text = files.text(file)?;
                (vec![], Draw::Rows(text.lines().map(row).collect(), *order))
            }
            Source::Csv { file, order } => {
                let (columns, rows) = csv_rows(files.text(file)?).map_err(|error| refuse(&error.to_string()))?;
                (columns, Draw::Rows(rows, *order))
            }
            Source::Ndjson { file, order } => {
                let (columns, rows) = json_rows(files.text(file)?).map_err(|error| refuse(&error))?;
                (columns, Draw::Rows(rows, *order))
            }
            Source::Files { folder, order } => {
                let file = |(name, bytes): (&str, &Bytes)| {
                    (vec![name.to_owned(), bytes.len().to_string(), sha256(bytes)], bytes.clone())
                };
                (["name", "bytes", "sha256"].map(str::to_owned).to_vec(), {
                    Draw::Files(files.of_folder(folder).map(file).collect(), *order)
                })
            }
            Source::Replay {} => (["method", "path"].map(str::to_owned).to_vec(), Draw::Replay),
            Source::Bytes { count } if *count <= RANDOM_BYTES_MAX => {
                (["bytes", "sha256"].map(str::to_owned).to_vec(), Draw::Bytes(*count as usize))
            }
            Source::Bytes { .. } => return Err(refuse("`count` is at most 1 GiB")),
        };
        let is_empty = match &draw {
            Draw::Rows(rows, _) => rows.is_empty(),
            Draw::Files(all, _) => all.is_empty(),
            _ => false,
        };
        if is_empty {
            return Err(refuse("it has nothing to draw from"));
        }
        let value_names = match columns.is_empty() {
            true => vec![spec.name.clone()],
            false => columns.iter().map(|column| format!("{}.{column}", spec.name)).collect(),
        };
        // The values of a feed follow each other.
        let first_value = names.len();
        for name in value_names {
            if names.number(&name).is_some() {
                return Err(refuse(&format!("there is another ${{{name}}}: names of feeds and columns differ")));
            }
            names.add(&name);
        }
        Ok(Self { draw, first_value })
    }

    /// Draws for a user, and puts its values where they belong. Returns the bytes of a body, if the
    /// feed has any.
    pub fn draw(&self, user: u64, random: &mut ChaCha8Rng, values: &mut [String]) -> Option<Bytes> {
        let mut set = |columns: &[String]| {
            for (value, column) in values[self.first_value..].iter_mut().zip(columns) {
                value.clone_from(column);
            }
        };
        match &self.draw {
            Draw::Counter(from) => set(&[from.wrapping_add(user).to_string()]),
            Draw::Uniform(from, to) => set(&[rand::Rng::random_range(random, *from..=*to).to_string()]),
            Draw::Zipf(law) => set(&[(law.sample(random) as u64).to_string()]),
            Draw::Rows(rows, order) => set(&rows[order.index(user, rows.len(), random)]),
            Draw::Files(all, order) => {
                let (columns, bytes) = &all[order.index(user, all.len(), random)];
                set(columns);
                return Some(bytes.clone());
            }
            // The user brings them.
            Draw::Replay => {}
            Draw::Bytes(count) => {
                let mut bytes = vec![0; *count];
                random.fill_bytes(&mut bytes);
                set(&[count.to_string(), sha256(&bytes)]);
                return Some(bytes.into());
            }
        }
        None
    }

    /// Whether it has the requests of an access log.
    pub(super) fn is_replay(&self) -> bool {
        matches!(self.draw, Draw::Replay)
    }

    /// Puts the values of a request of an access log where they belong.
    pub(super) fn set_entry(&self, entry: &Entry, values: &mut [String]) {
        for (value, of_entry) in values[self.first_value..].iter_mut().zip([entry.method, entry.target.as_str()]) {
            of_entry.clone_into(value);
        }
    }

    /// Whether it has bodies.
    pub fn has_bodies(&self) -> bool {
        matches!(self.draw, Draw::Files(..) | Draw::Bytes(_))
    }
}

impl Order {
    fn index(self, user: u64, len: usize, random: &mut ChaCha8Rng) -> usize {
        match self {
            Self::Sequential => (user % len as u64) as usize,
            Self::Random => rand::Rng::random_range(random, 0..len),
        }
    }
}

fn row(value: impl AsRef<str>) -> Vec<String> {
    vec![value.as_ref().to_owned()]
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn csv_rows(text: &str) -> Result<(Vec<String>, Vec<Vec<String>>), csv::Error> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns = reader.headers()?.iter().map(str::to_owned).collect();
    let rows = reader.records().map(|record| Ok(record?.iter().map(str::to_owned).collect()));
    Ok((columns, rows.collect::<Result<_, csv::Error>>()?))
}

/// The columns are the keys of the first object.
fn json_rows(text: &str) -> Result<(Vec<String>, Vec<Vec<String>>), String> {
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let object: BTreeMap<String, serde_json::Value> =
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))?;
        if rows.is_empty() {
            columns = object.keys().cloned().collect();
        }
        let value = |column: &String| match object.get(column) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        rows.push(columns.iter().map(value).collect());
    }
    Ok((columns, rows))
}

fn one() -> f64 {
    1.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use rand::SeedableRng;

    use super::*;

    fn drawn(source: Source, files: &Files, users: u64) -> Vec<Vec<String>> {
        let mut names = Names::default();
        let feed = Feed::new(&FeedSpec { name: "f".to_owned(), source }, files, &mut names).unwrap();
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let draw = |user| {
            let mut values = vec![String::new(); names.len()];
            feed.draw(user, &mut random, &mut values);
            values
        };
        (0..users).map(draw).collect()
    }

    #[test]
    fn sequential_feeds_begin_again_at_their_end() {
        let files =
            Files::of([("a.csv", "id,title\n1,Sea\n2,Land\n"), ("a.ndjson", "{\"n\":1,\"t\":\"x\"}\n\n{\"n\":2}\n")]);
        let source = Source::Csv { file: "a.csv".to_owned(), order: Order::Sequential };
        assert_eq!(drawn(source, &files, 3), [["1", "Sea"], ["2", "Land"], ["1", "Sea"]]);
        let source = Source::Ndjson { file: "a.ndjson".to_owned(), order: Order::Sequential };
        assert_eq!(drawn(source, &files, 2), [["1", "x"], ["2", ""]]);
        assert_eq!(drawn(Source::Counter { from: 10 }, &files, 2), [["10"], ["11"]]);
    }

    #[test]
    fn feeds_in_random_order_draw_all_that_a_file_has_and_keep_rows_together() {
        let files =
            Files::of([("a.csv", "id,title\n1,Sea\n2,Land\n"), ("a.ndjson", "{\"n\":1,\"t\":\"x\"}\n{\"n\":2}\n")]);
        let sources = [
            (Source::Csv { file: "a.csv".to_owned(), order: Order::Random }, [["1", "Sea"], ["2", "Land"]]),
            (Source::Ndjson { file: "a.ndjson".to_owned(), order: Order::Random }, [["1", "x"], ["2", ""]]),
        ];
        for (source, rows) in sources {
            let drawn = drawn(source, &files, 100);
            for row in rows {
                // Half of a hundred, within six standard deviations.
                let count = drawn.iter().filter(|drawn| **drawn == row).count();
                assert!((20..=80).contains(&count), "{row:?}: {count}");
            }
            assert!(drawn.iter().all(|drawn| rows.iter().any(|row| drawn == row)));
            assert!(drawn.windows(2).any(|pair| pair[0] == pair[1]), "they do not take turns");
        }
    }

    #[test]
    fn random_bodies_have_their_digests() {
        let drawn = drawn(Source::Bytes { count: 3 }, &Files::default(), 2);
        assert_eq!((drawn[0][0].as_str(), drawn[0][1].len()), ("3", 64));
        assert_ne!(drawn[0][1], drawn[1][1]);
    }

    #[test]
    fn a_feed_without_values_or_file_is_refused() {
        let twice = Source::Csv { file: "twice".to_owned(), order: Order::Random };
        let error = |source| {
            let spec = FeedSpec { name: "f".to_owned(), source };
            Feed::new(&spec, &Files::of([("empty", ""), ("twice", "a,a\n1,2\n")]), &mut Names::default())
                .unwrap_err()
                .to_string()
        };
        let lines = |file: &str| Source::Lines { file: file.to_owned(), order: Order::Random };
        assert_eq!(error(lines("empty")), "feed f: it has nothing to draw from");
        assert!(error(lines("missing")).contains("missing"));
        assert!(error(Source::Uniform { from: 2, to: 1 }).contains("from"));
        for exponent in [f64::INFINITY, f64::NAN] {
            let error = error(Source::Zipf { count: 10, exponent });
            assert_eq!(error, "feed f: `exponent` is a number, 0 or more");
        }
        for (count, exponent) in [(0, 1.0), (10, -1.0)] {
            assert!(error(Source::Zipf { count, exponent }).contains("Zipf"));
        }
        assert!(error(twice).contains("${f.a}"));
    }
}
