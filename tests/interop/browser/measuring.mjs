/** These compare durations with a limit, count frames, or measure memory, so no other test may run beside them. */
export const MEASURING = ['availability', 'experiment', 'holders', 'large-files', 'sprites', 'streaming'].map(
  (name) => `browser/${name}.test.mjs`,
)
