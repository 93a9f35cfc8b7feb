//! Texts as numbers.

use rust_decimal::Decimal;

use crate::error::{RecordError, RecordResult};

/// The longest text of an integer of 64 bits: a sign and 19 digits.
const INTEGER_CHARS_MAX: usize = 20;

/// Digits after the decimal point of a sum.
const FRACTION_DIGITS_MAX: u32 = 17;

/// The integer that a text is. There is one text for each: no blanks, no plus sign, no leading
/// zeros.
///
/// Errors: [`RecordError::NotAnInteger`].
pub fn integer(text: &[u8]) -> RecordResult<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_zero = text == b"0";
    let is_canonical = matches!(digits.first(), Some(b'1'..=b'9')) && digits.iter().all(u8::is_ascii_digit);
    if text.len() > INTEGER_CHARS_MAX || !(is_zero || is_canonical) {
        return Err(RecordError::NotAnInteger);
    }
    str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(RecordError::NotAnInteger)
}

/// The sum of two decimal numbers, as a text without an exponent and without trailing zeros. The
/// sum is exact, up to 28 digits, of which at most 17 follow the decimal point.
///
/// Errors: [`RecordError::NotADecimal`]; [`RecordError::Overflow`] beyond 28 digits.
pub fn decimal_sum(one: &[u8], other: &[u8]) -> RecordResult<String> {
    let sum = decimal(one)?.checked_add(decimal(other)?).ok_or(RecordError::Overflow)?;
    Ok(sum.round_dp(FRACTION_DIGITS_MAX).normalize().to_string())
}

fn decimal(text: &[u8]) -> RecordResult<Decimal> {
    let text = str::from_utf8(text).map_err(|_| RecordError::NotADecimal)?;
    // The parser takes `1_000` too.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if !is_plain || text.is_empty() {
        return Err(RecordError::NotADecimal);
    }
    let read = if text.contains(['e', 'E']) { Decimal::from_scientific(text) } else { text.parse() };
    read.map_err(|_| RecordError::NotADecimal)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_integer_has_one_text() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(integer(number.to_string().as_bytes()), Ok(number));
        }
        for text in
            ["", "-", "-0", "+1", "01", " 1", "1 ", "1.0", "1e3", "9223372036854775808", "000000000000000000001"]
        {
            assert_eq!(integer(text.as_bytes()), Err(RecordError::NotAnInteger), "{text:?}");
        }
    }

    #[test]
    fn a_sum_of_decimals_is_exact() {
        let sum = |one: &str, other: &str| decimal_sum(one.as_bytes(), other.as_bytes());
        assert_eq!(sum("0.1", "0.2").unwrap(), "0.3");
        assert_eq!(sum("10.50", "0.1").unwrap(), "10.6");
        assert_eq!(sum("5.0e3", "2.0e2").unwrap(), "5200");
        assert_eq!(sum("-5", "5").unwrap(), "0");
        for text in ["", "abc", "1_000", " 1", "nan", "inf", "1.2.3", "--1"] {
            assert_eq!(sum(text, "1"), Err(RecordError::NotADecimal), "{text:?}");
        }
        let greatest = Decimal::MAX.to_string();
        assert_eq!(sum(&greatest, &greatest), Err(RecordError::Overflow));
    }
}
