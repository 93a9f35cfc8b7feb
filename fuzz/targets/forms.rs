//! Query strings, form bodies and lists of ids: any input gives a request or a clear error.
#![no_main]

use door_data::Retrieval;
use door_data::params::Params;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &[u8], bool)| {
    let (query, body, is_form) = input;
    let mut params = Params::of_query(Some(query));
    if is_form {
        params.add_form(body);
    } else if params.add_lines(body).is_err() {
        return;
    }
    for retrieval in [Retrieval::Volumes, Retrieval::Pages] {
        if let Ok(request) = params.bulk(retrieval, || true) {
            assert!(!request.wanted.is_empty(), "an empty list is malformed");
        }
    }
});
