//! The binary: everything is in the library, so that tests and documentation are made from the same definitions.

use std::process::ExitCode;

fn main() -> ExitCode {
    penates::main()
}
