//! The binary: everything is in the library, so that tests and documentation are made from the same
//! definitions.

use std::process::ExitCode;

/// The system's allocator keeps an arena per thread, and memory that bulk readers free stays in it:
/// 50 slow clients took 390 MB where this one took 170. Its options are in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    penates::main()
}
