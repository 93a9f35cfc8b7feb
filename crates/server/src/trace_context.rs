//! The trace of a request: `traceparent` of W3C Trace Context (Recommendation, section 3.2), as
//! sent by clients that trace. The log contains it, so that a line here can be found from a trace
//! elsewhere. With `telemetry.otlp` the request is a span of that trace.

use http::{HeaderMap, HeaderName};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Characters of version 00; later versions may continue after a `-`.
const CHARS: usize = 55;

/// The contents of a valid header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceParent {
    /// 32 hexadecimal digits.
    pub(crate) trace_id: String,
    /// 16 hexadecimal digits: the client's span.
    pub(crate) parent_id: String,
    /// Whether the client traces it.
    pub(crate) is_sampled: bool,
}

impl TraceParent {
    /// The trace of a request; `None` if there is no header, more than one, or an invalid one.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let (value, None) = (values.next()?, values.next()) else { return None };
        Self::parse(value.to_str().ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (known, more) = text.split_at_checked(CHARS)?;
        let mut fields = known.split('-');
        let mut field = |digits: usize| fields.next().filter(|field| is_lower_hex(field, digits));
        let (version, trace_id, parent_id, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
        let ends_well = more.is_empty() || (version != "00" && more.starts_with('-'));
        let is_zero = |id: &str| id.bytes().all(|byte| byte == b'0');
        let is_valid = ends_well && version != "ff" && !is_zero(trace_id) && !is_zero(parent_id);
        let is_sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
        is_valid.then(|| Self { trace_id: trace_id.to_owned(), parent_id: parent_id.to_owned(), is_sampled })
    }
}

fn is_lower_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use http::HeaderValue;

    use super::*;

    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn the_example_of_the_recommendation_is_read() {
        let expected = TraceParent {
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            parent_id: "b7ad6b7169203331".to_owned(),
            is_sampled: true,
        };
        assert_eq!(TraceParent::parse(EXAMPLE).unwrap(), expected);
        assert_eq!(TraceParent::parse(&EXAMPLE.replacen("00", "cc", 1)).unwrap(), expected, "a later version");
        assert_eq!(TraceParent::parse(&(EXAMPLE.replacen("00", "cc", 1) + "-more")).unwrap(), expected);
    }

    #[test]
    fn an_invalid_header_is_ignored() {
        for text in [
            "",
            &EXAMPLE[1..],
            &EXAMPLE.to_uppercase(),
            &EXAMPLE.replacen("00", "ff", 1),
            &EXAMPLE.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &EXAMPLE.replace("b7ad6b7169203331", &"0".repeat(16)),
            &EXAMPLE.replace('-', "_"),
            &format!("{EXAMPLE}-more"),
            &EXAMPLE.replace("b7ad6b7169203331", "b7ad6b716920333ä"),
        ] {
            assert_eq!(TraceParent::parse(text), None, "{text}");
        }
        let twice = HeaderMap::from_iter([(TRACEPARENT, HeaderValue::from_static(EXAMPLE))]);
        assert!(TraceParent::of(&twice).is_some());
        let mut twice = twice;
        twice.append(TRACEPARENT, HeaderValue::from_static(EXAMPLE));
        assert_eq!(TraceParent::of(&twice), None);
    }
}
