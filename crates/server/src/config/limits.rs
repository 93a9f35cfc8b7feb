//! `[limits]`

use std::time::Duration;

use documented::DocumentedFields;
use heads::LibraryOptions;
use serde::{Deserialize, Serialize};

use super::text;

/// `[limits]`
#[derive(Clone, Debug, PartialEq, Eq, DocumentedFields, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsConfig {
    /// Concurrent connections of HTTP, and as many of the Redis protocol, if the limit of descriptors
    /// allows them; further ones wait. An address has at most as many of them as are still free.
    pub connections: usize,
    /// Concurrent streams of one HTTP/2 connection.
    pub http2_streams: u32,
    /// Longest time for a TLS handshake, for the head of a request, and between requests; over the
    /// Redis protocol also until the first command of a client that may do anything.
    #[serde(with = "humantime_serde")]
    pub header_time: Duration,
    /// Longest pause within the body of a request.
    #[serde(with = "humantime_serde")]
    pub body_pause: Duration,
    /// Least bytes per second of a body, averaged over each `limits.body_pause` in which the server
    /// waits for it; 0: any.
    #[serde(with = "text::size")]
    pub body_rate: u64,
    /// Requests per second of one token or address, in the long run; 0: any.
    pub request_rate: u32,
    /// How many requests of one token or address may come at once, before `limits.request_rate`
    /// counts.
    pub request_burst: u32,
    /// Commands per second of one token or address over the Redis protocol, in the long run; 0: any.
    pub command_rate: u32,
    /// How many commands of one token or address may come at once, before `limits.command_rate`
    /// counts.
    pub command_burst: u32,
    /// Requests of one token or address at once, until their responses end; 0: any.
    pub requests_at_once: u32,
    /// Bytes of responses, and of answers over the Redis protocol, that one token or address gets in
    /// a day; 0: any.
    #[serde(with = "text::size")]
    pub bytes_per_day: u64,
    /// Memory that clients together may take with bodies, lists of ids, plans and graphs; a request
    /// that finds too little waits a while and is then asked to retry. No token and no address
    /// holds more of it than is still free.
    #[serde(with = "text::size")]
    pub memory: u64,
    /// How long a client may take nothing of a response before the response ends.
    #[serde(with = "humantime_serde")]
    pub stall: Duration,
    /// How long `/readyz` says no after a stop signal before the server accepts nothing more, if it
    /// was asked within a minute.
    #[serde(with = "humantime_serde")]
    pub drain: Duration,
    /// How long responses may continue after a stop signal.
    #[serde(with = "humantime_serde")]
    pub shutdown_time: Duration,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            connections: 16_384,
            http2_streams: 32,
            header_time: Duration::from_secs(30),
            body_pause: Duration::from_secs(30),
            body_rate: 1 << 10,
            request_rate: 0,
            request_burst: 1_000,
            command_rate: 0,
            command_burst: 10_000,
            requests_at_once: 0,
            bytes_per_day: 0,
            memory: LibraryOptions::default().memory_bytes,
            stall: Duration::from_secs(60),
            drain: Duration::from_secs(5),
            shutdown_time: Duration::from_secs(30),
        }
    }
}
