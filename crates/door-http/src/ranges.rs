//! Range requests (RFC 9110, section 14): from headers to the bytes to send, and from one or
//! several ranges to a response.

use std::ops::Range;

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::TryFutureExt;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use headers::{ETag, HeaderMapExt, IfRange, LastModified};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_range_header::{EndPosition, StartPosition, SyntacticallyCorrectRange};

use thiserror::Error;

/// The range contains no byte of the representation (416).
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the range lies outside the {len_bytes} bytes of the representation")]
pub struct RangeNotSatisfiable {
    /// Length of the representation in bytes.
    pub len_bytes: u64,
}

/// Most ranges in one request. A request with more gets the whole representation, which RFC 9110,
/// section 14.2, allows as a defence against expensive requests.
const RANGES_MAX: usize = 64;

/// Prefix of a Range in bytes.
const UNIT: &str = "bytes=";

/// Which part of a representation to send.
#[derive(Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it (200).
    Whole,
    /// Some of it (206): one range or several, in the requested order, none empty.
    Parts(Vec<Range<u64>>),
}

/// The validators of a representation that conditions may name.
#[derive(Clone, Copy)]
pub struct Validators<'a> {
    /// Its strong entity tag.
    pub etag: Option<&'a ETag>,
    /// Time of its last change. It is no strong validator (section 8.8.2.2): two codings of a text
    /// share it, and so may two states of one second. So If-Range never holds by it.
    pub last_modified: Option<&'a LastModified>,
}

/// Which bytes of a representation of `len_bytes` a request selects.
///
/// Only GET has ranges (section 14.2). A Range is ignored if it is malformed, not in bytes, or
/// expensive (more than 64 ranges, or together more than the whole). A Range that lies entirely
/// outside the representation is an error (416).
pub fn extent(
    method: &Method,
    headers: &HeaderMap,
    len_bytes: u64,
    validators: Validators<'_>,
) -> Result<Extent, RangeNotSatisfiable> {
    if method != Method::GET || !if_range_holds(headers, validators.etag) {
        return Ok(Extent::Whole);
    }
    let Some(asked) = parse(headers) else { return Ok(Extent::Whole) };
    let parts: Vec<Range<u64>> = asked.iter().filter_map(|range| within(range, len_bytes)).collect();
    if parts.is_empty() {
        return Err(RangeNotSatisfiable { len_bytes });
    }
    let sum: u64 = parts.iter().fold(0, |sum, part| sum.saturating_add(part.end - part.start));
    if parts.len() > 1 && sum > len_bytes {
        return Ok(Extent::Whole);
    }
    Ok(Extent::Parts(parts))
}

/// The ranges of a request, if it has exactly one well-formed Range. A suffix of no bytes is
/// well-formed and selects none (RFC 9110, section 14.1.2). The library treats it as an error, so
/// it is removed first.
fn parse(headers: &HeaderMap) -> Option<Vec<SyntacticallyCorrectRange>> {
    let mut values = headers.get_all(header::RANGE).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    let asked: Vec<&str> = value.to_str().ok()?.strip_prefix(UNIT)?.split(',').collect();
    if asked.len() > RANGES_MAX {
        return None;
    }
    let naming: Vec<&str> = asked.into_iter().filter(|range| !is_empty_suffix(range)).collect();
    if naming.is_empty() {
        return Some(Vec::new());
    }
    let naming =
        http_range_header::parse_range_header(&format!("{UNIT}{}", naming.join(",").trim_start())).ok()?.ranges;
    let reversed = |range: &SyntacticallyCorrectRange| match (range.start, range.end) {
        (StartPosition::Index(start), EndPosition::Index(end)) => start > end,
        _ => false,
    };
    (!naming.iter().any(reversed)).then_some(naming)
}

/// Whether a range is `-0`.
fn is_empty_suffix(range: &str) -> bool {
    let digits = range.trim().strip_prefix('-').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|digit| digit == b'0')
}

/// Whether If-Range, if there is one, names the current representation by its strong entity tag
/// (section 13.1.5). A malformed validator names nothing, and neither does a date: it would have to
/// be a strong validator, and match exactly.
fn if_range_holds(headers: &HeaderMap, etag: Option<&ETag>) -> bool {
    if !headers.contains_key(header::IF_RANGE) {
        return true;
    }
    headers.typed_get::<IfRange>().is_some_and(|condition| !condition.is_modified(etag, None))
}

