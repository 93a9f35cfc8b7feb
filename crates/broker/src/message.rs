//! What is sent.

/// A message with text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Messages of one key arrive in order.
    pub key: String,
    /// Its id: the same each time that it is sent.
    pub id: String,
    /// Properties: in STOMP headers, in AMQP the application's.
    pub properties: Vec<(&'static str, Value)>,
    /// The text. Over STOMP it must not have a zero byte.
    pub text: String,
}

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A number; in STOMP its digits.
    Number(i64),
}
