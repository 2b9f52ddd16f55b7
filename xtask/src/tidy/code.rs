//! Rust source without its comments and literals.

/// `source` with comments, strings and characters blanked out, line for line.
///
/// Rules that look for a word of the language use it, so that prose may use the word freely.
pub fn code_only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while !rest.is_empty() {
        let blank = blank_len(rest, code.chars().next_back());
        if blank > 0 {
            code.extend(rest[..blank].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[blank..];
        } else {
            let next = rest.chars().next().unwrap_or(' ');
            code.push(next);
            rest = &rest[next.len_utf8()..];
        }
    }
    code
}

/// Whether `code` has `word` with nothing of an identifier on either side.
pub fn has_word(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].ends_with(is_part) && !code[at + word.len()..].starts_with(is_part)
    })
}

/// Length of the comment or literal that `rest` begins with; 0 if it begins with code.
fn blank_len(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        rest.find('\n').unwrap_or(rest.len())
    } else if rest.starts_with("/*") {
        block_comment_len(rest)
    } else if let Some(text) = rest.strip_prefix('"') {
        1 + quoted_len(text, '"')
    } else if rest.starts_with('\'') {
        character_len(rest)
    } else if rest.starts_with('r') && !before.is_some_and(|c| c.is_alphanumeric() && c != 'b') {
        raw_string_len(rest)
    } else {
        0
    }
}

/// Block comments nest.
fn block_comment_len(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest.as_bytes()[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.as_bytes()[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Up to and with the quote that ends the literal.
fn quoted_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

/// A quote begins a character, or a lifetime, which is code.
fn character_len(rest: &str) -> usize {
    let mut after = rest.chars().skip(1);
    match (after.next(), after.next()) {
        (Some('\\'), _) => 1 + quoted_len(&rest[1..], '\''),
        (Some(c), Some('\'')) => 2 + c.len_utf8(),
        _ => 0,
    }
}

/// `r"..."`, `r#"..."#` and so on; 0 for a name that begins with r.
fn raw_string_len(rest: &str) -> usize {
    let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    let text = 1 + hashes + 1;
    if rest.as_bytes().get(text - 1) != Some(&b'"') {
        return 0;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    rest[text..].find(&end).map_or(rest.len(), |at| text + at + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        code_only(source).split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_literals_are_blanked_line_for_line() {
        let source = "a // x\n/* x /* x\n */ x */ b \"x \\\" x\" c r#\"x \" x\"# d 'x' '\\'' e";
        assert_eq!(words(source), ["a", "b", "c", "d", "e"]);
        assert_eq!(code_only(source).lines().count(), source.lines().count());
    }

    #[test]
    fn lifetimes_and_names_are_code() {
        assert_eq!(words("fn f<'a>(for_r: &'a str)"), ["fn", "f<'a>(for_r:", "&'a", "str)"]);
        assert_eq!(words("let r = br\"x\"; 'é' z"), ["let", "r", "=", "b", ";", "z"]);
    }

    #[test]
    fn an_open_literal_ends_with_the_file() {
        for open in ["a \"x", "a r#\"x\"", "a /* x", "a '\\"] {
            assert_eq!(words(open), ["a"], "{open}");
        }
    }

    #[test]
    fn a_word_stands_alone() {
        assert!(has_word("pub unsafe fn", "unsafe"));
        assert!(!has_word("#![deny(unsafe_code)]", "unsafe"));
    }
}
