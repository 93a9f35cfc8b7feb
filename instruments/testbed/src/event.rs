//! Raw events: one line of CSV for each request, compressed. Anybody can read them in ten years.

use std::io::{BufReader, Read, Write};

use csv::StringRecord;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The columns. Instants are microseconds since the start instant; an empty field did not happen.
const COLUMNS: [&str; 12] = [
    "user",
    "scenario",
    "step",
    "due_us",
    "begun_us",
    "sent_us",
    "first_byte_us",
    "done_us",
    "outcome",
    "status",
    "sent_bytes",
    "received_bytes",
];

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The user's number.
    pub user: u64,
    /// The number of the scenario in the plan.
    pub scenario: usize,
    /// The number of the step in the scenario.
    pub step: usize,
    /// When it was due, in microseconds since the start instant.
    pub due_us: i64,
    /// When the generator took it up.
    pub begun_us: i64,
    /// When it was sent: a connection was there.
    pub sent_us: Option<i64>,
    /// When the head of the response was there.
    pub first_byte_us: Option<i64>,
    /// When it ended.
    pub done_us: i64,
    /// How it ended.
    pub outcome: Outcome,
    /// The status code.
    pub status: Option<u16>,
    /// Bytes of the body sent.
    pub sent_bytes: u64,
    /// Bytes of the body received.
    pub received_bytes: u64,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// As its step wants it.
    Done,
    /// Another user was first, which its step allows. Such a request is done, too.
    Conflict,
    /// Refused, because the server has too much to do: 503, or `-OVERLOADED` over the Redis protocol.
    Refused,
    /// No answer in time.
    TimeOut,
    /// Never sent: too many users were waiting.
    Dropped,
    /// Another failure: `status 404`, `error ERR`, `check: sha256`, `connection refused`, `reset` and so on.
    Failed(String),
}

/// How failures begin that are the generator's own: no files or no ports are left, for example.
pub const OF_GENERATOR: &str = "generator: ";

impl Outcome {
    /// Whether the answer is one that its step allows.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done | Self::Conflict)
    }

    /// As it is written.
    pub fn text(&self) -> &str {
        match self {
            Self::Done => "done",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::TimeOut => "time-out",
            Self::Dropped => "dropped",
            Self::Failed(kind) => kind,
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "done" => Self::Done,
            "conflict" => Self::Conflict,
            "refused" => Self::Refused,
            "time-out" => Self::TimeOut,
            "dropped" => Self::Dropped,
            kind => Self::Failed(kind.to_owned()),
        }
    }
}

/// The names of the scenarios of a plan, each with those of its steps.
pub type StepNames = Vec<(String, Vec<String>)>;

/// Why events cannot be read or written.
#[derive(Debug, Error)]
pub enum EventError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// The file cannot be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A line is no event.
    #[error("line {line}: {message}")]
    Invalid {
        /// The number of the line, from 1.
        line: u64,
        /// What is wrong.
        message: String,
    },
}

/// Writes events.
pub struct EventWriter<W: Write> {
    csv: csv::Writer<GzEncoder<W>>,
    names: StepNames,
}

impl<W: Write> EventWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(out: W, names: StepNames) -> Result<Self, EventError> {
        let mut csv = csv::Writer::from_writer(GzEncoder::new(out, Compression::fast()));
        csv.write_record(COLUMNS)?;
        Ok(Self { csv, names })
    }

    /// Writes an event.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, event: &Event) -> Result<(), EventError> {
        let mut buffer = itoa::Buffer::new();
        let mut number = |csv: &mut csv::Writer<_>, value: Option<i64>| match value {
            Some(value) => csv.write_field(buffer.format(value)),
            None => csv.write_field(""),
        };
        let csv = &mut self.csv;
        let of_step = self.names.get(event.scenario);
        number(csv, i64::try_from(event.user).ok())?;
        csv.write_field(of_step.map_or("", |(name, _)| name))?;
        csv.write_field(of_step.and_then(|(_, steps)| steps.get(event.step)).map_or("", String::as_str))?;
        for at_us in [Some(event.due_us), Some(event.begun_us), event.sent_us, event.first_byte_us, Some(event.done_us)]
        {
            number(csv, at_us)?;
        }
        csv.write_field(event.outcome.text())?;
        number(csv, event.status.map(i64::from))?;
        number(csv, i64::try_from(event.sent_bytes).ok())?;
        number(csv, i64::try_from(event.received_bytes).ok())?;
        csv.write_record(None::<&[u8]>)?;
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<W, EventError> {
        let compressed = self.csv.into_inner().map_err(|error| error.into_error())?;
        Ok(compressed.finish()?)
    }
}

