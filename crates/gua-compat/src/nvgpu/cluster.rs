//! The agents in nvgpu's configuration file, which is a Python program. It is read as data and never executed: only a list of
//! text constants is understood.

/// Why the list of agents cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentsError {
    #[error(
        "line {0}: AGENTS must be a list of quoted texts, such as ['self', 'http://host:1080']"
    )]
    NotAList(usize),
}

/// Returns the list `AGENTS` of a configuration file; `None` if the file does not assign it.
///
/// # Errors
/// If the value is anything but a list of text constants.
pub fn agents(text: &str) -> Result<Option<Vec<String>>, AgentsError> {
    let mut found = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if let Some(value) = line.strip_prefix("AGENTS").map(str::trim_start)
            && let Some(value) = value.strip_prefix('=')
            && !value.starts_with('=')
        {
            let number = text[..at].lines().count() + 1;
            let start = at + line.len() - value.len();
            found = Some(list(&text[start..]).ok_or(AgentsError::NotAList(number))?);
        }
        at += line.len();
    }
    Ok(found)
}

/// Parses a list or tuple of text constants at the start of a text.
fn list(text: &str) -> Option<Vec<String>> {
    let mut rest = text.trim_start_matches([' ', '\t']);
    let end = match rest.chars().next()? {
        '[' => ']',
        '(' => ')',
        _ => return None,
    };
    rest = &rest[1..];
    let mut items = Vec::new();
    loop {
        rest = blank(rest);
        match rest.chars().next()? {
            quote @ ('\'' | '"') => {
                let (item, after) = rest[1..].split_once(quote)?;
                // Escapes and lines that go on are not needed for URLs.
                if item.contains(['\\', '\n']) {
                    return None;
                }
                items.push(item.to_owned());
                rest = blank(after);
                match rest.strip_prefix(',') {
                    Some(after) => rest = after,
                    None if rest.starts_with(end) => return Some(items),
                    None => return None,
                }
            }
            other if other == end => return Some(items),
            _ => return None,
        }
    }
}

/// Skips blanks, line ends and comments.
fn blank(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        match text.strip_prefix('#') {
            Some(comment) => text = comment.split_once('\n').map_or("", |(_, rest)| rest),
            None => return text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_texts_is_read_and_nothing_is_executed() {
        let check = |text: &str, expected: Result<Option<&[&str]>, usize>| {
            let expected = expected
                .map(|list| {
                    list.map(|list| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>())
                })
                .map_err(AgentsError::NotAList);
            assert_eq!(agents(text), expected, "{text}");
        };
        check("", Ok(None));
        check("DEBUG = True\n", Ok(None));
        check("AGENTS_OLD = ['x']\n", Ok(None));
        check("AGENTS = []\n", Ok(Some(&[])));
        check("AGENTS = ['self']", Ok(Some(&["self"])));
        check(
            "# cluster\nAGENTS=[\n  'self',  # this one\n  \"http://a:1080\",\n]\nDEBUG = 1\n",
            Ok(Some(&["self", "http://a:1080"])),
        );
        check("AGENTS = ('http://a',)\n", Ok(Some(&["http://a"])));
        check("AGENTS = ['a']\nAGENTS = ['b']\n", Ok(Some(&["b"])));
        check("\nAGENTS = __import__('os').system('id')\n", Err(2));
        check("AGENTS = ['a' for _ in x]", Err(1));
        check("AGENTS = ['a' 'b']", Err(1));
        check("AGENTS = ['a", Err(1));
        check("AGENTS = [f'a']", Err(1));
    }
}
