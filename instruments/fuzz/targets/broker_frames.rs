//! What a broker sends, over STOMP and AMQP: any bytes are frames or an error, the same in whatever
//! pieces they come, and no more is held than the bounds. A frame of STOMP that is written is read.
#![no_main]

use std::alloc::System;
use std::fmt::Debug;

use broker::{amqp, stomp};
use bytes::BytesMut;
use cap::Cap;
use libfuzzer_sys::fuzz_target;

/// An allocation beyond this ends the process.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 64 << 20);

/// The stack of a thread that serves requests.
const STACK_BYTES: usize = 2 << 20;

/// The frames of bytes that come in pieces of a size, until an error.
fn frames<D, F, E>(
    mut decoder: D,
    buffer: fn(&mut D) -> &mut BytesMut,
    next: fn(&mut D) -> Result<Option<F>, E>,
    (bytes, size): (&[u8], usize),
) -> (Vec<F>, Option<E>) {
    let mut frames = Vec::new();
    for piece in bytes.chunks(size.max(1)) {
        buffer(&mut decoder).extend_from_slice(piece);
        loop {
            match next(&mut decoder) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        let bound = stomp::BODY_BYTES_MAX.max(stomp::HEAD_BYTES_MAX).max(amqp::FRAME_BYTES_MAX);
        assert!(buffer(&mut decoder).len() <= bound + piece.len() + 3);
    }
    (frames, None)
}

fn of_stomp(bytes: &[u8], size: usize) -> (Vec<stomp::Frame>, Option<stomp::FrameError>) {
    frames(stomp::Decoder::default(), stomp::Decoder::buffer, stomp::Decoder::next_frame, (bytes, size))
}

fn of_amqp(bytes: &[u8], size: usize) -> (Vec<amqp::Frame>, Option<amqp::FrameError>) {
    frames(amqp::Decoder::default(), amqp::Decoder::buffer, amqp::Decoder::next_frame, (bytes, size))
}

fn same<T: PartialEq + Debug>(one: T, other: T) {
    assert_eq!(one, other);
}

/// Frames of each protocol, behind the size of pieces.
const ACCEPTED_STOMP: &[u8] = include_bytes!("../seeds/broker_frames/accepted_stomp");
const ACCEPTED_AMQP: &[u8] = include_bytes!("../seeds/broker_frames/accepted_amqp");

/// Returns the numbers of frames of STOMP and of AMQP.
fn check(input: &[u8]) -> [usize; 2] {
    let Some((size, bytes)) = input.split_first() else { return [0; 2] };
    let size = usize::from(*size);
    let frames_of_amqp = of_amqp(bytes, size).0.len();
    same(of_amqp(bytes, size), of_amqp(bytes, bytes.len()));
    // As a body, so that values are reached without a size that fits.
    let body = bytes.len().min(amqp::FRAME_BYTES_MAX - 8);
    let head = [&(body as u32 + 8).to_be_bytes()[..], &[2, 0, 0, 0]].concat();
    let _ = of_amqp(&[&head, &bytes[..body]].concat(), usize::MAX);
    let (read, error) = of_stomp(bytes, size);
    same((read.clone(), error), of_stomp(bytes, bytes.len()));
    for frame in &read {
        let mut written = BytesMut::new();
        frame.write(&mut written);
        let (again, error) = of_stomp(&written, usize::MAX);
        // A body with a zero byte gets a second content-length behind its first, which counts.
        assert!(error.is_none() && again.len() == 1 && again[0].body == frame.body, "{frame:?}");
    }
    [read.len(), frames_of_amqp]
}

fn check_seeds() {
    assert_eq!(check(ACCEPTED_STOMP)[0], 2);
    assert_eq!(check(ACCEPTED_AMQP)[1], 4);
}

fuzz_target!(init: check_seeds(), |input: &[u8]| {
    let input = input.to_vec();
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || check(&input));
    thread.expect("a thread starts").join().expect("nothing panics");
});