/// Reads events, in the order in which they ended.
pub struct EventReader<R: Read> {
    csv: csv::Reader<GzDecoder<BufReader<R>>>,
    names: StepNames,
    line: StringRecord,
}

impl<R: Read> EventReader<R> {
    /// Reads a file of a plan's events.
    pub fn new(file: R, names: StepNames) -> Self {
        let csv = csv::Reader::from_reader(GzDecoder::new(BufReader::new(file)));
        Self { csv, names, line: StringRecord::new() }
    }

    fn event(&self) -> Option<Event> {
        let field = |index: usize| self.line.get(index);
        let optional = |index: usize| match field(index)? {
            "" => Some(None),
            text => Some(Some(text.parse::<i64>().ok()?)),
        };
        let number = |index: usize| optional(index)?;
        let bytes = |index: usize| u64::try_from(number(index)?).ok();
        let scenario = self.names.iter().position(|(name, _)| Some(name.as_str()) == field(1))?;
        Some(Event {
            user: bytes(0)?,
            scenario,
            step: self.names[scenario].1.iter().position(|name| Some(name.as_str()) == field(2))?,
            due_us: number(3)?,
            begun_us: number(4)?,
            sent_us: optional(5)?,
            first_byte_us: optional(6)?,
            done_us: number(7)?,
            outcome: Outcome::parse(field(8)?),
            status: optional(9)?.map(u16::try_from).transpose().ok()?,
            sent_bytes: bytes(10)?,
            received_bytes: bytes(11)?,
        })
    }
}

impl<R: Read> Iterator for EventReader<R> {
    type Item = Result<Event, EventError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.csv.read_record(&mut self.line) {
            Ok(false) => None,
            Ok(true) => Some(self.event().ok_or_else(|| EventError::Invalid {
                line: self.line.position().map_or(0, csv::Position::line),
                message: "it is no event of this plan".to_owned(),
            })),
            Err(error) => Some(Err(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn names() -> StepNames {
        vec![("a".to_owned(), vec!["x".to_owned()]), ("b, c".to_owned(), vec!["y".to_owned(), "z\"".to_owned()])]
    }

    fn event(outcome: Outcome) -> Event {
        Event {
            user: 7,
            scenario: 1,
            step: 1,
            due_us: -5,
            begun_us: 3,
            sent_us: Some(4),
            first_byte_us: None,
            done_us: 60_000_000,
            outcome,
            status: Some(404),
            sent_bytes: 1 << 40,
            received_bytes: 0,
        }
    }

    #[test]
    fn events_are_read_as_they_were_written() {
        let outcomes = [Outcome::Done, Outcome::Conflict, Outcome::Refused, Outcome::TimeOut, Outcome::Dropped];
        let mut events: Vec<_> = outcomes.into_iter().map(event).collect();
        events.push(event(Outcome::Failed("check: header location".to_owned())));
        let mut writer = EventWriter::new(Vec::new(), names()).unwrap();
        events.iter().for_each(|event| writer.write(event).unwrap());
        let file = writer.finish().unwrap();
        let read: Vec<_> = EventReader::new(file.as_slice(), names()).map(Result::unwrap).collect();
        assert_eq!(read, events);
    }

    #[test]
    fn a_damaged_or_short_file_is_an_error() {
        let mut writer = EventWriter::new(Vec::new(), names()).unwrap();
        (0..100).for_each(|_| writer.write(&event(Outcome::Done)).unwrap());
        let mut file = writer.finish().unwrap();
        let of_another_plan = EventReader::new(file.as_slice(), Vec::new()).next();
        assert!(of_another_plan.unwrap().unwrap_err().to_string().contains("line 2"));
        file.truncate(file.len() - 4);
        assert!(EventReader::new(file.as_slice(), names()).any(|event| event.is_err()));
    }
}
