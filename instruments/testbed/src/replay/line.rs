//! One line of an access log: when, by which method, of which path.

use http::uri::PathAndQuery;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The time of a line in the Common Log Format.
const TIME: &str = "%d/%b/%Y:%H:%M:%S %z";
/// The most bytes of a path with its query.
const TARGET_BYTES_MAX: usize = 8 << 10;
/// The most bytes of a method.
const METHOD_BYTES_MAX: usize = 32;

/// The form of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// The Common Log Format, and the Combined one, which has more at the end of each line.
    #[default]
    Common,
    /// A JSON object on each line.
    Ndjson,
}

/// The keys of the objects of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Keys {
    /// When: a text as in RFC 3339, or seconds since 1970.
    pub time: String,
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
}

impl Default for Keys {
    fn default() -> Self {
        Self { time: "time".to_owned(), method: "method".to_owned(), path: "path".to_owned() }
    }
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// When, in microseconds since 1970.
    pub at_us: i64,
    /// The method, as it is written.
    pub method: String,
    /// The path and the query.
    pub target: String,
}

impl LogFormat {
    /// How long an instant of the log is, in microseconds: it names a second or a point.
    pub(super) fn grain_us(self) -> i64 {
        match self {
            Self::Common => 1_000_000,
            Self::Ndjson => 0,
        }
    }

    /// Reads a line. The error says what is wrong in a few words.
    pub(super) fn parse(self, line: &str, keys: &Keys) -> Result<Line, &'static str> {
        match self {
            Self::Common => common(line),
            Self::Ndjson => object(line, keys),
        }
    }
}

/// `host ident user [10/Oct/2000:13:55:36 -0700] "GET /path HTTP/1.0" 200 2326` and what follows.
fn common(line: &str) -> Result<Line, &'static str> {
    let (_, rest) = line.split_once(" [").ok_or("no time in brackets")?;
    let (time, rest) = rest.split_once(']').ok_or("no time in brackets")?;
    let rest = rest.strip_prefix(" \"").ok_or("no request in quotes")?;
    let (request, rest) = rest.split_once('"').ok_or("no request in quotes")?;
    // Servers write quotes and what cannot be printed with a backslash. Such a path is none.
    if request.contains('\\') {
        return Err("a request with escaped characters");
    }
    let mut words = request.split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("a request that is not `METHOD /path HTTP/…`");
    };
    if !version.starts_with("HTTP/") {
        return Err("a request that is not `METHOD /path HTTP/…`");
    }
    let status = rest.split_ascii_whitespace().next().unwrap_or_default();
    if status.len() != 3 || !status.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("no status");
    }
    let at = jiff::fmt::strtime::parse(TIME, time).and_then(|time| time.to_timestamp());
    let at_us = at.map_err(|_| "a time that is none")?.as_microsecond();
    Ok(Line { at_us, method: method_of(method)?, target: target_of(target)? })
}

fn object(line: &str, keys: &Keys) -> Result<Line, &'static str> {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(line).map_err(|_| "no JSON object")?;
    let text = |key: &String| object.get(key).and_then(serde_json::Value::as_str);
    let time = object.get(&keys.time).ok_or("no time")?;
    let at_us = match (time.as_str(), time.as_f64()) {
        (Some(text), _) => text.parse::<Timestamp>().map_err(|_| "a time that is none")?.as_microsecond(),
        // Until the year 3000.
        (_, Some(seconds)) if (0.0..3.3e10).contains(&seconds) => (seconds * 1e6) as i64,
        _ => return Err("a time that is none"),
    };
    let (method, target) = (text(&keys.method).ok_or("no method")?, text(&keys.path).ok_or("no path")?);
    Ok(Line { at_us, method: method_of(method)?, target: target_of(target)? })
}

fn method_of(method: &str) -> Result<String, &'static str> {
    let is_plain = !method.is_empty() && method.len() <= METHOD_BYTES_MAX;
    match is_plain && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
        true => Ok(method.to_owned()),
        false => Err("a method that is none"),
    }
}

