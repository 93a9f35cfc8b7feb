//! The lines of a source. Each is held only as far as it may be long, so that none of them stops
//! those behind it.

use std::io::{self, BufRead, Read};

/// A line, or why it cannot be sent.
pub type Line = Result<String, String>;

/// The next line, without its end; `None`: there is none. A line of more than `bytes_max` is read
/// to its end, and not held.
///
/// Errors: the source cannot be read.
pub fn next_line(source: &mut impl BufRead, bytes_max: usize) -> io::Result<Option<Line>> {
    // A line ends with `\n` or `\r\n`.
    let most = (bytes_max as u64).saturating_add(2);
    let mut line = Vec::new();
    source.by_ref().take(most).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.ends_with(b"\n") {
        line.pop();
        if line.ends_with(b"\r") {
            line.pop();
        }
    } else if line.len() as u64 == most {
        source.skip_until(b'\n')?;
    }
    if line.len() > bytes_max {
        return Ok(Some(Err(too_long(bytes_max))));
    }
    Ok(Some(String::from_utf8(line).map_err(|_| "it is not UTF-8 text".to_owned())))
}

/// Why a line is not sent.
pub fn too_long(bytes_max: usize) -> String {
    format!("as a line of JSON it has more than {bytes_max} bytes (--line-max)")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::BufReader;

    use proptest::prelude::*;

    use super::*;

    /// All lines, read in pieces of `piece` bytes.
    fn lines(source: &[u8], bytes_max: usize, piece: usize) -> Vec<Line> {
        let mut source = BufReader::with_capacity(piece, source);
        std::iter::from_fn(|| next_line(&mut source, bytes_max).unwrap()).collect()
    }

    #[test]
    fn a_line_that_is_too_long_or_no_text_does_not_stop_those_behind_it() {
        let read = lines(b"abcd\nabcde\nabcd\r\nabcde\r\n\nabcdefghi\n\xff\nabcd", 4, 3);
        let (abcd, long) = (Ok("abcd".to_owned()), Err(too_long(4)));
        let none_utf8 = Err("it is not UTF-8 text".to_owned());
        let expected =
            [abcd.clone(), long.clone(), abcd.clone(), long.clone(), Ok(String::new()), long, none_utf8, abcd];
        assert_eq!(read, expected);
        assert_eq!(lines(b"a\nabcde", 4, 3), [Ok("a".to_owned()), Err(too_long(4))]);
        assert_eq!(lines(b"", 4, 3), []);
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_text(text in "[ab\r\n]{0,40}", bytes_max in 0..8_usize, piece in 1..9_usize) {
            let expected: Vec<Line> = text
                .lines()
                .map(|line| if line.len() > bytes_max { Err(too_long(bytes_max)) } else { Ok(line.to_owned()) })
                .collect();
            prop_assert_eq!(lines(text.as_bytes(), bytes_max, piece), expected);
        }
    }
}
