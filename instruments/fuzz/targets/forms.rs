//! Query strings, form bodies and lists of ids: any input gives a request or a clear error.
#![no_main]

use door_data::Retrieval;
use door_data::params::Params;
use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;

/// A query with volumes, and a form with pages.
const ACCEPTED: &[u8] = include_bytes!("../seeds/forms/accepted");

/// Returns how many requests the parameters are.
fn check((query, body, is_form): (&str, &[u8], bool)) -> usize {
    let mut params = Params::of_query(Some(query));
    if is_form {
        params.add_form(body);
    } else if params.add_lines(body).is_err() {
        return 0;
    }
    let mut requests = 0;
    for retrieval in [Retrieval::Volumes, Retrieval::Pages] {
        if let Ok(request) = params.bulk(retrieval, || true) {
            assert!(!request.wanted.is_empty(), "an empty list is malformed");
            requests += 1;
        }
    }
    requests
}

fn check_seed() {
    let input = <(&str, &[u8], bool)>::arbitrary_take_rest(Unstructured::new(ACCEPTED));
    assert_eq!(input.map(check).ok(), Some(2));
}

fuzz_target!(init: check_seed(), |input: (&str, &[u8], bool)| { check(input); });
