//! Which words of a command need no shell to be understood.

use std::env;
use std::path::Path;

use brush_parser::ParserOptions;
use brush_parser::word::{self, WordPiece, WordPieceWithSource};
use rustix::fs::{Access, access};

/// Characters which, unquoted, some shell expands: globs, braces, tildes, history.
const EXPANDED_UNQUOTED: [char; 9] = ['*', '?', '[', ']', '{', '}', '~', '!', '^'];

/// The word with its quotes removed, if nothing in it is expanded.
pub fn literal(word: &str, options: &ParserOptions) -> Option<String> {
    if word.contains('\0') {
        return None;
    }
    let mut text = String::with_capacity(word.len());
    for piece in word::parse(word, options).ok()? {
        match piece.piece {
            WordPiece::Text(plain) if plain.contains(EXPANDED_UNQUOTED) => return None,
            WordPiece::Text(plain) | WordPiece::SingleQuotedText(plain) => text.push_str(&plain),
            WordPiece::EscapeSequence(escape) => text.push_str(escaped(&escape)),
            WordPiece::DoubleQuotedSequence(pieces) => push_quoted(&mut text, pieces)?,
            _ => return None,
        }
    }
    Some(text)
}

fn push_quoted(text: &mut String, pieces: Vec<WordPieceWithSource>) -> Option<()> {
    for piece in pieces {
        match piece.piece {
            WordPiece::Text(plain) => text.push_str(&plain),
            WordPiece::EscapeSequence(escape) => text.push_str(escaped(&escape)),
            _ => return None,
        }
    }
    Some(())
}

/// What `\x` stands for: `x`, and nothing where a line is continued.
fn escaped(escape: &str) -> &str {
    let text = escape.strip_prefix('\\').unwrap_or(escape);
    if text == "\n" { "" } else { text }
}

/// Whether a shell may answer to this name itself, or would show itself in the outcome (`env`
/// prints what the shell exports).
pub fn is_the_shells_own(name: &str) -> bool {
    let exported_function = format!("BASH_FUNC_{name}%%");
    name.is_empty() || OWN.contains(&name) || env::var_os(exported_function).is_some()
}

/// Whether the shell would find a program of this name.
pub fn is_program(name: &str) -> bool {
    let executable = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if name.contains('/') {
        return executable(Path::new(name));
    }
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| executable(&folder.join(name)))
}

/// Built-ins, keywords and predefined functions of dash, bash, zsh, ksh and busybox that are
/// programs as well or could be.
const OWN: [&str; 100] = [
    "!",
    ".",
    ":",
    "[",
    "[[",
    "]]",
    "alias",
    "autoload",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "chdir",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "end",
    "env",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "fi",
    "float",
    "for",
    "foreach",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "integer",
    "jobs",
    "kill",
    "let",
    "limit",
    "local",
    "logout",
    "mapfile",
    "nocorrect",
    "noglob",
    "nohup",
    "popd",
    "print",
    "printenv",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "repeat",
    "return",
    "rehash",
    "select",
    "set",
    "setopt",
    "shift",
    "shopt",
    "sleep",
    "source",
    "suspend",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "whence",
    "which",
    "while",
];
