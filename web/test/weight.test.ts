import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'vite'
import { describe, expect, it } from 'vitest'
import { fromSource } from '../source-condition.ts'

const WEB = path.join(import.meta.dirname, '..')

interface Script {
  readonly code: string
  /** The modules in it. */
  readonly modules: readonly string[]
  readonly isEntry: boolean
}

/** The scripts of a program that consists of this code, made smaller as a site would. */
async function scriptsOf(code: string): Promise<Script[]> {
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
      {
        // Vite's own code, which loads the styles of a later part first. The packages have none, and other bundlers add nothing.
        name: 'no preload',
        enforce: 'pre',
        load: (id) => (id.includes('vite/preload-helper') ? 'export const __vitePreload = (load) => load()' : null),
      },
    ],
    build: { write: false, target: 'es2023', modulePreload: false, rolldownOptions: { input: 'program' } },
  })
  const outputs = [built].flat().flatMap((one) => ('output' in one ? one.output : []))
  const scripts = outputs.filter((one) => one.fileName.endsWith('.js'))
  return scripts.map((one) =>
    one.type === 'chunk'
      ? { code: one.code, modules: one.moduleIds, isEntry: one.isEntry }
      : { code: String(one.source), modules: [], isEntry: false },
  )
}

const bytesOf = (scripts: readonly Script[]) => scripts.reduce((sum, { code }) => sum + gzipSync(code, { level: 9 }).length, 0)

/**
 * The bytes of all scripts, gzipped, also of those that are loaded later. The ciphers and hashes for browsers that lack them (over plain
 * HTTP) do not count: other browsers never load them. The code for pages at several servers has a limit of its own.
 */
