//! Buffered reading that keeps its buffer when seeking within it. Readers seek from one entry of a
//! ZIP to the next, which nearly always begins where the last one ended.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 64 << 10;

/// A reader that knows its position.
#[derive(Debug)]
pub(crate) struct Buffered<R> {
    reader: BufReader<R>,
    position: u64,
}

impl<R: Read + Seek> Buffered<R> {
    /// Reads a source from its first byte on, whatever its position now.
    pub(crate) fn new(source: R) -> io::Result<Self> {
        let mut reader = BufReader::with_capacity(BUFFER_BYTES, source);
        reader.rewind()?;
        Ok(Self { reader, position: 0 })
    }
}

impl<R: Read> Read for Buffered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl<R: Read + Seek> Seek for Buffered<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let by = match to {
            SeekFrom::Start(position) => i64::try_from(i128::from(position) - i128::from(self.position)).ok(),
            SeekFrom::Current(by) if self.position.checked_add_signed(by).is_some() => Some(by),
            SeekFrom::Current(_) | SeekFrom::End(_) => None,
        };
        self.position = match by {
            Some(by) => {
                self.reader.seek_relative(by)?;
                self.position.wrapping_add_signed(by)
            }
            None => self.reader.seek(to)?,
        };
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    /// Counts how often it is asked.
    struct Counted(Cursor<Vec<u8>>, u32);

    impl Read for Counted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            self.0.read(buffer)
        }
    }

    impl Seek for Counted {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.1 += 1;
            self.0.seek(to)
        }
    }

    #[test]
    fn seeking_within_the_buffer_reads_nothing_from_the_source() {
        let mut reader = Buffered::new(Counted(Cursor::new(vec![7; 1000]), 0)).unwrap();
        reader.read_exact(&mut [0; 10]).unwrap();
        let before = reader.reader.get_ref().1;
        for position in [500, 20, 999, 0] {
            assert_eq!(reader.seek(SeekFrom::Start(position)).unwrap(), position);
            assert_eq!(reader.stream_position().unwrap(), position);
            reader.read_exact(&mut [0]).unwrap();
        }
        assert_eq!(reader.reader.get_ref().1, before);
    }

    proptest! {
        #[test]
        fn it_reads_the_same_as_its_source_after_any_seeks(
            len in 0..200_000_usize,
            start in 0..1000_u64,
            steps in proptest::collection::vec((0..3_u8, -250_000..250_000_i64, 0..70_000_usize), 0..20),
        ) {
            let bytes: Vec<u8> = (0..len).map(|at| (at / 251 + at) as u8).collect();
            let (mut plain, mut source) = (Cursor::new(bytes.clone()), Cursor::new(bytes));
            source.set_position(start);
            let mut reader = Buffered::new(source).unwrap();
            for (kind, offset, wanted) in steps {
                let to = match kind {
                    0 => SeekFrom::Start(offset.unsigned_abs()),
                    1 => SeekFrom::Current(offset),
                    _ => SeekFrom::End(offset),
                };
                prop_assert_eq!(reader.seek(to).ok(), plain.seek(to).ok());
                let (mut read, mut expected) = (Vec::new(), Vec::new());
                (&mut reader).take(wanted as u64).read_to_end(&mut read).unwrap();
                (&mut plain).take(wanted as u64).read_to_end(&mut expected).unwrap();
                prop_assert!(read == expected);
            }
        }
    }
}
