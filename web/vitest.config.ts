import { defineConfig } from 'vitest/config'

export default defineConfig({
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  test: {
    // A test that needs a document says so in its first line: `// @vitest-environment happy-dom`.
    environment: 'node',
    // Nothing here waits for time to pass, but a loaded machine may be slow.
    testTimeout: 120_000,
    include: ['src/**/*.test.{ts,tsx}', 'build/**/*.test.ts'],
  },
})
