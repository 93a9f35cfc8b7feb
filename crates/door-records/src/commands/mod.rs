//! The commands on records, each with its number of words.

mod attributes;
mod keys;
mod overwrites;
mod texts;

use bytes::Bytes;
use records::{Draft, Overwrite};

use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;
use crate::words::Words;

/// What a command does on the record of one key.
type OnRecord = fn(&mut Draft, Words<'_>) -> CommandResult<Reply>;

/// What a command writes of the record of one key without reading it.
type OnUnread = fn(&mut Overwrite, Words<'_>) -> CommandResult<Reply>;

/// What becomes of a command in mode fast.
#[derive(Clone, Copy, Debug)]
pub enum Fast {
    /// It reads.
    Reads,
    /// It writes without reading.
    Overwrites(OnUnread),
    /// It reads, and changes what it read unless that is changed at the same time.
    Refreshes,
    /// It depends on what is stored, so it is refused.
    Refused,
}

/// What the answer of a command holds that changes the record of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// A number or a word.
    Little,
    /// A number for each name.
    Numbers,
    /// What was stored.
    Values,
}

/// Which words of a command are keys, and what becomes of the answers for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The first word.
    One,
    /// All words; the answer is the sum.
    Sum,
    /// All words; the answer is a list.
    List,
    /// Every other word, before its value; the answer is `OK`.
    Pairs,
}

/// A command on records.
#[derive(Clone, Copy, Debug)]
pub struct RecordCommand {
    /// Its name, in lower case.
    pub name: &'static str,
    /// The least number of words after the name.
    pub words_min: usize,
    /// The greatest number of words after the name.
    pub words_max: usize,
    /// Whether it may change records.
    pub writes: bool,
    /// Which words are keys.
    pub keys: Keys,
    /// What becomes of it in mode fast.
    pub fast: Fast,
    /// What its answer holds for one key, if it may change records.
    pub says: Says,
    act: OnRecord,
}

impl RecordCommand {
    /// The command of a name, in any case.
    pub fn find(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The keys among the words after the name, each with the words that follow it and are for it.
    ///
    /// Errors: too few or too many words.
    pub fn keys<'a>(&self, words: &'a [Bytes]) -> CommandResult<Vec<(&'a Bytes, &'a [Bytes])>> {
        self.check(words)?;
        Ok(match self.keys {
            Keys::One => words.split_first().into_iter().collect(),
            Keys::Sum | Keys::List => words.iter().map(|key| (key, &[][..])).collect(),
            Keys::Pairs => words.chunks_exact(2).map(|pair| (&pair[0], &pair[1..])).collect(),
        })
    }

    /// Refuses too few or too many words after the name.
    pub fn check(&self, words: &[Bytes]) -> CommandResult<()> {
        let is_in_pairs = self.keys != Keys::Pairs || words.len().is_multiple_of(2);
        match (self.words_min..=self.words_max).contains(&words.len()) && is_in_pairs {
            true => Ok(()),
            false => Err(Refusal::arity(self.name)),
        }
    }

    /// Whether it is about one key.
    pub fn has_one_key(&self) -> bool {
        self.keys == Keys::One
    }

