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

/// The sum of two decimal or hexadecimal numbers, as a decimal text without an exponent and without
/// trailing zeros. The sum is exact, up to 28 digits, of which at most 17 follow the decimal point.
///
/// Errors: [`RecordError::NotADecimal`]; [`RecordError::Overflow`] beyond 28 digits.
pub fn decimal_sum(one: &[u8], other: &[u8]) -> RecordResult<String> {
    let sum = decimal(one)?.checked_add(decimal(other)?).ok_or(RecordError::Overflow)?;
    Ok(sum.round_dp(FRACTION_DIGITS_MAX).normalize().to_string())
}

fn decimal(text: &[u8]) -> RecordResult<Decimal> {
    let text = str::from_utf8(text).map_err(|_| RecordError::NotADecimal)?;
    if let Some(number) = hexadecimal(text) {
        return Ok(number);
    }
    // The parser takes `1_000` too.
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    if !is_plain || text.is_empty() {
        return Err(RecordError::NotADecimal);
    }
    let read = if text.contains(['e', 'E']) { Decimal::from_scientific(text) } else { text.parse() };
    read.map_err(|_| RecordError::NotADecimal)
}

/// The number of a hexadecimal text (C11, 7.22.1.3), such as `-0x1.8p3`: a sign, `0x`, digits with a
/// point or without, and the power of two by which they are multiplied. `None`: it is no such text,
/// or the number is out of the range of [`Decimal`].
fn hexadecimal(text: &str) -> Option<Decimal> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X"))?;
    let (digits, power) = digits.split_once(['p', 'P']).unwrap_or((digits, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{whole}{fraction}");
    // The parser takes a sign too.
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let size = i128::from_str_radix(&digits, 16).ok()?;
    let size = if text.starts_with('-') { -size } else { size };
    let number = Decimal::try_from_i128_with_scale(size, 0).ok()?;
    let power = power.parse::<i32>().ok()?.checked_sub(i32::try_from(4 * fraction.len()).ok()?)?;
    let factor = 1_i128.checked_shl(power.unsigned_abs())?;
    let factor = Decimal::try_from_i128_with_scale(factor, 0).ok()?;
    if power < 0 { number.checked_div(factor) } else { number.checked_mul(factor) }
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

    #[test]
    fn hexadecimal_numbers_are_added_too() {
        let sum = |one: &str, other: &str| decimal_sum(one.as_bytes(), other.as_bytes());
        for (text, number) in [
            ("0x10", "16"),
            ("+0X.8", "0.5"),
            ("-0x1.8p1", "-3"),
            ("0x1.P+4", "16"),
            ("0x1p-2", "0.25"),
            ("-0x0", "0"),
            ("0x000000000000000000000000000000000000000a", "10"),
            ("0x1.921fb54442d18p+1", "3.14159265358979312"),
            ("0xffffffffffffffffffffffff", "79228162514264337593543950335"),
            ("0x1p95", "39614081257132168796771975168"),
        ] {
            assert_eq!(sum(text, "0").as_deref(), Ok(number), "{text}");
        }
        assert_eq!(sum("0x.1", "0.1").unwrap(), "0.1625");
        for text in ["0x", "0x.", "0xg", "x10", "0x1p", "0x1p+", "0x1.2.3", "0x+1", "--0x1", " 0x1", "0x1 ", "0x1_0"] {
            assert_eq!(sum(text, "1"), Err(RecordError::NotADecimal), "{text:?}");
        }
        for text in ["0x1p96", "0x1p-96", "0x1p127", "0x1p99999999999", "0x1000000000000000000000000"] {
            assert_eq!(sum(text, "1"), Err(RecordError::NotADecimal), "{text} is out of range");
        }
    }
}
