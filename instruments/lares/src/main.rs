//! The binary: everything is in the library, whose tests read the same definitions.

use std::process::ExitCode;

/// The allocator of Penates, so that what a worker costs does not depend on the system's. Its options are in
/// `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    lares::main()
}