    /// The keys among the words after the name.
    pub fn ids<'a>(&self, words: &'a [Bytes]) -> impl Iterator<Item = &'a Bytes> + use<'a> {
        let (step, most) = match self.keys {
            Keys::One => (1, 1),
            Keys::Sum | Keys::List => (1, usize::MAX),
            Keys::Pairs => (2, usize::MAX),
        };
        words.iter().step_by(step).take(most)
    }

    const fn overwrites(self, write: OnUnread) -> Self {
        Self { fast: Fast::Overwrites(write), ..self }
    }

    const fn refreshes(self) -> Self {
        Self { fast: Fast::Refreshes, ..self }
    }

    const fn says(self, says: Says) -> Self {
        Self { says, ..self }
    }

    /// What it writes without reading, with the words that are for one key.
    ///
    /// Errors: it depends on what is stored.
    pub fn overwrite(&self, change: &mut Overwrite, words: &[Bytes]) -> CommandResult<Reply> {
        match self.fast {
            Fast::Overwrites(write) => write(change, Words::new(self.name, words)),
            Fast::Reads | Fast::Refreshes | Fast::Refused => Err(Refusal::not_fast(self.name)),
        }
    }

    /// Runs it on the record of one key, with the words that are for that key.
    pub fn run(&self, draft: &mut Draft, words: &[Bytes]) -> CommandResult<Reply> {
        (self.act)(draft, Words::new(self.name, words))
    }

    /// The answer for all keys, from those for each.
    pub fn combined(&self, mut answers: Vec<Reply>) -> Reply {
        match self.keys {
            Keys::One => answers.pop().unwrap_or(Reply::Nothing),
            Keys::List => Reply::List(answers),
            Keys::Pairs => Reply::OK,
            Keys::Sum => {
                Reply::Integer(answers.iter().map(|answer| if let Reply::Integer(n) = answer { *n } else { 0 }).sum())
            }
        }
    }
}

/// Any number of words.
pub(crate) const ANY: usize = usize::MAX;

const fn reads(name: &'static str, words_min: usize, words_max: usize, act: OnRecord) -> RecordCommand {
    let (keys, fast, says) = (Keys::One, Fast::Reads, Says::Little);
    RecordCommand { name, words_min, words_max, writes: false, keys, fast, says, act }
}

const fn writes(name: &'static str, words_min: usize, words_max: usize, act: OnRecord) -> RecordCommand {
    RecordCommand { writes: true, fast: Fast::Refused, ..reads(name, words_min, words_max, act) }
}

const fn all_keys(name: &'static str, writes: bool, keys: Keys, words_min: usize, act: OnRecord) -> RecordCommand {
    let fast = if writes { Fast::Refused } else { Fast::Reads };
    RecordCommand { writes, keys, fast, ..reads(name, words_min, ANY, act) }
}

