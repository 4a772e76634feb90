//! The accounts of a round: rule 4.

use super::board::{Board, Field, IDS, Side};
use super::plan::{Framing, Plan};
use super::round::Outcome;

/// Compares what was sent with what came.
pub(super) fn check(plan: &Plan, board: &Board, outcome: &mut Outcome) {
    // The last act kills all writers, and every reader reads to the end, or all readers.
    let to_the_end = plan.doomed == Side::Writer;
    let missing: u64 = (0..IDS)
        .map(|writer| missing_of(board, writer, to_the_end))
        .sum();
    let allowed = match plan.framing {
        Framing::Fixed(_) => outcome.killed[Side::Reader as usize] as u64,
        Framing::Varied(_) => 0,
    };
    if missing > allowed {
        outcome.faults.push(format!(
            "lost: {missing} records whose write returned never came; {allowed} may be missing, \
             one for each killed reader"
        ));
    }
}

/// Records of a writer that had to come and did not.
fn missing_of(board: &Board, writer: usize, to_the_end: bool) -> u64 {
    let attempted = board.get(Side::Writer, writer, Field::Attempted);
    let came = |number: &u64| board.has_come(writer, *number);
    let last_came = (0..attempted)
        .rev()
        .find(came)
        .map_or(0, |number| number + 1);
    let returned = board.get(Side::Writer, writer, Field::Done);
    let due = if to_the_end {
        returned.max(last_came)
    } else {
        last_came
    };
    (0..due).filter(|number| !came(number)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::plan::Peers;
    use fastrand::Rng;

    /// A writer that attempted 10 records, of which 9 returned and those in `came` came.
    fn faults(doomed: Side, killed_readers: usize, came: &[u64]) -> usize {
        let board = Board::new().unwrap();
        board.set(Side::Writer, 3, Field::Attempted, 10);
        board.set(Side::Writer, 3, Field::Done, 9);
        assert!(came.iter().all(|&number| board.record_came(3, number)));
        let mut plan = Plan::new(&mut Rng::with_seed(0), 0, Peers::Fork);
        (plan.doomed, plan.framing) = (doomed, Framing::Fixed(100));
        let mut outcome = Outcome {
            killed: [0, killed_readers],
            ..Outcome::default()
        };
        check(&plan, &board, &mut outcome);
        outcome.faults.len()
    }

    #[test]
    fn as_many_may_be_missing_as_readers_were_killed() {
        let all_but_two = [0, 1, 3, 4, 6, 7, 8];
        assert_eq!(faults(Side::Writer, 2, &all_but_two), 0);
        assert_eq!(faults(Side::Writer, 1, &all_but_two), 1);
    }

    #[test]
    fn at_the_end_of_the_file_all_returned_records_came() {
        assert_eq!(faults(Side::Writer, 0, &[0, 1, 2, 3, 4, 5, 6, 7, 8]), 0);
        assert_eq!(
            faults(Side::Writer, 0, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
            0,
            "in the last write"
        );
        assert_eq!(faults(Side::Writer, 0, &[0, 1, 2, 3, 4, 5, 6, 7]), 1);
    }

    #[test]
    fn what_is_left_when_all_readers_die_is_gone_but_holes_are_not_allowed() {
        assert_eq!(faults(Side::Reader, 0, &[0, 1, 2]), 0);
        assert_eq!(faults(Side::Reader, 0, &[0, 2]), 1);
    }
}