/// The path and the query; of an address, what follows its host.
fn target_of(target: &str) -> Result<String, &'static str> {
    let is_address = ["http://", "https://"].iter().find_map(|scheme| target.strip_prefix(scheme));
    let target = match is_address {
        Some(address) => address.find('/').map_or("/", |slash| &address[slash..]),
        None => target,
    };
    if !target.starts_with('/') {
        return Err("a path that does not begin with `/`");
    }
    // A path with spaces would be three words of a part, and not one.
    if target.len() > TARGET_BYTES_MAX
        || target.contains(|char: char| char.is_ascii_whitespace() || !char.is_ascii_graphic())
    {
        return Err("a path that is none");
    }
    target.parse::<PathAndQuery>().map_err(|_| "a path that is none")?;
    Ok(target.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn common(line: &str) -> Result<Line, &'static str> {
        LogFormat::Common.parse(line, &Keys::default())
    }

    #[test]
    fn lines_of_both_common_formats_have_their_instants() {
        let line =
            common("127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a.gif?b=c%20d HTTP/1.0\" 200 2326").unwrap();
        assert_eq!(
            (line.at_us, line.method.as_str(), line.target.as_str()),
            (971_211_336_000_000, "GET", "/a.gif?b=c%20d")
        );
        let combined = "::1 - - [10/Oct/2000:20:55:36 +0000] \"HEAD http://host/x HTTP/1.1\" 304 - \"http://r/ [x\" \"Agent \\\"q\\\"\"";
        let line = common(combined).unwrap();
        assert_eq!((line.at_us, line.method.as_str(), line.target.as_str()), (971_211_336_000_000, "HEAD", "/x"));
    }

    #[test]
    fn lines_that_make_no_sense_are_refused_with_the_reason() {
        let request = |request: &str| common(&format!("h - - [10/Oct/2000:13:55:36 -0700] \"{request}\" 400 0"));
        assert_eq!(request("-").unwrap_err(), "a request that is not `METHOD /path HTTP/…`");
        assert_eq!(request("GET /a b HTTP/1.1").unwrap_err(), "a request that is not `METHOD /path HTTP/…`");
        assert_eq!(request("\\x16\\x03\\x01 /x HTTP/1.1").unwrap_err(), "a request with escaped characters");
        assert_eq!(request("CONNECT host:443 HTTP/1.1").unwrap_err(), "a path that does not begin with `/`");
        assert_eq!(request("get / HTTP/1.1").unwrap_err(), "a method that is none");
        assert_eq!(request("GET /\u{7f} HTTP/1.1").unwrap_err(), "a path that is none");
        assert_eq!(request(&format!("GET /{} HTTP/1.1", "x".repeat(10_000))).unwrap_err(), "a path that is none");
        assert_eq!(common("").unwrap_err(), "no time in brackets");
        assert_eq!(
            common("h - - [31/Feb/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 1").unwrap_err(),
            "a time that is none"
        );
        assert_eq!(common("h - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" ok").unwrap_err(), "no status");
    }

    #[test]
    fn objects_have_a_text_or_seconds_as_their_time() {
        let parse = |line: &str| LogFormat::Ndjson.parse(line, &Keys::default());
        let text =
            parse("{\"time\":\"2000-10-10T20:55:36.25Z\",\"method\":\"GET\",\"path\":\"/a\",\"status\":200}").unwrap();
        let seconds = parse("{\"time\":971211336.25,\"method\":\"GET\",\"path\":\"/a\"}").unwrap();
        assert_eq!((text.at_us, &text), (971_211_336_250_000, &seconds));
        for wrong in [
            "[]",
            "{\"time\":-1,\"method\":\"GET\",\"path\":\"/\"}",
            "{\"time\":1,\"path\":\"/\"}",
            "{\"time\":1e300,\"method\":\"GET\",\"path\":\"/\"}",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
