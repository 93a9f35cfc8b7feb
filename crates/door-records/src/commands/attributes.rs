//! Commands on attributes. Redis calls them fields of a hash.

use bytes::Bytes;
use records::{Attribute, Attributes, Draft, ExpiryChange, RecordError};
use store::UnixMillis;

use super::keys::in_seconds;
use crate::error::{CommandResult, Refusal};
use crate::pattern::Pattern;
use crate::random;
use crate::reply::Reply;
use crate::words::{ExpiryOption, ExpiryWord, SentTime, TimeUnit, Words};

/// The value of an attribute, or nothing.
fn value(attributes: Option<&Attributes>, name: &[u8]) -> Reply {
    Reply::bytes_or_nothing(attributes.and_then(|found| found.get(name)).map(|attribute| attribute.value.clone()))
}

/// Names and values in draft.
pub(super) fn pairs<'a>(
    words: &'a [Bytes],
    command: &str,
) -> CommandResult<impl Iterator<Item = (Bytes, Attribute)> + 'a> {
    let (pairs, rest) = words.as_chunks::<2>();
    if !rest.is_empty() || pairs.is_empty() {
        return Err(Refusal::arity(command));
    }
    Ok(pairs.iter().map(|[name, value]| (name.clone(), Attribute::lasting(value.clone()))))
}

pub(super) fn set(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    let pairs = pairs(words.rest(), words.command)?;
    draft.change_attributes(|found| {
        Ok(Reply::count(pairs.filter(|(name, new)| found.set(name.clone(), new.clone())).count()))
    })
}

/// `HMSET`: as `HSET`, without a number.
pub(super) fn set_many(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    set(draft, words).map(|_| Reply::OK)
}

pub(super) fn set_if_absent(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let (name, value) = (words.next()?.clone(), words.next()?.clone());
    draft.change_attributes(|found| {
        let is_absent = found.get(&name).is_none();
        Ok(Reply::flag(is_absent && found.set(name, Attribute::lasting(value))))
    })
}

/// An option about an expiry that has no time.
type Timeless = (&'static str, ExpiryOption<SentTime<'static>>);

const KEEP: Timeless = ("KEEPTTL", ExpiryOption::Keep);
const DROP: Timeless = ("PERSIST", ExpiryOption::Drop);

/// Takes an option about an expiry, if it is next and may follow the one that was taken `before`: the
/// same one may come again, and the last one counts.
fn expiry_option<'a>(
    words: &mut Words<'a>,
    timeless: &[Timeless],
    before: ExpiryOption<SentTime<'a>>,
) -> CommandResult<Option<ExpiryOption<SentTime<'a>>>> {
    let may_follow = |option: ExpiryOption<SentTime<'a>>| before == ExpiryOption::Unsaid || before == option;
    if let Some((_, option)) = timeless.iter().find(|(word, option)| may_follow(*option) && words.takes(word)) {
        return Ok(Some(*option));
    }
    let time = match before {
        ExpiryOption::Unsaid => words.expiry(None)?,
        ExpiryOption::At(time) => words.expiry(Some(time))?,
        ExpiryOption::Keep | ExpiryOption::Drop => None,
    };
    Ok(time.map(ExpiryOption::At))
}

/// What `HSETEX` or `PENATES.HSET` sets, and on which conditions.
pub(super) struct SetAndExpire<'a> {
    /// Whether there has to be a record, or none.
    pub(super) is_there: Option<bool>,
    /// No attribute is there, or all are.
    pub(super) only_absent: bool,
    pub(super) only_present: bool,
    /// That of each attribute, or of the record.
    pub(super) expiry: ExpiryOption<SentTime<'a>>,
    pub(super) pairs: &'a [[Bytes; 2]],
}

impl<'a> SetAndExpire<'a> {
    /// The words of `HSETEX`, with the expiry of attributes.
    pub(super) fn of_attributes(words: Words<'a>) -> CommandResult<Self> {
        Self::take(words, &[KEEP])
    }

    /// The words of `PENATES.HSET`, with the expiry of the record.
    pub(super) fn of_record(words: Words<'a>) -> CommandResult<Self> {
        Self::take(words, &[KEEP, DROP])
    }

