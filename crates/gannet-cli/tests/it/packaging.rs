//! What who packages the program asks it for: its version, completions and manual pages.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use gannet_measure::testing::skipped;

fn gannet(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_gannet")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The verbs that the help of `above` lists, and those below them, as in `bench-tpg`.
fn verbs(above: &[&str]) -> BTreeSet<String> {
    let help = gannet(&[above, &["--help"]].concat());
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let mut verbs = BTreeSet::new();
    for name in names.filter(|name| *name != "help") {
        let verb = [above, &[name]].concat();
        verbs.insert(verb.join("-"));
        verbs.append(&mut self::verbs(&verb));
    }
    verbs
}

#[test]
fn the_version_names_the_commit() {
    let version = gannet(&["--version"]);
    let commit = version.trim_end().strip_suffix(')').and_then(|v| v.rsplit_once('(')).unwrap().1;
    let expected = format!("gannet {} ({commit})\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(version, expected);
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    match git(&["ls-files", "--error-unmatch", "build.rs"])
        .and_then(|_| git(&["rev-parse", "HEAD"]))
    {
        Some(head) => assert!(head.starts_with(commit) && commit.len() >= 12, "{commit}, {head}"),
        None => assert_eq!(commit, "unknown"),
    }
}

#[test]
fn every_shell_gets_its_completions_of_every_verb() {
    let verbs = verbs(&[]);
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = gannet(&["completions", shell]);
        for name in verbs.iter().flat_map(|verb| verb.split('-')) {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
}

#[test]
fn bash_completes_a_verb_and_its_options() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("gannet");
    fs::write(&file, gannet(&["completions", "bash"])).unwrap();
    let complete = |words: &str, last: usize| {
        let script = format!(
            "source {file:?}; COMP_WORDS=({words}); COMP_CWORD={last}; \
             _gannet gannet \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{last}-1]}}\"; \
             echo \"${{COMPREPLY[@]}}\""
        );
        let output = Command::new("bash").args(["-c", &script]).output().ok()?;
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    let Some(verb) = complete("gannet ver", 1) else {
        return skipped("completions in a shell", "there is no bash");
    };
    assert_eq!(verb, "verify");
    assert_eq!(complete("gannet run --read", 2).unwrap(), "--ready-fd");
}

#[test]
fn every_verb_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    for _ in 0..2 {
        assert_eq!(gannet(&["man", pages.to_str().unwrap()]), "");
    }
    let mut expected: BTreeSet<_> =
        verbs(&[]).iter().map(|verb| format!("gannet-{verb}")).collect();
    expected.insert("gannet".to_owned());
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(&pages).unwrap() {
        let path = entry.unwrap().path();
        let (text, name) = (fs::read_to_string(&path).unwrap(), path.file_stem().unwrap());
        assert!(text.contains(&format!(".TH {} 1", name.to_str().unwrap())), "{path:?}: {text}");
        found.insert(name.to_str().unwrap().to_owned());
    }
    assert_eq!(found, expected);
}
