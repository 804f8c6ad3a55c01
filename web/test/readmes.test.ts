import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'

const WEB = path.join(import.meta.dirname, '..')

/** The names that the examples take from their surroundings. */
const SURROUNDINGS = 'declare const link: string, cid: string\n'
const REFERENCE = path.join(WEB, '../docs/reference/javascript-pages.md')
const DOCUMENTS = [...['pages', 'element'].map((name) => path.join(WEB, 'packages', name, 'README.md')), REFERENCE]

const examplesIn = (document: string): string[] =>
  [...readFileSync(document, 'utf8').matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code)

/** The names that a source file exports, also those of files that it exports as a whole. Each is a value or a type. */
function exportsOf(file: string): { readonly name: string; readonly isType: boolean }[] {
  const source = readFileSync(file, 'utf8')
  const lists = [...source.matchAll(/^export (type )?\{([^}]*)\}/gm)].flatMap(([, type, list = '']) =>
    list
      .split(',')
      .map((one) => one.trim())
      .filter((one) => one !== '')
      .map((one) => ({ name: one.replace(/^type /, ''), isType: type !== undefined || one.startsWith('type ') })),
  )
  const declared = [...source.matchAll(/^export (?:async )?(const|function|class|interface|type) (\w+)/gm)]
  const whole = [...source.matchAll(/^export (?:type )?\* from '(\.[^']+)'/gm)]
  return [
    ...lists,
    ...declared.map(([, kind = '', name = '']) => ({ name, isType: /interface|type/.test(kind) })),
    ...whole.flatMap(([, other = '']) => exportsOf(path.join(path.dirname(file), other))),
  ]
}

/** The source files of the entry points of `@watchfire/pages`, by their names. */
function entryPoints(): [string, string][] {
  const folder = path.join(WEB, 'packages/pages')
  const { exports } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as {
    exports: Record<string, { 'watchfire-source': string }>
  }
  return Object.entries(exports).map(([point, conditions]) => [
    path.join('@watchfire/pages', point),
    path.join(folder, conditions['watchfire-source']),
  ])
}

/** The names in the first column of the tables of the reference, by the entry points in the titles of their sections. */
function documented(point: string): string[] {
  const sections = readFileSync(REFERENCE, 'utf8').split(/^## /m).slice(1)
  const section = sections.find((one) => one.split('\n', 1)[0]?.includes(`\`${point}\``)) ?? ''
  const cells = [...section.matchAll(/^\| (`[^|]+) \|/gm)].map(([, cell = '']) => cell)
  return cells.flatMap((cell) => [...cell.matchAll(/`(\w+)/g)].map(([, name = '']) => name))
}

describe('the examples of the READMEs', () => {
  it('are correct programs', () => {
    mkdirSync(path.join(WEB, 'node_modules/.cache'), { recursive: true })
    const folder = mkdtempSync(path.join(WEB, 'node_modules/.cache/readmes-'))
    try {
      const examples = DOCUMENTS.flatMap(examplesIn)
      expect(examples.length).toBeGreaterThan(2)
      for (const [i, code] of examples.entries()) writeFileSync(path.join(folder, `example-${i}.ts`), SURROUNDINGS + code)
      const inWeb = (file: string) => path.relative(folder, path.join(WEB, file))
      const settings = {
        extends: inWeb('tsconfig.json'),
        include: ['*.ts', inWeb('packages/**/*.d.ts')],
        exclude: [inWeb('packages/*/dist')],
      }
      writeFileSync(path.join(folder, 'tsconfig.json'), JSON.stringify(settings))
      const tsc = path.join(WEB, 'node_modules/.bin/tsc')
      expect(spawnSync(tsc, ['-p', folder], { encoding: 'utf8' }).stdout).toBe('')
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

describe('the reference of @watchfire/pages', () => {
  const all = new Map(entryPoints().map(([point, file]) => [point, exportsOf(file)]))
  const ofMain = new Set(all.get('@watchfire/pages')?.map(({ name }) => name))

  it('has every export of each entry point, there or in that of the main one', () => {
    const missing = [...all].flatMap(([point, exports]) => {
      const known = new Set([...documented(point), ...documented('@watchfire/pages')])
      return exports.filter(({ name }) => !known.has(name)).map(({ name }) => `${name} of ${point}`)
    })
    expect(ofMain.size).toBeGreaterThan(30)
    expect(missing).toEqual([])
  })

  it('has no name that is not exported', () => {
    const everywhere = new Set([...all.values()].flat().map(({ name }) => name))
    const unknown = [...all.keys()].flatMap(documented).filter((name) => !everywhere.has(name))
    expect(unknown).toEqual([])
  })

  it('and the READMEs use every value of the main entry point in an example', () => {
    const imports = DOCUMENTS.flatMap(examplesIn).flatMap((code) =>
      [...code.matchAll(/import \{([^}]*)\} from '@watchfire\/pages'/g)].flatMap(([, list = '']) => list.split(',')),
    )
    const used = new Set(imports.map((one) => one.trim()))
    const values = (all.get('@watchfire/pages') ?? []).filter(({ isType }) => !isType).map(({ name }) => name)
    expect(values.length).toBeGreaterThan(7)
    expect(values.filter((name) => !used.has(name))).toEqual([])
  })
})
