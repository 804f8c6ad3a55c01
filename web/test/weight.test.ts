import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'vite'
import { describe, expect, it } from 'vitest'
import { fromSource } from '../source-condition.ts'

const WEB = path.join(import.meta.dirname, '..')

/**
 * The bytes of all scripts, gzipped, of a program that consists of this code. The ciphers and hashes for browsers that lack them
 * (over plain HTTP) do not count: other browsers never load them.
 */
async function weightOf(code: string): Promise<number> {
  const built = await build({
    ...fromSource,
    root: WEB,
    configFile: false,
    logLevel: 'error',
    publicDir: false,
    plugins: [
      {
        name: 'program',
        resolveId: (id) => (id === 'program' ? path.join(WEB, 'app/program.ts') : null),
        load: (id) => (id === path.join(WEB, 'app/program.ts') ? code : null),
      },
    ],
    build: { write: false, target: 'es2023', modulePreload: false, rolldownOptions: { input: 'program' } },
  })
  const outputs = [built].flat().flatMap((one) => ('output' in one ? one.output : []))
  const isFallback = (one: (typeof outputs)[number]) => one.type === 'chunk' && one.moduleIds.some((id) => id.includes('/@noble/'))
  const scripts = outputs.filter((one) => one.fileName.endsWith('.js') && !isFallback(one))
  return scripts.reduce((sum, one) => sum + gzipSync(one.type === 'chunk' ? one.code : one.source, { level: 9 }).length, 0)
}

describe('the weight of @watchfire/pages', () => {
  it('is at most 60 kB for a program that publishes and opens pages', async () => {
    const weight = await weightOf(
      "import { connect, fetchLimits, openPage, publish } from '@watchfire/pages'\nglobalThis.all = { connect, fetchLimits, openPage, publish }",
    )
    expect(weight).toBeGreaterThan(30_000)
    expect(weight).toBeLessThanOrEqual(60_000)
  })

  it('is at most 64 kB with private pages', async () => {
    expect(await weightOf("import * as pages from '@watchfire/pages'\nglobalThis.pages = pages")).toBeLessThanOrEqual(64_000)
  })

  it('is nearly nothing for a program that uses nearly nothing of it', async () => {
    expect(await weightOf("import { defaultLimits } from '@watchfire/pages'\nconsole.log(defaultLimits)")).toBeLessThan(500)
  })
})

describe('the weight of @watchfire/element', () => {
  it('is at most 66 kB, with @watchfire/pages', async () => {
    expect(await weightOf("import '@watchfire/element'")).toBeLessThanOrEqual(66_000)
  })
})
