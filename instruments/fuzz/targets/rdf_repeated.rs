//! Bodies with a repeated piece: small bodies that expand, and nested ones. No fuzzer would write
//! out the thousands of pieces that this takes.
#![no_main]

use std::alloc::System;

use cap::Cap;
use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use rdf::update::Cancellation;
use rdf::{Graph, Iri, Limits, Syntax};

/// An allocation beyond this ends the process: four times the greatest size of a graph.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, 256 << 20);

/// The stack of a thread that serves requests.
const STACK_BYTES: usize = 2 << 20;

/// The greatest number of pieces, and of bytes that they make.
const PIECES: usize = 50_000;
const BODY_BYTES: usize = 1 << 20;

/// `\x01` separates head, piece and tail. In a piece `\x02` becomes its number and `\x03` the next
/// one; `\x04` is a long name anywhere. A piece after `\x05` is appended to the tail once for each
/// piece, as the end of what the piece begins.
fn body(count: usize, text: &str) -> String {
    let text = text.replace('\x04', &"x".repeat(50_000));
    let mut parts = text.splitn(3, '\x01');
    let (head, piece, tail) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next());
    let (piece, end) = piece.split_once('\x05').unwrap_or((piece, ""));
    let mut body = head.to_owned();
    let count = count.min(PIECES).min(BODY_BYTES / (piece.len() + end.len() + 1));
    for number in 0..count {
        body.push_str(&piece.replace('\x02', &number.to_string()).replace('\x03', &(number + 1).to_string()));
    }
    body.push_str(tail.unwrap_or_default());
    body.push_str(&end.repeat(count));
    body
}

/// A statement three times.
const ACCEPTED: &[u8] = include_bytes!("../seeds/rdf_repeated/accepted");

/// Returns the number of statements, if the body is accepted.
fn read(choice: u8, body: &str) -> Option<usize> {
    let base = Iri::parse("http://example.org/base".to_owned()).ok()?;
    let limits = Limits::default();
    let graph = match Syntax::ALL.get(usize::from(choice) % (Syntax::ALL.len() + 1)) {
        Some(syntax) => rdf::parse(body.as_bytes(), *syntax, &base, &limits).ok()?,
        None => {
            let limits = Limits { solutions: 100_000, ..limits };
            rdf::update::apply(&Graph::new(), body, &base, &limits, &Cancellation::default()).ok()?.graph
        }
    };
    Some(graph.len())
}

fn check((choice, count, text): (u8, u16, &str)) -> Option<usize> {
    let body = body(usize::from(count), text);
    let reading = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || read(choice, &body));
    // Panics in the thread are found too.
    reading.map(|reading| reading.join()).expect("a thread can be started").expect("reading does not panic")
}

fn check_seed() {
    let input = <(u8, u16, &str)>::arbitrary_take_rest(Unstructured::new(ACCEPTED));
    assert_eq!(input.ok().and_then(check), Some(3));
}

fuzz_target!(init: check_seed(), |input: (u8, u16, &str)| { check(input); });
