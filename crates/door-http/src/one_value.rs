//! Headers that may have one value only.

use http::{HeaderMap, HeaderName, HeaderValue};
use thiserror::Error;

/// A header that may have one value was sent with different ones, so it is not known which counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("it was sent with different values; send one")]
pub struct Ambiguous;

/// The value of a header that may have one value; `None` if the request does not have it. A proxy
/// may have repeated the same value.
pub fn one_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Ambiguous> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.all(|value| Some(value) == first) { Ok(first) } else { Err(Ambiguous) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use http::header::DATE;

    #[test]
    fn the_same_value_may_be_repeated_and_different_ones_are_ambiguous() {
        let mut headers = HeaderMap::new();
        assert_eq!(one_value(&headers, &DATE), Ok(None));
        for _ in 0..2 {
            headers.append(DATE, HeaderValue::from_static("a"));
            assert_eq!(one_value(&headers, &DATE).unwrap().unwrap(), "a");
        }
        headers.append(DATE, HeaderValue::from_static("b"));
        assert_eq!(one_value(&headers, &DATE), Err(Ambiguous));
    }
}
