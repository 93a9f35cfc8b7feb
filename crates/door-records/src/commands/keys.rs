//! Commands on records of any kind.

use records::{Content, Draft, ExpiryChange, Record, integer};
use store::UnixMillis;

use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;
use crate::words::{ExpiryWord, TimeUnit, Words};

/// At most so many bytes of an option are repeated in an error.
const REPEATED_BYTES_MAX: usize = 128;

pub(super) fn delete(draft: &mut Draft, _words: Words<'_>) -> CommandResult<Reply> {
    Ok(Reply::flag(draft.delete()))
}

pub(super) fn exists(draft: &mut Draft, _words: Words<'_>) -> CommandResult<Reply> {
    Ok(Reply::flag(draft.record().is_some()))
}

pub(super) fn kind(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    words.end()?;
    Ok(Reply::Word(match draft.record().map(|record| &record.content) {
        None => "none",
        Some(Content::Text(_)) => "string",
        Some(Content::Attributes(_)) => "hash",
    }))
}

pub(super) fn expire(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    expire_by(draft, words, ExpiryWord::In(TimeUnit::Seconds))
}

pub(super) fn expire_ms(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    expire_by(draft, words, ExpiryWord::In(TimeUnit::Milliseconds))
}

pub(super) fn expire_at(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    expire_by(draft, words, ExpiryWord::At(TimeUnit::Seconds))
}

pub(super) fn expire_at_ms(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    expire_by(draft, words, ExpiryWord::At(TimeUnit::Milliseconds))
}

fn expire_by(draft: &mut Draft, mut words: Words<'_>, word: ExpiryWord) -> CommandResult<Reply> {
    // Redis looks at the options first.
    let number = words.next()?;
    let rule = words.expiry_rule()?;
    if let Ok(option) = words.next() {
        let option = String::from_utf8_lossy(&option[..option.len().min(REPEATED_BYTES_MAX)]);
        return Err(Refusal::error(format_args!("Unsupported option {option}")));
    }
    let number = integer(number)?;
    let time = word.time(number, draft.now).ok_or_else(|| Refusal::expire_time(words.command))?;
    // A time before 1970 has passed.
    let at = UnixMillis(u64::try_from(time).unwrap_or(0));
    let now = draft.now;
    match draft.change_record(|record| record.expire(at, rule, now)) {
        Some(ExpiryChange::Set | ExpiryChange::Deleted) => Ok(Reply::Integer(1)),
        Some(ExpiryChange::Refused | ExpiryChange::Missing) | None => Ok(Reply::Integer(0)),
    }
}

pub(super) fn persist(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    words.end()?;
    let had_one = draft.change_record(|record| record.expires_at.take().is_some());
    Ok(Reply::flag(had_one == Some(true)))
}

/// -2: there is no record; -1: it does not expire.
fn about_expiry(draft: &Draft, words: &Words<'_>, number: impl Fn(UnixMillis) -> u64) -> CommandResult<Reply> {
    words.end()?;
    Ok(Reply::Integer(match draft.record().map(|record: &Record| record.expires_at) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => i64::try_from(number(at)).unwrap_or(i64::MAX),
    }))
}

/// Milliseconds in seconds, which are rounded as in Redis.
pub(super) fn in_seconds(ms: u64) -> u64 {
    ms.saturating_add(500) / 1_000
}

pub(super) fn ttl(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    about_expiry(draft, &words, |at| in_seconds(at.0.saturating_sub(draft.now.0)))
}

pub(super) fn ttl_ms(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    about_expiry(draft, &words, |at| at.0.saturating_sub(draft.now.0))
}

pub(super) fn expiry_time(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    about_expiry(draft, &words, |at| in_seconds(at.0))
}

pub(super) fn expiry_time_ms(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    about_expiry(draft, &words, |at| at.0)
}
