//! `lares testbed null`

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use testbed::null::Null;
use tokio::net::TcpListener;

use terminal::exit::CliError;
use terminal::output::Output;

/// Bytes of the body of a response, if nothing else is said.
const BODY_BYTES: usize = 1024;

/// Arguments of `lares testbed null`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  lares testbed null --listen 127.0.0.1:8090 --body-bytes 1024
  lares testbed null --protocol redis --listen 127.0.0.1:6390")]
pub struct NullArgs {
    /// What it speaks.
    #[arg(long, value_enum, default_value_t = Spoken::Http)]
    protocol: Spoken,
    /// Its address.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Bytes of the body of each response over HTTP [default: 1024]
    #[arg(long, value_name = "N")]
    body_bytes: Option<usize>,
    /// How long it waits before it answers.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = humantime::parse_duration)]
    delay: Duration,
}

/// What a server that does nothing speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Spoken {
    /// HTTP/1.1 and HTTP/2
    Http,
    /// The Redis protocol: each record has five attributes of 64 bytes
    Redis,
}

impl NullArgs {
    /// The server, and the scheme of its address.
    fn server(&self) -> Result<(Null, &'static str), CliError> {
        match (self.protocol, self.body_bytes) {
            (Spoken::Http, bytes) => Ok((Null::http(bytes.unwrap_or(BODY_BYTES), self.delay), "http")),
            (Spoken::Redis, None) => Ok((Null::redis(self.delay), "redis")),
            (Spoken::Redis, Some(_)) => {
                let message = "--body-bytes belongs to --protocol http: records have a size of their own";
                Err(CliError::Usage(message.to_owned()))
            }
        }
    }
}

/// Serves until it is killed.
pub async fn run(args: NullArgs) -> anyhow::Result<()> {
    let (server, scheme) = args.server()?;
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
    let mut output = Output::stdout();
    output.line(format!("Listening on {scheme}://{}/", listener.local_addr()?))?;
    output.finish()?;
    match server.serve(listener).await {}
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;
    use testbed::candidate::Candidate;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: NullArgs,
    }

    fn scheme(words: &[&str]) -> Result<&'static str, CliError> {
        let line = Line::try_parse_from([&["null"][..], words].concat()).unwrap();
        line.args.server().map(|(_, scheme)| scheme)
    }

    #[test]
    fn the_shipped_candidates_that_do_nothing_speak_the_protocol_of_their_address() {
        for (name, wanted) in [("null", "http"), ("null-redis", "redis")] {
            let spec = Candidate::shipped(name).unwrap().spec;
            let words: Vec<_> = spec.start[3..].iter().map(|word| word.replace("${port}", "8090")).collect();
            assert_eq!(spec.start[..3], ["${self}", "testbed", "null"]);
            assert_eq!(scheme(&words.iter().map(String::as_str).collect::<Vec<_>>()).unwrap(), wanted);
            assert!(spec.url.starts_with(&format!("{wanted}://")), "{name}");
        }
    }

    #[test]
    fn records_have_no_body_and_an_unknown_protocol_is_refused() {
        assert_eq!(scheme(&["--body-bytes", "7"]).unwrap(), "http");
        let error = scheme(&["--protocol", "redis", "--body-bytes", "7"]).unwrap_err().to_string();
        assert!(error.starts_with("--body-bytes belongs to --protocol http"), "{error}");
        let error = Line::try_parse_from(["null", "--protocol", "ftp"]).unwrap_err().to_string();
        assert!(error.contains("http") && error.contains("redis"), "{error}");
    }
}