    fn take(mut words: Words<'a>, timeless: &[Timeless]) -> CommandResult<Self> {
        let (mut is_there, mut only_absent, mut only_present) = (None, false, false);
        let mut expiry = ExpiryOption::Unsaid;
        loop {
            if is_there != Some(true) && words.takes("NX") {
                is_there = Some(false);
            } else if is_there != Some(false) && words.takes("XX") {
                is_there = Some(true);
            } else if !only_present && words.takes("FNX") {
                only_absent = true;
            } else if !only_absent && words.takes("FXX") {
                only_present = true;
            } else if let Some(option) = expiry_option(&mut words, timeless, expiry)? {
                expiry = option;
            } else {
                break;
            }
        }
        let (pairs, _) = words.fields(2)?.as_chunks::<2>();
        Ok(Self { is_there, only_absent, only_present, expiry, pairs })
    }

    /// The expiry to set on the attributes of a record (`None`: there is no record); `Ok(None)`: a
    /// condition does not hold. As in Valkey, the conditions on the record come before a look at the
    /// time, and those on its attributes behind it.
    fn expiry_on(
        &self,
        found: Option<&Attributes>,
        look: impl FnOnce(SentTime<'a>) -> CommandResult<UnixMillis>,
    ) -> CommandResult<Option<ExpiryOption>> {
        if self.is_there.is_some_and(|is_there| is_there != found.is_some()) {
            return Ok(None);
        }
        let expiry = self.expiry.looked_at(look)?;
        let has = |[name, _]: &[Bytes; 2]| found.is_some_and(|found| found.get(name).is_some());
        let is_taken = self.only_absent && self.pairs.iter().any(has);
        Ok((!is_taken && (!self.only_present || self.pairs.iter().all(has))).then_some(expiry))
    }
}

pub(super) fn set_and_expire(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    let (sent, now) = (SetAndExpire::of_attributes(words)?, draft.now);
    let Some(expiry) = sent.expiry_on(draft.attributes()?, |time| time.moment_of_attribute(now))? else {
        return Ok(Reply::Integer(0));
    };
    draft.change_attributes(|found| {
        for [name, value] in sent.pairs {
            let expires_at = match expiry {
                ExpiryOption::At(at) => Some(at),
                ExpiryOption::Keep => found.get(name).and_then(|attribute| attribute.expires_at),
                ExpiryOption::Unsaid | ExpiryOption::Drop => None,
            };
            found.set(name.clone(), Attribute { value: value.clone(), expires_at });
        }
        Ok(Reply::Integer(1))
    })
}

/// `PENATES.HSET`: as `HSET`, with the expiry of the record. Nothing is set, and the answer is nothing,
/// unless the conditions hold.
pub(super) fn set_in_expiring_record(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    let (sent, now) = (SetAndExpire::of_record(words)?, draft.now);
    let Some(expiry) = sent.expiry_on(draft.attributes()?, |time| time.moment(now))? else {
        return Ok(Reply::Nothing);
    };
    let added = draft.change_attributes(|found| {
        let is_new = |[name, value]: &&[Bytes; 2]| found.set(name.clone(), Attribute::lasting(value.clone()));
        Ok::<_, Refusal>(sent.pairs.iter().filter(is_new).count())
    })?;
    match expiry {
        ExpiryOption::At(at) => drop(draft.change_record(|record| record.expires_at = Some(at))),
        ExpiryOption::Drop => drop(draft.change_record(|record| record.expires_at = None)),
        ExpiryOption::Unsaid | ExpiryOption::Keep => {}
    }
    Ok(Reply::count(added))
}

pub(super) fn get(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let name = words.next()?;
    Ok(value(draft.attributes()?, name))
}

pub(super) fn get_many(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    let found = draft.attributes()?;
    Ok(Reply::List(words.rest().iter().map(|name| value(found, name)).collect()))
}

pub(super) fn get_all(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    words.end()?;
    Ok(Reply::Attributes(Box::new(draft.take_attributes()?.unwrap_or_default())))
}

pub(super) fn names(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    list_of(draft, &words, |(name, _)| name.clone())
}

pub(super) fn values(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    list_of(draft, &words, |(_, attribute)| attribute.value.clone())
}

fn list_of(draft: &Draft, words: &Words<'_>, part: impl Fn((&Bytes, &Attribute)) -> Bytes) -> CommandResult<Reply> {
    words.end()?;
    let found = draft.attributes()?;
    let list = found.map(|found| found.iter().map(|pair| Reply::Bytes(part(pair))).collect());
    Ok(Reply::List(list.unwrap_or_default()))
}

pub(super) fn get_and_expire(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let mut sent = ExpiryOption::Unsaid;
    while let Some(option) = expiry_option(&mut words, &[DROP], sent)? {
        sent = option;
    }
    let (names, now) = (words.fields(1)?, draft.now);
    // As in Valkey, the time is looked at only if the record is no text.
    draft.attributes()?;
    let expiry = sent.looked_at(|time| time.moment_of_attribute(now))?;
    if matches!(expiry, ExpiryOption::At(at) if at <= now) {
        return delete_and_list(draft, names);
    }
    draft.change_attributes(|found| {
        let answers = names.iter().map(|name| {
            let answer = value(Some(found), name);
            match expiry {
                ExpiryOption::At(at) => drop(found.expire(name, at, records::ExpiryRule::default(), now)),
                ExpiryOption::Drop => drop(found.persist(name)),
                ExpiryOption::Unsaid | ExpiryOption::Keep => {}
            }
            answer
        });
        Ok(Reply::List(answers.collect()))
    })
}

pub(super) fn get_and_delete(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let names = words.fields(1)?;
    delete_and_list(draft, names)
}

/// Deletes attributes. The answer has their values.
fn delete_and_list(draft: &mut Draft, names: &[Bytes]) -> CommandResult<Reply> {
    draft.change_attributes(|found| {
        let deleted = found.delete_all(names).into_iter().map(|deleted| deleted.map(|attribute| attribute.value));
        Ok(Reply::List(deleted.map(Reply::bytes_or_nothing).collect()))
    })
}

pub(super) fn delete(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    draft.change_attributes(|found| {
        Ok(Reply::count(found.delete_all(words.rest()).iter().filter(|deleted| deleted.is_some()).count()))
    })
}

pub(super) fn exists(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let name = words.next()?;
    Ok(Reply::flag(draft.attributes()?.is_some_and(|found| found.get(name).is_some())))
}

pub(super) fn count(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    words.end()?;
    Ok(Reply::count(draft.attributes()?.map_or(0, Attributes::len)))
}

pub(super) fn value_length(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let name = words.next()?;
    let found = draft.attributes()?.and_then(|found| found.get(name));
    Ok(Reply::count(found.map_or(0, |attribute| attribute.value.len())))
}

pub(super) fn add(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let (name, by) = (words.next()?, words.integer()?);
    draft.change_attributes(|found| match found.increment(name, by) {
        Ok(sum) => Ok(Reply::Integer(sum)),
        Err(RecordError::NotAnInteger) => Err(Refusal::error("hash value is not an integer")),
        Err(other) => Err(other.into()),
    })
}

pub(super) fn add_decimal(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let (name, by) = (words.next()?, words.next()?);
    records::decimal_sum(b"0", by)?;
    draft.change_attributes(|found| match found.increment_decimal(name, by) {
        Ok(sum) => Ok(Reply::Bytes(sum)),
        Err(RecordError::NotADecimal) => Err(Refusal::error("hash value is not a float")),
        Err(RecordError::Overflow) => Err(Refusal::error("increment would produce NaN or Infinity")),
        Err(other) => Err(other.into()),
    })
}

/// All attributes at once, as Redis does with a small hash, so the cursor is always 0.
pub(super) fn scan(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let cursor = words.next()?;
    if !cursor.iter().all(u8::is_ascii_digit) || cursor.is_empty() {
        return Err(Refusal::error("invalid cursor"));
    }
    // Redis looks at the options only if there is something to list.
    let Some(found) = draft.attributes()? else {
        return Ok(Reply::List(vec![Reply::fixed("0"), Reply::List(Vec::new())]));
    };
    let (mut pattern, mut has_values) = (None, true);
    while !words.is_empty() {
        if words.takes("MATCH") {
            pattern = Some(words.next()?);
        } else if words.takes("COUNT") {
            if words.integer()? < 1 {
                return Err(Refusal::syntax());
            }
        } else if words.takes("NOVALUES") {
            has_values = false;
        } else {
            return Err(Refusal::syntax());
        }
    }
    // Of many patterns only the last one counts.
    let pattern = pattern.map(|pattern| Pattern::new(pattern)).transpose()?;
    let mut list = Vec::new();
    for (name, attribute) in found.iter() {
        if pattern.as_ref().is_none_or(|pattern| pattern.matches(name)) {
            list.push(Reply::Bytes(name.clone()));
            if has_values {
                list.push(Reply::Bytes(attribute.value.clone()));
            }
        }
    }
    Ok(Reply::List(vec![Reply::fixed("0"), Reply::List(list)]))
}

/// The most attributes that are drawn with repetition: what the answer holds is bounded.
const DRAWN_MAX: u64 = 10_000;

pub(super) fn draw(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let count = if words.is_empty() { None } else { Some(words.integer()?) };
    let has_values = count.is_some() && words.takes("WITHVALUES");
    words.end()?;
    let Some(count) = count else {
        let drawn = draft.attributes()?.and_then(|found| found.at(random::below(found.len())));
        return Ok(Reply::bytes_or_nothing(drawn.map(|(name, _)| name.clone())));
    };
    if count < 0 && count.unsigned_abs() > DRAWN_MAX {
        return Err(Refusal::error(format_args!("value is out of range: at most {DRAWN_MAX} can be drawn")));
    }
    let Some(found) = draft.attributes()? else { return Ok(Reply::List(Vec::new())) };
    let places: Vec<usize> = match count {
        0.. => random::places(found.len(), usize::try_from(count).unwrap_or(usize::MAX)),
        _ => (0..count.unsigned_abs()).map(|_| random::below(found.len())).collect(),
    };
    let drawn = places.into_iter().filter_map(|place| found.at(place));
    let name = |(name, _): (&Bytes, &Attribute)| Reply::Bytes(name.clone());
    let pair = |pair: (&Bytes, &Attribute)| (name(pair), Reply::Bytes(pair.1.value.clone()));
    Ok(if has_values { Reply::Pairs(drawn.map(pair).collect()) } else { Reply::List(drawn.map(name).collect()) })
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

/// -2: there is no such attribute; 0: the rule does not allow it; 1: set; 2: deleted, because the
/// time has passed.
fn expire_by(draft: &mut Draft, mut words: Words<'_>, word: ExpiryWord) -> CommandResult<Reply> {
    let at = words.time(word)?.moment_of_attribute(draft.now)?;
    let rule = words.expiry_rule()?;
    let names = words.fields(1)?;
    let now = draft.now;
    draft.change_attributes(|found| {
        let codes = found.expire_all(names, at, rule, now).into_iter().map(|change| match change {
            ExpiryChange::Missing => -2,
            ExpiryChange::Refused => 0,
            ExpiryChange::Set => 1,
            ExpiryChange::Deleted => 2,
        });
        Ok(Reply::List(codes.map(Reply::Integer).collect()))
    })
}

/// -2: there is no such attribute; -1: it has no expiry; 1: it has none any more.
pub(super) fn persist(draft: &mut Draft, mut words: Words<'_>) -> CommandResult<Reply> {
    let names = words.fields(1)?;
    draft.change_attributes(|found| {
        let codes = names.iter().map(|name| match found.persist(name) {
            None => -2,
            Some(None) => -1,
            Some(Some(_)) => 1,
        });
        Ok(Reply::List(codes.map(Reply::Integer).collect()))
    })
}

/// -2: there is no such attribute; -1: it has no expiry.
fn about_expiry(draft: &Draft, mut words: Words<'_>, number: impl Fn(UnixMillis) -> u64) -> CommandResult<Reply> {
    let names = words.fields(1)?;
    let found = draft.attributes()?;
    let code = |name: &Bytes| match found.and_then(|found| found.get(name)).map(|attribute| attribute.expires_at) {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => i64::try_from(number(at)).unwrap_or(i64::MAX),
    };
    Ok(Reply::List(names.iter().map(|name| Reply::Integer(code(name))).collect()))
}

pub(super) fn ttl(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    about_expiry(draft, words, |at| in_seconds(at.0.saturating_sub(draft.now.0)))
}

pub(super) fn ttl_ms(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    about_expiry(draft, words, |at| at.0.saturating_sub(draft.now.0))
}

pub(super) fn expiry_time(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    about_expiry(draft, words, |at| in_seconds(at.0))
}

pub(super) fn expiry_time_ms(draft: &mut Draft, words: Words<'_>) -> CommandResult<Reply> {
    about_expiry(draft, words, |at| at.0)
}
