//! The page about the command line: the help of every verb.

use anyhow::Result;

const INTRODUCTION: &str = "\
# Command line

Written by `cargo xtask docs` from the program's own help. To change a text, change the doc comment of
the argument in `crates/gannet-cli/src/verb/`.
";

/// The page; `ask` gives what the program prints for its arguments.
pub fn page(ask: &mut impl FnMut(&[&str]) -> Result<String>) -> Result<String> {
    let mut page = INTRODUCTION.to_owned();
    add(&mut page, &[], ask)?;
    Ok(page)
}

/// Adds the help of a verb and of those below it.
fn add(
    page: &mut String,
    verbs: &[&str],
    ask: &mut impl FnMut(&[&str]) -> Result<String>,
) -> Result<()> {
    let help = ask(&[verbs, &["--help"]].concat())?;
    let name = [&["gannet"], verbs].concat().join(" ");
    *page += &format!("\n## {name}\n\n```text\n{}\n```\n", tidy(&help));
    for below in commands(&help) {
        add(page, &[verbs, &[below]].concat(), ask)?;
    }
    Ok(())
}

/// The help without white space at the ends of its lines.
fn tidy(help: &str) -> String {
    let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// The verbs that a help text lists, but for `help` itself.
fn commands(help: &str) -> impl Iterator<Item = &str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = lines.take_while(|line| !line.is_empty());
    let verb = |line: &'_ str| line.starts_with("  ") && !line.starts_with("   ");
    listed
        .filter(move |line| verb(line))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|verb| *verb != "help")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "About it.\n\nUsage: gannet <COMMAND>\n\nCommands:\n  run    Takes data,\n         \
                        and more  \n  bench  Measures\n  help   Print this\n\nOptions:\n  -v  Say more\n";

    #[test]
    fn verbs_are_those_listed() {
        assert_eq!(commands(HELP).collect::<Vec<_>>(), ["run", "bench"]);
        assert_eq!(commands("Usage: gannet run\n\nOptions:\n  -v\n").count(), 0);
    }

    #[test]
    fn the_page_goes_down_to_verbs_of_verbs() {
        let mut ask = |arguments: &[&str]| {
            Ok(match arguments {
                ["--help"] => HELP.to_owned(),
                ["bench", "--help"] => "Commands:\n  ingest  Receives\n".to_owned(),
                other => other.join(" ") + "  \n",
            })
        };
        let page = page(&mut ask).unwrap();
        for part in [
            "## gannet\n",
            "## gannet run\n\n```text\nrun --help\n```\n",
            "## gannet bench ingest\n",
        ] {
            assert!(page.contains(part), "{page}");
        }
        assert!(!page.lines().any(|line| line.ends_with(' ')), "{page}");
    }
}
