/** These compare durations with a limit, or measure memory, so no other test may run beside them. */
export const MEASURING = ['availability-times', 'holders-times', 'large-files', 'streaming'].map((name) => `browser/${name}.test.mjs`)
