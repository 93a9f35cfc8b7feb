//! Where a page begins: a place in an order, as text. It stays valid whatever changes.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use search::{Field, Place};

/// The first byte of each cursor. Another meaning of what follows gets another one.
const VERSION: u8 = 1;

/// The most bytes of a place: a value, a path, and what follows it.
const PLACE_BYTES_MAX: usize = 4 << 10;

fn number(order: Field, is_descending: bool) -> u8 {
    let field = match order {
        Field::Path => 0,
        Field::Created => 1,
        Field::Modified => 2,
        Field::Size => 3,
        Field::MediaType => 4,
    };
    2 * field + u8::from(is_descending)
}

/// The text of a place in an order.
pub fn encode(order: Field, is_descending: bool, place: &Place) -> String {
    BASE64.encode([&[VERSION, number(order, is_descending)], place.as_bytes()].concat())
}

/// The place that a text names; `None` if it names none in this order.
pub fn decode(order: Field, is_descending: bool, text: &str) -> Option<Place> {
    if text.len() > 2 * PLACE_BYTES_MAX {
        return None;
    }
    let bytes = BASE64.decode(text).ok()?;
    let place = bytes.strip_prefix(&[VERSION, number(order, is_descending)])?;
    (place.len() <= PLACE_BYTES_MAX).then(|| Place::of_bytes(place.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_of_one_order() {
        let place = Place::of_bytes(vec![0, 255, 7]);
        let text = encode(Field::Size, true, &place);
        assert_eq!(decode(Field::Size, true, &text), Some(place));
        assert_eq!(decode(Field::Size, false, &text), None);
        assert_eq!(decode(Field::Path, true, &text), None);
        for text in ["", "AA", "!", &"A".repeat(100_000)] {
            assert_eq!(decode(Field::Path, false, text), None, "{}", text.len());
        }
    }
}
