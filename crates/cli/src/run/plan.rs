//! From the text of a pipeline to its stages.
//!
//! Only a plain top-level pipeline is taken apart: `a | b | c`, where a stage may be any command
//! (a subshell, a loop, with redirections and expansions). Everything else goes to the shell as
//! it is. When in doubt, the shell: a split must never change what a text means.
//!
//! 1. The parser says that the text is one pipeline of n commands and where each begins.
//! 2. A cut is the last `|` before the beginning of a command.
//! 3. Each piece, parsed by itself, must be the same command again. This catches whatever the
//!    parser's positions get wrong.

use brush_parser::ast::{
    AndOrList, Command, CommandPrefixOrSuffixItem, CompoundCommand, CompoundListItem, Pipeline,
    SeparatorOperator, SimpleCommand, SourceLocation as _, Word,
};
use brush_parser::{ParserOptions, Token, TokenizerOptions};

use super::{script, words};

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub enum Plan {
    /// A process per stage, our pipes between them.
    Stages(Vec<Stage>),
    /// The text goes to the shell unharmed, since it is more than a pipeline.
    Whole { reason: String },
}

/// One stage of a pipeline.
#[derive(Debug, PartialEq, Eq)]
pub struct Stage {
    /// As it was written.
    pub text: String,
    /// What the shell is given, if it takes one.
    pub script: String,
    /// A command that needs no shell.
    pub plain: Option<Plain>,
}

impl Stage {
    /// A text that is entirely the shell's business.
    pub fn for_shell(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            script: text.to_owned(),
            plain: None,
        }
    }
}

/// A simple command with nothing to expand and nothing redirected.
#[derive(Debug, PartialEq, Eq)]
pub struct Plain {
    /// Assignments before the command, for its environment.
    pub environment: Vec<(String, String)>,
    /// The command and its arguments.
    pub words: Vec<String>,
}

/// Beyond this a text is a program, and parsing it is the shell's business.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Each level of nesting doubles the parser's work in the worst case.
const MAX_NESTING: usize = 10;

/// Operators outside POSIX: shells disagree on how the text around them is to be read.
const NOT_POSIX: [&str; 11] = [
    "|&", "&>", "&>>", ">&|", "<<<", "<(", ">(", "((", "))", ";&", ";;&",
];

pub fn plan(text: &str) -> Plan {
    match split(text) {
        Ok(stages) => Plan::Stages(stages),
        Err(reason) => Plan::Whole { reason },
    }
}

fn split(text: &str) -> Result<Vec<Stage>, String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err("it is too long to take apart".to_owned());
    }
    let tokens = tokenize(text)?;
    refuse_tokens(&tokens)?;
    let pipeline = parse(&tokens)?;
    for command in &pipeline.seq {
        refuse_command(command)?;
    }
    let pieces = cut(text, &tokens, &pipeline)?;
    pieces
        .iter()
        .zip(&pipeline.seq)
        .map(|(piece, command)| stage(piece, command))
        .collect()
}

fn stage(piece: &str, command: &Command) -> Result<Stage, String> {
    let alone = parse(&tokenize(piece)?)?;
    let [here] = alone.seq.as_slice() else {
        return Err(format!("{piece:?} could not be told apart"));
    };
    if here.to_string() != command.to_string() {
        return Err(format!("{piece:?} could not be told apart"));
    }
    let plain = if let Command::Simple(simple) = here {
        plain(simple)
    } else {
        None
    };
    Ok(Stage {
        text: piece.to_owned(),
        script: script::of_stage(piece, here),
        plain,
    })
}

pub fn options() -> ParserOptions {
    ParserOptions {
        enable_extended_globbing: false,
        ..ParserOptions::default()
    }
}

pub fn tokenize(text: &str) -> Result<Vec<Token>, String> {
    let ParserOptions {
        enable_extended_globbing,
        posix_mode,
        sh_mode,
        ..
    } = options();
    let options = TokenizerOptions {
        enable_extended_globbing,
        posix_mode,
        sh_mode,
    };
    brush_parser::uncached_tokenize_str(text, &options)
        .map_err(|error| format!("the parser could not read it ({error})"))
}

/// The one pipeline that the tokens are, if they are one.
pub fn parse(tokens: &[Token]) -> Result<Pipeline, String> {
    let program = brush_parser::parse_tokens(tokens, &options())
        .map_err(|error| format!("the parser could not read it ({error})"))?;
    let mut lists = program.complete_commands.into_iter();
    let (Some(list), None) = (lists.next(), lists.next()) else {
        return Err("it is not one command".to_owned());
    };
    let mut items = list.0.into_iter();
    let (Some(CompoundListItem(AndOrList { first, additional }, separator)), None) =
        (items.next(), items.next())
    else {
        return Err("it is a list of commands".to_owned());
    };
    match separator {
        SeparatorOperator::Async => Err("it runs in the background (&)".to_owned()),
        _ if !additional.is_empty() => Err("it is a list with && or ||".to_owned()),
        _ if first.bang => Err("its exit status is negated (!)".to_owned()),
        _ if first.timed.is_some() => Err("it is timed by the shell (time)".to_owned()),
        SeparatorOperator::Sequence => Ok(first),
    }
}

