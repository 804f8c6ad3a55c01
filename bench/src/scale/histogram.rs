use serde::{Deserialize, Serialize};

/// Buckets an octave: a value is off by 1.6 % at most.
const STEPS_BITS: u32 = 5;
const STEPS: u64 = 1 << STEPS_BITS;

/// How often each duration came, in nanoseconds; its size does not grow with how many there were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Sparse", into = "Sparse")]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    max: u64,
}

/// How a histogram travels: the buckets that hold something.
#[derive(Clone, Serialize, Deserialize)]
struct Sparse {
    buckets: Vec<(usize, u64)>,
    max: u64,
}

impl Histogram {
    pub fn record(&mut self, nanos: u64) {
        let bucket = bucket_of(nanos);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    pub fn add(&mut self, other: &Histogram) {
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (bucket, count) in other.buckets.iter().enumerate() {
            self.buckets[bucket] += count;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    /// The duration that so large a part of them kept; 0 when there were none.
    pub fn quantile(&self, part: f64) -> u64 {
        let wanted = (self.count as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= wanted {
                return middle_of(bucket).min(self.max);
            }
        }
        self.max
    }

    /// The part of all that was at most so long, at every bucket that holds something.
    pub fn steps(&self) -> Vec<(u64, f64)> {
        let mut seen = 0;
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled
            .map(|(bucket, count)| {
                seen += count;
                (middle_of(bucket).min(self.max), seen as f64 / self.count as f64)
            })
            .collect()
    }
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < STEPS {
        return nanos as usize;
    }
    let octave = nanos.ilog2() - STEPS_BITS;
    ((u64::from(octave) + 1) * STEPS + ((nanos >> octave) - STEPS)) as usize
}

fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let octave = bucket / STEPS - 1;
    ((bucket % STEPS + STEPS) << octave) + ((1 << octave) >> 1)
}

impl From<Histogram> for Sparse {
    fn from(histogram: Histogram) -> Self {
        let filled = histogram.buckets.into_iter().enumerate().filter(|(_, count)| *count > 0);
        Sparse { buckets: filled.collect(), max: histogram.max }
    }
}

impl From<Sparse> for Histogram {
    fn from(sparse: Sparse) -> Self {
        let len = sparse.buckets.iter().map(|(bucket, _)| bucket + 1).max().unwrap_or(0);
        // What another program wrote may name any bucket; there are no more than these.
        let mut buckets = vec![0; len.min(bucket_of(u64::MAX) + 1)];
        let mut count = 0;
        for (bucket, times) in sparse.buckets {
            if let Some(place) = buckets.get_mut(bucket) {
                *place = times;
                count += times;
            }
        }
        Histogram { buckets, count, max: sparse.max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_within_two_percent() {
        let mut histogram = Histogram::default();
        for value in 1..=100_000_u64 {
            histogram.record(value * 1000);
        }
        for (part, exact) in [(0.5, 50e6), (0.99, 99e6), (1.0, 100e6)] {
            let told = histogram.quantile(part) as f64;
            assert!((told / exact - 1.0).abs() < 0.02, "{part}: {told} for {exact}");
        }
    }

    #[test]
    fn parts_that_travelled_add_up_to_the_whole() {
        let (mut whole, mut sum) = (Histogram::default(), Histogram::default());
        for part in 0..3_u64 {
            let mut histogram = Histogram::default();
            for value in [part, 7 + part * 1000, u64::MAX >> part] {
                histogram.record(value);
                whole.record(value);
            }
            let text = serde_json::to_string(&histogram).unwrap();
            sum.add(&serde_json::from_str(&text).unwrap());
        }
        assert_eq!(sum, whole);
    }
}
