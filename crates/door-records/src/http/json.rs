//! Records as JSON.
//!
//! A text is a string, and attributes are an object of their values. A value is a string; what is
//! not UTF-8 is `{"base64": "…"}`. Clients may send a number too, which is stored as its text. With
//! an expiry, an attribute is `{"value": …, "expires_at": …}`, in milliseconds since the Unix epoch.

use std::fmt;
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use indexmap::IndexMap;
use records::{Attribute, Attributes};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use store::UnixMillis;

use super::error::HttpError;

/// A value that a client sends. A number is the text that was sent, so it has all its digits.
#[derive(Clone, Debug)]
pub(super) struct Sent(Bytes);

/// What a value may be.
const VALUE: &str = "a value is a text, a number, or {\"base64\": …}";

/// Bytes that are not UTF-8.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    base64: String,
}

impl Sent {
    /// The value that JSON has; `None`: it is none.
    fn of(json: &RawValue) -> Option<Self> {
        let json = json.get();
        match json.as_bytes().first()? {
            b'"' => serde_json::from_str(json).ok().map(|text: String| Self(text.into())),
            b'-' | b'0'..=b'9' => Some(Self(Bytes::copy_from_slice(json.as_bytes()))),
            b'{' => {
                let encoded: Encoded = serde_json::from_str(json).ok()?;
                STANDARD.decode(encoded.base64).ok().map(|bytes| Self(bytes.into()))
            }
            _ => None,
        }
    }

    pub(super) fn bytes(self) -> Bytes {
        self.0
    }
}

impl<'de> Deserialize<'de> for Sent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(<&RawValue>::deserialize(deserializer)?).ok_or_else(|| D::Error::custom(VALUE))
    }
}

/// A text or an object. It is read from the JSON itself, because what looks at it first would keep
/// of a number its nearest one of 64 bits.
pub(super) enum TextOr<T> {
    Text(String),
    Object(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrVisitor::<T>(PhantomData))
    }
}

struct TextOrVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for TextOrVisitor<T> {
    type Value = TextOr<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text or an object")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<TextOr<T>, E> {
        Ok(TextOr::Text(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextOr<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(TextOr::Object)
    }
}

/// When something expires, in milliseconds: since the Unix epoch, or from now on.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Life {
    pub(super) expires_at: Option<u64>,
    pub(super) ttl_ms: Option<u64>,
    /// Whether it never does.
    #[serde(default)]
    pub(super) persist: bool,
}

impl Life {
    /// The time; `None`: none is said, or it never expires.
    pub(super) fn end(self, now: UnixMillis) -> Option<UnixMillis> {
        self.expires_at.or_else(|| self.ttl_ms.map(|ttl| now.0.saturating_add(ttl))).map(UnixMillis)
    }

    /// Whether anything is said.
    pub(super) fn is_said(self) -> bool {
        self.persist || self.expires_at.is_some() || self.ttl_ms.is_some()
    }

    pub(super) fn check(self) -> Result<Self, HttpError> {
        let what = match (self.expires_at, self.ttl_ms) {
            (Some(_), Some(_)) => "either expires_at or ttl_ms, not both",
            (Some(_), None) | (None, Some(_)) if self.persist => "either persist or a time, not both",
            _ => return Ok(self),
        };
        Err(HttpError::Malformed(what.to_owned()))
    }
}

/// An attribute that a client sends.
#[derive(Clone, Debug)]
pub(super) enum SentAttribute {
    Lasting(Sent),
    Expiring(ExpiringAttribute),
}

/// What an attribute may be.
const ATTRIBUTE: &str = "an attribute is a text, a number, {\"base64\": …}, or {\"value\": …, \"expires_at\" or \
                         \"ttl_ms\": milliseconds}";

impl<'de> Deserialize<'de> for SentAttribute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?;
        if let Some(value) = Sent::of(json) {
            return Ok(Self::Lasting(value));
        }
        let is_object = json.get().starts_with('{');
        let expiring: Option<ExpiringAttribute> = serde_json::from_str(json.get()).ok().filter(|_| is_object);
        let expiring = expiring.ok_or_else(|| D::Error::custom(ATTRIBUTE))?;
        expiring.life().check().map_err(D::Error::custom)?;
        Ok(Self::Expiring(expiring))
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpiringAttribute {
    value: Sent,
    expires_at: Option<u64>,
    ttl_ms: Option<u64>,
}

impl ExpiringAttribute {
    fn life(&self) -> Life {
        Life { expires_at: self.expires_at, ttl_ms: self.ttl_ms, persist: false }
    }
}

impl SentAttribute {
    pub(super) fn at(&self, now: UnixMillis) -> Attribute {
        match self {
            Self::Lasting(value) => Attribute::lasting(value.0.clone()),
            Self::Expiring(expiring) => {
                let expires_at = expiring.life().end(now);
                Attribute { value: expiring.value.0.clone(), expires_at }
            }
        }
    }
}

/// The most attributes that JSON names: more than fit into a record.
const ATTRIBUTES_MAX: usize = 16 << 10;

