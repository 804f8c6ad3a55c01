import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'

const WEB = path.join(import.meta.dirname, '..')
/** The package of channels, outside of `web`. */
const CLIENT = '../clients/javascript'
const IMPORT = /\b(?:from|import)\s*\(?\s*'([.\w@][^'?\s]*)/g

/** An import of a source file: its text, and the file that a relative import names. Both files are below the folder that is read. */
interface Import {
  readonly file: string
  readonly text: string
  readonly target: string
}

const isSource = (file: string) => /\.tsx?$/.test(file) && !file.split(path.sep).some((part) => part === 'node_modules' || part === 'dist')
const isTest = (file: string) => /\.test\.tsx?$/.test(file)

/** All imports of the files below a folder of `web`. */
function importsBelow(folder: string): Import[] {
  const files = readdirSync(path.join(WEB, folder), { recursive: true, encoding: 'utf8' }).filter(isSource)
  return files.flatMap((file) => {
    const texts = [...readFileSync(path.join(WEB, folder, file), 'utf8').matchAll(IMPORT)]
    return texts.map(([, text = '']) => ({ file, text, target: path.join(path.dirname(file), text) }))
  })
}

/** The folders in one table of ARCHITECTURE.md, from the top to the bottom, and in a row from left to right. */
function foldersInOrder(folder: string): string[] {
  const architecture = readFileSync(path.join(WEB, '../ARCHITECTURE.md'), 'utf8')
  const table = architecture.split(`| folder of \`web/${folder}\` |`)[1]?.split('\n\n')[0] ?? ''
  const cells = table.split('\n').flatMap((line) => /^\| (`[^|]+)/.exec(line)?.slice(1) ?? [])
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)\/`/g)].flatMap(([, name]) => name ?? []))
}

const folderOf = (file: string): string => file.split(path.sep)[0] ?? ''

describe.each(['app/src', 'packages/pages/src'])('the folders of %s', (folder) => {
  const order = foldersInOrder(folder)

  it('are all in their table of ARCHITECTURE.md, once', () => {
    const folders = readdirSync(path.join(WEB, folder), { withFileTypes: true }).filter((entry) => entry.isDirectory())
    expect([...order].sort()).toEqual(folders.map(({ name }) => name).sort())
  })

  it('import only folders below them, so there is no cycle', () => {
    // Tests may also use a folder above. A file outside of the folders, such as the entry point, uses all.
    const all = importsBelow(folder).filter(({ file, text }) => text.startsWith('.') && !isTest(file) && file.includes(path.sep))
    expect(all.length).toBeGreaterThan(150)
    const upward = all.filter(({ file, target }) => order.indexOf(folderOf(target)) < order.indexOf(folderOf(file)))
    expect(upward.map(({ file, target }) => `${file} imports ${target}`)).toEqual([])
  })
})

describe('the packages', () => {
  const manifest = (folder: string) =>
    JSON.parse(readFileSync(path.join(WEB, folder, 'package.json'), 'utf8')) as {
      name: string
      exports?: Record<string, unknown>
      dependencies?: Record<string, string>
    }
  const packages = readdirSync(path.join(WEB, 'packages'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const folders = ['app', CLIENT, ...packages.map(({ name }) => `packages/${name}`)]
  const entryPoints = new Set(
    folders.flatMap((folder) => Object.keys(manifest(folder).exports ?? {}).map((point) => path.join(manifest(folder).name, point))),
  )

  it.each(folders)('import one another only at public entry points: %s', (folder) => {
    const all = importsBelow(folder)
    // Tests may use the fakes and vectors of a package.
    const isAllowed = ({ file, target }: Import) =>
      !target.startsWith('..') || (isTest(file) && /^(?:\.\.\/)+(?:packages\/)?\w+\/test\//.test(target)) || !file.startsWith('src')
    const outside = all.filter((one) => one.text.startsWith('.') && !isAllowed(one))
    expect(outside.map(({ file, text }) => `${file} imports ${text}`)).toEqual([])
    const unknown = all.filter(({ text }) => text.startsWith('@watchfire/') && !entryPoints.has(text))
    expect(unknown.map(({ file, text }) => `${file} imports ${text}`)).toEqual([])
  })

  it.each(folders)('name every package that their sources import: %s', (folder) => {
    const named = Object.keys(manifest(folder).dependencies ?? {})
    const sources = importsBelow(folder).filter(({ file }) => file.startsWith('src') && !isTest(file))
    const outside = sources.filter(({ file, text }) => !/^[./]|^node:|^\w+:/.test(text) && !file.endsWith('.d.ts'))
    const missing = outside.filter(({ text }) => !named.some((name) => text === name || text.startsWith(`${name}/`)))
    // A test of the texts reads the sources with the parser of the build tool.
    expect(
      missing.map(({ file, text }) => `${file} imports ${text}`).filter((one) => !one.startsWith('src/messages/find-literals.ts')),
    ).toEqual([])
  })

  it('have no interface', () => {
    const dependencies = Object.keys(manifest('packages/pages').dependencies ?? {})
    expect(dependencies.sort()).toEqual(['@noble/ciphers', '@noble/curves', '@noble/hashes', '@watchfire/client'])
    const files = readdirSync(path.join(WEB, 'packages/pages/src'), { recursive: true, encoding: 'utf8' })
    expect(files.filter((file) => /\.(?:tsx|css)$/.test(file))).toEqual([])
  })

  it.each(folders)('have no fakes and simulators among their sources: %s', (folder) => {
    const files = readdirSync(path.join(WEB, folder, 'src'), { recursive: true, encoding: 'utf8' }).filter((file) => !isTest(file))
    expect(files.filter((file) => /fake|simulat|mock|stub|fixture/i.test(file))).toEqual([])
    const classes = files.filter(isSource).filter((file) => {
      return /\b(?:class|function|interface) (?:Fake|Simulated|Mock|Stub)/.test(readFileSync(path.join(WEB, folder, 'src', file), 'utf8'))
    })
    expect(classes).toEqual([])
  })
})
