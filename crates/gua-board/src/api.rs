//! The JSON API: `/api/v1`. Everything that a page shows or changes goes through these handlers or the same store.

pub(crate) mod alerts;
pub(crate) mod hosts;
pub(crate) mod keys;
pub(crate) mod members;
pub(crate) mod people;
pub(crate) mod session;
pub(crate) mod settings;
pub(crate) mod tokens;
pub(crate) mod visibility;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use gua_board_store::Secret;
use gua_board_store::registry::Actor;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Problem;

/// Answer to a change that returns nothing.
type Done = Result<(), Problem>;

/// Items on one page of a list: a page with this many stays under 100 kB.
pub(crate) const PAGE_ITEMS: usize = 40;
/// Maximum length of a name that people choose, in characters.
const MAX_NAME_LENGTH: usize = 100;

/// Maximum number of tags or groups.
const MAX_IN_LIST: usize = 20;

/// Maximum number of groups that a provider gives a member.
const MAX_PROVIDED: usize = 200;

/// A list in an answer. An object can get more fields later; an array cannot.
#[derive(Serialize, JsonSchema)]
pub(crate) struct List<T> {
    pub(crate) items: Vec<T>,
}

/// Query parameters of a long list: a filter by name, and the page.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Search {
    /// Part of the name, regardless of case.
    #[serde(default)]
    pub(crate) name: String,
    /// Number of the page, from 1.
    pub(crate) page: Option<usize>,
}

/// One page of a list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Paged<T> {
    pub(crate) items: Vec<T>,
    pub(crate) page: usize,
    pub(crate) pages: usize,
}

impl<T> Paged<T> {
    /// Takes the wanted page of the items with a matching name; the last one if there are fewer.
    pub(crate) fn of(all: Vec<T>, search: &Search, name: impl Fn(&T) -> &str) -> Self {
        let part = search.name.trim().to_lowercase();
        let is_match = |item: &T| name(item).to_lowercase().contains(&part);
        let found: Vec<T> = all.into_iter().filter(is_match).collect();
        let pages = found.len().div_ceil(PAGE_ITEMS).max(1);
        let page = search.page.unwrap_or(1).clamp(1, pages);
        let items = found.into_iter().skip((page - 1) * PAGE_ITEMS);
        Self {
            items: items.take(PAGE_ITEMS).collect(),
            page,
            pages,
        }
    }

    /// Converts the items.
    pub(crate) fn map<U>(self, convert: impl FnMut(T) -> U) -> Paged<U> {
        Paged {
            items: self.items.into_iter().map(convert).collect(),
            page: self.page,
            pages: self.pages,
        }
    }
}

/// Groups of a member, or groups of members who may use a host.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetGroups {
    /// Names of the groups, separated by commas; none by default. Upper and lower case are the same.
    #[schemars(length(min = 1, max = MAX_NAME_LENGTH), regex(pattern = NAME_PATTERN))]
    groups: Option<String>,
}

impl SetGroups {
    fn checked(&self) -> Result<Vec<String>, Problem> {
        let groups = checked_list(self.groups.as_deref())?;
        let groups: BTreeSet<String> = groups.iter().map(|group| group.to_lowercase()).collect();
        Ok(groups.into_iter().collect())
    }
}

/// Returns the groups that a provider names, as members have them. Names that no admin could enter are left out.
pub(crate) fn provided_groups(names: &[String]) -> Vec<String> {
    let names = names.iter().filter(|name| !name.contains(','));
    let names = names.filter_map(|name| checked_name(name).ok());
    let groups: BTreeSet<String> = names.map(|name| name.to_lowercase()).collect();
    groups.into_iter().take(MAX_PROVIDED).collect()
}

/// An object that was added, with the secret that is shown this once.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WithSecret<T> {
    #[serde(flatten)]
    pub(crate) object: T,
    pub(crate) secret: String,
}

impl<T> WithSecret<T> {
    fn new(object: T, secret: &Secret) -> Self {
        let secret = secret.reveal().to_owned();
        Self { object, secret }
    }
}

/// Reads a whole number. JSON Schema calls `7.0` an integer, too.
fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let number = Option::<f64>::deserialize(deserializer)?;
    let whole = number.map(|number| number.to_string().parse());
    whole.transpose().map_err(serde::de::Error::custom)
}

/// Checks a number in a request.
fn check_range(field: &str, number: Option<u32>, range: RangeInclusive<u32>) -> Done {
    if number.is_none_or(|number| range.contains(&number)) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(Problem::Invalid(format!(
        "{field} must be {least} to {most}"
    )))
}

/// Pattern of the names that [`checked_name`] accepts: at least one visible character, and none for which `is_harmful` is
/// true. The length is checked separately.
const NAME_PATTERN: &str = r"^[^\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*[^\s\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff][^\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]*$";

/// Checks a name that people choose: visible, not too long. Returns it without the spaces around it.
pub(crate) fn checked_name(text: &str) -> Result<String, Problem> {
    let name = text.trim();
    let is_visible = !text.contains(gua_model::text::is_harmful);
    if name.is_empty() || !is_visible || text.chars().count() > MAX_NAME_LENGTH {
        return Err(Problem::Invalid(format!(
            "a name has 1 to {MAX_NAME_LENGTH} visible characters"
        )));
    }
    Ok(name.to_owned())
}

/// Checks names that are separated by commas. Returns each once, in order.
fn checked_list(text: Option<&str>) -> Result<Vec<String>, Problem> {
    let text = text.map(checked_name).transpose()?.unwrap_or_default();
    let names = text.split(',').map(str::trim);
    let names = names.filter(|name| !name.is_empty()).map(str::to_owned);
    let names: BTreeSet<String> = names.collect();
    if names.len() > MAX_IN_LIST {
        let message = format!("a list has at most {MAX_IN_LIST} names");
        return Err(Problem::Invalid(message));
    }
    Ok(names.into_iter().collect())
}

/// Checks the name of a new account. Some names are reserved for the audit log.
pub(crate) fn checked_account_name(text: &str) -> Result<String, Problem> {
    let name = checked_name(text)?;
    if Actor::is_reserved(&name) {
        let message = "the name of an account must not begin with `[`";
        return Err(Problem::Invalid(message.to_owned()));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_searched_and_cut_into_pages() {
        let all: Vec<String> = (0..100).map(|number| format!("User {number}")).collect();
        let check = |name: &str, page: Option<usize>, expected: (&str, usize, usize, usize)| {
            let search = Search {
                name: name.to_owned(),
                page,
            };
            let found = Paged::of(all.clone(), &search, |name| name);
            let first = found.items.first().map_or("", String::as_str);
            let facts = (first, found.items.len(), found.page, found.pages);
            assert_eq!(facts, expected, "{name} {page:?}");
        };
        check("", None, ("User 0", 40, 1, 3));
        check("", Some(3), ("User 80", 20, 3, 3));
        check("", Some(0), ("User 0", 40, 1, 3));
        check("", Some(usize::MAX), ("User 80", 20, 3, 3));
        check(" USER 1", None, ("User 1", 11, 1, 1));
        check("nobody", Some(2), ("", 0, 1, 1));
    }

    #[test]
    fn an_account_cannot_have_a_name_of_the_audit_log() {
        assert!(checked_account_name("ada").is_ok());
        assert!(checked_account_name(" [command line]").is_err());
    }
}