/// Why as many are refused, while they are read.
fn too_many<E: Error>() -> E {
    E::custom(format_args!("a record has fewer than {ATTRIBUTES_MAX} attributes"))
}

/// So few attributes take no memory besides that of their JSON.
const FREE_ATTRIBUTES: usize = 64;

/// Memory for each attribute that is read, besides its JSON: its name and its value, with their places.
const ATTRIBUTE_BYTES: u64 = 256;

/// Memory for so many attributes, besides that of their JSON.
pub(super) fn memory_bytes(attributes: usize) -> u64 {
    if attributes <= FREE_ATTRIBUTES { 0 } else { attributes as u64 * ATTRIBUTE_BYTES }
}

/// Attributes that a client sends, in their order.
pub(super) type SentAttributes = Named<SentAttribute>;

/// What a client says of attributes, by their names, in its order. Of a name that is there again the
/// last one counts.
#[derive(Clone, Debug)]
pub(super) struct Named<T>(pub(super) IndexMap<String, T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamedVisitor::<T>(PhantomData))
    }
}

struct NamedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NamedVisitor<T> {
    type Value = Named<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object of attributes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T>, A::Error> {
        let mut named = IndexMap::new();
        while let Some((name, value)) = map.next_entry::<String, T>()? {
            named.insert(name, value);
            if named.len() >= ATTRIBUTES_MAX {
                return Err(too_many());
            }
        }
        Ok(Named(named))
    }
}

/// The attributes, as of a time.
pub(super) fn attributes(sent: &SentAttributes, now: UnixMillis) -> Attributes {
    sent.0.iter().map(|(name, attribute)| (Bytes::copy_from_slice(name.as_bytes()), attribute.at(now))).collect()
}

/// Reads JSON.
pub(super) fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Result<T, HttpError> {
    serde_json::from_slice(json).map_err(|error| HttpError::Malformed(format!("the JSON is not as expected: {error}")))
}

/// A value as JSON.
pub(super) fn value(bytes: &[u8]) -> Value {
    match str::from_utf8(bytes) {
        Ok(text) => Value::String(text.to_owned()),
        Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}

/// At most so many bytes has a value as JSON.
pub(super) fn value_bytes(bytes: &[u8]) -> usize {
    match str::from_utf8(bytes) {
        Ok(text) => "\"\"".len() + text.bytes().map(escaped_bytes).sum::<usize>(),
        Err(_) => "{\"base64\":\"\"}".len() + 4 * bytes.len().div_ceil(3),
    }
}

/// At most so many bytes has a byte of a text in a JSON string.
fn escaped_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        byte if byte.is_ascii_control() => 6,
        _ => 1,
    }
}

/// Which attributes a client asks for; `None`: all.
pub(super) type Wanted = Option<Vec<String>>;

/// Reads which attributes a client asks for.
pub(super) fn wanted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Wanted, D::Error> {
    Ok(Option::<Names>::deserialize(deserializer)?.map(|Names(names)| names))
}

struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(NamesVisitor)
    }
}

struct NamesVisitor;

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = Names;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of names")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = list.next_element::<String>()? {
            names.push(name);
            if names.len() >= ATTRIBUTES_MAX {
                return Err(too_many());
            }
        }
        Ok(Names(names))
    }
}

/// Attributes with their names.
pub(super) type Chosen<'a> = IndexMap<&'a str, &'a Attribute>;

/// The attributes that are wanted, each once. A name that is not UTF-8 has no form in JSON.
pub(super) fn chosen<'a>(found: &'a Attributes, wanted: &'a Wanted) -> Result<Chosen<'a>, HttpError> {
    match wanted {
        None => found
            .iter()
            .map(|(name, attribute)| {
                let name = str::from_utf8(name).map_err(|_| HttpError::NotText("the name of an attribute"))?;
                Ok((name, attribute))
            })
            .collect(),
        Some(names) => {
            let named = names.iter().filter_map(|name| Some((name.as_str(), found.get(name.as_bytes())?)));
            Ok(named.collect())
        }
    }
}

/// Attributes as JSON, with their expiries or without.
pub(super) fn object(chosen: &Chosen<'_>, expiries: bool) -> IndexMap<String, Value> {
    let one = |attribute: &Attribute| match attribute.expires_at.filter(|_| expiries) {
        None => value(&attribute.value),
        Some(at) => json!({ "value": value(&attribute.value), "expires_at": at.0 }),
    };
    chosen.iter().map(|(name, attribute)| ((*name).to_owned(), one(attribute))).collect()
}

/// At most so many bytes has an attribute as JSON besides its name and its value: the long form with
/// an expiry.
const LONG_FORM_BYTES: usize = 64;

/// At most so many bytes has [`object`] as JSON.
pub(super) fn object_bytes(chosen: &Chosen<'_>) -> usize {
    let one = |(name, attribute): (&&str, &&Attribute)| {
        let form = if attribute.expires_at.is_some() { LONG_FORM_BYTES } else { ":,".len() };
        value_bytes(name.as_bytes()) + form + value_bytes(&attribute.value)
    };
    "{}".len() + chosen.iter().map(one).sum::<usize>()
}
