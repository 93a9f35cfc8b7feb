//! `Accept` and `Accept-Encoding`: an offer is chosen, or none; and an offer that is chosen is also
//! chosen if it is the only one.
#![no_main]

use std::alloc::System;

use cap::Cap;
use door_http::accept::{self, Offer};
use http::{HeaderMap, HeaderValue, header};
use libfuzzer_sys::fuzz_target;

/// An allocation beyond this ends the process.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 64 << 20);

const JSON_LD: &str = "application/ld+json";
const EXPANDED: &str = "http://www.w3.org/ns/json-ld#expanded";

/// A header that prefers another offer than the first one.
const ACCEPTED: &[u8] = include_bytes!("../seeds/accept/accepted");

/// Returns the chosen offer.
fn check(input: &[u8]) -> Option<&'static str> {
    let value = HeaderValue::from_bytes(input).ok()?;
    let headers = HeaderMap::from_iter([(header::ACCEPT, value.clone()), (header::ACCEPT_ENCODING, value)]);
    let plain = [Offer::new("text/html", "html"), Offer::new(JSON_LD, "json"), Offer::new("text/plain", "text")];
    let expanded = Offer { media_type: JSON_LD, profile: Some(EXPANDED), value: "expanded" };
    let chosen = accept::media_type(&headers, &plain).copied();
    if let Some(chosen) = chosen {
        let alone: Vec<_> = plain.into_iter().filter(|offer| offer.value == chosen).collect();
        assert_eq!(accept::media_type(&headers, &alone), Some(&chosen));
    }
    let _ = accept::media_type(&headers, &[plain[0], plain[1], expanded]);
    let _ = accept::coding(&headers);
    chosen
}

fuzz_target!(init: assert_eq!(check(ACCEPTED), Some("json")), |input: &[u8]| { check(input); });