fn refuse_tokens(tokens: &[Token]) -> Result<(), String> {
    let mut nesting = 0_usize;
    for token in tokens {
        let text = token.to_str();
        match token {
            Token::Operator(..) if text.starts_with("<<") && text != "<<<" => {
                return Err("it has a here-document".to_owned());
            }
            Token::Operator(..) if NOT_POSIX.contains(&text) => {
                return Err(format!("it has {text}, which is not POSIX"));
            }
            Token::Word(..) if names_the_shell(text) => {
                return Err("it asks for the shell's own process ($$)".to_owned());
            }
            _ => {}
        }
        nesting += usize::from(matches!(text, "(" | "{" | "do" | "then" | "case"));
        if nesting > MAX_NESTING {
            return Err("it is nested too deeply to take apart".to_owned());
        }
    }
    let adjacent = |pair: &[Token]| pair[0].location().end.index == pair[1].location().start.index;
    let substitutes = tokens.windows(2).any(|pair| {
        matches!(pair[0].to_str(), "<" | ">") && pair[1].to_str() == "(" && adjacent(pair)
    });
    if substitutes {
        return Err("it has a process substitution, which is not POSIX".to_owned());
    }
    Ok(())
}

/// Whether `$$` may be expanded in this word: it is the process of the whole pipeline's shell,
/// which the stages would not share.
fn names_the_shell(word: &str) -> bool {
    let outside_quotes: String = word.split('\'').step_by(2).collect();
    // with double quotes around, an apostrophe is no quote: look at all of it
    let text = if word.contains('"') {
        word
    } else {
        &outside_quotes
    };
    text.contains("$$") || text.contains("${$")
}

fn refuse_command(command: &Command) -> Result<(), String> {
    match command {
        Command::Function(_) => Err("it defines a function".to_owned()),
        Command::ExtendedTest(..)
        | Command::Compound(
            CompoundCommand::Arithmetic(_)
            | CompoundCommand::ArithmeticForClause(_)
            | CompoundCommand::Coprocess(_),
            _,
        ) => Err("it has a command that is not POSIX".to_owned()),
        Command::Simple(_) | Command::Compound(..) => Ok(()),
    }
}

/// The pieces of the text between the cuts.
fn cut<'a>(text: &'a str, tokens: &[Token], pipeline: &Pipeline) -> Result<Vec<&'a str>, String> {
    let unknown = || "the parser did not say where its commands are".to_owned();
    let mut pieces = Vec::with_capacity(pipeline.seq.len());
    let mut piece_start = 0;
    for command in &pipeline.seq[1..] {
        let command_start = command.location().ok_or_else(unknown)?.start.index;
        let bar = tokens
            .iter()
            .filter(|token| matches!(token, Token::Operator(text, _) if text == "|"))
            .rfind(|token| token.location().start.index < command_start)
            .ok_or_else(unknown)?;
        let bar_start = byte_index(text, bar.location().start.index);
        pieces.push(text.get(piece_start..bar_start).ok_or_else(unknown)?);
        piece_start = bar_start + 1;
    }
    pieces.push(&text[piece_start..]);
    Ok(pieces)
}

/// The parser counts characters.
pub fn byte_index(text: &str, char_index: usize) -> usize {
    text.char_indices()
        .nth(char_index)
        .map_or(text.len(), |(byte, _)| byte)
}

