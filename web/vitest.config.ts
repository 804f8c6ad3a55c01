import { defineConfig } from 'vitest/config'
import { fromSourceInNode } from './source-condition.ts'

export default defineConfig({
  ...fromSourceInNode,
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  test: {
    // A test that needs a document says so in its first line: `// @vitest-environment happy-dom`.
    environment: 'node',
    // Nothing here waits for time to pass, but a loaded machine may be slow.
    testTimeout: 120_000,
    include: ['app/**/*.test.{ts,tsx}', 'packages/**/*.test.ts', 'test/**/*.test.ts'],
  },
})
