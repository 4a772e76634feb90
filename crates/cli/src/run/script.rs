//! What the shell of a stage is given.
//!
//! In a pipeline of the shell, a stage *is* a process of its own: a subshell `( ... )` runs in it,
//! and a program replaces it. `sh -c STAGE` would fork once more for these, and the shell that
//! waits would hold the stage's ends of the pipes: end of file and SIGPIPE would come late when
//! the inner process closes its own. So a subshell becomes a group, and a program is executed.

use brush_parser::ast::{
    Command, CommandPrefixOrSuffixItem, CompoundCommand, SimpleCommand, SourceLocation as _,
    SubshellCommand,
};

use super::plan::{byte_index, options, parse, tokenize};
use super::words;

/// The text for `sh -c` that makes its process the stage.
pub fn of_stage(piece: &str, command: &Command) -> String {
    let better = match command {
        Command::Simple(simple) => with_exec(piece, simple),
        Command::Compound(CompoundCommand::Subshell(subshell), _) => as_group(piece, subshell),
        _ => None,
    };
    // at its end a blank can be part of a word (`a\\ `)
    better
        .unwrap_or_else(|| piece.to_owned())
        .trim_start()
        .to_owned()
}

/// `cmd ARGS <file` becomes `exec cmd ARGS <file`, where `cmd` is surely a program that exists:
/// the message of a failed `exec` is another.
fn with_exec(piece: &str, command: &SimpleCommand) -> Option<String> {
    let assigns = |item: &CommandPrefixOrSuffixItem| {
        matches!(item, CommandPrefixOrSuffixItem::AssignmentWord(..))
    };
    if command
        .prefix
        .iter()
        .flat_map(|prefix| &prefix.0)
        .any(assigns)
    {
        return None;
    }
    let word = command.word_or_name.as_ref()?;
    let name = words::literal(&word.value, &options())?;
    if words::is_the_shells_own(&name) || !words::is_program(&name) {
        return None;
    }
    let at = byte_index(piece, word.location()?.start.index);
    let (before, rest) = (piece.get(..at)?, piece.get(at..)?);
    rest.starts_with(&word.value)
        .then(|| format!("{before}exec {rest}"))
}

/// `( LIST ) REDIRECTIONS` becomes `{ LIST` newline `} REDIRECTIONS`.
fn as_group(piece: &str, subshell: &SubshellCommand) -> Option<String> {
    let span = subshell.location()?;
    let open = byte_index(piece, span.start.index);
    let end = byte_index(piece, span.end.index);
    let list = piece.get(open..end)?.strip_prefix('(')?.strip_suffix(')')?;
    let text = format!("{}{{ {list}\n}} {}", piece.get(..open)?, piece.get(end..)?);
    let pipeline = parse(&tokenize(&text).ok()?).ok()?;
    let [Command::Compound(CompoundCommand::BraceGroup(group), _)] = pipeline.seq.as_slice() else {
        return None;
    };
    (group.list.to_string() == subshell.list.to_string()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::super::plan::{Plan, plan};

    fn script(text: &str) -> String {
        match plan(text) {
            Plan::Stages(mut stages) => stages.remove(0).script,
            Plan::Whole { reason } => panic!("{text:?}: {reason}"),
        }
    }

    #[test]
    fn the_process_of_a_stage_is_the_stage() {
        for (text, given) in [
            ("(a; b)", "{ a; b\n} "),
            (" (a &) 2>&1 <f", "{ a &\n}  2>&1 <f"),
            ("( (a) | b ) # )", "{  (a) | b \n}  # )"),
            ("(a # )\n)", "{ a # )\n\n} "),
            ("sort <f", "exec sort <f"),
            ("<f sort -k $x", "<f exec sort -k $x"),
            // the shell's own, unknown, or with an assignment: as they are
            ("echo a >f", "echo a >f"),
            ("nosuchcommand <f", "nosuchcommand <f"),
            ("A=$x sort", "A=$x sort"),
            ("$sort <f", "$sort <f"),
            ("{ sort <f; }", "{ sort <f; }"),
        ] {
            assert_eq!(script(text), given, "{text}");
        }
    }
}
