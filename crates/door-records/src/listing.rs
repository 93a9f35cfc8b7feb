//! `COMMAND`, and the refusal of commands that are not offered.

use bytes::Bytes;

use crate::commands::{COMMANDS, Keys, RecordCommand};
use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;
use crate::session::unknown_subcommand;

/// At most so many bytes of a request are repeated in an error.
const REPEATED_BYTES_MAX: usize = 128;

/// `COMMAND`, as far as clients use it.
pub(crate) fn commands(words: &[Bytes]) -> CommandResult<Reply> {
    let all = || Reply::List(COMMANDS.iter().map(described).collect());
    let Some((what, words)) = words.split_first() else { return Ok(all()) };
    match what.to_ascii_lowercase().as_slice() {
        b"count" => Ok(Reply::count(COMMANDS.len())),
        b"docs" => Ok(Reply::Map(Vec::new())),
        b"info" if words.is_empty() => Ok(all()),
        b"info" => {
            let of = |name: &Bytes| RecordCommand::find(name).map_or(Reply::Nothing, described);
            Ok(Reply::List(words.iter().map(of).collect()))
        }
        _ => Err(unknown_subcommand("command", what)),
    }
}

/// Name, number of words, flags, first and last key, step.
fn described(command: &RecordCommand) -> Reply {
    let words = i64::try_from(command.words_min + 1).unwrap_or(i64::MAX);
    let words = if command.words_min == command.words_max { words } else { -words };
    let (last, step) = match command.keys {
        Keys::One => (1, 1),
        Keys::Sum | Keys::List => (-1, 1),
        Keys::Pairs => (-1, 2),
    };
    Reply::List(vec![
        Reply::fixed(command.name),
        Reply::Integer(words),
        Reply::List(vec![Reply::Word(if command.writes { "write" } else { "readonly" })]),
        Reply::Integer(1),
        Reply::Integer(last),
        Reply::Integer(step),
    ])
}

/// The refusal of a command that is not offered.
pub(crate) fn unknown(name: &[u8], words: &[Bytes]) -> Refusal {
    let shown = |bytes: &[u8]| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(REPEATED_BYTES_MAX)]).replace(['\r', '\n'], " ")
    };
    let mut list = String::new();
    for word in words {
        if list.len() >= REPEATED_BYTES_MAX {
            break;
        }
        list.push_str(&format!("'{}' ", shown(word)));
    }
    Refusal::error(format_args!("unknown command '{}', with args beginning with: {list}", shown(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_info_without_names_describes_all_commands() {
        let all = Reply::List(COMMANDS.iter().map(described).collect());
        assert_eq!(commands(&[]), Ok(all.clone()));
        assert_eq!(commands(&[Bytes::from_static(b"Info")]), Ok(all));
        let (info, ping) = (Bytes::from_static(b"INFO"), Bytes::from_static(b"ping"));
        assert_eq!(commands(&[info, ping]), Ok(Reply::List(vec![Reply::Nothing])));
    }
}