/// All commands on records.
pub const COMMANDS: &[RecordCommand] = &[
    // Attributes.
    writes("hset", 3, ANY, attributes::set).overwrites(overwrites::set),
    writes("hmset", 3, ANY, attributes::set_many).overwrites(overwrites::set_many),
    writes("hsetnx", 3, 3, attributes::set_if_absent),
    writes("hsetex", 5, ANY, attributes::set_and_expire).overwrites(overwrites::set_and_expire),
    writes("penates.hset", 5, ANY, attributes::set_in_expiring_record).overwrites(overwrites::set_in_expiring_record),
    reads("hget", 2, 2, attributes::get),
    writes("hgetex", 4, ANY, attributes::get_and_expire).refreshes().says(Says::Values),
    writes("hgetdel", 4, ANY, attributes::get_and_delete).says(Says::Values),
    reads("hmget", 2, ANY, attributes::get_many),
    reads("hgetall", 1, 1, attributes::get_all),
    writes("hdel", 2, ANY, attributes::delete).overwrites(overwrites::delete_attributes),
    reads("hexists", 2, 2, attributes::exists),
    reads("hlen", 1, 1, attributes::count),
    reads("hkeys", 1, 1, attributes::names),
    reads("hvals", 1, 1, attributes::values),
    writes("hincrby", 3, 3, attributes::add),
    writes("hincrbyfloat", 3, 3, attributes::add_decimal),
    reads("hscan", 2, ANY, attributes::scan),
    reads("hstrlen", 2, 2, attributes::value_length),
    reads("hrandfield", 1, ANY, attributes::draw),
    // Expiry of attributes.
    writes("hexpire", 5, ANY, attributes::expire).refreshes().says(Says::Numbers),
    writes("hpexpire", 5, ANY, attributes::expire_ms).refreshes().says(Says::Numbers),
    writes("hexpireat", 5, ANY, attributes::expire_at).refreshes().says(Says::Numbers),
    writes("hpexpireat", 5, ANY, attributes::expire_at_ms).refreshes().says(Says::Numbers),
    reads("httl", 4, ANY, attributes::ttl),
    reads("hpttl", 4, ANY, attributes::ttl_ms),
    reads("hexpiretime", 4, ANY, attributes::expiry_time),
    reads("hpexpiretime", 4, ANY, attributes::expiry_time_ms),
    writes("hpersist", 4, ANY, attributes::persist).refreshes().says(Says::Numbers),
    // Texts.
    writes("set", 2, ANY, texts::set).overwrites(overwrites::set_text).says(Says::Values),
    writes("setex", 3, 3, texts::set_for_seconds).overwrites(overwrites::set_text_for_seconds),
    writes("psetex", 3, 3, texts::set_for_milliseconds).overwrites(overwrites::set_text_for_milliseconds),
    writes("setnx", 2, 2, texts::set_if_absent),
    writes("getset", 2, 2, texts::get_and_set).says(Says::Values),
    reads("get", 1, 1, texts::get),
    writes("getex", 1, ANY, texts::get_and_expire).refreshes().says(Says::Values),
    writes("getdel", 1, 1, texts::get_and_delete).says(Says::Values),
    all_keys("mget", false, Keys::List, 1, texts::get_if_text),
    all_keys("mset", true, Keys::Pairs, 2, texts::set_plainly).overwrites(overwrites::set_text_plainly),
    writes("incr", 1, 1, texts::add_one),
    writes("incrby", 2, 2, texts::add_number),
    writes("decr", 1, 1, texts::subtract_one),
    writes("decrby", 2, 2, texts::subtract_number),
    writes("append", 2, 2, texts::append),
    reads("strlen", 1, 1, texts::length),
    // Records of any kind.
    all_keys("del", true, Keys::Sum, 1, keys::delete).overwrites(overwrites::delete),
    all_keys("unlink", true, Keys::Sum, 1, keys::delete).overwrites(overwrites::delete),
    all_keys("exists", false, Keys::Sum, 1, keys::exists),
    all_keys("touch", false, Keys::Sum, 1, keys::exists),
    reads("type", 1, 1, keys::kind),
    writes("expire", 2, ANY, keys::expire).refreshes(),
    writes("pexpire", 2, ANY, keys::expire_ms).refreshes(),
    writes("expireat", 2, ANY, keys::expire_at).refreshes(),
    writes("pexpireat", 2, ANY, keys::expire_at_ms).refreshes(),
    reads("expiretime", 1, 1, keys::expiry_time),
    reads("pexpiretime", 1, 1, keys::expiry_time_ms),
    reads("ttl", 1, 1, keys::ttl),
    reads("pttl", 1, 1, keys::ttl_ms),
    writes("persist", 1, 1, keys::persist).refreshes(),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn documented(fast: Fast) -> &'static str {
        match fast {
            Fast::Reads => "reads",
            Fast::Overwrites(_) => "writes without reading",
            Fast::Refreshes => "changes what it reads",
            Fast::Refused => "refused",
        }
    }

    /// The names in the row of the table of `docs/records.md` that begins so.
    fn names_in(row: &str) -> Vec<String> {
        const DOCS: &str = include_str!("../../../../docs/records.md");
        let line = DOCS.lines().find(|line| line.starts_with(&format!("| {row} |"))).unwrap();
        let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '.');
        let mut names: Vec<String> = words
            .filter(|word| RecordCommand::find(word.as_bytes()).is_some())
            .filter(|word| word.chars().all(|c| c.is_ascii_uppercase() || c == '.'))
            .map(str::to_lowercase)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_documentation_has_what_becomes_of_each_command_in_mode_fast() {
        for row in ["reads", "writes without reading", "changes what it reads", "refused"] {
            let those = COMMANDS.iter().filter(|command| documented(command.fast) == row);
            let mut names: Vec<String> = those.map(|command| command.name.to_owned()).collect();
            names.sort();
            assert_eq!(names_in(row), names, "{row}");
        }
    }
}
