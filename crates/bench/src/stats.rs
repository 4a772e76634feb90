//! Medians, spreads and ratios.

use statrs::statistics::{Data, Max, Min, OrderStatistics, Statistics};

use crate::record::Metric;

/// The median of `values`; `NaN` of none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    Data::new(values.to_vec()).median()
}

/// The smallest and the largest of `values`; `NaN` of none.
#[must_use]
pub fn spread(values: &[f64]) -> (f64, f64) {
    let data = Data::new(values.to_vec());
    (data.min(), data.max())
}

/// The geometric mean of `values`; `NaN` of none.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> f64 {
    values.geometric_mean()
}

/// The average, the median and the 99th percentile of `samples`, the last two by nearest rank.
#[must_use]
pub fn latencies(samples: &mut [u64]) -> [(Metric, f64); 3] {
    samples.sort_unstable();
    let average = samples.iter().sum::<u64>() as f64 / samples.len() as f64;
    [
        (Metric::AvgNs, average),
        (Metric::P50Ns, nearest_rank(samples, 50)),
        (Metric::P99Ns, nearest_rank(samples, 99)),
    ]
}

/// The smallest sample that at least `percent` of all do not exceed; `NaN` of none.
fn nearest_rank(sorted: &[u64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted
        .get(rank - 1)
        .map_or(f64::NAN, |&sample| sample as f64)
}

/// How many times better `ours` is than `theirs`, run by run, as a median: the runs of one turn
/// shared the machine's mood, so their ratio is steadier than the ratio of the medians.
#[must_use]
pub fn ratio(metric: Metric, ours: &[f64], theirs: &[f64]) -> f64 {
    let pairs = ours.iter().zip(theirs);
    let better = |(&ours, &theirs): (&f64, &f64)| {
        if metric.more_is_better() {
            ours / theirs
        } else {
            theirs / ours
        }
    };
    median(&pairs.map(better).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert!(close(median(&[3.0, 1.0, 2.0]), 2.0));
        assert!(close(median(&[4.0, 1.0, 2.0, 3.0]), 2.5));
        assert!(close(median(&[7.0]), 7.0));
        assert!(median(&[]).is_nan());
        assert_eq!(spread(&[2.0, 9.0, 1.0]), (1.0, 9.0));
    }

    #[test]
    fn percentiles_are_samples() {
        let mut samples = (1..=200).rev().collect::<Vec<u64>>();
        let figures = latencies(&mut samples);
        assert_eq!(
            figures,
            [
                (Metric::AvgNs, 100.5),
                (Metric::P50Ns, 100.0),
                (Metric::P99Ns, 198.0)
            ]
        );
        assert!(close(latencies(&mut [5])[2].1, 5.0));
        assert!(latencies(&mut []).iter().all(|(_, value)| value.is_nan()));
    }

    #[test]
    fn a_ratio_above_one_is_better_whatever_the_metric() {
        assert!(close(ratio(Metric::MbPerS, &[20.0], &[10.0]), 2.0));
        assert!(close(ratio(Metric::AvgNs, &[10.0], &[20.0]), 2.0));
    }

    #[test]
    fn a_ratio_pairs_the_runs_of_one_turn() {
        // a machine that slows down by ten in the second turn: each pair still says 2
        let (ours, theirs) = ([20.0, 2.0, 20.0], [10.0, 1.0, 10.0]);
        assert!(close(ratio(Metric::MbPerS, &ours, &theirs), 2.0));
    }

    #[test]
    fn geometric_means_balance_reciprocals() {
        assert!(close(geometric_mean(&[4.0, 0.25]), 1.0));
        assert!(close(geometric_mean(&[2.0, 8.0]), 4.0));
    }
}
