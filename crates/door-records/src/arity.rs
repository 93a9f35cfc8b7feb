//! How many words each command has. It is looked at where a command begins.

use bytes::Bytes;

use crate::commands::{ANY, RecordCommand};
use crate::error::{CommandResult, Refusal};

/// The commands that are not on single records, each with the least and the greatest number of words
/// after its name.
const OTHERS: &[(&str, usize, usize)] = &[
    ("auth", 1, ANY),
    ("client", 1, ANY),
    ("command", 0, ANY),
    ("config", 1, ANY),
    ("dbsize", 0, 0),
    ("discard", 0, 0),
    ("echo", 1, 1),
    ("exec", 0, 0),
    ("hello", 0, ANY),
    ("info", 0, ANY),
    ("multi", 0, 0),
    ("penates.deadline", 1, 1),
    ("ping", 0, ANY),
    ("quit", 0, ANY),
    ("reset", 0, 0),
    ("scan", 1, ANY),
    ("select", 1, 1),
    ("unwatch", 0, 0),
    ("wait", 2, 2),
    ("watch", 1, ANY),
];

/// Likewise the subcommands, each with the name of its command before its own, and the numbers of words
/// after that.
const SUBCOMMANDS: &[(&str, &str, usize, usize)] = &[
    ("client", "getname", 0, 0),
    ("client", "id", 0, 0),
    ("client", "info", 0, 0),
    ("client", "kill", 1, ANY),
    ("client", "list", 0, ANY),
    ("client", "no-evict", 1, 1),
    ("client", "no-touch", 1, 1),
    ("client", "setinfo", 2, 2),
    ("client", "setname", 1, 1),
    ("command", "count", 0, 0),
    ("command", "docs", 0, ANY),
    ("command", "info", 0, ANY),
    ("config", "get", 1, ANY),
];

fn is(known: &str, name: &[u8]) -> bool {
    known.as_bytes().eq_ignore_ascii_case(name)
}

/// Refuses a command, whose name may be in any case, with too few or too many words after it. One that
/// is not offered has any number.
pub(crate) fn check(name: &[u8], words: &[Bytes]) -> CommandResult<()> {
    if let Some(command) = RecordCommand::find(name) {
        return command.check(words);
    }
    if let Some((known, least, most)) = OTHERS.iter().find(|(known, ..)| is(known, name))
        && !(*least..=*most).contains(&words.len())
    {
        return Err(Refusal::arity(known));
    }
    let Some((first, words)) = words.split_first() else { return Ok(()) };
    let found = SUBCOMMANDS.iter().find(|(command, known, ..)| is(command, name) && is(known, first));
    match found {
        Some((command, known, least, most)) if !(*least..=*most).contains(&words.len()) => {
            Err(Refusal::arity(&format!("{command}|{known}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_words_is_that_of_the_command_or_of_its_subcommand() {
        let refused = |line: &'static str| {
            let words: Vec<Bytes> = line.split(' ').map(|word| Bytes::from_static(word.as_bytes())).collect();
            check(&words[0], &words[1..]).err().map(|refusal| refusal.text().to_owned())
        };
        for (line, name) in [
            ("exec x", "exec"),
            ("EXEC x", "exec"),
            ("CLIENT", "client"),
            ("client Id x", "client|id"),
            ("CONFIG GET", "config|get"),
            ("scan", "scan"),
            ("GET a b", "get"),
            ("mset a 1 b", "mset"),
        ] {
            let expected = format!("ERR wrong number of arguments for '{name}' command");
            assert_eq!(refused(line), Some(expected), "{line}");
        }
        for line in ["exec", "client id", "client nosuch x y", "nosuch a b c", "config get a b", "quit now", "get a"] {
            assert_eq!(refused(line), None, "{line}");
        }
    }
}