/// A command without redirections and expansions, quotes removed.
fn plain(command: &SimpleCommand) -> Option<Plain> {
    let literal = |word: &Word| words::literal(&word.value, &options());
    let mut environment = Vec::new();
    for item in command.prefix.iter().flat_map(|prefix| &prefix.0) {
        let CommandPrefixOrSuffixItem::AssignmentWord(_, word) = item else {
            return None;
        };
        let assignment = literal(word)?;
        let (name, value) = assignment.split_once('=')?;
        // PATH decides which command is meant; `+=` and arrays are the shell's business
        if name == "PATH" || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        environment.push((name.to_owned(), value.to_owned()));
    }
    let name = literal(command.word_or_name.as_ref()?)?;
    if words::is_the_shells_own(&name) {
        return None;
    }
    let mut all = vec![name];
    for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
        match item {
            CommandPrefixOrSuffixItem::Word(word)
            | CommandPrefixOrSuffixItem::AssignmentWord(_, word) => all.push(literal(word)?),
            CommandPrefixOrSuffixItem::IoRedirect(_)
            | CommandPrefixOrSuffixItem::ProcessSubstitution(..) => return None,
        }
    }
    Some(Plain {
        environment,
        words: all,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(text: &str) -> Vec<String> {
        match plan(text) {
            Plan::Stages(stages) => stages
                .into_iter()
                .map(|s| s.text.trim().to_owned())
                .collect(),
            Plan::Whole { reason } => panic!("{text:?} was not taken apart: {reason}"),
        }
    }

    fn words(text: &str) -> Option<Vec<String>> {
        match plan(text) {
            Plan::Stages(mut stages) => stages.remove(0).plain.map(|plain| plain.words),
            Plan::Whole { reason } => panic!("{text:?} was not taken apart: {reason}"),
        }
    }

    #[test]
    fn only_bars_of_the_top_level_cut() {
        assert_eq!(stages("a | b|c"), ["a", "b", "c"]);
        assert_eq!(stages("echo 'a | b' | cat"), ["echo 'a | b'", "cat"]);
        assert_eq!(
            stages(r#"echo "a | $(b | c)" | cat"#),
            [r#"echo "a | $(b | c)""#, "cat"]
        );
        assert_eq!(stages(r"echo a\|b | cat"), [r"echo a\|b", "cat"]);
        assert_eq!(stages("(a | b) | c"), ["(a | b)", "c"]);
        assert_eq!(stages("{ a | b; } | c"), ["{ a | b; }", "c"]);
        assert_eq!(stages("a | (b | c) 2>&1 | d"), ["a", "(b | c) 2>&1", "d"]);
        assert_eq!(
            stages("a | while read x; do b | c; done | d"),
            ["a", "while read x; do b | c; done", "d"]
        );
        assert_eq!(
            stages("a | case x in x|y) b | c;; esac | d"),
            ["a", "case x in x|y) b | c;; esac", "d"]
        );
        assert_eq!(stages("a >| f | b"), ["a >| f", "b"]);
        assert_eq!(stages("é 'ü|' | b"), ["é 'ü|'", "b"]);
        assert_eq!(stages("a | # note | x\n b"), ["a", "# note | x\n b"]);
        assert_eq!(stages("A=1 >f a 2>&1 | b"), ["A=1 >f a 2>&1", "b"]);
        assert_eq!(stages("`a | b` | c"), ["`a | b`", "c"]);
        assert_eq!(stages("a"), ["a"]);
    }

    #[test]
    fn what_is_more_than_a_pipeline_is_left_whole() {
        for text in [
            "",
            "a; b",
            "a | b; c | d",
            "a && b",
            "a || b",
            "a &",
            "a | b & c",
            "! a | b",
            "time a | b",
            "a |& b",
            "a &> f | b",
            "a <<E | b\nx\nE",
            "a <<< x | b",
            "a | b <(c)",
            "f() { a; } | b",
            "a | f() { b; }",
            "a | [[ x == x ]]",
            "a | ((1))",
            "echo $$ | cat",
            "echo \"it's $$\" | cat",
            "a | b |",
            "a '|",
            "a | b\nc | d",
            "( a | b",
            "a ) | b",
        ] {
            assert!(
                matches!(plan(text), Plan::Whole { .. }),
                "{text:?}: {:?}",
                plan(text)
            );
        }
    }

    #[test]
    fn a_shell_is_saved_only_where_the_words_are_literal() {
        let some = |words: &[&str]| Some(words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(
            words("grep -v 'a b' \"c d\" e\\ f"),
            some(&["grep", "-v", "a b", "c d", "e f"])
        );
        assert_eq!(
            words("awk '{print $1, $$2}' f"),
            some(&["awk", "{print $1, $$2}", "f"])
        );
        assert_eq!(words("dd if=x bs=1M"), some(&["dd", "if=x", "bs=1M"]));
        assert_eq!(words("tr '\\n' ' '"), some(&["tr", "\\n", " "]));
        assert_eq!(words("x ''"), some(&["x", ""]));
        for text in [
            "echo a",
            "printf x",
            "test 1",
            "[ 1 ]",
            "grep $x",
            "grep *.c",
            "grep a >f",
            "PATH=/x grep a",
            "A=$x grep a",
            "A+=1 grep a",
            "grep ~",
            "grep \"$x\"",
            "grep `x`",
            "grep {a,b}",
            "(grep a)",
            "A=1",
            "grep a?",
            "$x",
            "env",
            "grep \"`x`\"",
            "grep [a]",
            "grep $'a'",
            "dd if=~/x",
            ". x",
            "cd /",
            "grep <f",
        ] {
            assert_eq!(words(text), None, "{text}");
        }
    }
}