/// The bytes of a range that lie within the representation; `None`: there are none.
fn within(range: &SyntacticallyCorrectRange, len_bytes: u64) -> Option<Range<u64>> {
    let start = match range.start {
        StartPosition::Index(index) => index,
        StartPosition::FromLast(count) => len_bytes.saturating_sub(count),
    };
    let end = match range.end {
        EndPosition::Index(index) => index.saturating_add(1).min(len_bytes),
        EndPosition::LastByte => len_bytes,
    };
    (start < end).then_some(start..end)
}

/// A stream of a body's bytes. An error ends the response visibly broken.
pub type BodyStream = BoxStream<'static, Result<Bytes, BoxError>>;

/// Completes a response: status, Content-Length, Content-Range and the body. The representation has
/// `len_bytes`, and `open` opens a range of it. `response` carries the other headers, including the
/// representation's Content-Type.
///
/// The first range is opened before this returns, so that a failure has its status. Each further
/// range is opened when the one before it has been sent.
pub async fn respond<O, F, E>(mut response: Response, extent: Extent, len_bytes: u64, open: O) -> Result<Response, E>
where
    O: Fn(Range<u64>) -> F + Send + 'static,
    F: Future<Output = Result<BodyStream, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
{
    let headers = response.headers_mut();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    match extent {
        Extent::Whole => {
            headers.insert(header::CONTENT_LENGTH, len_bytes.into());
            *response.body_mut() = Body::from_stream(open(0..len_bytes).await?);
        }
        Extent::Parts(mut parts) if parts.len() == 1 => {
            let part = parts.remove(0);
            headers.insert(header::CONTENT_RANGE, content_range(&part, len_bytes));
            headers.insert(header::CONTENT_LENGTH, (part.end - part.start).into());
            *response.body_mut() = Body::from_stream(open(part).await?);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        Extent::Parts(parts) => {
            let boundary = format!("{:032x}", rand::random::<u128>());
            let multipart = Multipart::new(&boundary, headers.get(header::CONTENT_TYPE), parts, len_bytes);
            headers.insert(header::CONTENT_TYPE, text_value(format!("multipart/byteranges; boundary={boundary}")));
            headers.insert(header::CONTENT_LENGTH, multipart.len_bytes().into());
            *response.body_mut() = Body::from_stream(multipart.open(open).await?);
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
    }
    Ok(response)
}

/// A body of several ranges (section 14.6): a header before each part, and the closing boundary
/// after the last.
struct Multipart {
    parts: Vec<(Bytes, Range<u64>)>,
    end: Bytes,
}

impl Multipart {
    fn new(boundary: &str, content_type: Option<&HeaderValue>, parts: Vec<Range<u64>>, len_bytes: u64) -> Self {
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or("application/octet-stream");
        let with_header = |part: Range<u64>| {
            let (first, last) = (part.start, part.end - 1);
            let header = format!(
                "\r\n--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: bytes {first}-{last}/{len_bytes}\r\n\r\n"
            );
            (Bytes::from(header), part)
        };
        Self { parts: parts.into_iter().map(with_header).collect(), end: format!("\r\n--{boundary}--\r\n").into() }
    }

    fn len_bytes(&self) -> u64 {
        let of_parts = self.parts.iter().map(|(header, part)| header.len() as u64 + (part.end - part.start));
        of_parts.sum::<u64>() + self.end.len() as u64
    }

    /// The body.
    async fn open<O, F, E>(self, open: O) -> Result<BodyStream, E>
    where
        O: Fn(Range<u64>) -> F + Send + 'static,
        F: Future<Output = Result<BodyStream, E>> + Send + 'static,
        E: Into<BoxError> + 'static,
    {
        let mut parts = self.parts.into_iter();
        let first = match parts.next() {
            Some((header, part)) => only(header).chain(open(part).await?).boxed(),
            None => stream::empty().boxed(),
        };
        let further = stream::iter(parts).flat_map(move |(header, part)| {
            let opened = open(part).map_err(Into::into);
            only(header).chain(opened.try_flatten_stream())
        });
        Ok(first.chain(further).chain(only(self.end)).boxed())
    }
}

fn only(piece: Bytes) -> impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static {
    stream::iter([Ok(piece)])
}

fn content_range(part: &Range<u64>, len_bytes: u64) -> HeaderValue {
    text_value(format!("bytes {}-{}/{len_bytes}", part.start, part.end - 1))
}

/// A header value from text that is known to be visible ASCII.
fn text_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    // Most requests ask for one range: a list of one is intended.
    #![allow(clippy::single_range_in_vec_init)]
    use std::time::{Duration, UNIX_EPOCH};

    use axum::body::to_bytes;
    use proptest::prelude::*;

    use super::*;

    const NO_VALIDATORS: Validators<'static> = Validators { etag: None, last_modified: None };

    fn with_range(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::RANGE, HeaderValue::from_str(value).unwrap())])
    }

    fn extent_of(value: &str, len_bytes: u64) -> Result<Extent, RangeNotSatisfiable> {
        extent(&Method::GET, &with_range(value), len_bytes, NO_VALIDATORS)
    }

    #[test]
    fn first_last_open_and_suffix_ranges_name_their_bytes() {
        for (value, parts) in [
            ("bytes=0-0", vec![0..1]),
            ("bytes=2-5", vec![2..6]),
            ("bytes=2-500", vec![2..10]),
            ("bytes=9-", vec![9..10]),
            ("bytes=-3", vec![7..10]),
            ("bytes=-300", vec![0..10]),
            ("bytes=5-6, 0-1,-1", vec![5..7, 0..2, 9..10]),
            ("bytes=0-1,90-99", vec![0..2]),
            ("bytes=2-18446744073709551615", vec![2..10]),
            ("bytes=-0,4-5, -00", vec![4..6]),
        ] {
            assert_eq!(extent_of(value, 10).unwrap(), Extent::Parts(parts), "{value}");
        }
    }

    #[test]
    fn malformed_and_expensive_ranges_are_ignored() {
        let many = format!("bytes={}", vec!["0-0"; 65].join(","));
        for value in ["", "bytes", "bytes=", "bytes=-", "bytes=x-1", "bytes=5-2", "pages=1-2", "bytes=0-8,0-8", &many] {
            assert_eq!(extent_of(value, 10).unwrap(), Extent::Whole, "{value}");
        }
        let mut two = with_range("bytes=0-1");
        two.append(header::RANGE, HeaderValue::from_static("bytes=2-3"));
        assert_eq!(extent(&Method::GET, &two, 10, NO_VALIDATORS).unwrap(), Extent::Whole);
    }

    #[test]
    fn only_get_has_ranges() {
        for method in [Method::HEAD, Method::POST] {
            assert_eq!(extent(&method, &with_range("bytes=0-1"), 10, NO_VALIDATORS).unwrap(), Extent::Whole);
        }
    }

    #[test]
    fn ranges_beyond_the_end_are_416_with_the_length() {
        for (value, len_bytes) in [("bytes=10-", 10), ("bytes=10-20,30-", 10), ("bytes=0-", 0), ("bytes=-5", 0)] {
            let error = extent_of(value, len_bytes).unwrap_err();
            assert_eq!(error, RangeNotSatisfiable { len_bytes }, "{value}");
        }
    }

    #[test]
    fn a_suffix_of_no_bytes_is_416() {
        for (value, len_bytes) in [("bytes=-0", 10), ("bytes=-0,-00", 10), ("bytes=-0, 10-", 10), ("bytes=-0", 0)] {
            assert_eq!(extent_of(value, len_bytes), Err(RangeNotSatisfiable { len_bytes }), "{value}");
        }
    }

    #[test]
    fn if_range_allows_a_range_only_for_the_same_strong_tag() {
        let etag: ETag = "\"a\"".parse().unwrap();
        let validators = Validators { etag: Some(&etag), last_modified: None };
        for (condition, holds) in [("\"a\"", true), ("\"b\"", false), ("W/\"a\"", false), ("nonsense", false)] {
            let mut headers = with_range("bytes=0-1");
            headers.insert(header::IF_RANGE, HeaderValue::from_static(condition));
            let expected = if holds { Extent::Parts(vec![0..2]) } else { Extent::Whole };
            assert_eq!(extent(&Method::GET, &headers, 10, validators).unwrap(), expected, "{condition}");
        }
        let mut headers = with_range("bytes=0-1");
        headers.insert(header::IF_RANGE, HeaderValue::from_static("\"a\""));
        assert_eq!(
            extent(&Method::GET, &headers, 10, NO_VALIDATORS).unwrap(),
            Extent::Whole,
            "without a tag none is equal"
        );
    }

    #[test]
    fn if_range_with_a_date_gets_the_whole_also_where_the_date_is_that_of_the_last_change() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let (etag, changed): (ETag, _) = ("\"a\"".parse().unwrap(), LastModified::from(at(1_000_000)));
        let validators = Validators { etag: Some(&etag), last_modified: Some(&changed) };
        for seconds in [999_999, 1_000_000, 1_000_001, 2_000_000] {
            let mut headers = with_range("bytes=0-1");
            headers.typed_insert(IfRange::date(at(seconds)));
            assert_eq!(extent(&Method::GET, &headers, 10, validators).unwrap(), Extent::Whole, "{seconds}");
        }
    }

    fn open(text: Bytes) -> impl Fn(Range<u64>) -> std::future::Ready<Result<BodyStream, BoxError>> + Send + 'static {
        move |range| {
            let piece = text.slice(range.start as usize..range.end as usize);
            std::future::ready(Ok(only(piece).boxed()))
        }
    }

    async fn responded(text: &'static [u8], extent: Extent) -> (StatusCode, HeaderMap, Bytes) {
        let mut response = Response::new(Body::empty());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
        let response = respond(response, extent, text.len() as u64, open(Bytes::from_static(text))).await.unwrap();
        let (head, body) = response.into_parts();
        (head.status, head.headers, to_bytes(body, usize::MAX).await.unwrap())
    }

    #[tokio::test]
    async fn one_range_has_its_content_range() {
        let (status, headers, body) = responded(b"0123456789", Extent::Parts(vec![3..7])).await;
        assert_eq!(status, StatusCode::PARTIAL_CONTENT);
        assert_eq!(headers[header::CONTENT_RANGE], "bytes 3-6/10");
        assert_eq!(headers[header::CONTENT_LENGTH], "4");
        assert_eq!(headers[header::CONTENT_TYPE], "application/zip");
        assert_eq!(body, "3456");
    }

    #[tokio::test]
    async fn several_ranges_are_one_multipart_of_the_promised_length() {
        let (status, headers, body) = responded(b"0123456789", Extent::Parts(vec![8..10, 0..1])).await;
        assert_eq!(status, StatusCode::PARTIAL_CONTENT);
        assert!(!headers.contains_key(header::CONTENT_RANGE), "RFC 9110, section 15.3.7.2");
        assert_eq!(headers[header::CONTENT_LENGTH], body.len().to_string());
        let boundary = headers[header::CONTENT_TYPE].to_str().unwrap().strip_prefix("multipart/byteranges; boundary=");
        let boundary = boundary.unwrap();
        let part = |range: &str, text: &str| {
            format!(
                "\r\n--{boundary}\r\nContent-Type: application/zip\r\nContent-Range: bytes {range}/10\r\n\r\n{text}"
            )
        };
        assert_eq!(body, format!("{}{}\r\n--{boundary}--\r\n", part("8-9", "89"), part("0-0", "0")));
    }

    #[tokio::test]
    async fn the_whole_is_200_with_its_length() {
        let (status, headers, body) = responded(b"0123456789", Extent::Whole).await;
        assert_eq!((status, body.as_ref()), (StatusCode::OK, &b"0123456789"[..]));
        assert_eq!(headers[header::CONTENT_LENGTH], "10");
        assert_eq!(headers[header::ACCEPT_RANGES], "bytes");
    }

    proptest! {
        #[test]
        fn no_range_header_reaches_outside_the_representation(value in "bytes=[0-9,\\- ]{0,40}", len_bytes in 0_u64..200) {
            if let Ok(Extent::Parts(parts)) = extent_of(&value, len_bytes) {
                prop_assert!(!parts.is_empty());
                for part in parts {
                    prop_assert!(part.start < part.end && part.end <= len_bytes);
                }
            }
        }

        #[test]
        fn a_first_and_last_position_name_exactly_the_bytes_between(first in 0_u64..300, more in 0_u64..300, len_bytes in 1_u64..300) {
            let answer = extent_of(&format!("bytes={first}-{}", first + more), len_bytes);
            if first >= len_bytes {
                prop_assert!(answer.is_err());
            } else {
                let end = (first + more + 1).min(len_bytes);
                prop_assert_eq!(answer.unwrap(), Extent::Parts(vec![first..end]));
            }
        }
    }
}