function weightOf(scripts: readonly Script[]): number {
  return bytesOf(scripts.filter(({ modules }) => !modules.some((id) => /\/@noble\/|\/swarm\/away\//.test(id))))
}

const FUNCTIONS = 'connect, defaultLimits, fetchLimits, openPage, publish, publishPrivate, ReadablePage'
const ALL = `import { ${FUNCTIONS} } from '@watchfire/pages'\nglobalThis.pages = [${FUNCTIONS}]`
const VERIFY = `import { publish } from '@watchfire/pages'
globalThis.hasCid = async (file, cid) => (await publish([{ path: file.name, blob: file }])).root === cid`

describe('the weight of @watchfire/pages', () => {
  it('is at most 63 kB for a program that uses all of its functions, private pages too', async () => {
    const weight = weightOf(await scriptsOf(ALL))
    expect(weight).toBeGreaterThan(30_000)
    expect(weight).toBeLessThanOrEqual(63_000)
  })

  it('is at most 3.2 kB more for the first page at several servers', async () => {
    const away = (await scriptsOf(ALL)).filter(({ modules }) => modules.some((id) => id.includes('/swarm/away/')))
    expect(away.map(({ isEntry }) => isEntry)).toEqual([false])
    expect(bytesOf(away)).toBeLessThanOrEqual(3_200)
  })

  it('is at most 71 kB for a program that asks for live pages, whose code is loaded with the first one', async () => {
    const code = `${ALL}\nimport { loadLive } from '@watchfire/pages/swarm'\nglobalThis.loadLive = loadLive`
    expect(weightOf(await scriptsOf(code))).toBeLessThanOrEqual(71_000)
  })

  it('is at most 65 kB for a program with a `Watchfire`, 4 kB more for the first shared page, 8 kB for the first live page', async () => {
    const scripts = await scriptsOf("import { Watchfire } from '@watchfire/pages'\nglobalThis.Watchfire = Watchfire")
    const weightWith = (name: RegExp) => weightOf(scripts.filter((one) => !one.isEntry && one.modules.some((id) => name.test(id))))
    const [share, live] = [weightWith(/\/(?:share|build-dag)\.ts$/), weightWith(/\/swarm\/live\//)]
    expect(share).toBeGreaterThan(1_000)
    expect(share).toBeLessThanOrEqual(4_000)
    expect(live).toBeGreaterThan(1_000)
    expect(live).toBeLessThanOrEqual(8_000)
    expect(weightOf(scripts) - share - live - weightWith(/\/dialling-connections\.ts$/)).toBeLessThanOrEqual(65_000)
  })

  it('is at most 8 kB for a program that only verifies a file, which has no code of swarms and connections', async () => {
    const scripts = await scriptsOf(VERIFY)
    expect(weightOf(scripts)).toBeLessThanOrEqual(8_000)
    const folders = scripts.flatMap(({ modules }) => modules.flatMap((id) => /pages\/src\/(\w+)\//.exec(id)?.[1] ?? []))
    expect([...new Set(folders)].sort()).toEqual(['content', 'limits', 'messages', 'swarm'])
    expect(scripts.flatMap(({ modules }) => modules).filter((id) => id.includes('/src/swarm/')).length).toBe(1)
    const entry = scripts.find(({ isEntry }) => isEntry)
    await import(`data:text/javascript,${encodeURIComponent(entry?.code ?? '')}`)
    const { hasCid } = globalThis as unknown as { hasCid: (file: File, cid: string) => Promise<boolean> }
    const cid = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e'
    expect(await hasCid(new File(['hello world'], 'hello.txt'), cid)).toBe(true)
    expect(await hasCid(new File(['hello World'], 'hello.txt'), cid)).toBe(false)
  })

  it('is nearly nothing for a program that uses nearly nothing of it', async () => {
    expect(weightOf(await scriptsOf("import { defaultLimits } from '@watchfire/pages'\nconsole.log(defaultLimits)"))).toBeLessThan(500)
  })
})

describe('the weight of @watchfire/client/connection', () => {
  it('is at most 3 kB, without npm phoenix', async () => {
    const scripts = await scriptsOf("import { connect } from '@watchfire/client/connection'\nglobalThis.connect = connect")
    expect(weightOf(scripts)).toBeLessThanOrEqual(3_000)
    expect(scripts.flatMap(({ modules }) => modules).filter((id) => id.includes('/phoenix/'))).toEqual([])
  })
})

describe('the weight of @watchfire/element', () => {
  it('is at most 64 kB with @watchfire/pages, 4 kB more that show a page, 10 kB for the first live page, and 3 kB for the first terminal', async () => {
    const scripts = await scriptsOf("import '@watchfire/element'")
    const isLive = ({ modules }: Script) => modules.some((id) => /\/(?:live|live-view\.ts|live-view)(?:\/|$)/.test(id))
    const live = scripts.filter((script) => !script.isEntry && isLive(script))
    expect(live.length).toBeGreaterThan(0)
    expect(weightOf(live)).toBeLessThanOrEqual(10_000)
    const dialling = scripts.filter(({ modules }) => modules.some((id) => id.endsWith('/dialling-connections.ts')))
    expect(dialling.map(({ modules }) => modules.some((id) => id.endsWith('/direct/path.ts')))).toEqual([false])
    expect(weightOf(dialling)).toBeLessThanOrEqual(3_000)
    // Dialling and pages at several servers share it.
    const places = scripts.filter(({ modules }) => modules.length === 1 && modules[0]?.endsWith('/address-place.ts'))
    expect(places.map(({ isEntry }) => isEntry)).toEqual([false])
    expect(weightOf(places)).toBeLessThanOrEqual(400)
    const view = scripts.filter(({ modules }) => modules.some((id) => /\/element\/(?:src|dist)\/render\.[jt]s$/.test(id)))
    expect(view.map(({ isEntry }) => isEntry)).toEqual([false])
    expect(weightOf(view)).toBeLessThanOrEqual(4_000)
    const first = scripts.filter((script) => ![...live, ...dialling, ...places, ...view].includes(script))
    expect(weightOf(first)).toBeLessThanOrEqual(64_000)
  })
})
