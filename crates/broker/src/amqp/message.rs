//! A message with text (part 3, section 3.2), as a client of JMS writes it.

use bytes::BytesMut;

use super::value::Writer;
use crate::message::{Message, Value};

const HEADER: u8 = 0x70;
const ANNOTATIONS: u8 = 0x72;
const PROPERTIES: u8 = 0x73;
const APPLICATION_PROPERTIES: u8 = 0x74;
const VALUE: u8 = 0x77;

/// The mark of a message with text (OASIS, "AMQP JMS Mapping"): brokers that know JMS understand it.
const JMS_TEXT: i8 = 5;

/// Its bytes. It is to outlive a restart of the broker.
pub(super) fn encoded(message: &Message, destination: &str) -> BytesMut {
    let mut out = BytesMut::new();
    let mut writer = Writer(&mut out);
    writer.composite(HEADER, 1, |fields| fields.bool(true));
    writer.description(ANNOTATIONS);
    writer.map(2, |pairs| {
        pairs.symbol("x-opt-jms-msg-type");
        pairs.byte(JMS_TEXT);
    });
    writer.composite(PROPERTIES, 3, |fields| {
        fields.string(&message.id);
        fields.null();
        fields.string(destination);
    });
    writer.description(APPLICATION_PROPERTIES);
    let count = u32::try_from(2 * message.properties.len()).unwrap_or(u32::MAX);
    writer.map(count, |pairs| {
        for (name, value) in &message.properties {
            pairs.string(name);
            match value {
                Value::Text(text) => pairs.string(text),
                Value::Number(number) => pairs.long(*number),
            }
        }
    });
    writer.description(VALUE);
    writer.string(&message.text);
    out
}
